"""View updating: the rules R∇ that derive requests to base relations from requests to views, and the rules R∇τ that
connect requests and propagation. [Behrend & Manthey 2008, section 4]

The program has one operator per rule. Of a rule with several heads, one must become true. State literals read the
current state of a branch, not the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from upshot.check.names.variables import variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.schema import Role, Schema
from upshot.rewrite.demand.request_rules import CHANGE, DELETE, INSERT, RequestRule, Signed, request, request_rule
from upshot.rewrite.listing import ListedRule, RuleListing
from upshot.rewrite.shapes import aggregate_of, clauses_by_head, relations_below, row_atom, row_variables
from upshot.syntax.ast import Atom, Comparison, Constant, Not, Term, Test, Variable
from upshot.syntax.printing import print_atom, print_formula
from upshot.values.conditions import OPPOSITE


@dataclass(frozen=True, slots=True)
class ViewUpdateRule:
    """`conditions & tests → heads`: one of the heads, or a contradiction if there is none. With `free` columns of its
    only head, there is a head for each of their constants and one for a fresh value."""

    conditions: tuple[Signed, ...]
    tests: tuple[Literal, ...]
    heads: tuple[Signed, ...]
    source: Clause | None = None
    free: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewUpdates:
    """`requests` is R∇, `transitions` R∇τ; `folded` are aggregate views, whose requests no rules can express."""

    requests: tuple[ViewUpdateRule, ...]
    transitions: tuple[ViewUpdateRule, ...]
    folded: tuple[str, ...] = ()


def view_updates(program: CheckedProgram, view: str | None = None) -> ViewUpdates:
    """The rules for a program as `operators` leaves it; with a `view`, those that a request to it can reach."""
    by_view = clauses_by_head(program.clauses)
    shown = relations_below(program.clauses, [view]) if view is not None else set(program.schemas)
    requests: list[ViewUpdateRule] = []
    folded = []
    for name in (each for layer in reversed(program.strata) for each in layer if each in shown):
        if any(aggregate_of(clause) is not None for clause in by_view[name]):
            folded.append(name)
        else:
            requests += _rules_of(by_view[name], program)
    return ViewUpdates(tuple(requests), tuple(_transitions(program, shown, requests)), tuple(folded))


# ---- R∇ ---------------------------------------------------------------------------------------------------------


def _rules_of(clauses: Sequence[Clause], program: CheckedProgram) -> list[ViewUpdateRule]:
    """The rules of one view: those of a union, or of the one operator that defines it."""
    rules = [request_rule(clause, program.schemas) for clause in clauses]
    if len(rules) == 1:
        return _operator(rules[0], program.schemas[clauses[0].head.relation])
    # A request to delete a fact of the program is a contradiction.
    made = [_rule(DELETE, clause.head, (), [], clause) for clause in clauses if not clause.body]
    copies = [rule for rule in rules if rule.positive]
    for rule in copies:
        made.append(_rule(DELETE, rule.clause.head, rule.positive, rule.one_of, rule.clause))
    if copies:
        row, first = copies[0].clause.head, copies[0].clause
        choices = [replace(each, atom=replace(each.atom, args=row.args)) for rule in copies for each in rule.all_of]
        made.append(_rule(INSERT, row, (), choices, first))
    return made


def _operator(rule: RequestRule, schema: Schema) -> list[ViewUpdateRule]:
    clause, tests = rule.clause, rule.built_ins
    head, made = clause.head, _mismatch(clause, schema)
    if len(rule.all_of) > 1:
        for each in rule.all_of:
            state = Not(each.atom) if each.sign == INSERT else each.atom
            made.append(_rule(INSERT, head, (*tests, state), [each], clause))
        made.append(_rule(DELETE, head, tests, rule.one_of, clause))
    elif rule.all_of:
        made += _single(rule)
    else:
        made.append(_rule(DELETE, head, tests, [], clause))
    return made + [_rule(INSERT, head, (_denied(test),), [], clause) for test in tests]


def _single(rule: RequestRule) -> list[ViewUpdateRule]:
    """A permutation, a selection, a projection, or the negation of a relation without columns."""
    head, tests = rule.clause.head, rule.built_ins
    kept = set(variables(head)) | {name for test in tests for name in variables(test)}
    atoms = rule.positive
    free = tuple(i for atom in atoms for i, arg in enumerate(atom.args) if {*variables(arg)}.difference(kept))
    insertion = ViewUpdateRule((request(INSERT, head),), tests, rule.all_of, rule.clause, free)
    removal = _rule(DELETE, head, (*tests, *atoms) if free else tests, rule.one_of, rule.clause)
    return [insertion, removal] if not free else [removal, insertion]


def _rule(sign: str, head: Atom, tests: tuple[Literal, ...], heads: Sequence[Signed], source: Clause) -> ViewUpdateRule:
    return ViewUpdateRule((request(sign, head),), tests, tuple(heads), source)


def _denied(test: Literal) -> Literal:
    """The negation of a built-in."""
    match test:
        case Comparison(op, left, right):
            return Comparison(OPPOSITE[op], left, right)
        case Not(Test() as inner):
            return inner
        case _:
            return Not(test)


def _mismatch(clause: Clause, schema: Schema) -> list[ViewUpdateRule]:
    """Contradictions for requested rows that do not match the head: it has a constant, or a variable twice."""
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


def _transitions(program: CheckedProgram, shown: set[str], requests: Sequence[ViewUpdateRule]) -> list[ViewUpdateRule]:
    schemas = [schema for name, schema in program.schemas.items() if name in shown]
    rows = {schema.name: row_atom(schema)[0] for schema in schemas}
    made = [ViewUpdateRule((request(INSERT, atom), request(DELETE, atom)), (), ()) for atom in rows.values()]
    for atom in (rows[schema.name] for schema in schemas if schema.role is Role.CONSTRAINT):
        made.append(ViewUpdateRule((Signed(CHANGE, INSERT, atom),), (), (request(DELETE, atom),)))
    for rule in requests:
        made += _compensation(rule)
    for atom in (rows[schema.name] for schema in schemas if schema.role is Role.BASE):
        for sign, test in ((INSERT, Not(atom)), (DELETE, atom)):
            made.append(ViewUpdateRule((request(sign, atom),), (test,), (Signed(CHANGE, sign, atom),)))
    return made


def _compensation(rule: ViewUpdateRule) -> list[ViewUpdateRule]:
    """The requests of a rule with a state test for the case that the tested state has changed."""
    if len(rule.heads) != 1:
        return []
    (head,) = rule.heads
    for place, test in enumerate(rule.tests):
        other = test.body if isinstance(test, Not) else test
        if other == head.atom:
            turned: Literal = head.atom if isinstance(test, Not) else Not(head.atom)
            sign = DELETE if isinstance(test, Not) else INSERT
            tests = (*rule.tests[:place], turned, *rule.tests[place + 1 :])
            return [ViewUpdateRule((*rule.conditions, Signed(CHANGE, sign, head.atom)), tests, rule.heads, rule.source)]
    return []


def list_view_updates(updates: ViewUpdates) -> RuleListing:
    """R∇ by view, then R∇τ by purpose."""
    lines, listed = list[str](), list[ListedRule]()
    for about, phase, rules in _groups(updates):
        lines += ["", f"// {about}"]
        for rule in rules:
            listed.append(_listed(rule, about, phase))
            lines.append(f"{' & '.join(listed[-1].body)} → {listed[-1].head}.")
    return RuleListing(tuple(listed), (), "\n".join(lines).lstrip("\n") + "\n")


def _groups(updates: ViewUpdates) -> Iterator[tuple[str, str, Sequence[ViewUpdateRule]]]:
    """Heading, phase and rules, in the order in which they are printed."""
    for view, rules in groupby(updates.requests, lambda rule: rule.conditions[0].atom.relation):
        yield f"requests to {view}", "request", list(rules)
    for name in updates.folded:
        yield f"{name} aggregates: rows of a group whose insertion or deletion changes its value", "request", ()
    kinds = {
        "contradictions": [rule for rule in updates.transitions if not rule.heads],
        "constraints are repaired": [rule for rule in updates.transitions if rule.heads and _starts(rule)],
        "side effects are compensated": [r for r in updates.transitions if r.heads and len(r.conditions) > 1],
        "base changes": [r for r in updates.transitions if r.heads and r.heads[0].kind == CHANGE],
    }
    for words, members in kinds.items():
        if members:
            yield words, "transition", members


def _starts(rule: ViewUpdateRule) -> bool:
    return len(rule.conditions) == 1 and rule.conditions[0].kind == CHANGE


def _listed(rule: ViewUpdateRule, about: str, phase: str) -> ListedRule:
    # As in the paper: requests, state tests, then changes.
    requests = [_signed(each) for each in rule.conditions if each.kind != CHANGE]
    changes = [_signed(each) for each in rule.conditions if each.kind == CHANGE]
    body = (*requests, *map(print_formula, rule.tests), *changes)
    origin = rule.source.origin if rule.source is not None else None
    return ListedRule("", about, phase, about, _heads(rule), body, origin)


def _heads(rule: ViewUpdateRule) -> str:
    if rule.free:
        (head,) = rule.heads
        return " ∨ ".join([_at(head, rule.free, "1"), "…", _at(head, rule.free, "n"), _at(head, rule.free, "_new")])
    return " ∨ ".join(map(_signed, rule.heads)) or "false"


def _at(head: Signed, free: tuple[int, ...], which: str) -> str:
    """The head with constants of the free columns: c for the first, d for the next."""
    letters = {place: "cdefghijklmnopqrstuvwxyz"[number % 24] for number, place in enumerate(free)}
    args = tuple(Variable(f"{letters[i]}{which}") if i in letters else arg for i, arg in enumerate(head.atom.args))
    return _signed(replace(head, atom=replace(head.atom, args=args)))


def _signed(each: Signed) -> str:
    return f"{each.kind}{each.sign}{print_atom(each.atom)}"
