"""Command lines with rows to be made true and false: '+p(2)' '-q(3)'."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

_ROW = re.compile(r"\s*[+-]\s*[A-Za-z_?][\w.]*\s*\(.*\)\s*\.?\s*", re.DOTALL)


class RequestCommand(TyperCommand):
    """A command whose arguments may begin with a minus: brackets distinguish rows from options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rows = [text for text in args if _ROW.fullmatch(text)]
        rest = [text for text in args if text != "--" and not _ROW.fullmatch(text)]
        return super().parse_args(ctx, [*rest, *(["--", *rows] if rows else [])])
