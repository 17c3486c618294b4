"""The solver is built again as seldom as it can be, and as often as it has to be."""

from __future__ import annotations

import clingo
import pytest

import upshot
from upshot.revise.solver import Solver


def loop(*, in_two_steps: bool) -> bool:
    """True if `p :- q. q :- p.` has a model with `p`."""
    control = clingo.Control(["--warn=none"])
    with control.backend() as backend:
        p, q = backend.add_atom(), backend.add_atom()
        backend.add_rule([p], [q])
        if in_two_steps:
            backend.add_external(q, clingo.TruthValue.Free)
        else:
            backend.add_rule([q], [p])
    if in_two_steps:
        control.solve()
        with control.backend() as backend:
            backend.add_rule([q], [p])
    return bool(control.solve(assumptions=[p]).satisfiable)


def test_clingo_finds_loops_only_in_rules_that_it_was_given_together() -> None:
    """The reason why rules are not added to a solver later: if this fails, look again."""
    assert not loop(in_two_steps=False)
    assert loop(in_two_steps=True)


def test_clingo_takes_no_further_rule_for_a_row_later() -> None:
    control = clingo.Control(["--warn=none"], logger=lambda *_: None)
    with control.backend() as backend:
        p, q = backend.add_atom(), backend.add_atom()
        backend.add_rule([p], [], choice=True)
    control.solve()
    with pytest.raises(RuntimeError, match="redefinition"), control.backend() as backend:
        backend.add_rule([p], [q])


def test_repairs_that_follow_from_each_other_are_found_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    start = Solver.__init__

    def counted(self: Solver, *args: object) -> None:
        built.append(self)
        start(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Solver, "__init__", counted)
    length = 200
    with upshot.connect() as db:
        db.define(
            ".decl next(x: number, y: number) .decl node(x: number) "
            ".deny missing(X, Y) :- node(X), next(X, Y), !node(Y)."
        )
        with db.transaction() as tx:
            tx.insert("next", [(i, i + 1) for i in range(length)])
        bounds = upshot.Bounds(rounds=length, seconds=100)
        found = db.realize({"node": [(0,)]}, frozen=["next"], bounds=bounds)
        assert next(found).size == length + 1
        assert len(built) < 8
        few = db.realize({"node": [(0,)]}, frozen=["next"], bounds=upshot.Bounds(rounds=length // 2, seconds=100))
        assert list(few) == []
        assert few.reason == "none found within 100 rounds"
