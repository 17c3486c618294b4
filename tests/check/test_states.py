"""Conditions over several states mean what they say: their clauses, evaluated over the current state and the tables of
a window, give what the condition gives when every state is a relation of its own. NULL included."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.check.programs import checked
from tests.properties.settings import base_seed, case_count
from upshot.check import CheckedProgram, Clause, stratify
from upshot.check.program import CheckedRule
from upshot.core.schema import Schema
from upshot.engine.naive import Row, evaluate

DECLARED = """
.decl p(x: number?, y: number)
.decl q(x: number?)
.decl s(x: number, y: number)
"""
RELATIONS = ("p", "q", "s")
Tables = dict[str, set[Row]]

TRANSITIONS = [
    "old p(X, Y)",
    "old p(X, Y), !p(X, Y)",
    "p(X, Y), !old p(X, Y)",
    "p(X, Y), !old p(_, Y)",
    "p(X, Y), !old p(X, _)",
    "s(Y, X), !old s(X, _), !old s(_, Y)",
    "old p(X, _), s(Y, _)",
    "old p(_, Y), inserted q(X)",
    "inserted p(X, Y), deleted s(Y, _)",
    "p(X, Y), !inserted p(_, Y)",
    "q(X), Y = count : { old p(X, _) }",
    "q(X), Y = count : { s(Z, _), !old s(_, Z) }",
    "q(X), Y = count : { old s(_, _) }, !inserted q(X)",
    "s(X, _), Y = sum Z : { old s(X, Z), !deleted s(Z, _) }",
    "old q(X), s(Y, 1 + X), !old s(Y + 1, _)",
    "old q(X), old s(Y, _) ; !old q(X), p(X, Y)",
    "old p(X, Y), is_null(X)",
    "old p(1, Y), old q(X)",
]
EVENTS = [
    "p(X, Y)",
    "p(X, Y), !s(Y, _)",
    "s(Y, Z), !p(Z, _)",
    "q(X), s(Y, _)",
    "s(Y, _), 1 < count : { p(_, Y) }",
    "s(Y, _), 1 < count : { s(_, Y), !p(_, Y) }",
    "q(X), s(Y, Y) ; p(_, Y)",
]


def transitions(seed: int) -> tuple[Tables, Tables]:
    """A state, and one a few rows away from it."""
    rng = random.Random(seed)
    some, maybe = [0, 1, 2], [0, 1, 2, None]
    every: dict[str, list[Row]] = {
        "p": [(x, y) for x in maybe for y in some],
        "q": [(x,) for x in maybe],
        "s": [(x, y) for x in some for y in some],
    }
    old = {name: {row for row in rows if rng.random() < 0.4} for name, rows in every.items()}
    new = {name: {row for row in rows if (row in old[name]) != (rng.random() < 0.25)} for name, rows in every.items()}
    return old, new


def given(rule: CheckedRule, old: Tables, new: Tables) -> Tables:
    """The current state and the tables of the window."""
    found = dict(new)
    for table in rule.windows:
        came, went = new[table.relation] - old[table.relation], old[table.relation] - new[table.relation]
        found[table.schema.name] = came if table.operation == "inserted" else went
    return found


def answer(
    program: CheckedProgram, rule: CheckedRule, schema: Schema, clauses: Iterable[Clause], tables: Tables
) -> set[Row]:
    schemas = {name: program.schemas[name] for name in RELATIONS}
    schemas |= {table.schema.name: table.schema for table in rule.windows} | dict(rule.helpers) | {schema.name: schema}
    clauses = tuple(clauses)
    heads = {clause.head.relation for clause in clauses} | {schema.name}
    schemas = {name: each for name, each in schemas.items() if name in tables or name in heads}
    if not clauses:
        return set()
    meant = CheckedProgram(schemas, clauses, {}, stratify(schemas, clauses))
    return evaluate(meant, {name: rows for name, rows in tables.items() if name in schemas})[schema.name]


def direct(columns: str, condition: str, old: Tables, new: Tables) -> set[Row]:
    """The condition over relations that are the states."""
    names = {"old": "was", "inserted": "came", "deleted": "gone"}
    text = re.sub(r"\b(old|inserted|deleted) (\w+)", lambda m: f"{m[2]}_{names[m[1]]}", condition)
    states = "".join(
        re.sub(rf"\.decl {name}\(", f".decl {name}_{state}(", line) + "\n"
        for name in RELATIONS
        for line in DECLARED.splitlines()
        if line.startswith(f".decl {name}(")
        for state in names.values()
    )
    heads = ", ".join(f"{each.lower()}: number?" for each in columns.split(", "))
    program = checked(f"{DECLARED}{states}.decl answer({heads})\nanswer({columns}) :- {text}.")
    tables = dict(new)
    for name in RELATIONS:
        tables[f"{name}_was"] = old[name]
        tables[f"{name}_came"], tables[f"{name}_gone"] = new[name] - old[name], old[name] - new[name]
    return evaluate(program, tables)["answer"]


@pytest.mark.parametrize("condition", TRANSITIONS)
def test_a_condition_over_transitions_means_what_it_says(condition: str) -> None:
    program = checked(DECLARED + f".rule r(X, Y) when {condition} do call f(X, Y).")
    (rule,) = program.rules
    for seed in range(base_seed(), base_seed() + case_count(20)):
        old, new = transitions(seed)
        found = answer(program, rule, rule.instance, rule.clauses, given(rule, old, new))
        assert found == direct("X, Y", condition, old, new), f"transitions({seed})"


@pytest.mark.parametrize("condition", EVENTS)
def test_what_met_an_event_before_is_found_in_the_old_state(condition: str) -> None:
    program = checked(DECLARED + f".rule r(Y) semantics=strict on insert s(Y, _) when {condition} do call f(Y).")
    (rule,) = program.rules
    assert rule.before_schema is not None
    before = re.sub(r"\b([pqs])\(", r"old \1(", condition)
    for seed in range(base_seed(), base_seed() + case_count(20)):
        old, new = transitions(seed)
        tables = given(rule, old, new)
        met = answer(program, rule, rule.instance, rule.clauses, tables)
        assert met == direct("Y", f"inserted s(Y, _), ({condition})", old, new), f"transitions({seed})"
        held = answer(program, rule, rule.before_schema, rule.before, tables)
        assert held == direct("Y", f"inserted s(Y, _), ({before})", old, new), f"transitions({seed})"


@pytest.mark.parametrize(
    "condition", ["p(X, Y)", "p(X, Y), !s(Y, _)", "p(X, Y), q(X) ; q(X), s(_, Y)", "q(X), s(Y, _)"]
)
def test_a_condition_becomes_true_by_identity_also_for_null(condition: str) -> None:
    program = checked(DECLARED + f".rule r(X) semantics=strict when {condition} do call f(X, Y).")
    (rule,) = program.rules
    assert rule.becomes is not None
    for seed in range(base_seed(), base_seed() + case_count(20)):
        old, new = transitions(seed)
        states = [evaluate(program, tables)[rule.becomes] for tables in (old, new)]
        tables = new | {rule.windows[0].schema.name: states[1] - states[0]}
        found = answer(program, rule, rule.instance, rule.clauses, tables)
        now = direct("X, Y", condition, old, new)
        assert found == {row for row in now if row[:1] in states[1] - states[0]}, f"transitions({seed})"


def test_nervous_rules_find_what_a_changed_row_derives() -> None:
    condition = "p(X, Y), !s(Y, _)"
    program = checked(DECLARED + f".rule r(X, Y) semantics=nervous when {condition} do call f(X, Y).")
    (rule,) = program.rules
    through = "inserted p(X, Y), !s(Y, _) ; p(X, Y), !s(Y, _), deleted s(Y, _)"
    for seed in range(base_seed(), base_seed() + case_count(20)):
        old, new = transitions(seed)
        found = answer(program, rule, rule.instance, rule.clauses, given(rule, old, new))
        assert found == direct("X, Y", through, old, new), f"transitions({seed})"


def test_the_oracle_of_these_tests_sees_differences() -> None:
    program = checked(DECLARED + ".rule r(X, Y) when old p(X, Y) do call f(X, Y).")
    (rule,) = program.rules
    blind = replace(rule, clauses=rule.clauses[:1])
    different = 0
    for seed in range(20):
        old, new = transitions(seed)
        found = answer(program, blind, rule.instance, blind.clauses, given(rule, old, new))
        different += found != direct("X, Y", "old p(X, Y)", old, new)
    assert different
