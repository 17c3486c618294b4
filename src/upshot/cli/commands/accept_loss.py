"""`upshot accept-loss`: goes on with what a damaged log still holds."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK
from upshot.store import accept_loss as accept


def accept_loss(terminal: Terminal, store: Path) -> int:
    """Makes the last version that can be read the last one of the store."""
    with terminal.progress(f"reading {store}"):
        version, lost = accept(store)
    if terminal.json:
        terminal.data(json.dumps({"ok": True, "version": version, "lost": lost - version}))
    elif lost > version:
        terminal.data(f"ok: the store is at version {version}; versions up to {lost} are lost")
    else:
        terminal.data(f"ok: the store is at version {version}; no version is lost")
    return OK
