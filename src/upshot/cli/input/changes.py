"""Change files: NDJSON, one transaction per line, `{"insert": {"edge": [[1,2]]}, "delete": {"edge": [[3,4]]}}`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from upshot.cli.input.files import at_line, decode_line, open_bytes, shown_name
from upshot.cli.output.diagnostics import of_error
from upshot.cli.output.outcome import code_of
from upshot.cli.output.terminal import Terminal
from upshot.cli.settings import OK
from upshot.core.diagnostic import Diagnostic, did_you_mean
from upshot.core.errors import DataError, Error, unknown_relation
from upshot.core.json_values import JsonMisfit, repeated_key, row_as_list, row_reader
from upshot.core.schema import Role, Schema
from upshot.core.span import Span
from upshot.database.database import Database
from upshot.database.transaction import Transaction

Facts = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """The inserted and deleted rows of one transaction, by relation; no row is in both."""

    insert: Facts
    delete: Facts


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A line of a change file, and its place."""

    file: str
    number: int
    raw: bytes

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"

    def span(self) -> Span:
        return at_line(self.file, self.number, self.raw.decode("utf-8", "replace").strip())


def read_change_lines(path: Path) -> Iterator[ChangeLine]:
    """The lines of a change file as they arrive, without blank ones; `-` is standard input."""
    name = shown_name(path)
    with open_bytes(path, "change file") as stream:
        # readline, since iteration would wait for a full buffer: a transaction on a pipe is processed when it arrives.
        for number, raw in enumerate(iter(stream.readline, b""), start=1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if raw.strip():
                yield ChangeLine(name, number, raw)


def parse_change(line: ChangeLine, schemas: Mapping[str, Schema]) -> ChangeFacts:
    """The transaction of a line with typed values, or a `DataError` that names file, line and cause.

    A row that is both inserted and deleted cancels out: a JSON object has no order.
    """
    text = decode_line(line.raw, line.file, line.number)
    try:
        content = _read_object(text)
        insert = _facts(content.get("insert", {}), "insert", schemas)
        delete = _facts(content.get("delete", {}), "delete", schemas)
    except _Invalid as invalid:
        raise DataError(
            f"{line.place}: {invalid.message}", code=invalid.code, span=_where(line, text, invalid), help=invalid.help
        ) from None
    return canceled(insert, delete)


class _Invalid(Exception):
    def __init__(self, code: str, message: str, help: str = "", column: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.help, self.column = code, message, help, column


_EXAMPLE = 'write a line as {"insert": {"edge": [[1, 2]]}, "delete": {"edge": [[3, 4]]}}'


def _where(line: ChangeLine, text: str, invalid: _Invalid) -> Span:
    if invalid.column:
        return at_line(line.file, line.number, text, invalid.column - 1, invalid.column)
    return at_line(line.file, line.number, text)


def _read_object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(
            text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_without_repetition
        )
    except json.JSONDecodeError as error:
        raise _Invalid("not-json", f"invalid JSON: {error.msg.lower()}", _EXAMPLE, error.colno) from None
    except RecursionError:
        raise _Invalid("not-json", "JSON is nested too deeply", _EXAMPLE) from None
    except (ValueError, ArithmeticError):
        # Python refuses to read integers of thousands of digits and exponents beyond those of `Decimal`.
        raise _Invalid("wrong-type", "a number has too many digits") from None
    if not isinstance(content, dict):
        raise _Invalid("not-a-transaction", "a transaction must be a JSON object", _EXAMPLE)
    for key in content:
        if key not in ("insert", "delete"):
            raise _Invalid("not-a-transaction", f"unknown key `{key}`", _instead_of(key))
    return content


def _instead_of(key: str) -> str:
    """Suggest a key instead of one that transactions do not have."""
    only = "a transaction in a change file has only the keys `insert` and `delete`"
    match key:
        case "upsert" | "update":
            return f"{only}; for an {key}, delete the old row and insert the new one"
        case "replace":
            return f"{only}; to replace rows, delete the old ones and insert the new ones"
        case _:
            return did_you_mean(key, ("insert", "delete")) or only


def _no_constant(name: str) -> None:
    raise _Invalid("not-json", f"`{name}` is not JSON", f'write it as text: "{name}"')


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated_key(pairs)
        raise _Invalid("not-a-transaction", f"duplicate key `{twice}`", "put all rows into one list")
    return found


def _facts(part: Any, word: str, schemas: Mapping[str, Schema]) -> Facts:
    if not isinstance(part, dict):
        raise _Invalid("not-a-transaction", f"`{word}` must be an object that maps relations to rows", _EXAMPLE)
    return {name: _rows(rows, word, _schema(name, schemas)) for name, rows in part.items()}


def _schema(name: str, schemas: Mapping[str, Schema]) -> Schema:
    if name in schemas:
        return schemas[name]
    base = [schema.name for schema in schemas.values() if schema.role is Role.BASE]
    listed = ", ".join(f"`{name}`" for name in base) or "none"
    error = unknown_relation(name, base, otherwise=f"base relations: {listed}")
    raise _Invalid(error.code, error.message, error.help)


def _rows(rows: Any, word: str, schema: Schema) -> list[tuple[Any, ...]]:
    if not isinstance(rows, list):
        raise _Invalid("not-a-transaction", f"`{word}` of `{schema.name}` must be a list of rows", _EXAMPLE)
    read, found = row_reader(schema), []
    for number, row in enumerate(rows, start=1):
        try:
            found.append(read(row_as_list(row, schema)))
        except JsonMisfit as misfit:
            message = f"{word} row {number} of `{schema.name}`: {misfit}"
            raise _Invalid(misfit.code, message, misfit.help or f"columns: {schema}") from None
    return found


def canceled(insert: Facts, delete: Facts) -> ChangeFacts:
    """The change without the rows that are in both: the two have no order."""
    both = {name: set(insert[name]) & set(delete[name]) for name in insert.keys() & delete.keys()}
    return ChangeFacts(_without(insert, both), _without(delete, both))


def _without(facts: Facts, dropped: Mapping[str, set[tuple[Any, ...]]]) -> Facts:
    return {name: [row for row in rows if row not in dropped.get(name, ())] for name, rows in facts.items()}


# ---- commits --------------------------------------------------------------------------------------


def commit_line(database: Database, line: ChangeLine) -> Transaction:
    """Commit the transaction of a line. After any error the database is unchanged."""
    change = parse_change(line, database.schemas)
    with database.transaction() as transaction:
        for relation, rows in change.delete.items():
            transaction.delete(relation, rows)
        for relation, rows in change.insert.items():
            transaction.insert(relation, rows)
    return transaction


def at_change(error: Error, line: ChangeLine) -> list[Diagnostic]:
    """The diagnostics of a line; each begins with its file and line number."""
    return [_placed(diagnostic, line) for diagnostic in of_error(error)]


def _placed(diagnostic: Diagnostic, line: ChangeLine) -> Diagnostic:
    if diagnostic.message.startswith(f"{line.place}: "):
        return diagnostic
    return replace(diagnostic, message=f"{line.place}: {diagnostic.message}", span=line.span(), label="")


def for_each_line(terminal: Terminal, changes: Path, process: Callable[[ChangeLine], None]) -> int:
    """Process the lines of a change file up to the first error, which is reported; return the exit code."""
    for line in read_change_lines(changes):
        try:
            process(line)
        except Error as error:
            terminal.out.flush()
            terminal.report(at_change(error, line))
            return code_of(error)
        terminal.out.flush()
    return OK
