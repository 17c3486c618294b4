"""Which rules set off which, which may go round, whose order matters."""

from __future__ import annotations

import pytest

from tests.check.programs import checked
from upshot.check.active.triggering import triggering

DECLARED = """
.decl quantity(item: symbol, n: number)
.decl threshold(item: symbol, n: number)
.decl orders(item: symbol, n: number)
.decl route(x: symbol, y: symbol)
.decl log(x: symbol, y: symbol)
.decl low(item: symbol)
.decl calm(item: symbol)
.decl total(item: symbol, n: number)
low(I) :- quantity(I, Q), threshold(I, T), Q < T.
calm(I) :- threshold(I, _), !low(I).
total(I, N) :- threshold(I, _), N = sum Q : { quantity(I, Q) }.
"""


def edges(text: str) -> list[str]:
    found = triggering(checked(DECLARED + text)).edges
    return [f"{e.source} {e.operation} {e.relation} > {e.target} by {' '.join(reversed(e.event))}" for e in found]


def cycles(text: str) -> list[list[str]]:
    return [[edge.source for edge in cycle] for cycle in triggering(checked(DECLARED + text)).cycles]


def said(text: str, slug: str) -> list[str]:
    return [warning.message for warning in checked(DECLARED + text).warnings if warning.slug == slug]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(".rule a(I) when low(I) do insert orders(I, 1).", [], id="the view does not rest on it"),
        pytest.param(
            ".rule a(I, Q) on insert quantity(I, Q) do insert threshold(I, Q).\n.rule b(I) when low(I) do call f(I).",
            ["a inserted threshold > b by inserted low"],
            id="through a view",
        ),
        pytest.param(
            ".rule a(I, Q) on insert quantity(I, Q) do insert threshold(I, Q).\n"
            ".rule b(I) on delete calm(I) do call f(I).",
            ["a inserted threshold > b by deleted calm"],
            id="a negation turns the sign",
        ),
        pytest.param(
            ".rule a(I, Q) on insert threshold(I, Q) do delete quantity(I, Q).\n"
            ".rule b(I) when total(I, N), N > 5 do call f(I).",
            ["a deleted quantity > b by inserted b_becomes"],
            id="an aggregate can go either way",
        ),
        pytest.param(
            ".rule a(X, Y) when route(X, Y), !log(X, Y) do insert log(X, Y).", [], id="it makes its condition false"
        ),
        pytest.param(".rule a(X, Y) when route(X, Y) do delete route(X, Y).", [], id="it takes its reason away"),
        pytest.param(
            ".rule a(I) when quantity(I, Q), Q < 10 do delete quantity(I, Q), insert quantity(I, 100).",
            [],
            id="a constant that the condition excludes",
        ),
        pytest.param(
            ".rule a(I) when quantity(I, Q), Q < 10 do delete quantity(I, Q), insert quantity(I, 9).",
            ["a inserted quantity > a by inserted a_becomes"],
            id="a constant that it does not exclude",
        ),
        pytest.param(
            '.rule a(X) on insert log("in", X) do insert log("out", X).', [], id="an event with another constant"
        ),
        pytest.param(
            '.rule a(X) on insert log(_, X) do insert log("out", X).',
            ["a inserted log > a by inserted log"],
            id="an event with any value",
        ),
        pytest.param(
            ".rule a(X, Y) when inserted route(X, Y), log(X, _) do insert log(X, Y).", [], id="only the event counts"
        ),
        pytest.param(
            ".rule a(X, Y) semantics=nervous when route(X, Y), log(X, _) do insert log(X, Y).",
            ["a inserted log > a by inserted log"],
            id="nervous rules answer every literal",
        ),
        pytest.param(
            ".rule a(X, Y) semantics=strict on insert route(X, Y) when log(X, _) do insert log(X, Y).",
            [],
            id="a condition is no event",
        ),
    ],
)
def test_an_edge_is_a_change_that_the_other_rule_answers(text: str, expected: list[str]) -> None:
    assert edges(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            ".rule a(I, N) when quantity(I, N) do insert quantity(I, N + 1).", [["a"]], id="new values without end"
        ),
        pytest.param(".rule a(X, Y) when route(X, Z), route(Z, Y) do insert route(X, Y).", [], id="finitely many rows"),
        pytest.param(
            ".rule a(X, Y) on insert route(X, Y) do delete route(X, Y), insert log(X, Y).\n"
            ".rule b(X, Y) on insert log(X, Y) do delete log(X, Y), insert route(X, Y).",
            [["a", "b"]],
            id="to and fro",
        ),
        pytest.param(
            ".rule a(X, Y) on insert route(X, Y) do insert log(X, Y).\n"
            ".rule b(X, Y) on insert log(X, Y) do insert route(X, Y).\n"
            ".rule c(X, Y) on insert log(X, Y) do delete log(X, Y), delete route(X, Y).",
            [["a", "b"]],
            id="a third rule takes away what two put there",
        ),
        pytest.param(
            ".rule a(I, N) when total(I, N) do insert quantity(I, N).", [["a"]], id="values that a view computes"
        ),
        pytest.param(
            ".rule a(X) on delete route(X, Y) when log(X, Z) do delete log(X, Y), delete route(X, Z).",
            [],
            id="only deletions",
        ),
    ],
)
def test_cycles_are_named_unless_they_must_end(text: str, expected: list[list[str]]) -> None:
    assert cycles(text) == expected


def test_a_cycle_is_told_rule_by_rule() -> None:
    text = (
        ".rule a(X, Y) on insert route(X, Y) do delete route(X, Y), insert log(X, Y).\n"
        ".rule b(X, Y) precedes=a on insert log(X, Y) do delete log(X, Y), insert route(X, Y)."
    )
    assert said(text, "rules-may-not-terminate") == [
        "rules `a` → `b` may not terminate: `a` triggers `b` by inserting into `log`, "
        "`b` triggers `a` by inserting into `route`"
    ]
    assert said(text, "rule-order-matters") == []


READER = ".rule a(X, Y) {} on insert route(X, Y) when !log(X, _) do insert orders(X, 1).\n"
WRITER = ".rule b(X, Y) {} on insert route(X, Y) do insert log(X, Y)."


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "", 1),
        ("precedes=b", "", 0),
        ("", "precedes=a", 0),
        ("", "follows=a", 0),
        ("priority=1", "", 0),
        ("", "coupling=immediate", 0),
    ],
)
def test_rules_whose_order_matters_are_asked_for_one(first: str, second: str, expected: int) -> None:
    text = READER.format(first) + WRITER.format(second)
    assert len(said(text, "rule-order-matters")) == expected


def test_an_order_through_a_third_rule_is_an_order() -> None:
    between = "\n.rule c(X) follows=a precedes=b on delete log(X, _) do insert orders(X, 2)."
    assert said(READER.format("") + WRITER.format("") + between, "rule-order-matters") == []


def test_the_reason_is_told() -> None:
    assert said(READER.format("") + WRITER.format(""), "rule-order-matters") == [
        "rules `a` and `b` have no order: `b` inserts into `log`, which `a` reads"
    ]
    both = (
        ".rule a(X, Y) on insert route(X, Y) do insert log(X, Y).\n"
        ".rule b(X, Y) on delete route(X, Y) do delete log(X, Y)."
    )
    assert said(both, "rule-order-matters") == [
        "rules `a` and `b` have no order: `a` inserts into `log`, and `b` deletes from it"
    ]
