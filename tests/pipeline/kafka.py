"""A broker of Kafka on loopback: one process that is broker and controller, from the jars of Maven Central.

`python -m tests.pipeline.kafka` fetches them, and Spark's connector, with Maven; `make system` calls it. They are kept
in the user's cache folder, so that all clones share them.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cluster.jars import folder as hadoop_jars
from tests.cluster.processes import HOST, Processes, free_port

KAFKA = "3.9.1"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>upshot</groupId><artifactId>tests</artifactId><version>1</version><dependencies>
<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>
</dependencies></project>
"""


def _folder(name: str) -> Path:
    return hadoop_jars().parent / name


def broker_jars() -> list[Path]:
    return sorted(_folder(f"kafka-{KAFKA}").glob("*.jar"))


def connector_jars() -> list[Path]:
    """What Spark needs for Kafka; the rest is Spark's own."""
    wanted = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    return sorted(jar for jar in _folder(f"spark-kafka-{_spark()}").glob("*.jar") if jar.name.startswith(wanted))


def missing_for_kafka() -> str:
    return "" if broker_jars() and connector_jars() else "needs jars of Kafka: `make system` fetches them"


class Broker:
    """Started when made, with no topic, ended by `stop`."""

    def __init__(self, folder: Path) -> None:
        self._processes = Processes(folder)
        port, controller = free_port(), free_port()
        self.servers = f"{HOST}:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(folder / "logs"),
            "offsets.topic.replication.factor": "1",
        }
        file = folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", os.pathsep.join(map(str, broker_jars()))]
        identity = ["-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(file)]
        subprocess.run([*java, "kafka.tools.StorageTool", "format", *identity], check=True, capture_output=True)
        self._processes.start("kafka", [*java, "kafka.Kafka", str(file)], dict(os.environ))
        self._port = port

    def wait(self) -> None:
        self._processes.wait_until("kafka", self._answers)

    def stop(self) -> None:
        self._processes.stop()

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self._port)) == 0


class Topic:
    """Made by the broker with two partitions; `send` waits until the broker has the message."""

    def __init__(self, spark: Any, broker: Broker, name: str) -> None:
        self._java, self.name = spark._jvm, name
        properties = self._java.java.util.Properties()
        text = "org.apache.kafka.common.serialization.StringSerializer"
        told = {"bootstrap.servers": broker.servers, "key.serializer": text, "value.serializer": text}
        for setting, value in told.items():
            properties.put(setting, value)
        admin = self._java.org.apache.kafka.clients.admin.Admin.create(properties)
        topics = self._java.java.util.ArrayList()
        topics.add(self._java.org.apache.kafka.clients.admin.NewTopic(name, 2, 1))
        admin.createTopics(topics).all().get()
        admin.close()
        self._producer = self._java.org.apache.kafka.clients.producer.KafkaProducer(properties)

    def send(self, value: str | None, partition: int = 0) -> None:
        record = self._java.org.apache.kafka.clients.producer.ProducerRecord(self.name, partition, "key", value)
        self._producer.send(record).get()

    def close(self) -> None:
        self._producer.close()


def _spark() -> str:
    import pyspark  # noqa: PLC0415  (optional package)

    return str(pyspark.__version__)


def fetch() -> str:
    """What kept the jars from being fetched, or nothing."""
    wanted = {
        f"kafka-{KAFKA}": ("org.apache.kafka", "kafka_2.13", KAFKA),
        f"spark-kafka-{_spark()}": ("org.apache.spark", "spark-sql-kafka-0-10_2.13", _spark()),
    }
    for name, (group, artifact, version) in wanted.items():
        with tempfile.TemporaryDirectory() as temporary:
            pom = Path(temporary, "pom.xml")
            pom.write_text(_POM.format(group=group, artifact=artifact, version=version))
            command = [
                "mvn",
                "-q",
                "-B",
                "-f",
                str(pom),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={temporary}/jars",
            ]
            try:
                subprocess.run(command, check=True, capture_output=True, timeout=900)
            except (OSError, subprocess.SubprocessError) as error:
                return str(error)
            shutil.copytree(Path(temporary, "jars"), _folder(name), dirs_exist_ok=True)
    return ""


if __name__ == "__main__":
    if missing_for_kafka() and (missing := fetch()):
        sys.stderr.write(f"missing: jars of Kafka ({missing}); tests on it are skipped\n")
