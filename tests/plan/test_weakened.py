"""Plans that ask less, so that they cannot fail."""

from __future__ import annotations

from tests.plan.plans import compiled
from upshot.plan.component_plans import stage_plans
from upshot.plan.rule_plan import RulePlan
from upshot.plan.weakened import reads_any, weakened

PROGRAM = """
.decl e(x: number, y: number)
.decl s(x: number, t: symbol)
.decl p(x: number, y: number)
p(X, Y) :- e(X, Y).
p(X, Z) :- p(X, Y), e(Y, W), Z = Y / W, Z < 9, s(Z, T), match("a.*", T), Y != W, !e(Z, Z).
"""


class _NoStatistics:
    def size(self, relation: str) -> int:
        return 100

    def keys(self, relation: str, columns: tuple[int, ...]) -> int | None:
        return None


def _plan(head: str) -> RulePlan:
    plan = compiled(PROGRAM)
    (component,) = [each for each in plan.components if each.views == ("p",)]
    plans = stage_plans(component, "insert", _NoStatistics())
    return next(each for each in plans if each.driver is not None and str(each).split("\n")[1].endswith(head))


def test_what_is_computed_and_what_needs_it_is_left_out() -> None:
    plan = _plan("inserted row of e(Y, W)")
    assert reads_any(plan, ["p"])
    assert str(weakened(plan, [0], ["p"])).split("\n")[1:] == [
        "    for each inserted row of e(Y, W)",
        "    test Y != W",
        "    probe p(X, Y) on column 1",
        "    insert p(X)",
    ]


def test_a_view_that_is_found_by_what_is_computed_is_read_whole() -> None:
    plan = compiled(
        ".decl e(x: number, y: number) .decl p(x: number, y: number)\n"
        "p(X, Y) :- e(X, Y). p(X, Z) :- e(V, Z), Y = V + 1, p(X, Y)."
    )
    (component,) = plan.components
    (driven,) = [
        each for each in stage_plans(component, "insert", _NoStatistics()) if each.seed and reads_any(each, ["p"])
    ]
    assert str(weakened(driven, [0], ["p"])).split("\n")[1:] == [
        "    for each inserted row of e(V, Z)",
        "    scan p(X)",
        "    insert p(X)",
    ]
