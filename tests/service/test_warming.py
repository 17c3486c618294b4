"""A service that stays loads machine code before a commit has to wait for it."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import time
import upshot
from upshot.engine.local.kernel.machine import MACHINE
from upshot.service.server import warming

database = upshot.connect()
database.define(".decl r(x: number) .decl v(x: number) v(X) :- r(X).")
with warming(database, after=0.0):
    until, n = time.monotonic() + 240, 0
    while not MACHINE.is_compiled and time.monotonic() < until:
        with database.transaction() as tx:
            tx.insert("r", [(n,)])
        assert list(tx.changes["v"].inserted) == [(n,)]
        n += 1
        time.sleep(0.05)
    assert MACHINE.is_compiled
with database.transaction() as tx:
    tx.insert("r", [(-1,)])
assert len(database.rows("v")) == n + 1
database.verify()
"""


def test_commits_go_on_while_the_machine_code_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
