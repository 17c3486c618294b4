"""Expand views into the one rule that uses them: the network gets flatter. [Sköld & Risch 1996]"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.rewrite.normalize.occurrences import substitute
from upshot.rewrite.shapes import aggregate_of, atoms_of, retyped
from upshot.rewrite.stratified import stratified
from upshot.syntax.ast import Atom, Constant, Not, Term, Test, Variable


def unfold(program: CheckedProgram, views: Collection[str]) -> CheckedProgram:
    """Expand each of the views that has one rule and one use: the body of the rule replaces the use.

    A view that several rules use stays, since it is computed once for all of them; so does one under a negation or an
    aggregate, which is tested or folded as a whole.
    """
    clauses = list(program.clauses)
    gone: set[str] = set()
    for view in (view for layer in program.strata for view in layer if view in views):
        rules = [i for i, clause in enumerate(clauses) if clause.head.relation == view]
        uses = [(i, position) for i, clause in enumerate(clauses) for position in _uses(clause, view)]
        if len(rules) != 1 or len(uses) != 1 or uses[0][0] == rules[0]:
            continue
        (user, position), rule = uses[0], rules[0]
        if can_expand(clauses[user], position, clauses[rule]):
            clauses[user] = retyped(expanded(clauses[user], position, clauses[rule]), program.schemas)
            del clauses[rule]
            gone.add(view)
    if not gone:
        return program
    schemas = {name: schema for name, schema in program.schemas.items() if name not in gone}
    return stratified(program, clauses, schemas, by="unfold")


def _uses(clause: Clause, view: str) -> Iterator[int]:
    return (position for position, atom, _ in atoms_of(clause) if atom.relation == view)


def can_expand(user: Clause, position: int, rule: Clause) -> bool:
    """Test whether the rule's body, with variables renamed, may replace the user's literal: the literal is positive, no
    variable is repeated on either side, and a constant is matched with a column that only relations use."""
    use = user.body[position]
    if not isinstance(use, Atom) or aggregate_of(user) is not None or aggregate_of(rule) is not None:
        return False
    heads = [term.name for term in rule.head.args if isinstance(term, Variable)]
    named = [term.name for term in use.args if isinstance(term, Variable)]
    if len({*heads}) != len(rule.head.args) or len({*named}) != len(named):
        return False
    computed = {
        name for each in rule.body if not isinstance(each, Atom | Not) or _tests(each) for name in variables(each)
    }
    return all(
        not isinstance(term, Constant) or (term.value is not None and name not in computed)
        for name, term in zip(heads, use.args, strict=True)
    )


def _tests(literal: Literal) -> bool:
    return isinstance(literal, Not) and isinstance(literal.body, Test)


def expanded(user: Clause, position: int, rule: Clause) -> Clause:
    """The user's clause with the rule's body in place of the literal."""
    use = user.body[position]
    assert isinstance(use, Atom)
    names: dict[str, Term] = {}
    for parameter, argument in zip(rule.head.args, use.args, strict=True):
        if isinstance(parameter, Variable) and isinstance(argument, Variable | Constant):
            names[parameter.name] = argument
    types = dict(user.types)
    for name, type in rule.types.items():
        if name not in names:
            fresh = fresh_name(name, types)
            types[fresh], names[name] = type, Variable(fresh)
    body = substitute(rule.body, lambda variable: names.get(variable.name, variable))
    return replace(user, body=(*user.body[:position], *body, *user.body[position + 1 :]), types=types)
