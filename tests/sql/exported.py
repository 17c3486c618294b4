"""An exported program on a private PostgreSQL: transactions in, views and their changes out."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from tests.pipeline.postgres import PASSWORD, USER, Cluster
from upshot.check import check
from upshot.core.json_values import from_json
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type
from upshot.export.postgres import postgres_script
from upshot.export.postgres_terms import column_names, quoted, value_text
from upshot.sql.either import parse_either

_END = "that was all"
_NULL = "\\N"
Row = tuple[Any, ...]


class Exported:
    """One `psql` that stays; `schema` is the program's own, so that several fit into one cluster."""

    def __init__(self, cluster: Cluster, text: str, schema: str) -> None:
        self.checked = check(parse_either(text, "program.dl", {}))
        self.schema = schema
        command = [str(cluster.binaries / "psql"), "-h", "127.0.0.1", "-p", str(cluster.port), "-U", USER]
        self._process = subprocess.Popen(
            [*command, "-d", "postgres", "-q", "-X"], text=True, bufsize=1, env={**os.environ, "PGPASSWORD": PASSWORD},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.say("SET client_min_messages = error; SET statement_timeout = '60s'; SET timezone = 'UTC'")
        script = self.say(postgres_script(self.checked, schema))
        assert not script, script

    def say(self, statements: str) -> list[str]:
        """What the server answers, line by line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statements};\n\\echo '{_END}'\n")
        self._process.stdin.flush()
        lines: list[str] = []
        while (line := self._process.stdout.readline().rstrip("\n")) != _END:
            assert self._process.poll() is None, lines
            lines.append(line)
        return lines

    def table(self, relation: str) -> str:
        return f"{quoted(self.schema)}.{quoted(relation)}"

    def change(self, sign: str, relation: str, rows: Iterable[Row]) -> str:
        """The statement that inserts or deletes rows."""
        schema = self.checked.schemas[relation]
        found = []
        for row in rows:
            values = [value_text(v, type) for v, type in zip(row, schema.types, strict=True)] or ["TRUE"]
            if sign == "+":
                found.append(f"INSERT INTO {self.table(relation)} VALUES ({', '.join(values)}) ON CONFLICT DO NOTHING")
            else:
                pairs = zip(column_names(schema), values, strict=True)
                where = " AND ".join(f"{name} IS NOT DISTINCT FROM {value}" for name, value in pairs)
                found.append(f"DELETE FROM {self.table(relation)} WHERE {where}")
        return "; ".join(found)

    def rows(self, relation: str) -> set[Row]:
        return set(self._copied(self.table(relation), self.checked.schemas[relation]))

    def version(self) -> int:
        return int(self.say(f"COPY {quoted(self.schema + '_internal')}.version TO STDOUT")[0])

    def changes(self, relation: str, version: int) -> tuple[set[Row], set[Row]]:
        """The rows that a version inserted and deleted."""
        log = f"{quoted(self.schema + '_changes')}.{quoted(relation)}"
        schema = self.checked.schemas[relation]
        columns = ", ".join(column_names(schema))
        inserted, deleted = (
            list(self._copied(f"(SELECT {columns} FROM {log} WHERE _version = {version} AND _change = {sign})", schema))
            for sign in (1, -1)
        )
        assert (len(set(inserted)), len(set(deleted))) == (len(inserted), len(deleted))
        return set(inserted), set(deleted)

    def _copied(self, source: str, schema: Schema) -> Iterable[Row]:
        columns = ", ".join(column_names(schema))
        lines = self.say(
            f"COPY (SELECT {columns} FROM {source} AS x) TO STDOUT (FORMAT csv, NULL '{_NULL}', FORCE_QUOTE *)"
        )
        assert not lines or not lines[0].startswith("ERROR"), lines
        for row in csv.reader(lines):
            yield tuple(_value(text, type) for text, type in zip(row, schema.types, strict=False))

    def close(self) -> None:
        for part in ("", "_changes", "_internal"):
            self.say(f"DROP SCHEMA IF EXISTS {quoted(self.schema + part)} CASCADE")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def _value(text: str, type: Type) -> Any:
    if text == _NULL:
        return None
    if type.kind is Kind.BOOLEAN:
        return text == "t"
    if type.kind in (Kind.NUMBER, Kind.UNSIGNED):
        return int(text)
    if type.kind is Kind.FLOAT:
        return float(text)
    return from_json(text.replace(" ", "T") if type.kind is Kind.TIMESTAMP else text, type)


def comparable(rows: Iterable[Row]) -> set[Row]:
    """Rows in which NaN equals NaN."""
    return {tuple("NaN" if isinstance(v, float) and v != v else v for v in row) for row in rows}


def changed(found: Mapping[str, Any], name: str) -> tuple[set[Row], set[Row]]:
    return comparable(found[name].inserted), comparable(found[name].deleted)
