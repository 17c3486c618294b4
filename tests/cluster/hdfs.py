"""HDFS on loopback: a NameNode and a DataNode, processes of their own, whose files nobody reaches but by `hdfs:`."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path

from tests.cluster.jars import hdfs_jars, spark_jars
from tests.cluster.processes import HOST, Processes, free_port, java

_SERVER = "org.apache.hadoop.hdfs.server"


class Hdfs:
    """`folder` takes settings, logs and blocks. Started when made, ready after `wait`, ended by `stop`."""

    def __init__(self, folder: Path) -> None:
        self._processes = Processes(folder)
        self._web = free_port()
        self.uri = f"hdfs://{HOST}:{free_port()}"
        _write_settings(folder / "core-site.xml", {"fs.defaultFS": self.uri})
        _write_settings(folder / "hdfs-site.xml", self._settings())
        self._command = [
            java(), "-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-cp", os.pathsep.join([str(folder), *map(str, hdfs_jars()), str(spark_jars() / "*")]),
        ]  # fmt: skip
        format_ = [*self._command, f"{_SERVER}.namenode.NameNode", "-format", "-nonInteractive"]
        with (folder / "format.log").open("wb") as log:
            subprocess.run(format_, stdout=log, stderr=subprocess.STDOUT, timeout=120, check=True)
        for name, class_ in (("namenode", "namenode.NameNode"), ("datanode", "datanode.DataNode")):
            self._processes.start(name, [*self._command, f"{_SERVER}.{class_}"], dict(os.environ))

    def wait(self) -> None:
        """Back when files can be written."""
        self._processes.wait_until("namenode", lambda: self._live_nodes() > 0)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a Spark session that uses it: it needs none."""
        return {}

    def stop(self) -> None:
        self._processes.stop()

    def _live_nodes(self) -> int:
        query = f"http://{HOST}:{self._web}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(query, timeout=5) as answer:
                beans = json.load(answer)["beans"]
        except OSError:
            return 0
        return int(beans[0]["NumLiveDataNodes"]) if beans else 0

    def _settings(self) -> dict[str, str]:
        folder = self._processes.folder.resolve()
        return {
            "dfs.namenode.name.dir": (folder / "names").as_uri(),
            "dfs.datanode.data.dir": (folder / "blocks").as_uri(),
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.http-address": f"{HOST}:{self._web}",
            "dfs.datanode.hostname": HOST,
            "dfs.datanode.address": f"{HOST}:0",
            "dfs.datanode.http.address": f"{HOST}:0",
            "dfs.datanode.ipc.address": f"{HOST}:0",
            # A block that is written counts at once, not at the next report.
            "dfs.blockreport.incremental.intervalMsec": "0",
        }


def _write_settings(path: Path, settings: dict[str, str]) -> None:
    properties = "".join(f"<property><name>{n}</name><value>{v}</value></property>\n" for n, v in settings.items())
    path.write_text(f"<configuration>\n{properties}</configuration>\n")
