"""Which strategy each view gets, the reasons given for it, and what is refused."""

from __future__ import annotations

import pytest

from tests.plan.plans import compiled
from upshot.check.options import STRATEGIES
from upshot.core.errors import ProgramError

PROGRAM = """
.decl e(x: number, y: number)
.decl flat(x: number)
.decl rec(x: number, y: number)
.decl odd(x: number)
.decl even(x: number)
.decl agg(x: number, n: number)
flat(X) :- e(X, _), !e(_, X).
rec(X, Y) :- e(X, Y).
rec(X, Y) :- rec(X, Z), e(Z, Y).
even(0).
odd(Y) :- even(X), e(X, Y).
even(Y) :- odd(X), e(X, Y).
agg(X, N) :- e(X, _), N = count : { e(X, _) }.
"""


def test_recursive_views_are_maintained_and_the_others_counted() -> None:
    plan = compiled(PROGRAM)
    strategies = {view: choice.strategy for view, choice in plan.strategies.items() if view in plan.source.schemas}
    assert strategies == {
        "flat": "counting",
        "rec": "maintenance",
        "odd": "maintenance",
        "even": "maintenance",
        "agg": "maintenance",
    }
    assert "aggregate" in plan.strategies["agg"].reasons[0]
    assert {choice.strategy for choice in plan.strategies.values()} == {"counting", "maintenance", "aggregate"}


def test_every_view_that_runs_has_a_choice_with_reasons() -> None:
    plan = compiled(PROGRAM)
    views = {view for component in plan.components for view in component.views}
    assert views == set(plan.strategies) == {view for component in plan.normal.strata for view in component}
    for view, choice in plan.strategies.items():
        assert choice.view == view
        assert choice.reasons
        assert all(reason and reason[0].islower() for reason in choice.reasons), choice.reasons
    assert "recursive" in plan.strategies["rec"].reasons[0]
    assert "not recursive" in plan.strategies["flat"].reasons[0]


def test_components_come_in_the_order_of_evaluation() -> None:
    plan = compiled(PROGRAM)
    done: set[str] = {name for name, schema in plan.normal.schemas.items() if schema.role.value == "base"}
    for component in plan.components:
        assert component.reads <= done, component.views
        done |= set(component.views)
    (mutual,) = [component for component in plan.components if "odd" in component.views]
    assert set(mutual.views) == {"odd", "even"}
    assert mutual.recursive


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "auto"])
def test_what_is_asked_for_is_what_is_done(strategy: str) -> None:
    plan = compiled(PROGRAM + f".view flat strategy={strategy}")
    assert plan.strategies["flat"].strategy == strategy
    assert plan.strategies["flat"].reasons == (f"requested by `.view flat strategy={strategy}`",)


@pytest.mark.parametrize("strategy", ["maintenance", "bf", "recompute", "production"])
def test_views_of_one_component_are_kept_alike(strategy: str) -> None:
    plan = compiled(PROGRAM + f".view odd strategy={strategy}")
    assert plan.strategies["even"].strategy == plan.strategies["odd"].strategy == strategy
    if strategy == "recompute":
        assert any("component" in reason for reason in plan.strategies["even"].reasons)


def test_auxiliary_views_of_production_rules_are_kept_by_production_rules() -> None:
    text = """
    .decl e(x: number, y: number) .decl p(x: number) .decl q(x: number)
    p(X) :- e(X, _), !e(_, X). q(X) :- e(X, _), 2 < count : { e(X, _) }.
    """
    alone = compiled(text + ".view p strategy=production")
    hidden = [view for view in alone.strategies if view not in alone.source.schemas]
    assert len(hidden) >= 2
    kept = {view: alone.strategies[view].strategy for view in hidden}
    assert sorted(kept.values()).count("production") == 1
    assert set(kept.values()) <= {"production", "counting", "maintenance", "aggregate"}
    both = compiled(text + ".view p strategy=production .view q strategy=production")
    assert {choice.strategy for choice in both.strategies.values()} == {"production", "aggregate"}


def test_the_policy_full_means_recompute() -> None:
    choice = compiled(PROGRAM + ".view rec policy=full").strategies["rec"]
    assert choice.strategy == "recompute"
    assert "policy=full" in choice.reasons[0]


def test_the_strategy_auto_is_no_wish() -> None:
    assert compiled(PROGRAM + ".view rec strategy=auto").strategies == compiled(PROGRAM).strategies


def refusals(text: str) -> list[tuple[str, str, str]]:
    with pytest.raises(ProgramError) as caught:
        compiled(text)
    return [(each.slug, each.message, each.help) for each in caught.value.diagnostics]


def test_a_view_that_is_not_to_be_stored_is_computed_on_demand_with_all_that_only_it_uses() -> None:
    plan = compiled(PROGRAM + ".view flat materialized=false")
    assert plan.strategies["flat"].strategy == "epf"
    assert "materialized=false" in plan.strategies["flat"].reasons[0]
    assert plan.on_demand.unstored >= {"flat"}
    assert "rec" not in plan.on_demand.strategies
    others = [[name for name, _ in compiled(PROGRAM + f".view {v} materialized=false").strategies[v].others]
              for v in ("flat", "rec")]  # fmt: skip
    assert others == [["rod", "differencing", "propagation", stored] for stored in ("counting", "maintenance")]


def test_a_view_over_one_on_demand_is_on_demand_too_and_keeps_a_copy() -> None:
    text = ".decl e(x: number) .decl p(x: number) .decl q(x: number) p(X) :- e(X). q(X) :- p(X)."
    plan = compiled(text + " .view p strategy=rod")
    assert plan.on_demand.strategies == {"p": "rod", "q": "rod"}
    assert plan.on_demand.kept == {"q"}
    assert "`p`" in plan.strategies["q"].reasons[0]
    ((slug, message, help),) = refusals(text + " .view p strategy=rod .view q strategy=counting")
    assert (slug, "`p`" in message, "`epf`" in help) == ("strategy-not-applicable", True, True)
    assert compiled(text + " .view p strategy=rod materialized=true").on_demand.kept == {"p", "q"}


@pytest.mark.parametrize("order", [("p", "q"), ("q", "p")])
def test_every_view_of_a_component_that_asks_not_to_be_stored_is_not(order: tuple[str, str]) -> None:
    """Also the second to ask, in the order of evaluation."""
    declared = "".join(f".decl {name}(x: number) " for name in ("e", *order))
    rules = "p(X) :- e(X). p(X) :- q(X). q(X) :- p(X)."
    plan = compiled(f"{declared}{rules} .view p strategy=epf events=none .view q strategy=epf")
    assert plan.on_demand.unstored == {"p", "q"}
    assert plan.needed_changes() == {"q": ("plus", "minus")}


@pytest.mark.parametrize("strategy", ["maintenance", "bf", "counting", "recompute"])
def test_strategies_that_work_on_stored_rows_cannot_do_without_them(strategy: str) -> None:
    ((slug, message, help),) = refusals(PROGRAM + f".view flat strategy={strategy} materialized=false")
    assert slug == "strategy-not-applicable"
    assert f"`{strategy}`" in message
    assert "`rod`" in help


@pytest.mark.parametrize("policy", ["strict", "incremental"])
def test_a_policy_that_forbids_to_recompute_and_a_strategy_that_does_nothing_else(policy: str) -> None:
    ((slug, message, _),) = refusals(PROGRAM + f".view flat strategy=recompute policy={policy}")
    assert slug == "strategy-not-applicable"
    assert f"`{policy}`" in message


def test_every_automatic_choice_names_the_runners_up_and_why_not() -> None:
    choices = compiled(PROGRAM).strategies
    assert [name for name, _ in choices["rec"].others] == ["counting", "epf", "recompute"]
    assert [name for name, _ in choices["flat"].others] == ["maintenance", "epf", "recompute"]


@pytest.mark.parametrize("view", ["rec", "odd"])
def test_derivations_of_a_recursive_view_cannot_be_counted(view: str) -> None:
    ((slug, message, help),) = refusals(PROGRAM + f".view {view} strategy=counting")
    assert slug == "strategy-not-applicable"
    assert f"`{view}`" in message
    assert "recursive" in message
    assert help == "use `maintenance`"


@pytest.mark.parametrize("order", [("odd", "even"), ("even", "odd")])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("strategy=maintenance", "strategy=epf"),
        ("strategy=maintenance", "strategy=bf"),
        ("strategy=rod", "strategy=epf"),
        ("strategy=production", "strategy=maintenance"),
        ("strategy=recompute", "strategy=maintenance"),
        ("strategy=maintenance", "materialized=false"),
        ("strategy=production", "materialized=false"),
        ("strategy=production materialized=false", "strategy=production"),
        ("strategy=production materialized=false", "strategy=rod"),
        ("policy=full", "strategy=maintenance"),
        ("policy=full", "materialized=false"),
        ("policy=full", "policy=strict"),
        ("strategy=recompute", "policy=incremental"),
    ],
)
def test_views_of_one_component_cannot_ask_for_strategies_that_exclude_each_other(
    one: str, other: str, order: tuple[str, str]
) -> None:
    ((slug, message, help),) = refusals(PROGRAM + f".view {order[0]} {one}\n.view {order[1]} {other}")
    assert slug == "conflicting-strategies"
    assert f"`.view {order[0]} {one}`" in message
    assert f"`.view {order[1]} {other}`" in message
    assert "same strategy" in help


@pytest.mark.parametrize("order", [("odd", "even"), ("even", "odd")])
@pytest.mark.parametrize(
    ("one", "other", "strategy"),
    [
        ("strategy=rod", "materialized=false", "rod"),
        ("strategy=bf", "strategy=bf policy=strict", "bf"),
        ("strategy=maintenance", "strategy=auto", "maintenance"),
        ("strategy=rod", "strategy=rod materialized=true", "rod"),
        ("strategy=recompute", "policy=full", "recompute"),
    ],
)
def test_views_of_one_component_that_admit_one_strategy_get_it_in_any_order(
    one: str, other: str, strategy: str, order: tuple[str, str]
) -> None:
    plan = compiled(PROGRAM + f".view {order[0]} {one}\n.view {order[1]} {other}")
    assert plan.strategies["odd"].strategy == plan.strategies["even"].strategy == strategy


def test_views_that_do_not_depend_on_each_other_may_have_different_strategies() -> None:
    plan = compiled(PROGRAM + ".view rec strategy=bf .view odd strategy=epf .view flat strategy=recompute")
    assert [plan.strategies[view].strategy for view in ("rec", "even", "flat")] == ["bf", "epf", "recompute"]


def test_all_refusals_come_at_once_and_point_into_the_text() -> None:
    text = PROGRAM + ".view rec strategy=counting\n.view odd strategy=counting"
    with pytest.raises(ProgramError) as caught:
        compiled(text)
    assert sorted(each.slug for each in caught.value.diagnostics) == [
        "strategy-not-applicable",
        "strategy-not-applicable",
    ]
    assert all(each.span is not None for each in caught.value.diagnostics)


def test_a_plan_is_the_same_every_time() -> None:
    assert compiled(PROGRAM).components == compiled(PROGRAM).components
    assert compiled(PROGRAM).normal == compiled(PROGRAM).normal
