"""The minimal realizations of a request by trying every base update over a finite domain."""

from __future__ import annotations

from itertools import combinations

from tests.revise.random_requests import Case, Fact
from upshot.check import check
from upshot.check.program import CheckedProgram
from upshot.engine.naive import evaluate
from upshot.syntax import parse

Update = tuple[frozenset[Fact], frozenset[Fact]]


def checked(text: str) -> CheckedProgram:
    return check(parse(text))


def minimal_realizations(case: Case, most: int | None = None) -> set[Update]:
    """All of them, or all with at most so many changes."""
    program = checked(case.text)
    before = _violations(program, case.facts)
    found: list[frozenset[Fact]] = []
    atoms = case.atoms
    for size in range((len(atoms) if most is None else most) + 1):
        for flipped in combinations(atoms, size):
            changed = frozenset(flipped)
            if not any(smaller <= changed for smaller in found) and _realizes(program, case, changed, before):
                found.append(changed)
    return {(changed - case.facts, changed & case.facts) for changed in found}


def _realizes(program: CheckedProgram, case: Case, changed: frozenset[Fact], before: set[Fact]) -> bool:
    model = _model(program, case.facts ^ changed)
    return (
        all(fact in model for fact in case.insert)
        and not any(fact in model for fact in case.delete)
        and {fact for fact in model if fact[0] in program.constraints} <= before
    )


def _violations(program: CheckedProgram, facts: frozenset[Fact]) -> set[Fact]:
    return {fact for fact in _model(program, facts) if fact[0] in program.constraints}


def _model(program: CheckedProgram, facts: frozenset[Fact]) -> set[Fact]:
    base: dict[str, set[tuple[int, ...]]] = {}
    for name, row in facts:
        base.setdefault(name, set()).add(row)
    return {(view, row) for view, rows in evaluate(program, base).items() for row in rows} | set(facts)
