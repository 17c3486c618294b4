"""A private PostgreSQL cluster: made for a run, on a free port of loopback, owned by an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "not a secret"
USER = "upshot"


@dataclass(frozen=True)
class Cluster:
    binaries: Path
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def run(self, *statements: str) -> None:
        """Executes the statements in one transaction."""
        command = [self.binaries / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        command += ["-q", "-1", "-v", "ON_ERROR_STOP=1"]
        for statement in statements:
            command += ["-c", statement]
        subprocess.run(command, check=True, env={**os.environ, "PGPASSWORD": PASSWORD}, capture_output=True)


@contextmanager
def started() -> Iterator[Cluster]:
    """The running cluster; the test is skipped where there is no server to run."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL server here (Debian: `apt install postgresql`)")
    folder = Path(tempfile.mkdtemp(prefix="upshot-postgres-"))
    owner = _owner()
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    try:
        cluster = Cluster(binaries, _free_port())
        _make(cluster, folder, owner)
        _control(cluster, folder, owner, "start", "-w", "-l", str(folder / "log"), "-o", _options(cluster, folder))
        try:
            yield cluster
        finally:
            _control(cluster, folder, owner, "stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path | None:
    """The newest installed server's folder of programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).parent if there else None


def _owner() -> Any:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("there is no unprivileged user to run PostgreSQL as")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _make(cluster: Cluster, folder: Path, owner: Any) -> None:
    password = folder / "password"
    password.write_text(PASSWORD)
    if owner is not None:
        os.chown(password, owner.pw_uid, owner.pw_gid)
    command = [str(cluster.binaries / "initdb"), "-D", str(folder / "data"), "-U", USER, "--pwfile", str(password)]
    _as(owner, [*command, "--auth=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"], folder)


def _options(cluster: Cluster, folder: Path) -> str:
    # Statements over a few rows are compiled for seconds where the planner does not know how few.
    return f"-c listen_addresses=127.0.0.1 -p {cluster.port} -k {folder} -c fsync=off -c jit=off"


def _control(cluster: Cluster, folder: Path, owner: Any, *arguments: str) -> None:
    _as(owner, [str(cluster.binaries / "pg_ctl"), "-D", str(folder / "data"), *arguments], folder)


def _as(owner: Any, command: list[str], folder: Path) -> None:
    identity = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner is not None else {}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, check=True, cwd=folder, **quiet, **identity)
