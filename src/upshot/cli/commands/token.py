"""`upshot token`: a token and what it may do; only its hash is kept."""

from __future__ import annotations

import json
from pathlib import Path

from upshot.cli.commands.serve import require_service
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK


def token(
    terminal: Terminal, name: str, file: Path, read: list[str], write: list[str], *, subscribe: bool, admin: bool
) -> int:
    """Prints the token, once, on stdout. Names may be listed with commas too."""
    require_service()
    from upshot.service.access.tokens import add_token  # noqa: PLC0415 - needs the packages of the service

    scopes = {"read": _names(read), "write": _names(write)}
    made = add_token(file, name, read=scopes["read"], write=scopes["write"], subscribe=subscribe, admin=admin)
    if terminal.json:
        terminal.data(json.dumps({"name": name, "token": made, **scopes, "subscribe": subscribe, "admin": admin}))
    else:
        terminal.data(made)
        terminal.message(f"added its hash to {file}; the token is not shown again")
    return OK


def _names(given: list[str]) -> list[str]:
    return [name.strip() for each in given for name in each.split(",") if name.strip()]
