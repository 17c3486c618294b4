"""Generate the tables of built-ins in the language reference.

python -m upshot.values.reference docs/reference/language.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from upshot.core.types import Kind
from upshot.values.aggregates import AGGREGATES
from upshot.values.conditions import TESTS
from upshot.values.functions import FUNCTIONS
from upshot.values.records import BuiltinAggregate, BuiltinFunction
from upshot.values.signatures import ANY, ORDERED, KindSet, only

_SQL = {
    "Add": "`a + b`", "Sub": "`a - b`", "Mul": "`a * b`", "Div": "`a / b`", "IntDiv": "`a DIV b`", "Mod": "`a % b`",
    "Neg": "`-a`", "Greatest": "`GREATEST`", "Least": "`LEAST`", "DPipe": "`a || b`", "Concat": "`CONCAT`",
    "BitwiseAnd": "`a & b`", "BitwiseOr": "`a | b`", "BitwiseXor": "`a # b`",
    "Length": "`LENGTH`", "Substring": "`SUBSTRING`", "Cast": "`CAST`",
}  # fmt: skip
"""The SQL syntax of classes of sqlglot; any other class is a function of the same name."""


def functions() -> str:
    """The table of functions and operators."""
    rows = (
        (f"`{each.spelled}`", _kinds(each.signature.arguments[0]), each.words, _failing(each), _in_sql(each))
        for each in FUNCTIONS.values()
        if each.spelled
    )
    return _table(("written", "on", "value", "error", "SQL"), rows)


def tests() -> str:
    """The table of tests."""
    rows = (
        (f"`{each.spelled}`", _kinds(each.arguments[0]), each.words, each.sql and f"`{each.sql}`")
        for each in TESTS.values()
        if each.arguments and each.spelled
    )
    return _table(("written", "on", "true where", "SQL"), rows)


def aggregates() -> str:
    """The table of aggregates."""
    rows = (
        (f"`{each.spelled}`", _kinds(each.signature.arguments[0]) if each.takes_value else "", each.words,
         "0" if each.of_nothing else "no value", _spellings(each))
        for each in AGGREGATES.values()
    )  # fmt: skip
    return _table(("written", "of", "value", "over no rows", "SQL"), rows)


TABLES = {"functions": functions, "tests": tests, "aggregates": aggregates}


def written(page: str) -> str:
    """The page with the tables between their marks replaced."""
    for name, table in TABLES.items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        page = between.sub(lambda found, table=table: f"{found[1]}{table()}{found[2]}", page)  # type: ignore[misc]
    return page


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [" | ".join(head), *(" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)]
    lines.insert(1, "|".join("---" for _ in head))
    return "".join(f"| {line} |\n" if "---" not in line else f"|{line}|\n" for line in lines)


def _kinds(kinds: KindSet) -> str:
    if kinds in (ANY, ORDERED):
        return "any" if kinds == ANY else "any but records"
    return ", ".join(kind.value for kind in Kind if only(kind) & kinds)


def _failing(function: BuiltinFunction) -> str:
    """The kinds for which some arguments have no value."""
    failing = [kind for kind, meaning in function.meanings.items() if meaning.fails]
    if not failing:
        return ""
    return (
        "yes" if len(failing) == len(function.meanings) else ", ".join(kind.value for kind in Kind if kind in failing)
    )


def _in_sql(function: BuiltinFunction) -> str:
    return ", ".join(_SQL.get(name, f"`{name.upper()}`") for name in function.sql)


def _spellings(aggregate: BuiltinAggregate) -> str:
    return ", ".join(f"`{name}`" for _, name in aggregate.sql)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
