"""Test scripts: a program, `---`, then commands, each with the lines it must print indented below it.

    .decl edge(x: number, y: number)
    ...
    ---
    +edge(1, 2) -edge(2, 3)
      +path(1, 2)
    ? path(X, _), X > 0
      (1)

A transaction prints the exact changes of all views, a query its rows, an error `error: code`. The order of the printed
lines does not matter. NaN and infinities are written `0.0 / 0.0` and `1.0 / 0.0`.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from upshot.core.schema import Schema
from upshot.core.types import Kind
from upshot.engine.naive import OracleState
from upshot.syntax import parse_query, print_term
from upshot.syntax.ast import Atom

Row = tuple[Any, ...]
Change = tuple[str, str, Row]


@dataclass(frozen=True, slots=True)
class Step:
    """One command and what it must print."""

    command: str
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    program: str
    steps: tuple[Step, ...]


def read_script(path: Path) -> Script:
    return parse_script(path.read_text(encoding="utf-8"), path.stem)


def parse_script(text: str, name: str = "script") -> Script:
    program, marker, commands = text.partition("\n---\n")
    assert marker, f"`{name}` has no `---` line between the program and the commands"
    steps: list[tuple[str, list[str]]] = []
    for line in commands.splitlines():
        if not line.strip() or line.startswith("//"):
            continue
        if line.startswith(" "):
            assert steps, f"`{name}` prints before the first command"
            steps[-1][1].append(line.strip())
        else:
            steps.append((line.strip(), []))
    return Script(name, program + "\n", tuple(Step(command, tuple(expected)) for command, expected in steps))


def write_script(program: str, steps: Iterable[Step]) -> str:
    """The text that `parse_script` reads back."""
    blocks = ["\n".join([step.command, *(f"  {line}" for line in step.expected)]) for step in steps]
    return program.rstrip("\n") + "\n---\n" + "\n".join(blocks) + "\n"


# ---- commands ---------------------------------------------------------------------------------


def changes_of(command: str, schemas: Mapping[str, Schema]) -> list[Change]:
    """The insertions and deletions of a transaction line, in order."""
    return [(text[0], *row_of(text[1:], schemas)) for text in _top_level(command)]


def row_of(text: str, schemas: Mapping[str, Schema]) -> tuple[str, Row]:
    atom = parse_query(text)
    assert isinstance(atom, Atom), f"{text} is not a fact"
    kinds = [column.type.kind for column in schemas[atom.relation].columns]
    values = [
        print_term(term) if kind is Kind.RECORD else OracleState({}, {}).value(term, {})
        for term, kind in zip(atom.args, kinds, strict=True)
    ]
    return atom.relation, tuple(_typed(value, kind) for value, kind in zip(values, kinds, strict=True))


def _typed(value: Any, kind: Kind) -> Any:
    if isinstance(value, int) and kind in (Kind.FLOAT, Kind.DECIMAL):
        return float(value) if kind is Kind.FLOAT else Decimal(value)
    return value


def _top_level(command: str) -> Iterator[str]:
    """The facts of a transaction line: from each sign to the parenthesis that closes it, texts skipped."""
    start, depth = 0, 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[()]', command):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if token.group() == ")" and depth == 0:
            yield command[start : token.end()].strip()
            start = token.end()
    assert not command[start:].strip(), f"{command[start:]} is not a change"


# ---- output -----------------------------------------------------------------------------------


def show_change(sign: str, relation: str, row: Row) -> str:
    return f"{sign}{relation}{show_row(row)}"


def show_row(row: Row) -> str:
    return f"({', '.join(map(show_value, row))})"


def show_value(value: Any) -> str:
    """The value as program text; NaN and infinities, which have no literal, as a quotient."""
    match value:
        case str() if value == "nil" or value[:1] in ("[", "$"):
            return value  # a record; no other text of the scripts begins like one
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
            return f'"{escaped}"'
        case float() if not math.isfinite(value):
            return "0.0 / 0.0" if math.isnan(value) else "1.0 / 0.0" if value > 0 else "-1.0 / 0.0"
        case datetime.datetime():
            return f'timestamp("{value.strftime("%Y-%m-%dT%H:%M:%SZ")}")'
        case datetime.date():
            return f'date("{value.isoformat()}")'
        case Decimal():
            return f'decimal("{value}")'
    return str(value)
