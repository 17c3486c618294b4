"""A broker of Kafka on loopback: one process that is broker and controller, from the jars of Maven Central.

`python -m tests.pipeline.kafka` fetches them, and Spark's connector; `make system` calls it. They are kept
in the user's cache folder, so that all clones share them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cluster.jars import fetch_packages, spark_jars
from tests.cluster.jars import folder as hadoop_jars
from tests.cluster.processes import HOST, Processes, free_port

KAFKA = "3.9.1"
TOKENS = "4.0.0"
"""Of the connector's part for delegation tokens, which no test uses: a version that every repository has."""


def _folder(name: str) -> Path:
    return hadoop_jars().parent / name


def broker_jars() -> list[Path]:
    """What a broker needs; Scala is Spark's."""
    found = sorted(_folder(f"kafka-{KAFKA}").glob("*.jar"))
    return [*found, *spark_jars().glob("scala-library-*.jar")] if found else []


def connector_jars() -> list[Path]:
    """What Spark needs for Kafka; the rest is Spark's own."""
    wanted = ("_spark-sql-kafka", "_spark-token-provider-kafka", "_kafka-clients", "_commons-pool2")
    found = _folder(f"spark-kafka-{_spark()}").glob("*.jar")
    return sorted(jar for jar in found if any(name in jar.name for name in wanted))


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
    broker = fetch_packages([f"org.apache.kafka:kafka_2.13:{KAFKA}"], [], ("kafka_2.13",), _folder(f"kafka-{KAFKA}"))
    return broker or (_fetch_connector(_spark()) and _fetch_connector(TOKENS))


def _fetch_connector(tokens: str) -> str:
    """Fetch Spark's connector with this version of what it needs for delegation tokens."""
    connector, provider = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"
    target, left_out = _folder(f"spark-kafka-{_spark()}"), [f"org.apache.spark:{provider}"]
    others = ["org.apache.kafka:kafka-clients", *(f"org.apache.hadoop:hadoop-client-{n}" for n in ("api", "runtime"))]
    missing = fetch_packages([f"org.apache.spark:{provider}:{tokens}"], others, (provider,), target)
    return missing or fetch_packages([f"org.apache.spark:{connector}:{_spark()}"], left_out, (connector,), target)


if __name__ == "__main__":
    if missing_for_kafka() and (missing := fetch()):
        sys.stderr.write(f"missing: jars of Kafka ({missing}); tests on it are skipped\n")
