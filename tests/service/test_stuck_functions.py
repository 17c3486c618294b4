"""A function of a rule that does not return: nobody can make it, and the service ends all the same."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import upshot
from tests.service.served_process import ROOT

SERVER = """
import sys, time
import upshot
from upshot.service.server import listen, serve
from upshot.service.service import Service
from upshot.service.settings import Settings

store, coupling = sys.argv[1:]
database = upshot.connect(store)
database.define(".decl edge(x: symbol, y: symbol)")
database.define(f".rule tell(X) coupling={coupling} when inserted edge(X, _) do call slow(X).")
database.action("slow", lambda rows: time.sleep(1000 if rows == [("hang",)] else 0))
settings = Settings(port=0, grace=1.0)
with listen(settings) as bound:
    serve(Service(database, settings), bound, lambda address: print(address, flush=True))
"""


def send(port: int, name: str) -> int | None:
    """The version that the transaction made, if it is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = json.dumps({"insert": {"edge": [[name, "b"]]}})
    try:
        connection.request("POST", "/transactions", body, {"content-type": "application/json"})
        version: int = json.loads(connection.getresponse().read())["version"]
        return version
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(("coupling", "rows", "calls"), [("after", 2, 1), ("deferred", 1, 0)])
def test_a_service_ends_and_loses_nothing(tmp_path: Path, coupling: str, rows: int, calls: int) -> None:
    """What was committed stays, with the call that is still to be made; what was not committed never happened."""
    store = tmp_path / "store"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", SERVER, str(store), coupling]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
            assert send(port, "a") == 3
            waiting = threading.Thread(target=send, args=(port, "hang"))
            waiting.start()
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 3
            waiting.join(30)
        finally:
            process.kill()
    with upshot.connect(store) as database:
        assert len(database.rows("edge")) == rows
        assert len(database.pending()) == calls
        database.verify()
