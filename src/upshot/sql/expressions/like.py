"""Patterns of LIKE as patterns of `match`."""

from __future__ import annotations

import re

_ANY = r"[\s\S]"


def like_pattern(pattern: str, escape: str | None = None) -> str:
    r"""The regular expression that matches whole texts as LIKE does.

    >>> like_pattern("50\\%_a%")
    '50%[\\s\\S]a[\\s\\S]*'
    """
    mark = "\\" if escape is None else escape
    found: list[str] = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if mark and character == mark and place + 1 < len(pattern):
            place += 1
            found.append(re.escape(pattern[place]))
        elif character == "%":
            found.append(_ANY + "*")
        elif character == "_":
            found.append(_ANY)
        else:
            found.append(re.escape(character))
        place += 1
    return "".join(found)
