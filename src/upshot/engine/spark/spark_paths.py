"""Paths as Spark's readers want them."""

from __future__ import annotations

import os
import re

_PATTERN = re.compile(r"[\\\[\]{}*?]")


def exact_path(path: str | os.PathLike[str]) -> str:
    r"""The path for `spark.read`, which takes every path for a pattern: what would stand for other names is escaped.
    Delta's reader takes paths as they are.

    >>> print(exact_path("/lake/a[1]/{b,c}*.parquet"))
    /lake/a\[1\]/\{b,c\}\*.parquet
    """
    return _PATTERN.sub(r"\\\g<0>", os.fspath(path))
