"""Random queries of every construct, over random tables with NULL, are kept exactly as DuckDB and PostgreSQL answer
them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import upshot
from tests.pipeline.postgres import Cluster
from tests.properties.settings import case_count, seed_of
from tests.sql.against_duckdb import Judge, Peer, comparable, follow, has_long
from tests.sql.against_postgres import Postgres
from tests.sql.random_queries import DATE, DECIMAL, NUMBER, TEXT, Queries, Table, random_tables
from upshot.syntax import parse, print_program

STEPS = 4
PER_TEST = 10
REFUSED = {"sql-unsupported", "too-many-alternatives"}
"""What a view may be refused for; everything else is a mistake of ours."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(max(1, case_count(4, least=20) // PER_TEST)))
def test_views_follow_random_transactions_as_duckdb_answers(part: int) -> None:
    counted: Counter[str] = Counter()
    for number in range(part * PER_TEST, (part + 1) * PER_TEST):
        counted += one_case(seed_of("sql", number), None)
    assert counted["Peer"] > counted["unjudged"], counted


@pytest.mark.slow
@pytest.mark.parametrize("part", range(max(1, case_count(10, least=20) // PER_TEST)))
def test_views_follow_random_transactions_as_postgres_answers(part: int, cluster: Cluster) -> None:
    counted: Counter[str] = Counter()
    for number in range(part * PER_TEST, (part + 1) * PER_TEST):
        counted += one_case(seed_of("sql on postgres", number), cluster)
    assert counted["Postgres"] > counted["unjudged"], counted


def test_a_mean_of_large_decimals_has_fewer_places_on_the_server(cluster: Cluster) -> None:
    one_case(106371582146297, cluster)


def one_case(seed: int, cluster: Cluster | None) -> Counter[str]:
    choice = random.Random(seed)
    tables = random_tables(choice)
    judges: list[Judge] = [Peer(tables)]
    if cluster is not None:
        judges.append(Postgres(cluster, tables))
    with upshot.connect() as db:
        db.define(";\n".join(table.definition() for table in tables))
        views = _defined(choice, db, judges, tables)
        program = db.program
        assert parse(print_program(program)) == program
        try:
            counted = follow(choice, db, judges, tables, views, STEPS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
        long = has_long({table.name: set(db.rows(table.name)) for table in tables})
        for view, query in views.items():
            try:
                assert comparable(db.sql(query)) == comparable(db.rows(view)), f"seed {seed}: {query}"
            except upshot.OverflowError_:
                assert long, f"seed {seed}: {query}"
        db.verify()
        counted["views"] += len(views)
    for judge in judges:
        judge.close()
    return counted


def _defined(choice: random.Random, db: upshot.Database, judges: list[Judge], tables: list[Table]) -> dict[str, str]:
    """Views of random queries, some of them over views that were defined before."""
    views: dict[str, str] = {}
    known = list(tables)
    for number in range(3):
        types = [NUMBER, *choice.choices((NUMBER, TEXT, DECIMAL, DATE), k=choice.randint(1, 2))]
        is_below = number < 2 and choice.random() < 0.5
        query = Queries(choice, known).query(types=types if is_below else None)
        view = f"v{number}"
        try:
            db.define(f"CREATE VIEW {view} AS {query}")
        except upshot.ProgramError as error:
            if error.code not in REFUSED and "of the recursion has two types" not in error.message:
                raise AssertionError(f"{query}: {error}") from error
            continue
        views[view] = query
        can = [judge.define(view, query) for judge in judges] if is_below else [False]
        if all(can):
            known.append(Table(view, tuple((f"c{place}", type, True) for place, type in enumerate(types))))
    return views


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
                # PostgreSQL refuses these too.
                if error.code not in REFUSED and "of the recursion has two types" not in error.message:
                    raise
                refused += 1
    assert refused <= 9
