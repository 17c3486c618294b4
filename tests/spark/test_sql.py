"""Views and questions in SQL on Spark: the rows, the changes and the answers of the local engine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

import upshot
from tests.properties.engines import Make
from tests.properties.settings import case_count, is_soak, seed_of
from tests.sql.against_duckdb import Peer, comparable, random_change
from tests.sql.company import ROWS, TABLES
from tests.sql.random_queries import Queries, Row, Table, random_tables
from tests.sql.test_random_queries import REFUSED

VIEWS = """
CREATE VIEW joined AS
  SELECT e.name, d.title, CASE WHEN e.salary > 120 THEN 'high' ELSE 'low' END AS level
  FROM emp e FULL JOIN dept d ON e.dept = d.id;
CREATE VIEW grouped AS
  SELECT dept, count(*) AS n, sum(salary) AS total, count(DISTINCT boss) AS bosses FROM emp GROUP BY dept;
CREATE VIEW lonely AS
  SELECT name FROM emp e WHERE id NOT IN (SELECT boss FROM emp WHERE boss IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM dept d WHERE d.id = e.dept AND d.title = 'sales');
CREATE VIEW above AS
  WITH RECURSIVE up(who, top) AS (
    SELECT id, boss FROM emp UNION SELECT up.who, e.boss FROM up JOIN emp e ON e.id = up.top
  ) SELECT * FROM up;
CREATE VIEW other AS SELECT boss FROM emp EXCEPT SELECT dept FROM emp;
"""
NAMES = ("joined", "grouped", "lonely", "above", "other")


@pytest.mark.slow
def test_views_in_sql_are_the_same_on_spark(on_spark: Make) -> None:
    with upshot.connect() as local, on_spark() as db:
        for each in (local, db):
            each.define(TABLES + ";" + VIEWS)
        for step in range(2):
            commits = []
            for each in (local, db):
                with each.transaction() as tx:
                    if step:
                        tx.delete("emp", ROWS["emp"][1:3])
                        tx.insert("dept", [(9, "new")])
                    else:
                        for table, rows in ROWS.items():
                            tx.insert(table, rows)
                commits.append(tx.changes)
            for name in NAMES:
                assert set(db.rows(name)) == set(local.rows(name)), name
                assert set(commits[1][name].inserted) == set(commits[0][name].inserted), name
                assert set(commits[1][name].deleted) == set(commits[0][name].deleted), name
        asked = "SELECT dept, max(salary) AS most FROM emp WHERE id <> :id GROUP BY dept ORDER BY dept"
        assert list(db.sql(asked, id=1)) == list(local.sql(asked, id=1))
        with pytest.raises(upshot.UsageError) as error:
            db.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n")
        assert error.value.code == "recursive-query"


# ---- random queries ----------------------------------------------------------------------------------------------

PACK = 4
"""Cases in one database, side by side under other names: a commit costs about the same for one as for all."""
VIEWS_A_CASE = 2
STEPS = 4 if is_soak() else 2


@dataclass
class Case:
    """Tables and views of one case, with what they hold by DuckDB's account."""

    choice: random.Random
    tables: list[Table]
    views: dict[str, str]
    peer: Peer
    state: dict[str, set[Row]]
    rows: dict[str, set[Row]]


def random_sql(number: int, local: upshot.Database, opened: ExitStack) -> Case:
    """A case whose names nobody else has; its views are those that the local database does not refuse."""
    choice = random.Random(seed_of("spark sql", number))
    tables = [replace(table, name=f"{table.name}_{number}") for table in random_tables(choice, long=False)]
    local.define(";\n".join(table.definition() for table in tables))
    peer = Peer(tables)
    opened.callback(peer.close)
    views = {}
    for place in range(VIEWS_A_CASE):
        name, query = f"v{place}_{number}", Queries(choice, tables).query()
        try:
            local.define(f"CREATE VIEW {name} AS {query}")
        except upshot.ProgramError as error:
            if error.code not in REFUSED:
                raise
            continue
        views[name] = query
    answers = {view: peer.answer(query, local.schemas[view]) for view, query in views.items()}
    rows = {view: answer for view, answer in answers.items() if answer is not None}
    views = {view: query for view, query in views.items() if view in rows}
    return Case(choice, tables, views, peer, {table.name: set() for table in tables}, rows)


def changed(case: Case, tx: upshot.Transaction) -> None:
    """Makes the next random change of the case in the transaction and in DuckDB."""
    insert, delete = random_change(case.choice, case.tables, case.state)
    for table in case.tables:
        tx.delete(table.name, list(delete[table.name]))
        tx.insert(table.name, list(insert[table.name]))
    case.state = {name: (rows - delete[name]) | insert[name] for name, rows in case.state.items()}
    case.peer.replace(case.state)


def packs() -> Iterator[range]:
    count = case_count(125, least=PACK)
    return (range(first, min(first + PACK, count)) for first in range(0, count, PACK))


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [pytest.param(each, id=f"pack {n}") for n, each in enumerate(packs())])
def test_random_views_follow_random_transactions_on_spark_as_duckdb_answers(on_spark: Make, numbers: range) -> None:
    with ExitStack() as opened:
        local = opened.enter_context(upshot.connect())
        cases = [random_sql(number, local, opened) for number in numbers]
        db = opened.enter_context(on_spark())
        tables = [table.definition() for case in cases for table in case.tables]
        views = [f"CREATE VIEW {view} AS {query}" for case in cases for view, query in case.views.items()]
        db.define(";\n".join(tables + views))
        for case in cases:
            for view, query in case.views.items():
                assert comparable(db.rows(view)) == case.rows[view], query
        for step in range(STEPS):
            with db.transaction() as tx:
                for case in cases:
                    changed(case, tx)
            for case in cases:
                for view, query in case.views.items():
                    place = f"step {step} of {query} over {case.state}"
                    before, wanted = case.rows[view], case.peer.answer(query)
                    assert wanted is not None, place
                    assert comparable(db.rows(view)) == wanted, place
                    assert comparable(tx.changes[view].inserted) == wanted - before, place
                    assert comparable(tx.changes[view].deleted) == before - wanted, place
                    case.rows[view] = wanted
