"""`upshot backup`: a copy of a store, which may be in use meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK
from upshot.store import back_up_from_outside


def backup(terminal: Terminal, store: Path, target: Path) -> int:
    """Copies the store as it is after one commit."""
    with terminal.progress(f"copying {store}"):
        version = back_up_from_outside(store, target)
    if terminal.json:
        terminal.data(json.dumps({"ok": True, "version": version, "target": str(target)}))
    else:
        terminal.data(f"ok: copied version {version} to {target}")
    return OK
