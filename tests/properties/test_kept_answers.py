"""Kept answers equal recomputation for random programs, transactions, definitions, rollbacks and bounds.

UPSHOT_CASES sets how many cases run in all, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import upshot
from tests.properties.cases import Base, Case, Change, after
from tests.properties.exactness import checked, keyed, oracle
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, seed_of
from upshot.core.errors import DataError

# Numbers that a recursion computes may be asked for without end: such programs have no answers on demand.
FOCUSES = {
    "recursion": Features(recursion=1, nonlinear=0.5, mutual=0.5, arithmetic=0, views=2, exotic=0, nullable=0),
    "negation": Features(
        negation=0.4, aggregates=0, comparisons=0.1, symbols=0, views=2, arithmetic=0, exotic=0, nullable=0.1
    ),
    "aggregates": Features(aggregates=0.7, arithmetic=0, views=2, exotic=0, nullable=0.1),
}


class Abort(Exception):
    """Ends a transaction that is to be undone."""


def questions(case: Case, chance: random.Random) -> list[tuple[str, int, str]]:
    """A view, a column whose value is the parameter, and the query, for some views with columns."""
    schemas = checked(case.text()).schemas
    views = [name for component in checked(case.text()).strata for name in component if schemas[name].arity]
    found = []
    for name in views:
        place = chance.randrange(schemas[name].arity)
        terms = ["$x" if column == place else f"V{column}" for column in range(schemas[name].arity)]
        found.append((name, place, f"{name}({', '.join(terms)})"))
    return found


def check_answers(db: upshot.Database, wanted: dict[str, Any], asked: list[tuple[str, int, str, Any]]) -> None:
    for name, place, query, value in asked:
        (key,) = keyed([(value,)])
        expected = {row[:place] + row[place + 1 :] for row in wanted[name] if row[place : place + 1] == key}
        assert keyed(db.query(query, x=value)) == expected, (query, value, db.kept_answers)


@pytest.mark.parametrize("focus", FOCUSES)
def test_kept_answers_equal_recomputation_after_random_transactions(focus: str) -> None:
    hits = admitted = 0
    for number in range(case_count(25, least=12)):
        case = random_case(seed_of(f"kept {focus}", number), FOCUSES[focus])
        chance = random.Random(case.seed)
        asked = questions(case, chance)
        db = upshot.connect(keep_answers=chance.choice((12, 60, 100_000)))
        db.define(case.text([f".view {name} materialized=false" for name, _, _ in asked]))
        state: Base = {name: frozenset() for name in case.base}
        known: list[tuple[str, int, str, Any]] = []
        first = tuple(Change("+", name, row) for name, rows in case.base.items() for row in rows)
        for step, transaction in enumerate((first, *case.transactions)):
            changed = after(state, transaction)
            wanted = oracle(case, changed)
            try:
                with db.transaction() as tx:
                    for change in transaction:
                        (tx.insert if change.sign == "+" else tx.delete)(change.relation, [change.row])
                    if is_undone := chance.random() < 0.2:
                        raise Abort
            except (DataError, Abort):
                assert is_undone or wanted is None
            else:
                state = changed
            if chance.random() < 0.2:
                db.define(
                    f".decl more{step}(x: number)\n.decl above{step}(x: number)\nabove{step}(X) :- more{step}(X)."
                )
            now = oracle(case, state)
            assert now is not None
            for name, place, query in asked:
                rows = [row for row in db.rows(name) if row[place] is not None]
                if rows and len(known) < 4:
                    known.append((name, place, query, chance.choice(sorted(rows, key=repr))[place]))
            for _ in range(2):
                check_answers(db, now, [each for each in known if chance.random() < 0.8])
        hits, admitted = hits + db.kept_answers.hits, admitted + db.kept_answers.admitted
        db.close()
    assert hits > admitted > 0
