"""View updating: rules that ask downwards what would make a row of a view true or false, R∇, and those that link asking
with propagation, R∇τ. [Behrend & Manthey 2008, section 4]

The program has one operator per rule. A rule with several heads leaves a choice: one of them has to come true. State
literals read the current state of a branch, not the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.check.variables import fresh_name, variables
from upshot.core.schema import Role, Schema
from upshot.rewrite.row_variables import row_variables
from upshot.rewrite.shapes import aggregate_of
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Term, Test, Variable, Wildcard

INSERT, DELETE = "+", "-"
REQUEST, CHANGE = "∇", "Δ"


@dataclass(frozen=True, slots=True)
class Signed:
    """A request (`∇+p`) for a row, or its change (`Δ+p`)."""

    kind: str
    sign: str
    atom: Atom


@dataclass(frozen=True, slots=True)
class ViewUpdateRule:
    """`given & tests → heads`: one of the heads, or a contradiction if there is none. With `free` columns of its only
    head, there is a head for each of their constants and one for a new value."""

    given: tuple[Signed, ...]
    tests: tuple[Literal, ...]
    heads: tuple[Signed, ...]
    source: Clause | None = None
    free: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewUpdates:
    """`requests` is R∇, `transitions` R∇τ; `folded` are views that aggregate, for which no rules can say
    how their groups change."""

    requests: tuple[ViewUpdateRule, ...]
    transitions: tuple[ViewUpdateRule, ...]
    folded: tuple[str, ...] = ()


def view_updates(program: CheckedProgram, view: str | None = None) -> ViewUpdates:
    """The rules for a program as `operators` leaves it; with a `view`, those that a request to it can reach."""
    by_view: dict[str, list[Clause]] = {}
    for clause in program.clauses:
        by_view.setdefault(clause.head.relation, []).append(clause)
    wanted = _reached(by_view, view) if view is not None else set(program.schemas)
    requests: list[ViewUpdateRule] = []
    folded = []
    for name in (each for layer in reversed(program.strata) for each in layer if each in wanted):
        if any(aggregate_of(clause) is not None for clause in by_view.get(name, ())):
            folded.append(name)
        else:
            requests += _rules_of(by_view.get(name, []), program)
    return ViewUpdates(tuple(requests), tuple(_transitions(program, wanted, requests)), tuple(folded))


def _reached(by_view: dict[str, list[Clause]], view: str) -> set[str]:
    seen, left = {view}, [view]
    while left:
        for clause in by_view.get(left.pop(), ()):
            for literal in clause.body:
                atom = literal.body if isinstance(literal, Not) else literal
                if isinstance(atom, Atom) and atom.relation not in seen:
                    seen.add(atom.relation)
                    left.append(atom.relation)
    return seen


# ---- R∇ ---------------------------------------------------------------------------------------------------------


def _rules_of(clauses: Sequence[Clause], program: CheckedProgram) -> list[ViewUpdateRule]:
    """The rules of one view: those of a union, or of the one operator that defines it."""
    if len(clauses) == 1:
        return _operator(clauses[0], program)
    copies = [(clause, atom) for clause in clauses for atom in _named(clause, program)[0]]
    # What a fact of the program says is so, whatever is asked.
    made = [_rule(DELETE, clause.head, (), [], clause) for clause in clauses if not clause.body]
    made += [_rule(DELETE, clause.head, (atom,), [_asked(DELETE, atom)], clause) for clause, atom in copies]
    if copies:
        row = copies[0][0].head
        choices = [_asked(INSERT, replace(atom, args=row.args)) for _, atom in copies]
        made.append(_rule(INSERT, row, (), choices, copies[0][0]))
    return made


def _operator(clause: Clause, program: CheckedProgram) -> list[ViewUpdateRule]:
    atoms, tests = _named(clause, program)
    negated = [each.body for each in clause.body if isinstance(each, Not) and isinstance(each.body, Atom)]
    head, made = clause.head, _mismatch(clause, program.schemas[clause.head.relation])
    if len(atoms) + len(negated) > 1:
        for atom in atoms:
            made.append(_rule(INSERT, head, (*tests, Not(atom)), [_asked(INSERT, atom)], clause))
        for atom in negated:
            made.append(_rule(INSERT, head, (*tests, atom), [_asked(DELETE, atom)], clause))
        choices = [_asked(DELETE, atom) for atom in atoms] + [_asked(INSERT, atom) for atom in negated]
        made.append(_rule(DELETE, head, tests, choices, clause))
    elif atoms or negated:
        made += _single(clause, atoms, negated, tests)
    else:
        made.append(_rule(DELETE, head, tests, [], clause))
    return made + [_rule(INSERT, head, (_denied(test),), [], clause) for test in tests]


def _single(clause: Clause, atoms: list[Atom], negated: list[Atom], tests: tuple[Literal, ...]) -> list[ViewUpdateRule]:
    """A permutation, a selection, a projection, or the negation of a relation without columns."""
    head = clause.head
    if negated:
        return [
            _rule(INSERT, head, tests, [_asked(DELETE, negated[0])], clause),
            _rule(DELETE, head, tests, [_asked(INSERT, negated[0])], clause),
        ]
    (atom,) = atoms
    kept = set(variables(head)) | {name for test in tests for name in variables(test)}
    free = tuple(i for i, arg in enumerate(atom.args) if isinstance(arg, Variable) and arg.name not in kept)
    insertion = ViewUpdateRule((_asked(INSERT, head),), tests, (_asked(INSERT, atom),), clause, free)
    removal = _rule(DELETE, head, (*tests, atom) if free else tests, [_asked(DELETE, atom)], clause)
    return [insertion, removal] if not free else [removal, insertion]


def _rule(sign: str, head: Atom, tests: tuple[Literal, ...], heads: Sequence[Signed], source: Clause) -> ViewUpdateRule:
    return ViewUpdateRule((_asked(sign, head),), tests, tuple(heads), source)


def _asked(sign: str, atom: Atom) -> Signed:
    return Signed(REQUEST, sign, atom)


def _named(clause: Clause, program: CheckedProgram) -> tuple[list[Atom], tuple[Literal, ...]]:
    """The atoms of the body, `_` made variables, and its built-ins."""
    taken = set(clause.types) | {name for each in (clause.head, *clause.body) for name in variables(each)}
    atoms: list[Atom] = []
    tests: list[Literal] = []
    for literal in clause.body:
        if isinstance(literal, Atom):
            args: list[Term] = []
            for arg, name in zip(literal.args, row_variables(program.schemas[literal.relation]), strict=True):
                if isinstance(arg, Wildcard):
                    arg = Variable(fresh_name(name, taken))
                    taken.add(arg.name)
                args.append(arg)
            atoms.append(replace(literal, args=tuple(args)))
        elif not (isinstance(literal, Not) and isinstance(literal.body, Atom)):
            tests.append(literal)
    return atoms, tuple(tests)


def _denied(test: Literal) -> Literal:
    """A built-in turned round."""
    match test:
        case Comparison(op, left, right):
            return Comparison(_OPPOSITE[op], left, right)
        case Not(Test() as inner):
            return inner
        case _:
            return Not(test)


_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _mismatch(clause: Clause, schema: Schema) -> list[ViewUpdateRule]:
    """A row that the head cannot be is not derived: a constant, or one variable twice."""
    found: list[ViewUpdateRule] = []
    names = [Variable(name) for name in row_variables(schema)]
    firsts: dict[str, Variable] = {}
    for variable, term in zip(names, clause.head.args, strict=True):
        other: Term | None = term if isinstance(term, Constant) else None
        if isinstance(term, Variable) and (other := firsts.setdefault(term.name, variable)) is variable:
            continue
        if other is not None:
            atom = replace(clause.head, args=tuple(names))
            found.append(_rule(INSERT, atom, (Comparison("!=", variable, other),), [], clause))
    return found


# ---- R∇τ --------------------------------------------------------------------------------------------------------


def _transitions(program: CheckedProgram, wanted: set[str], requests: Sequence[ViewUpdateRule]) -> list[ViewUpdateRule]:
    made: list[ViewUpdateRule] = []
    schemas = [schema for name, schema in program.schemas.items() if name in wanted]
    for schema in schemas:
        atom = _row(schema)
        made.append(ViewUpdateRule((_asked(INSERT, atom), _asked(DELETE, atom)), (), ()))
    for schema in schemas:
        if schema.role is Role.CONSTRAINT:
            atom = _row(schema)
            made.append(ViewUpdateRule((Signed(CHANGE, INSERT, atom),), (), (_asked(DELETE, atom),)))
    for rule in requests:
        made += _compensation(rule)
    for schema in schemas:
        if schema.role is Role.BASE:
            atom = _row(schema)
            for sign, test in ((INSERT, Not(atom)), (DELETE, atom)):
                made.append(ViewUpdateRule((_asked(sign, atom),), (test,), (Signed(CHANGE, sign, atom),)))
    return made


def _compensation(rule: ViewUpdateRule) -> list[ViewUpdateRule]:
    """What a rule with a state test asks for when the state it tested has changed."""
    if len(rule.heads) != 1:
        return []
    (head,) = rule.heads
    for place, test in enumerate(rule.tests):
        other = test.body if isinstance(test, Not) else test
        if other == head.atom:
            turned: Literal = head.atom if isinstance(test, Not) else Not(head.atom)
            sign = DELETE if isinstance(test, Not) else INSERT
            tests = (*rule.tests[:place], turned, *rule.tests[place + 1 :])
            return [ViewUpdateRule((*rule.given, Signed(CHANGE, sign, head.atom)), tests, rule.heads, rule.source)]
    return []


def _row(schema: Schema) -> Atom:
    return Atom(schema.name, tuple(map(Variable, row_variables(schema))))
