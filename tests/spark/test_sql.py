"""Views and questions in SQL on Spark: the rows, the changes and the answers of the local engine."""

from __future__ import annotations

import pytest

import upshot
from tests.properties.engines import Make
from tests.sql.company import ROWS, TABLES

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
