"""How much of the past a store keeps, as it is said on the command line."""

from __future__ import annotations

import datetime as dt
from typing import Any

from upshot.core.errors import UsageError
from upshot.core.time_spans import time_span

_HINT = "as in `--keep 100000`, `--keep all` or `--keep commits=100000,bytes=1GiB,age=7d`"


def kept(text: str | None) -> Any:
    """What `connect(keep=…)` takes.

    >>> kept("100000"), kept("all")
    (100000, 'all')
    >>> kept("bytes=1GiB,age=7d")
    {'bytes': '1GiB', 'age': datetime.timedelta(days=7)}
    """
    if text is None or text == "all":
        return text
    if "=" not in text:
        return _commits(text)
    bounds: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        bounds[name] = _commits(value) if name == "commits" else _age(value) if name == "age" else value
    return bounds


def _commits(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"invalid `--keep` value `{text}`", code="wrong-argument", help=_HINT)
    return int(text)


def _age(text: str) -> dt.timedelta:
    found = time_span(text)
    if found is None:
        raise UsageError(f"invalid age `{text}` in `--keep`", code="wrong-argument", help=_HINT)
    return found
