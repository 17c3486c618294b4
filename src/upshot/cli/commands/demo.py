"""`upshot demo`: a story on generated data, the same every time but for the times it takes."""

from __future__ import annotations

import json

from upshot.cli.demo.stories import STORIES
from upshot.cli.demo.telling import tell
from upshot.cli.settings import OK
from upshot.cli.terminal import Terminal
from upshot.core.diagnostic import did_you_mean
from upshot.core.errors import UsageError


def demo(terminal: Terminal, name: str, *, list_only: bool) -> int:
    if list_only:
        _list(terminal)
        return OK
    known = {story.name: story for story in STORIES}
    if name not in known:
        listed = ", ".join(f"`{story}`" for story in known)
        raise UsageError(
            f"there is no demo `{name}`", code="unknown-demo", help=did_you_mean(name, known) or f"demos: {listed}"
        )
    tell(terminal, known[name].build())
    return OK


def _list(terminal: Terminal) -> None:
    for story in STORIES:
        if terminal.json:
            terminal.data(json.dumps({"name": story.name, "summary": story.summary}))
        else:
            terminal.data(f"{story.name:<14}{story.summary}")
