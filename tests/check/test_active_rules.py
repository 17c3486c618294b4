"""Active rules as they are understood: instances, identity, triggers, clauses, actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.programs import checked, warnings
from upshot.check import print_checked
from upshot.check.names.variables import atoms
from upshot.check.printing import print_rules
from upshot.core.schema import Role

_TEXT = (Path(__file__).parent / "active_rules.txt").read_text(encoding="utf-8")
DECLARED, *_BLOCKS = _TEXT.split("\n==== ")


def _cases() -> list[tuple[str, str, str]]:
    """Blocks of `active_rules.txt`: a title, rules, and behind `---` how they are understood."""
    found = []
    for block in _BLOCKS:
        title, _, rest = block.partition("\n")
        text, _, meant = rest.partition("\n---\n")
        found.append((title, text, meant.strip("\n")))
    return found


@pytest.mark.parametrize(("text", "meant"), [pytest.param(text, meant, id=title) for title, text, meant in _cases()])
def test_a_rule_is_understood_like_this(text: str, meant: str) -> None:
    assert print_rules(checked(DECLARED + text)).strip("\n") == meant


@pytest.mark.parametrize("text", [pytest.param(text, id=title) for title, text, _ in _cases()])
def test_what_a_rule_reads_is_there(text: str) -> None:
    """Every relation in a clause is known, every window is used, and every instance column is bound to an action."""
    program = checked(DECLARED + text)
    for rule in program.rules:
        windows = {table.schema.name: table for table in rule.windows}
        clauses = (*rule.clauses, *rule.before)
        used = {atom.relation for clause in clauses for literal in clause.body for atom in atoms(literal)}
        assert windows.keys() <= used
        assert used <= windows.keys() | rule.helpers.keys() | program.schemas.keys()
        assert windows.keys().isdisjoint(program.schemas)
        assert rule.helpers.keys().isdisjoint(program.schemas)
        assert {clause.head.relation for clause in rule.clauses} <= {rule.name, *rule.helpers}
        places = range(rule.instance.arity)
        assert set(rule.identity) <= set(places)
        assert {place for action in rule.actions for place in action.columns} <= set(places)


def test_the_view_of_a_condition_is_hidden() -> None:
    program = checked(DECLARED + ".rule r(I) strategy=rod when low(I) do insert orders(I, 1).\n.output low")
    assert program.hidden == {"r_becomes"}
    assert program.schemas["r_becomes"].role is Role.VIEW
    assert program.strata[-1] == ("r_becomes",)
    assert program.options["r_becomes"].strategy == "rod"
    assert "r_becomes" not in print_checked(program)


def test_a_rule_that_changes_and_calls_is_told_when_it_runs() -> None:
    rule = ".rule r(I) {} when low(I) do insert orders(I, 1), call tell(I)."
    assert [slug for slug, _ in warnings(DECLARED + rule.format(""))] == ["call-before-commit"]
    assert warnings(DECLARED + rule.format("coupling=deferred")) == []


def test_a_variable_that_occurs_once_is_doubtful() -> None:
    assert ("singleton-variable", "M") in warnings(DECLARED + ".rule r(I) when quantity(I, M) do call tell(I).")
    assert warnings(DECLARED + ".rule r(I) when quantity(I, N) do call tell(I, N).") == []


def test_the_type_that_an_action_needs_is_the_type_of_the_constant() -> None:
    program = checked(".decl p(x: number)\n.decl f(x: float)\n.rule r(X) when p(X), Y = 2 do insert f(Y), insert f(3).")
    assert [str(column.type) for column in program.rules[0].instance.columns] == ["number", "float", "float"]


def test_what_actions_use_beside_the_parameters_comes_with_an_instance() -> None:
    text = """
        .rule fix(I) when low(I) do insert price(I, 5), insert orders(I, 1 + 2), delete price(I, null).
        .rule said(X) when low(X), quantity(X, N) do call tell(X, N, "text").
    """
    fix, said = checked(DECLARED + text).rules
    columns = "I: symbol, column_2: decimal(8,2), column_3: number, column_4: decimal(8,2)?"
    assert (str(fix.instance), str(fix.visible)) == (f"fix({columns})", "fix(I: symbol)")
    assert (str(said.instance), str(said.visible)) == (
        "said(X: symbol, N: number, column_3: symbol)",
        "said(X: symbol)",
    )
