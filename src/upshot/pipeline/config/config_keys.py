"""The keys of a pipeline file: their values, and which are required. Those of sources and sinks are in `formats`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Key:
    """`kind` is text, character, encoding, path (of this machine), location (a path or a URI), flag, count, seconds,
    bytes, age, texts, settings or retention; `choices` are the texts it takes, if not any; a key with a `default` may
    be left out."""

    kind: str = "text"
    required: bool = False
    choices: tuple[str, ...] = ()
    default: Any = None


PIPELINE = {
    "name": Key(required=True),
    "program": Key("path", required=True),
    "state": Key("location", required=True),
    "actions": Key("path", default=""),
    "engine": Key(choices=("auto", "local", "spark"), default="auto"),
    "memory": Key("bytes"),
    "keep": Key("retention"),
    "trigger": Key("seconds", default=1.0),
    "metrics": Key("location", default=""),
    "delta": Key(choices=("auto", "spark", "deltalake"), default="auto"),
    "packages": Key("texts", default=()),
    "spark": Key("settings"),
}

RETENTION = {"commits": Key("count"), "bytes": Key("bytes"), "age": Key("age")}
"""The keys of a table `keep`: the bounds of `connect(keep=…)`."""

ICEBERG = (
    "Iceberg has packages for Spark 4.0 (from 1.10.0) and 4.1 (from 1.11.0), none for 4.2: use a Delta table "
    "until `iceberg-spark-runtime-4.2_2.13` is released"
)
"""The reason that there is no `format = "iceberg"`."""
