"""PostgreSQL as a judge of views in SQL: one `psql` that stays, fed with text, on a private server."""

from __future__ import annotations

import csv
import datetime as dt
import os
import subprocess
from collections.abc import Sequence
from decimal import Context, Decimal

from tests.pipeline.postgres import PASSWORD, USER, Cluster
from tests.sql.against_duckdb import State, comparable, distinct
from tests.sql.random_queries import Row, Table
from upshot.core.schema import Schema
from upshot.core.types import Kind, Type

_END = "that was all"
_NULL = "\\N"


class Postgres:
    """A database with the same tables, which are temporary."""

    def __init__(self, cluster: Cluster, tables: Sequence[Table]) -> None:
        command = [str(cluster.binaries / "psql"), "-h", "127.0.0.1", "-p", str(cluster.port), "-U", USER]
        self._process = subprocess.Popen(
            [*command, "-d", "postgres", "-q", "-X"], text=True, bufsize=1, env={**os.environ, "PGPASSWORD": PASSWORD},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._tables = tables
        self.say("SET client_min_messages = error; SET statement_timeout = '10s'")
        for table in tables:
            assert not self.say(table.definition().replace("CREATE TABLE", "CREATE TEMPORARY TABLE", 1))

    def say(self, statement: str) -> list[str]:
        """What the server answers, line by line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{statement};\n\\echo '{_END}'\n")
        self._process.stdin.flush()
        lines: list[str] = []
        while (line := self._process.stdout.readline().rstrip("\n")) != _END:
            assert self._process.poll() is None, lines
            lines.append(line)
        return lines

    def define(self, view: str, query: str) -> bool:
        return not self.say(f"CREATE TEMPORARY VIEW {view} AS {distinct(query)}")

    def answer(self, query: str, schema: Schema) -> set[Row] | None:
        found = self.rows(query, schema)
        return None if found is None else comparable(found)

    def rows(self, query: str, schema: Schema) -> list[Row] | None:
        """The rows in the types of the schema, None if the server cannot tell."""
        lines = self.say(f"COPY ({query}) TO STDOUT (FORMAT csv, NULL '{_NULL}')")
        if lines and lines[0].startswith("ERROR:"):
            # Recursion whose type is found otherwise than here, FULL JOIN on more than equality, and the like.
            return None
        # One empty text is an empty line.
        rows = (row or [""] for row in csv.reader(lines))
        return [tuple(_value(text, type) for text, type in zip(row, schema.types, strict=True)) for row in rows]

    def replace(self, state: State) -> None:
        for table in self._tables:
            rows = ", ".join(f"({', '.join(map(literal_text, row))})" for row in state[table.name])
            insert = f"; INSERT INTO {table.name} VALUES {rows}" if rows else ""  # noqa: S608
            assert not self.say(f"DELETE FROM {table.name}{insert}")  # noqa: S608 - a name of ours

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def literal_text(value: object) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str | dt.date) else str(value)


def _with_places(value: Decimal, least: int) -> Decimal:
    """The server writes fewer places of a mean or quotient the larger it is."""
    missing = least + int(value.as_tuple().exponent)
    return value.quantize(Decimal(1).scaleb(-least), context=Context(prec=60)) if missing > 0 else value


def _value(text: str, type: Type) -> object:
    if text == _NULL:
        return None
    match type.kind:
        case Kind.BOOLEAN:
            return text == "t"
        case Kind.NUMBER:
            return int(Decimal(text))
        case Kind.FLOAT:
            return float(text)
        case Kind.DECIMAL:
            return _with_places(Decimal(text), type.scale)
        case Kind.DATE:
            return dt.date.fromisoformat(text)
        case _:
            return text
