"""Every realization is one for the values that it was proven with and for all new ones that meet its conditions, and
every minimal realization contains one that is given.

UPSHOT_CASES sets how many cases run, UPSHOT_SEED which ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest

import upshot
from tests.properties.settings import case_count, seed_of
from tests.revise.random_values import (
    Case,
    Update,
    is_minimal,
    is_realization,
    linked_columns,
    minimal_realizations,
    models,
    random_case,
)
from upshot import Bounds, Placeholder, ProgramError, Realization

MOST = 2
BOUNDS = Bounds(new_constants=2, size=MOST + 1, rounds=200, seconds=20)


def answered(case: Case, bounds: Bounds = BOUNDS) -> tuple[list[Realization], str]:
    """The realizations, and what cut the search short beside the number of changes."""
    with upshot.connect() as db:
        db.define(case.text)
        with db.transaction() as tx:
            for name, row in sorted(case.facts):
                tx.insert(name, [row])
        if case.constraint:
            db.define(case.constraint)
        asked: tuple[dict[str, list[tuple[int, ...]]], ...] = ({}, {})
        for given, facts in zip(asked, (case.insert, case.delete), strict=True):
            for name, row in facts:
                given.setdefault(name, []).append(row)
        found = db.realize(*asked, bounds=bounds)
        ways = list(found)
        _, _, cut = found.reason.partition(" within ") if found.status == "bounds reached" else ("", "", "")
        return ways, "; ".join(
            each for each in cut.split("; ") if each and each not in (f"{MOST + 1} changes", "2 fresh values")
        )


def meets(conditions: tuple[str, ...], values: dict[str, int]) -> bool:
    for condition in conditions:
        text = re.sub(r"(?<![<>!])=", "==", condition)
        text = re.sub(r"\?\d+", lambda name: str(values[name[0]]), text)
        if not eval(text, {}, {}):
            return False
    return True


def instances(case: Case, way: Realization) -> Iterator[tuple[Update, bool, dict[str, int]]]:
    """The realization with every choice of values that meet what is stated, whether they are new to it, and which they
    are."""
    linked = linked_columns(case)
    rows = [(name, row) for name, each in way.insert.items() for row in each]
    columns = {
        each.name: {c for n, r in rows for at, v in enumerate(r) if v == each for c in linked[n, at]}
        for each in way.placeholders
    }
    there = [*case.facts, *case.insert, *case.delete]
    known = {each: {r[at] for n, r in there for at in range(len(r)) if (n, at) in cs} for each, cs in columns.items()}
    gone = frozenset((name, row) for name, each in way.delete.items() for row in each)
    for chosen in product(case.domain, repeat=len(way.placeholders)):
        values = {each.name: value for each, value in zip(way.placeholders, chosen, strict=True)}
        if meets(way.conditions, values):
            is_new = not any(values[each] in known[each] for each in values)
            came = frozenset(
                (n, tuple(values[v.name] if isinstance(v, Placeholder) else v for v in r)) for n, r in rows
            )
            yield (came - case.facts, gone), is_new, values


def check(case: Case) -> str:
    """Fails if a realization is none for the values that it was proven with, or if a minimal one is missing; otherwise
    the bound that cut the search short."""
    ways, cut = answered(case)
    shown = "\n".join([case.text, case.constraint, str((case.facts, case.insert, case.delete)),
                       *(f"{way.lines()} {way.conditions}" for way in ways), cut])  # fmt: skip
    for way in ways:
        proven = proven_update(case, way)
        assert meets(way.conditions, way.tried), ("the witness does not meet the conditions", way.tried, shown)
        assert is_realization(case, proven), ("no realization", proven, shown)
        assert is_minimal(case, proven), ("not minimal", proven, shown)
        assert does_as_stated(case, way, proven, way.tried), ("other effects", proven, way.text(), shown)
        for update, is_new, _ in instances(case, way):
            assert not is_new or is_realization(case, update), ("conditions are not sufficient", update, shown)
    if not cut:
        for minimal in minimal_realizations(case, MOST):
            assert any(is_part(case, way, minimal) for way in ways), ("missing", minimal, shown)
    return cut


def proven_update(case: Case, way: Realization) -> Update:
    """The changes with the values that they were proven with."""
    insert, delete = way.filled(way.tried)
    came, gone = (frozenset((n, r) for n, rows in each.items() for r in rows) for each in (insert, delete))
    return came - case.facts, gone


def is_part(case: Case, way: Realization, update: Update) -> bool:
    """Whether the changes of a realization, with some values for its placeholders, are part of an update."""
    rows = [(name, row) for name, each in way.insert.items() for row in each]
    gone = frozenset((name, row) for name, each in way.delete.items() for row in each)
    if not gone <= update[1]:
        return False
    for chosen in product(case.domain, repeat=len(way.placeholders)):
        values = {each.name: value for each, value in zip(way.placeholders, chosen, strict=True)}
        came = {(n, tuple(values[v.name] if isinstance(v, Placeholder) else v for v in r)) for n, r in rows}
        if came - case.facts <= update[0]:
            return True
    return False


def does_as_stated(case: Case, way: Realization, update: Update, values: dict[str, int]) -> bool:
    """Whether the rows that come and go are those that are shown, with these values for placeholders: a row that is
    there already does not come, and one that comes does not go."""
    before, after = models(case, update)
    changes = dict(way.effects.items())
    for name in {*reached(case), *before} - {"d", *(way.by_trial - reached(case))}:
        change = changes.get(name)
        stated = ((), ()) if change is None else (change.inserted, change.deleted)
        came, went = (
            {tuple(worked_out(value, values) for value in way.named(name, row)) for row in rows} for rows in stated
        )
        if after[name] - before[name] != came - before[name] or before[name] - after[name] != went - came:
            return False
    return True


def worked_out(value: object, values: dict[str, int]) -> object:
    """A value of a row that is shown, for these of its placeholders."""
    if isinstance(value, int):
        return value
    return eval(re.sub(r"\?\d+", lambda name: str(values[name[0]]), repr(value)), {}, {})


def reached(case: Case) -> set[str]:
    """The relations that the request hangs on."""
    below, size = {name for name, _ in (*case.insert, *case.delete)} | {"d"}, -1
    while len(below) != size:
        size = len(below)
        below |= {each.relation for rule in case.every_rule if rule.head.relation in below for each in rule.body}
    return below - {"d"}


@pytest.mark.slow
def test_conditions_are_sufficient_and_no_realization_is_missing() -> None:
    cuts, number = 0, case_count(8, least=40)
    for each in range(number):
        try:
            cuts += bool(check(random_case(seed_of("conditions on new values", each))))
        except ProgramError:
            continue
    assert cuts < number // 4
