"""Texts that are nearly SQL: read, or refused with a diagnostic, never anything else."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.properties.settings import case_count, seed_of
from tests.sql.company import TABLES
from upshot.core.errors import ProgramError
from upshot.sql.program import sql_program

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
