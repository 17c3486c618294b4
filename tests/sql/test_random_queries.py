"""Random queries of every construct, over random tables with NULL, are kept exactly as DuckDB answers them."""

from __future__ import annotations

import random

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.sql.against_duckdb import Peer, follow
from tests.sql.random_queries import Queries, random_tables
from upshot.syntax import parse, print_program

STEPS = 4
PER_TEST = 10
REFUSED = {"sql-unsupported", "too-many-alternatives"}
"""What a view may be refused for; everything else is a mistake of ours."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(max(1, case_count(4, least=20) // PER_TEST)))
def test_views_follow_random_transactions_as_duckdb_answers(part: int) -> None:
    for number in range(part * PER_TEST, (part + 1) * PER_TEST):
        _one_case(seed_of("sql", number))


def _one_case(seed: int) -> None:
    choice = random.Random(seed)
    tables = random_tables(choice)
    peer = Peer(tables)
    with upshot.connect() as db:
        db.define(";\n".join(table.definition() for table in tables))
        views = {}
        for number in range(2):
            query = Queries(choice, tables).query()
            try:
                db.define(f"CREATE VIEW v{number} AS {query}")
            except upshot.ProgramError as error:
                if error.code not in REFUSED:
                    raise
                continue
            views[f"v{number}"] = query
        program = db.program
        assert parse(print_program(program)) == program
        follow(choice, db, peer, tables, views, STEPS)
        for view, query in views.items():
            assert set(db.sql(query)) == set(db.rows(view)), f"seed {seed}: {query}"
        db.verify()
    peer.close()


@pytest.mark.slow
def test_few_random_queries_are_refused() -> None:
    refused = 0
    with upshot.connect() as db:
        for number in range(60):
            choice = random.Random(seed_of("sql refusals", number))
            tables = random_tables(choice)
            for table in tables:
                db.define(table.definition())
            try:
                db.sql(Queries(choice, tables).query())
            except upshot.ProgramError as error:
                if error.code not in REFUSED:
                    raise
                refused += 1
    assert refused <= 9
