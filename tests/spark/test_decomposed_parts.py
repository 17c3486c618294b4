"""Parts of a decomposed recursion, run one by one as the workers run them, are together what the oracle derives."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.engine.driver import plain
from tests.properties.cases import Case, after
from tests.properties.random_programs import Features, random_case
from tests.properties.settings import case_count, is_slice, seed_of
from tests.spark.parts import PartsRun, decomposed, everything
from upshot.check import check
from upshot.core.errors import DataError, ProgramError
from upshot.engine.spark.recursion import shard
from upshot.syntax import parse

pytest.importorskip("pyspark")

FOCUSES = [
    Features(recursion=1, nonlinear=0.5, mutual=0.4, aggregates=0.05, arithmetic=0.1, constants=0.03, views=3),
    Features(recursion=1, nonlinear=0.2, mutual=0.5, nullable=0.5, aggregates=0, wildcards=0.1, constants=0.02),
    Features(recursion=1, exotic=0.5, strings=0.2, nullable=0.2, aggregates=0, columns=(2, 2, 3)),
]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2 if is_slice() else 4))
def test_the_parts_of_random_recursions_are_together_what_the_oracle_derives(part: int) -> None:
    tried = 0
    for number in range(case_count(64, least=30)):
        case = random_case(seed_of("parts", number * 4 + part), FOCUSES[number % len(FOCUSES)])
        try:
            tried += _check(case)
        except (ProgramError, DataError):
            continue
    assert tried >= 5


def _check(case: Case) -> int:
    """How many components were checked."""
    program = check(parse(case.text()))
    states = [case.base]
    for transaction in case.transactions:
        states.append(after(states[-1], transaction))
    contents = [{name: plain(rows) for name, rows in everything(program, state).items()} for state in states]
    components = decomposed(program)
    for found in components:
        rng = random.Random(case.seed)
        run = PartsRun(found, rng)
        made = run.load(contents[0])
        assert made == {view: contents[0][view] for view in found.views}, f"{case.text()}\n{found}"
        for old, new in itertools.pairwise(contents):
            expected = {view: (new[view] - old[view], old[view] - new[view]) for view in found.views}
            assert run.change(old, new) == expected, f"{case.text()}\n{found}"
    return len(components)


@pytest.mark.parametrize("kind", ["number", "symbol"])
def test_a_part_is_worked_off_step_by_step_and_text_is_not_reclaimed_meanwhile(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard, "AT_ONCE", 500)
    program = check(
        parse(
            f".decl e(x: number, y: number) .decl at(u: {kind}, x: number) .decl p(u: {kind}, x: number)\n"
            "p(U, X) :- at(U, X). p(U, Y) :- p(U, X), e(X, Y)."
        )
    )
    name = str if kind == "symbol" else int
    edges = {(x, x + 1) for x in range(3)}
    old = {"e": edges, "at": {(name(user), user % 2) for user in range(9000)}}
    new = {"e": edges - {(1, 2)}, "at": {(u, 1 - x if int(u) < 100 else x) for u, x in old["at"]}}
    for state in (old, new):
        state["p"] = {(u, y) for u, x in state["at"] for y in range(x, 4 if (1, 2) in state["e"] else 2)}
    (found,) = decomposed(program)
    run = PartsRun(found, random.Random(1), count=1)
    assert run.load(old) == {"p": old["p"]}
    assert run.change(old, new) == {"p": (new["p"] - old["p"], old["p"] - new["p"])}
