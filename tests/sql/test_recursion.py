"""Recursion with best values, CYCLE and SEARCH, and functions of the user in SQL."""
# ruff: noqa: S608 - SQL is what is made here

from __future__ import annotations

import heapq
import random

import pytest

import upshot

EDGES = "CREATE TABLE edge (a BIGINT NOT NULL, b BIGINT NOT NULL, w BIGINT NOT NULL)"
DISTANCES = """
    WITH RECURSIVE d(n, cost) AS (
      SELECT n, min(cost) FROM (
        SELECT 1 AS n, 0 AS cost UNION ALL SELECT e.b, d.cost + e.w FROM d JOIN edge e ON e.a = d.n
      ) AS q GROUP BY n
    ) SELECT * FROM d
"""


def _distances(edges: set[tuple[int, int, int]]) -> set[tuple[int, int]]:
    best, pending = {1: 0}, [(0, 1)]
    while pending:
        cost, node = heapq.heappop(pending)
        for a, b, w in edges:
            if a == node and cost + w < best.get(b, 10**9):
                best[b] = cost + w
                heapq.heappush(pending, (cost + w, b))
    return set(best.items())


def test_least_costs_of_a_recursive_union_follow_every_change() -> None:
    choice, edges = random.Random(3), set[tuple[int, int, int]]()
    with upshot.connect() as db:
        db.define(EDGES)
        db.define(f"CREATE VIEW distance AS {DISTANCES}")
        db.define("CREATE VIEW total AS SELECT count(*) AS n, sum(cost) AS s FROM distance")
        for _ in range(40):
            before = set(db.rows("distance"))
            insert = {(choice.randint(1, 6), choice.randint(1, 6), choice.randint(1, 9)) for _ in range(2)}
            delete = set(choice.sample(sorted(edges), min(len(edges), choice.randint(0, 3))))
            with db.transaction() as tx:
                tx.delete("edge", list(delete))
                tx.insert("edge", list(insert))
            edges = (edges - delete) | insert
            wanted = _distances(edges)
            assert set(db.rows("distance")) == wanted
            assert set(tx.changes["distance"].inserted) == wanted - before
            assert set(tx.changes["distance"].deleted) == before - wanted
            assert set(db.rows("total")) == {(len(wanted), sum(cost for _, cost in wanted))}
        db.verify()


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (DISTANCES.replace("d.cost + e.w", "e.w - d.cost"), "not-monotone"),
        (DISTANCES.replace("min(cost)", "min(cost) + 1"), "sql-unsupported"),
        (DISTANCES.replace("d.cost + e.w", "NULLIF(d.cost, 1) + e.w"), "sql-unsupported"),
        (DISTANCES.replace("GROUP BY n", "GROUP BY x"), "sql-unsupported"),
    ],
)
def test_a_recursion_that_keeps_no_best_value_is_refused(query: str, code: str) -> None:
    with upshot.connect() as db:
        db.define(EDGES)
        with pytest.raises(upshot.ProgramError) as error:
            db.define(f"CREATE VIEW distance AS {query}")
        assert error.value.code == code


def test_best_values_of_a_table_that_is_not_there_are_refused() -> None:
    wrong = DISTANCES.replace("SELECT n, min(cost) FROM", "SELECT z.n, min(z.cost) FROM")
    with upshot.connect() as db:
        db.define(EDGES)
        with pytest.raises(upshot.Error):
            db.define(f"CREATE VIEW d AS {wrong}")


def test_best_values_in_the_recursion_of_a_query_need_a_view() -> None:
    with upshot.connect() as db:
        db.define(EDGES)
        with pytest.raises(upshot.ProgramError, match="recursion of a query") as error:
            db.sql(DISTANCES)
        assert "create a view" in str(error.value)


def test_cycle_marks_rows_whose_value_is_on_their_path() -> None:
    query = """
        WITH RECURSIVE r(n, d) AS (
          SELECT a, 0 FROM edge WHERE a = 1 UNION ALL SELECT e.b, r.d + 1 FROM r JOIN edge e ON e.a = r.n
        ) CYCLE n SET again TO 'yes' DEFAULT 'no' USING path SELECT n, d, again FROM r
    """
    with upshot.connect() as db:
        db.define(EDGES)
        db.define(f"CREATE VIEW walk AS {query}")
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2, 1), (2, 3, 1), (3, 1, 1)])
        assert set(db.rows("walk")) == {(1, 0, "no"), (2, 1, "no"), (3, 2, "no"), (1, 3, "yes")}
        with db.transaction() as tx:
            tx.delete("edge", [(3, 1, 1)])
        assert set(tx.changes["walk"].deleted) == {(1, 3, "yes")}
        assert set(db.sql(query)) == set(db.rows("walk"))


@pytest.mark.parametrize(("word", "order"), [("DEPTH", [1, 2, 10, 3]), ("BREADTH", [1, 2, 3, 10])])
def test_search_orders_rows_as_it_finds_them(word: str, order: list[int]) -> None:
    with upshot.connect() as db:
        db.define(EDGES)
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2, 1), (1, 3, 1), (2, 10, 1)])
        found = db.sql(
            "WITH RECURSIVE r(n) AS (SELECT DISTINCT a FROM edge WHERE a = 1 UNION ALL SELECT e.b FROM r "
            f"JOIN edge e ON e.a = r.n) SEARCH {word} FIRST BY n SET place SELECT n FROM r ORDER BY place"
        )
        assert [row[0] for row in found] == order


def test_functions_of_the_user_are_called_in_views_and_queries() -> None:
    with upshot.connect() as db:
        db.function("area", lambda w, h: w * h)
        db.function("loud", lambda text: text.upper())
        db.function("half", lambda x: x / 2)
        db.define(".functor area(w: number, h: number): number\n.decl room(name: symbol, w: number, h: number?)")
        db.define(
            ".functor loud(t: symbol): symbol\n.functor half(x: float): float\n"
            "CREATE VIEW large AS SELECT loud(name) AS n, AREA(w, h) AS a, half(w) AS f FROM room "
            "WHERE area(w, h) > 5 OR h IS NULL;\n"
            "CREATE VIEW total AS SELECT loud(name) AS n, sum(area(w, h)) AS s FROM room GROUP BY loud(name)"
        )
        with db.transaction() as tx:
            tx.insert("room", [("hall", 5, 6), ("bath", 2, 1), ("x", 3, None)])
        assert set(db.rows("large")) == {("HALL", 30, 2.5), ("X", None, 1.5)}
        assert set(db.rows("total")) == {("HALL", 30), ("BATH", 2), ("X", None)}
        assert list(db.sql("SELECT loud(name) AS n FROM room WHERE area(w, 2) > 5 ORDER BY area(w, 1)")) == [
            ("X",),
            ("HALL",),
        ]
        db.verify()
        db.function("area", lambda w, h: w + h)
        assert ("HALL", 11, 2.5) in set(db.rows("large"))


@pytest.mark.parametrize(
    ("query", "code", "hint"),
    [
        ("SELECT aria(w) FROM room", "sql-unsupported", "did you mean `area`?"),
        ("SELECT area(w, w) FROM room", "wrong-arity", "@area(number):number"),
        ("SELECT area(name) FROM room", "type-mismatch", "CAST"),
        ("SELECT f(w) FROM room", "sql-unsupported", ".functor f"),
    ],
)
def test_a_call_that_no_function_fits_is_refused(query: str, code: str, hint: str) -> None:
    with upshot.connect() as db:
        db.define(".functor area(w: number): number\n.decl room(name: symbol, w: number)")
        with pytest.raises(upshot.ProgramError) as error:
            db.define(f"CREATE VIEW v AS {query}")
        assert error.value.code == code
        assert hint in str(error.value)


PARTS = "CREATE TABLE part (whole BIGINT NOT NULL, piece BIGINT NOT NULL, n BIGINT NOT NULL, note TEXT)"
BILL = """
    WITH RECURSIVE b(piece, n) AS (
      SELECT piece, n FROM part WHERE whole = 0
      UNION ALL SELECT p.piece, b.n * p.n FROM b JOIN part p ON p.whole = b.piece
    ) SELECT piece, sum(n) AS n, count(*) AS ways FROM b GROUP BY piece
"""


def _bill(parts: set[tuple[int, int, int, str | None]]) -> set[tuple[int, int, int]]:
    found: dict[int, tuple[int, int]] = {}
    pending = [(0, 1)]
    while pending:
        whole, number = pending.pop()
        for above, piece, n, _ in parts:
            if above == whole:
                total, ways = found.get(piece, (0, 0))
                found[piece] = total + number * n, ways + 1
                pending.append((piece, number * n))
    return {(piece, total, ways) for piece, (total, ways) in found.items()}


def test_aggregates_over_union_all_count_every_derivation() -> None:
    choice, parts = random.Random(4), set[tuple[int, int, int, str | None]]()
    with upshot.connect() as db:
        db.define(PARTS)
        db.define(f"CREATE VIEW bill AS {BILL}")
        for _ in range(30):
            before = set(db.rows("bill"))
            pairs = [sorted(choice.sample(range(6), 2)) for _ in range(3)]
            insert = {(a, b, choice.randint(1, 2), choice.choice((None, "x", "y"))) for a, b in pairs}
            delete = set(choice.sample(sorted(parts, key=str), min(len(parts), choice.randint(0, 3))))
            with db.transaction() as tx:
                tx.delete("part", list(delete))
                tx.insert("part", list(insert))
            parts = (parts - delete) | insert
            wanted = _bill(parts)
            assert set(db.rows("bill")) == wanted
            assert set(tx.changes["bill"].inserted) == wanted - before
            assert set(tx.changes["bill"].deleted) == before - wanted
        assert set(db.sql(BILL)) == wanted
        db.verify()


def test_a_recursion_that_is_also_read_without_counting_is_counted_with_all_its_rows() -> None:
    with upshot.connect() as db:
        db.define("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)")
        db.define(
            "CREATE VIEW v AS WITH RECURSIVE r(n) AS (SELECT n FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 2) "
            "SELECT n, (SELECT count(*) FROM r) AS c FROM r"
        )
        with db.transaction() as tx:
            tx.insert("t", [(1, 1), (2, 1), (3, 2)])
        assert set(db.rows("v")) == {(1, 5), (2, 5)}


def test_endless_derivations_end_with_the_limit() -> None:
    with upshot.connect(max_rounds=50) as db:
        db.define(PARTS)
        db.define(f"CREATE VIEW bill AS {BILL}")
        with pytest.raises(upshot.Error) as caught, db.transaction() as tx:
            tx.insert("part", [(0, 1, 1, None), (1, 2, 1, None), (2, 1, 1, None)])
        assert caught.value.code == "recursion-limit"
        assert not db.rows("bill")
