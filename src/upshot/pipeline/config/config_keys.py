"""The keys a pipeline file can have, what values they take, and which must be there."""

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

_MISSING = Key(choices=("fail", "ignore"), default="fail")
_PATH = Key("location", required=True)
_SOURCE = {
    "format": Key(required=True, choices=("changes", "delta", "parquet", "csv", "table", "jdbc", "kafka")),
    "on_bad_row": Key(choices=("quarantine", "fail"), default="quarantine"),
    "quarantine": Key("location", default=""),
    "extra_columns": Key(choices=("refuse", "ignore"), default="refuse"),
}
SOURCES = {
    "changes": {**_SOURCE, "path": _PATH, "on_missing": _MISSING},
    "delta": {**_SOURCE, "path": _PATH, "feed": Key("flag", default=True), "distinct": Key("flag", default=False)},
    "parquet": {**_SOURCE, "path": _PATH, "on_missing": _MISSING},
    "csv": {
        **_SOURCE,
        "path": _PATH,
        "on_missing": _MISSING,
        "header": Key("flag", default=True),
        "separator": Key("character", default=","),
        "quote": Key("character", default='"'),
        "escape": Key("character", default='"'),
        "null": Key(default=""),
        "encoding": Key("encoding", default="UTF-8"),
    },
    "table": {
        **_SOURCE,
        "table": Key(required=True),
        "feed": Key("flag", default=True),
        "distinct": Key("flag", default=False),
    },
    "kafka": {
        **_SOURCE,
        "servers": Key(required=True),
        "topic": Key(required=True),
        "starting": Key(choices=("earliest", "latest"), default="earliest"),
        "max_rows": Key("count", default=1_000_000),
        "settings": Key("settings"),
    },
    "jdbc": {
        **_SOURCE,
        "url": Key(required=True),
        "table": Key(),
        "query": Key(),
        "user": Key(),
        "password_env": Key(),
        "partition_column": Key(),
        "partitions": Key("count", default=4),
        "watermark": Key(),
        "fetch_size": Key("count", default=10_000),
    },
}
"""By format."""

_SINK = {"format": Key(required=True, choices=("delta", "parquet", "table", "console"))}
_LOG = {"path": Key("location", default=""), "changes": Key("location", default="")}
SINKS = {
    "delta": {**_SINK, **_LOG},
    "parquet": {**_SINK, **_LOG, "keep": Key("count", default=2)},
    "table": {
        **_SINK,
        "table": Key(default=""),
        "changes_table": Key(default=""),
        "partition_by": Key("texts", default=()),
    },
    "console": _SINK,
}
"""By format."""
