"""No program, however wrong, gives anything but a checked program or diagnostics."""

from __future__ import annotations

import random
import re
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.settings import base_seed, case_count
from upshot.check import CheckedProgram, Clause, check, check_query, print_checked
from upshot.check.names.variables import all_names, terms_of, walk
from upshot.core.diagnostic import Severity
from upshot.core.errors import ProgramError
from upshot.syntax import parse
from upshot.syntax.ast import (
    Aggregate,
    And,
    Atom,
    Attribute,
    Call,
    Comparison,
    Constant,
    Declaration,
    Formula,
    Not,
    Or,
    Parameter,
    Program,
    Rule,
    Term,
    TypeName,
    Variable,
    Wildcard,
)
from upshot.syntax.ast import Test as BuiltIn

T = TypeVar("T")

SEED_TEXT = """
.type City <: symbol
.type Town = City
.type Any = City | symbol
.decl road(from: City, to: City, km: decimal(6,1), toll: number?) key(from, to)
.decl open(x: symbol, day: date, at: timestamp, ok: boolean)
.decl reach(x: symbol, y: symbol)
.decl cost(x: Any, n: number)
.decl few(n: unsigned, f: float)
.decl gate(n: unsigned, f: float)
road("Rome", "Bari", 374.5, 12).
road("Bari", cat("Ro", "me"), 374 + 0.5, null).
reach(X, Y) :- road(X, Y, K, _), K < 400.0.
reach(X, Z), reach(Z, X) :- reach(X, Y), road(Y, Z, _, T), !(T > 3 ; is_null(T)).
cost(X, S) :- road(X, _, _, _), S = sum T : { road(X, _, _, T) }, S > 2 * 3 - 1.
cost(X, strlen(X) + N) :- reach(X, _), N = count : { reach(X, Y), !road(X, Y, _, _) }.
few(count : { reach(_, _) }, mean K : { road(_, _, K, _) }) :- true.
open(X, date("2026-01-31"), timestamp("2026-01-31T10:00:00Z"), true) :- reach(X, X), contains("a", X).
.input road
.input reach
.output cost
.view reach strategy=rod materialized=false
.deny loop(X) :- reach(X, X), X != "Rome".
.deny loop on_violation=warn
.rule tell(X) on insert reach(X, _) when old road(X, _, _, _), !old reach(_, X) do call ring(X).
.rule pay(X, T) priority=3 when road(X, Y, K, T), K > 10.0, !open(X, _, _, true) do insert gate(3, 1.5), call ring(Y).
.rule more(X) semantics=nervous when reach(X, Y) ; 3 < count : { road(X, _, _, Z) }, cost(X, Z) do delete gate(1, 2.5).
.rule less(X) precedes=more semantics=strict on change road(X, _, _, _) when T = sum N : { cost(X, N) }, T > 3
  do call ring(X, T + 1).
.activate pay(X = "Rome", T = null)
.deactivate tell
"""
TOKENS = re.findall(r"\"[^\"]*\"|[A-Za-z_][A-Za-z0-9_]*|[0-9.]+|:-|<=|>=|!=|<:|\s+|.", SEED_TEXT)
WORDS = [t for t in TOKENS if not t.isspace()]


def outcome(program: Program) -> CheckedProgram | None:
    """The checked program, or None after diagnostics that are in order; fails on any other exception."""
    try:
        checked = check(program)
    except ProgramError as error:
        found = error
    else:
        for clause in (*checked.clauses, *(c for rule in checked.rules for c in (*rule.clauses, *rule.before))):
            assert_clause_form(clause)
        return checked
    assert str(found)
    for diagnostic in found.diagnostics:
        assert diagnostic.severity is Severity.ERROR
        assert diagnostic.slug
        assert diagnostic.label
        assert diagnostic.help
    return None


def assert_clause_form(clause: Clause) -> None:
    """What later stages rely on, as the docstring of `Clause` promises it."""
    assert set(all_names([clause.head, *clause.body])) == set(clause.types)
    assert not any(isinstance(t, Aggregate | Wildcard) for a in clause.head.args for t in walk(a))
    pending = list(clause.body)
    for literal in pending:
        plain = literal.body if isinstance(literal, Not) else literal
        assert isinstance(plain, Atom | BuiltIn if isinstance(literal, Not) else Atom | BuiltIn | Comparison)
        for term in terms_of(plain):
            if isinstance(term, Aggregate):
                assert isinstance(plain, Comparison)
                assert (plain.op, type(plain.left), term is plain.right) == ("=", Variable, True)
                assert isinstance(term.body, And)
                pending.extend(term.body.parts)  # type: ignore[arg-type]
                continue
            for inner in walk(term):
                assert not isinstance(inner, Aggregate | Parameter)
                assert isinstance(plain, Atom) or not isinstance(inner, Wildcard)
    for node in (clause.head, *clause.body):
        assert all(n.type is not None for n in walk(node) if isinstance(n, Constant))


def mutated(draw: random.Random) -> str:
    tokens = list(TOKENS)
    for _ in range(draw.randint(1, 6)):
        position = draw.randrange(len(tokens))
        match draw.randrange(4):
            case 0:
                tokens[position] = draw.choice(WORDS)
            case 1:
                del tokens[position]
            case 2:
                tokens.insert(position, draw.choice(WORDS))
            case _:
                other = draw.randrange(len(tokens))
                tokens[position], tokens[other] = tokens[other], tokens[position]
    return "".join(tokens)


def test_mutated_programs_give_programs_or_diagnostics() -> None:
    draw = random.Random(base_seed())
    right = parsed = 0
    for _ in range(min(max(400, case_count()), 10_000)):
        text = mutated(draw)
        try:
            program = parse(text)
        except ProgramError:
            continue
        parsed += 1
        checked = outcome(program)
        if checked is not None:
            right += 1
            again = print_checked(checked)
            assert print_checked(check(parse(again))) == again
        shuffled = list(program.items)
        draw.shuffle(shuffled)
        outcome(Program(tuple(shuffled)))
    assert parsed > right > 0


RELATIONS = ("e", "m", "s", "p", "q", "nowhere")
VALUES = (0, 1, -1, 2**63, 1.5, "a", "", True, None)
FUNCTIONS = ("+", "-", "*", "/", "%", "^", "neg", "max", "cat", "strlen", "substr", "to_string", "what")
AGGREGATES = ("count", "sum", "min", "mean", "odd")
TESTS = ("is_null", "contains", "match", "true", "false", "who")


class Trees:
    """Random terms, formulas and programs, sensible and senseless ones."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        # Half of the trees are tame: known names only, so that some of them are right.
        self.wild = self.draw.random() < 0.5

    def pick(self, choices: tuple[T, ...]) -> T:
        return self.draw.choice(choices if self.wild else choices[:-1])

    def variable(self) -> Variable:
        return Variable(self.draw.choice(("X", "Y", "Z", "_W")))

    def term(self, depth: int) -> Term:
        size = self.draw.random()
        if size < 0.6 or depth == 0:
            return self.variable() if size < 0.4 else self.leaf()
        if size < 0.85:
            function = self.pick(FUNCTIONS)
            arity = {"neg": 1, "strlen": 1, "to_string": 1, "substr": 3}.get(function, 2)
            return Call(function, self.terms(self.draw.randrange(4) if self.wild else arity, depth - 1))
        function = self.pick(AGGREGATES)
        target = None if function == "count" and not self.wild else self.term(depth - 1)
        return Aggregate(function, target, self.formula(depth - 1))

    def leaf(self) -> Term:
        if self.wild and self.draw.random() < 0.2:
            return Parameter("x") if self.draw.random() < 0.5 else Wildcard()
        return Constant(self.draw.choice(VALUES))

    def terms(self, count: int, depth: int) -> tuple[Term, ...]:
        return tuple(self.term(depth) for _ in range(count))

    def atom(self, depth: int) -> Atom:
        count = self.draw.randrange(3) if self.wild else 1
        args = tuple(self.variable() if self.draw.random() < 0.7 else self.term(depth) for _ in range(count))
        return Atom(self.pick(RELATIONS), args)

    def formula(self, depth: int) -> Formula:
        size = self.draw.random()
        if size < 0.5 or depth == 0:
            return self.atom(depth)
        if size < 0.65:
            op = self.draw.choice(("=", "!=", "<", ">="))
            return Comparison(op, self.term(depth - 1), self.term(depth - 1))
        if size < 0.7:
            return BuiltIn(self.pick(TESTS), self.terms(self.draw.randrange(3), depth - 1))
        if size < 0.8:
            return Not(self.formula(depth - 1))
        parts = tuple(self.formula(depth - 1) for _ in range(self.draw.randrange(5)))
        return Or(parts) if size < 0.87 else And(parts)

    def program(self) -> Program:
        items: list[Declaration | Rule] = []
        kind = self.draw.choice(("number", "float", "symbol"))
        for name in RELATIONS[:-1]:
            kind = self.draw.choice(("number", "symbol", "boolean")) if self.wild else kind
            count = self.draw.randrange(3) if self.wild else 1
            nullable = self.draw.random() < 0.5
            items.append(Declaration(name, (Attribute("a", TypeName(kind, (), nullable)),) * min(count, 1)))
        for _ in range(self.draw.randrange(5)):
            heads = tuple(self.atom(2) for _ in range(self.draw.choice((1, 1, 2))))
            bound = tuple(Atom("e", (Variable(name),)) for name in "XYZ")
            body = self.formula(4)
            items.append(Rule(heads, None if self.draw.random() < 0.2 else And((body, *bound))))
        return Program(tuple(items))


@settings(max_examples=300)
@given(st.integers(0, 2**40))
def test_random_trees_give_programs_or_diagnostics(seed: int) -> None:
    program = Trees(seed).program()
    checked = outcome(program)
    if checked is not None:
        text = print_checked(checked)
        assert print_checked(check(parse(text))) == text


def test_some_random_trees_are_right_programs() -> None:
    assert sum(outcome(Trees(seed).program()) is not None for seed in range(200)) > 10


SCHEMAS = check(parse(".decl e(x: number, y: number)\n.decl m(x: number?)\n.decl s(x: symbol)\n.decl q()")).schemas


@settings(max_examples=200)
@given(st.integers(0, 2**40))
def test_random_queries_give_clauses_or_diagnostics(seed: int) -> None:
    trees = Trees(seed)
    parameters = {name: trees.draw.choice(VALUES) for name in "xy" if trees.draw.random() < 0.6}
    try:
        schema, clauses = check_query(trees.formula(5), SCHEMAS, parameters)
    except ProgramError:
        return
    assert all(len(c.head.args) == schema.arity for c in clauses)
