"""Pictures that commands draw, into a file or onto stdout."""

from __future__ import annotations

from pathlib import Path

from upshot.cli.output.terminal import Terminal
from upshot.core.errors import UsageError, system_reason

STDOUT = Path("-")


def draw(terminal: Terminal, svg: Path, picture: str) -> None:
    """Writes the picture where `--svg` says, and says so; `-` prints it."""
    if svg == STDOUT:
        terminal.data(picture.rstrip("\n"))
        return
    try:
        svg.write_text(picture, encoding="utf-8")
    except OSError as error:
        reason = system_reason(error)
        raise UsageError(f"cannot write `{svg}`: {reason}", code="cannot-write", help="check `--svg`") from None
    terminal.message(f"wrote {svg}")
