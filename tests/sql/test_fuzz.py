"""Texts that are nearly SQL: read, or refused with a diagnostic, never anything else."""

from __future__ import annotations

import random
import re
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.sql.company import TABLES
from tests.sql.random_queries import Queries, random_tables
from upshot.core.errors import ProgramError
from upshot.sql import trouble
from upshot.sql.program import sql_program
from upshot.sql.queries.query import sql_query

_WORDS = (
    "SELECT FROM WHERE GROUP BY ( ) , . * NOT IN EXISTS NULL 1 'x' name emp dept id AS UNION count CASE WHEN END OVER "
    "ANY ALL LATERAL UNNEST ARRAY [ ] :: int interval date :p ? $1 @ ROW VALUES LIMIT ORDER HAVING DISTINCT e.* x.y.z ;"
)


def _statements() -> list[str]:
    found = [f"{table})" for table in TABLES.split(");") if table.strip()]
    for block in (Path(__file__).parent / "constructs.sql").read_text().split("\n\n"):
        found.append("CREATE VIEW v AS " + block.partition(";\n")[0].partition("\n")[2])
    return [*found, "CREATE ASSERTION c CHECK (NOT EXISTS (SELECT id FROM emp WHERE boss = id))"]


def _damaged(choice: random.Random, statement: str) -> str:
    words = re.findall(r"\w+|'[^']*'|[^\w\s]", statement)
    for _ in range(choice.randint(1, 3)):
        place = choice.randrange(len(words))
        match choice.randrange(4):
            case 0 if len(words) > 1:
                del words[place]
            case 1:
                words[place] = choice.choice(_WORDS.split())
            case 2:
                words.insert(place, choice.choice(_WORDS.split()))
            case _:
                other = choice.randrange(len(words))
                words[place], words[other] = words[other], words[place]
    return " ".join(words)


_PIECES = (
    '"', "'", "`", '""', "''", "``", "(", ")", ",", ";", ".", "*", "-", "--", "/*", "*/", "\\", "%", ":", "::", "$1",
    "?", "\x00", "\u00e9", "\U0001f600", "\n", "0", "9" * 40, "1e999", "1.", ".5", "0x1f", "1_000", "NULL",
    'DECIMAL(8, "")', "DECIMAL(0, 0)", "DECIMAL(99, 98)", "NUMERIC", "INTERVAL '1' DAY", "DATE ''", "DATE '2024-13-40'",
    "CAST(", " AS ",
    "E'\\x'", "U&'\\0'", "[1]", "{", "}", "=>", "->", "@>", "ARRAY[", "LATERAL ", "VALUES ", "TABLE ", "ONLY ",
    " USING (", " NATURAL ", "WITH ORDINALITY", "FETCH FIRST ", "FOR UPDATE", "WINDOW w AS (", "OVER (",
    "GROUPING SETS (",
)  # fmt: skip


def _mutated(choice: random.Random, text: str, others: list[str]) -> str:
    """The text with some of its characters damaged: cut, doubled, swapped, or mixed with others."""
    for _ in range(choice.choice((1, 1, 2, 3))):
        start = choice.randrange(len(text) + 1)
        end = min(len(text), start + choice.choice((0, 1, 1, 2, 5, 20)))
        other = choice.choice(others)
        cut = choice.randrange(len(other) + 1)
        new = choice.choice(
            ("", choice.choice(_PIECES), choice.choice(_PIECES), text[start:end] * 2, other[cut : cut + 15])
        )
        text = text[:start] + new + text[end:]
    return text


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures in our own code, and not in the parser, are not covered up."""
    original = trouble.unreadable

    def unreadable(span: Any, error: Exception) -> Any:
        if "sqlglot" not in traceback.extract_tb(error.__traceback__)[-1].filename:
            raise error
        return original(span, error)

    monkeypatch.setattr(trouble, "unreadable", unreadable)


@pytest.mark.usefixtures("strict")
def test_mutated_texts_are_read_or_refused_with_a_place() -> None:
    statements, found = _statements(), Counter[str]()
    for number in range(case_count(2, least=200)):
        seed = seed_of("sql mutations", number)
        found[mutation(seed, statements)] += 1
    assert found["refused"] > found["read"] > 0


def mutation(seed: int, statements: list[str]) -> str:
    """The verdict on one mutated text, a definition or a query: `read` or `refused`."""
    choice = random.Random(seed)
    tables = random_tables(choice)
    definitions = ";\n".join(table.definition() for table in tables)
    query = Queries(choice, tables).query()
    texts = [*statements, definitions, f"CREATE VIEW v AS {query}"]
    text = _mutated(choice, choice.choice([*texts[-2:], choice.choice(statements)]), texts)
    try:
        if choice.random() < 0.3:
            schemas = {**_schemas(TABLES), **_schemas(definitions)}
            sql_query(_mutated(choice, query, texts), schemas, {})
        else:
            known = "" if text.startswith("CREATE TABLE") else f"{TABLES};\n{definitions};\n"
            sql_program(known + text)
    except upshot.Error as error:
        _check(error, f"seed {seed}: {text}")
        return "refused"
    return "read"


def _check(error: upshot.Error, place: str) -> None:
    assert isinstance(error, ProgramError), place
    for each in error.diagnostics:
        assert each.span is not None, place
        assert each.help, f"{place}: {each}"
        assert "sqlglot" not in str(each).replace(each.span.source.text, ""), place
        assert "exp." not in each.message, place


def _schemas(definitions: str) -> dict[str, Any]:
    with upshot.connect() as db:
        db.define(definitions)
        return dict(db.schemas)


def test_damaged_statements_are_refused_with_a_diagnostic() -> None:
    statements, refused = _statements(), list[ProgramError]()
    count = case_count(2, least=100)
    for number in range(count):
        choice = random.Random(seed_of("sql fuzz", number))
        text = f"{TABLES};\n{_damaged(choice, choice.choice(statements))}"
        try:
            sql_program(text)
        except ProgramError as error:
            refused.append(error)
    assert len(refused) > count // 2
    assert all(each.help and each.span for error in refused for each in error.diagnostics)
