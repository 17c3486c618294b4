"""An object store that speaks S3 on loopback: moto's server, which keeps its objects in its memory."""

from __future__ import annotations

import importlib.util
import os
import sys
import urllib.request
from pathlib import Path

from tests.cluster.jars import missing_for_s3, s3_jars
from tests.cluster.processes import HOST, Processes, free_port

BUCKET = "lake"


def missing_for_object_store() -> str:
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask_cors") is None:
        return "needs moto's server: pip install 'moto[s3]' flask flask-cors"
    return missing_for_s3()


class ObjectStore:
    """Started when made, with one empty bucket after `wait`, ended by `stop`."""

    uri = f"s3a://{BUCKET}"

    def __init__(self, folder: Path) -> None:
        self._processes = Processes(folder)
        self.endpoint = f"http://{HOST}:{(port := free_port())}"
        command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
        self._processes.start("moto", command, {**os.environ, "MOTO_S3_CUSTOM_ENDPOINTS": self.endpoint})

    def wait(self) -> None:
        self._processes.wait_until("moto", self._has_bucket)

    def stop(self) -> None:
        self._processes.stop()

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a Spark session that reaches the store."""
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in self.options.items()}

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": "testing",
            "secret.key": "testing",
        }

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        request.add_header("Authorization", "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request")
        urllib.request.urlopen(request, timeout=5).close()

    def _has_bucket(self) -> bool:
        try:
            self.make_bucket(BUCKET)
        except OSError:
            return False
        return True


def session_settings() -> dict[str, str]:
    """What every session of a process must start with, so that one of them can reach an object store: jars are added
    when Java starts."""
    return {"spark.jars": ",".join(jar.as_uri() for jar in s3_jars())} if s3_jars() else {}
