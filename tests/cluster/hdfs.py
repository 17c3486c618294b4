"""HDFS on loopback: a NameNode and a DataNode, processes of their own, whose files nobody reaches but by `hdfs:`."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
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
        self._processes.wait_until("namenode", self._takes_files)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a Spark session that uses it: it needs none."""
        return {}

    def stop(self) -> None:
        self._processes.stop()

    # ---- files, by HTTP: as a machine that has no Spark sees them -------------------------------------

    def write(self, path: str, content: bytes) -> None:
        """Write a file below the root; folders above it are made."""
        with urllib.request.urlopen(self._request(path, "CREATE&noredirect=true", "PUT"), timeout=60) as answer:
            place = json.load(answer)["Location"]
        urllib.request.urlopen(urllib.request.Request(place, data=content, method="PUT"), timeout=60).close()

    def read(self, path: str) -> bytes:
        with urllib.request.urlopen(self._request(path, "OPEN"), timeout=60) as answer:
            return bytes(answer.read())

    def files(self, folder: str) -> list[str]:
        """The paths of all files below a folder, hidden ones left out."""
        with urllib.request.urlopen(self._request(folder, "LISTSTATUS"), timeout=60) as answer:
            entries = json.load(answer)["FileStatuses"]["FileStatus"]
        shown = sorted((each["pathSuffix"], each["type"]) for each in entries if each["pathSuffix"][0] not in "._")
        below = [
            self.files(f"{folder}/{name}") if kind == "DIRECTORY" else [f"{folder}/{name}"] for name, kind in shown
        ]
        return [path for paths in below for path in paths]

    def _request(self, path: str, operation: str, method: str = "GET") -> urllib.request.Request:
        url = f"http://{HOST}:{self._web}/webhdfs/v1/{urllib.parse.quote(path)}?op={operation}&user.name=tests"
        return urllib.request.Request(url, method=method)

    def _takes_files(self) -> bool:
        try:
            self.write("ready", b"")
        except OSError:
            return False
        return True

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
