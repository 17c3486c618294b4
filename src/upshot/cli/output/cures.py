"""What errors advise, in the words of the command line: the database names what Python would call."""

from __future__ import annotations

import re

_SPELLINGS = (
    (r"`db\.realize`, or `upshot update`,", "`upshot update`"),
    (r"`db\.realize`", "`upshot update`"),
    (r"with this one among the `constants` of its bounds", "with this one in `--constant`"),
    (r"raise `bounds`", "raise `--bounds`"),
    (r"`why_not`", "`upshot why-not`"),
    (r"`why`", "`upshot why`"),
    (r'as in cost=\{"(.+?)": (.+)\}', r"as in `--cost \1=\2`"),
    (r",? (?:and|or) use (?:it in )?`db\.sql`$", ""),
    (r"`with db\.transaction\(\) as tx: .*`", "a change file, with `--changes`"),
    (r"as soon as db\.action\(.*\) registers it", "once `--actions` names a file with the function"),
)
"""What Python says, and what a command line says instead."""


def on_the_command_line(help: str) -> str:
    """The advice with commands and options for what Python calls.

    >>> on_the_command_line("`why_not` shows what is missing")
    '`upshot why-not` shows what is missing'
    """
    for pattern, words in _SPELLINGS:
        help = re.sub(pattern, words, help)
    return help
