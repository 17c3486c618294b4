"""The pipeline file: its sources, its program, and its sinks.

[pipeline]  name, program, engine, state, …
[source.R]  one per base relation
[sink.V]    one per published view
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import ProgramError, UsageError, system_reason
from upshot.core.span import Source, Span
from upshot.core.time_spans import time_span
from upshot.pipeline.config.toml_places import read_toml
from upshot.pipeline.formats import (
    ICEBERG,
    PIPELINE,
    RETENTION,
    SINK_KEYS,
    SINKS,
    SOURCE_KEYS,
    SOURCES,
    Key,
    PipelineFormat,
)
from upshot.spark.lake_path import AnyPath, located
from upshot.spark.location import has_scheme


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """`[source.R]`. `path` is absolute, a relative one taken from the pipeline file's folder, or a URI."""

    relation: str
    format: str
    """A name in `formats.SOURCES`."""
    path: AnyPath | str = ""
    on_bad_row: str = "quarantine"
    """quarantine | fail"""
    quarantine: AnyPath | str = ""
    """The directory for bad rows; empty: one in the state."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options of this format only; keys are known and values have the right type."""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """`[sink.V]`: the view kept current at `path`, and/or its change log at `changes`."""

    view: str
    format: str
    """A name in `formats.SINKS`."""
    path: AnyPath | str = ""
    changes: AnyPath | str = ""
    options: dict[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    file: Path
    name: str
    program: Path
    state: AnyPath
    sources: dict[str, SourceConfig]
    sinks: dict[str, SinkConfig]
    engine: str = "auto"
    """auto | local | spark"""
    memory: int | None = None
    """Bytes the local engine may use when `engine` is auto; None: the default of `connect`."""
    keep: int | str | Mapping[str, Any] | None = None
    """The history that the store keeps, as in `connect(keep=…)`; None: the default of `connect`."""
    trigger: float = 1.0
    """Seconds between two lookups of the sources' positions."""
    actions: str = ""
    """A Python file with the functions that active rules call; empty: none."""
    metrics: AnyPath | str = ""
    """A file with one JSON line per batch, on a lake a folder with a file per batch; empty: in the state."""
    delta: str = "auto"
    """auto | spark | deltalake"""
    packages: tuple[str, ...] = ()
    """Further Maven coordinates for the session."""
    spark: dict[str, str] = field(default_factory=dict)
    """Further settings of the session."""
    span: Span | None = None
    """The place of `state`."""

    def on(self, session: Any) -> PipelineConfig:
        """The same pipeline, whose locations are reached through this session."""
        sources = {
            name: replace(each, path=_on(each.path, session), quarantine=_on(each.quarantine, session))
            for name, each in self.sources.items()
        }
        sinks = {
            name: replace(each, path=_on(each.path, session), changes=_on(each.changes, session))
            for name, each in self.sinks.items()
        }
        state, metrics = located(self.state, session), _on(self.metrics, session)
        return replace(self, sources=sources, sinks=sinks, state=state, metrics=metrics)


def _on(path: AnyPath | str, session: Any) -> AnyPath | str:
    """Texts of this machine stay texts."""
    found = located(path, session) if path else path
    return str(found) if isinstance(found, Path) else found


def read_config(path: str | Path) -> PipelineConfig:
    """The pipeline file, checked; a `ProgramError` holds every mistake of it with its line."""
    file = Path(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(
            f"file `{file}` does not exist", code="no-such-file", help="name the pipeline to run"
        ) from None
    except IsADirectoryError:
        raise UsageError(f"`{file}` is a directory", code="not-a-file", help="name the pipeline's TOML file") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{file}` is not UTF-8 text", code="not-utf8", help="save the file as UTF-8") from None
    except OSError as error:
        reason = system_reason(error)
        raise UsageError(f"cannot read `{file}`: {reason}", code="unreadable-file") from None
    source = Source(str(path), text)
    content, places = read_toml(source)
    reading = _ConfigReading(file.resolve(), source, places)
    config = reading.pipeline(content)
    if reading.mistakes:
        raise ProgramError(sorted(reading.mistakes, key=lambda d: d.span.start if d.span else 0))
    return config


class _ConfigReading:
    """Reads the content and collects the mistakes in it."""

    def __init__(self, file: Path, source: Source, places: Mapping[tuple[str, ...], Span]) -> None:
        self._file, self._source, self._places = file, source, places
        self.mistakes: list[Diagnostic] = []

    # ---- tables ---------------------------------------------------------------------------------

    def pipeline(self, content: dict[str, Any]) -> PipelineConfig:
        for name in content:
            if name not in ("pipeline", "source", "sink"):
                self._unknown((name,), ("pipeline", "source", "sink"), "a pipeline file has no table")
        if "pipeline" not in content:
            help = 'start with [pipeline], name = "…", program = "….dl", state = "state/"'
            self._mistake((), "missing-key", "table `[pipeline]` is missing", help)
        head = self._table(("pipeline",), content.get("pipeline", {}), PIPELINE)
        sources = {name: self._source_of(name, table) for name, table in self._named(content, "source")}
        sinks = {name: self._sink_of(name, table) for name, table in self._named(content, "sink")}
        for name in ("source", "sink"):
            if not content.get(name):
                self._mistake(
                    (), "missing-key", f"table `[{name}.…]` is missing", f"a pipeline needs at least one {name}"
                )
        return PipelineConfig(
            self._file,
            head["name"],
            Path(head["program"]),
            located(head["state"]),
            _with_neighbors(sources),
            sinks,
            **{name: head[name] for name in ("actions", "engine", "memory", "keep", "trigger", "metrics", "delta")},
            packages=tuple(head["packages"]),
            spark=head["spark"] or {},
            span=self._places.get(("pipeline", "state")),
        )

    def _named(self, content: dict[str, Any], kind: str) -> list[tuple[str, Any]]:
        """The tables `[kind.…]`."""
        tables = content.get(kind, {})
        if isinstance(tables, dict):
            return list(tables.items())
        self._mistake((kind,), "bad-value", f"`{kind}` must be a table", f"write `[{kind}.relation]`")
        return []

    def _source_of(self, name: str, table: Any) -> SourceConfig:
        path = ("source", name)
        format, found = self._of_format(path, table, SOURCES, SOURCE_KEYS)
        options = _without(found, "format", "path", "on_bad_row", "quarantine")
        span = self._places.get(path)
        return SourceConfig(name, format, found["path"] or "", found["on_bad_row"], found["quarantine"], options, span)

    def _sink_of(self, name: str, table: Any) -> SinkConfig:
        path = ("sink", name)
        format, found = self._of_format(path, table, SINKS, SINK_KEYS)
        options = _without(found, "format", "path", "changes")
        span = self._places.get(path)
        return SinkConfig(name, format, found["path"] or "", found["changes"] or "", options, span)

    def _of_format(
        self, path: tuple[str, ...], table: Any, formats: Mapping[str, PipelineFormat[Any]], common: Mapping[str, Key]
    ) -> tuple[str, dict[str, Any]]:
        """The table read with the keys of its format; if that is unknown, with the keys of all formats."""
        format = table.get("format") if isinstance(table, dict) else None
        known = formats.get(format) if isinstance(format, str) else None
        keys = {**common, **(known.keys if known else {})}
        every = {**common, **{name: key for each in formats.values() for name, key in each.keys.items()}}
        every = {name: Key(key.kind) for name, key in every.items()}
        read = self._table(path, table, keys if known else {**every, "format": common["format"]})
        found = {**dict.fromkeys((*every, "path", "changes"), None), **_filled(every, read)}
        for mistake in known.check(found, ".".join(path)) if known else ():
            self._mistake((*path, mistake.key) if mistake.key else path, *mistake[1:])
        return read["format"] or "", found

    # ---- keys and values ------------------------------------------------------------------------

    def _table(self, path: tuple[str, ...], table: Any, keys: Mapping[str, Key]) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._mistake(path, "bad-value", f"`{'.'.join(path)}` must be a table", f"write `[{'.'.join(path)}]`")
            table = {}
        for name in table:
            if name not in keys:
                self._unknown((*path, name), tuple(keys), f"`[{'.'.join(path)}]` has no key")
        found = {}
        for name, key in keys.items():
            if name in table:
                found[name] = self._value((*path, name), table[name], key)
            else:
                if key.required and (table or path in self._places):
                    self._mistake(path, "missing-key", f"`[{'.'.join(path)}]` needs `{name}`", _example(name, key))
                found[name] = "" if key.required else key.default
        return found

    def _value(self, path: tuple[str, ...], value: Any, key: Key) -> Any:
        if key.kind == "retention":
            return self._retention(path, value)
        if path[-1] == "format" and value == "iceberg":
            self._mistake(path, "iceberg-not-supported", "format `iceberg` is not available for this Spark", ICEBERG)
            return ""
        read = _KINDS[key.kind].read(value)
        if read is None or (key.choices and read not in key.choices):
            words = f"`{path[-1]}` must be {_wanted(key)}, not {_shown(value)}"
            help = did_you_mean(value, key.choices) if isinstance(value, str) else ""
            self._mistake(path, "bad-value", words, help or _KINDS[key.kind].help)
            return key.default if not key.required else ""
        if key.kind == "path":
            if "://" in read.removeprefix("file://"):
                words = f"`{path[-1]}` must be a local path, not {_shown(value)}"
                self._mistake(path, "bad-value", words, "copy the file to the machine of the pipeline")
            return os.path.normpath(self._file.parent / read.removeprefix("file://"))
        if key.kind == "location" and not has_scheme(read):
            return os.path.normpath(self._file.parent / read)
        if key.kind == "location":
            found = located(read)
            return str(found) if isinstance(found, Path) else found
        return read

    def _retention(self, path: tuple[str, ...], value: Any) -> Any:
        """The value of `connect(keep=…)`: a number of commits, "all", or bounds by name."""
        if value == "all" or _count(value):
            return value
        if isinstance(value, dict) and value:
            found = self._table(path, value, RETENTION)
            return {name: bound for name, bound in found.items() if bound is not None} or None
        words = f'`{path[-1]}` must be a number of commits, "all" or a table of bounds, not {_shown(value)}'
        self._mistake(path, "bad-value", words, _RETENTION_HELP)
        return None

    def _unknown(self, path: tuple[str, ...], known: tuple[str, ...], words: str) -> None:
        help = did_you_mean(path[-1], known) or "known: " + ", ".join(f"`{name}`" for name in known)
        self._mistake(path, "unknown-key", f"{words} `{path[-1]}`", help)

    def _mistake(self, path: tuple[str, ...], slug: str, message: str, help: str) -> None:
        # Keys inside an inline table have the place of the table.
        enclosing = (self._places.get(path[:depth]) for depth in range(len(path), 0, -1))
        span = next((span for span in enclosing if span is not None), Span(self._source, 0, 0))
        self.mistakes.append(Diagnostic(slug, message, span, help=help))


def _filled(every: Mapping[str, Key], found: dict[str, Any]) -> dict[str, Any]:
    defaults = {"on_bad_row": "quarantine", "quarantine": ""}
    return {**{name: defaults.get(name) for name in every}, **found}


def _without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names and value is not None}


def _with_neighbors(sources: dict[str, SourceConfig]) -> dict[str, SourceConfig]:
    """Give sources of change files the others of the same folder: a line may have rows of all of them."""
    for source in sources.values():
        if source.format == "changes":
            same = (other for other in sources.values() if other.format == "changes" and other.path == source.path)
            source.options["others"] = tuple(other.relation for other in same if other is not source)
    return sources


# ---- values ---------------------------------------------------------------------------------------


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _character(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) == 1 and value not in "\r\n\0" and value <= "\uffff" else None


def _encoding(value: Any) -> str | None:
    """Spark's name of an encoding. In others, a line break has more than one byte, at which Spark would split lines
    wrongly."""
    try:
        return _ENCODINGS.get(codecs.lookup(value).name) if isinstance(value, str) else None
    except (LookupError, ValueError):
        return None


_ENCODINGS = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8", "iso8859-1": "ISO-8859-1", "ascii": "US-ASCII"}


def _seconds(value: Any) -> float | None:
    """A number, or a text such as "500ms", "2s", "1m"."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if 0 < value <= 86_400 else None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*", value) if isinstance(value, str) else None
    return _seconds(float(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[found[2]]) if found else None


def _bytes(value: Any) -> int | None:
    """A number, or a text such as "512 MiB", "2 GB"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value > 0 else None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", value.lower()) if isinstance(value, str) else None
    if not found:
        return None
    power = " kmgt".index(found[2] or " ")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power) or None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _texts(value: Any) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(v, str) and v for v in value) else None


def _settings(value: Any) -> dict[str, str] | None:
    """Dotted keys come as tables in tables: `spark.sql.shuffle.partitions = 4` is one setting."""
    if not isinstance(value, dict):
        return None
    found: dict[str, str] = {}
    for name, part in value.items():
        if isinstance(part, dict):
            inner = _settings(part) or {}
            found.update((f"{name}.{rest}", text) for rest, text in inner.items())
        else:
            found[name] = str(part).lower() if isinstance(part, bool) else str(part)
    return found


class ValueKind(NamedTuple):
    """A kind of values: `read` returns the value, or None for one of another kind; `wanted` describes the kind."""

    read: Callable[[Any], Any]
    wanted: str
    help: str = ""


_RETENTION_HELP = 'as in `keep = 100000` or `keep = { commits = 100000, bytes = "1 GiB", age = "7d" }`'

_KINDS = {
    "text": ValueKind(lambda value: value if isinstance(value, str) else None, "text"),
    "character": ValueKind(_character, "one character", 'write a tab as "\\t"; a separator has one character'),
    "encoding": ValueKind(
        _encoding, '"UTF-8", "ISO-8859-1" or "US-ASCII"', "convert the files, as with `iconv -t UTF-8`"
    ),
    "path": ValueKind(_text, "a path"),
    "location": ValueKind(_text, "a path or a URI"),
    "flag": ValueKind(lambda value: value if isinstance(value, bool) else None, "true or false"),
    "count": ValueKind(_count, "a positive integer"),
    "seconds": ValueKind(_seconds, 'seconds, or text such as "500ms" or "2s"'),
    "bytes": ValueKind(_bytes, 'bytes, or text such as "2 GiB"'),
    "age": ValueKind(time_span, 'text such as "7d" or "12h"'),
    "texts": ValueKind(_texts, "a list of texts"),
    "settings": ValueKind(_settings, "a table of settings"),
}


def _wanted(key: Key) -> str:
    return " or ".join(f'"{choice}"' for choice in key.choices) if key.choices else _KINDS[key.kind].wanted


def _shown(value: Any) -> str:
    return (
        f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)[:60]
    )


def _example(name: str, key: Key) -> str:
    return f"write `{name} = {_wanted(key)}`" if key.choices else f'write `{name} = "…"`'
