"""The type names of Delta's own schemas, in the words of a program."""

from __future__ import annotations

import re

from upshot.pipeline.sinks.folders import decimal_word

_WORDS = {
    "byte": "number",
    "short": "number",
    "integer": "number",
    "long": "number",
    "float": "float",
    "double": "float",
    "string": "symbol",
}


def type_word(name: str) -> str:
    """The word for a column's type as Delta and Spark write it in JSON.

    >>> type_word("long"), type_word("decimal(20,0)"), type_word("timestamp")
    ('number', 'unsigned', 'timestamp')
    """
    decimal = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", name)
    return decimal_word(int(decimal[1]), int(decimal[2])) if decimal else _WORDS.get(name, name)
