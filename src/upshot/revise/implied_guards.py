"""Rules for the search: a literal that every group of an aggregate in the same rule makes true is left out.

`s(D, S) :- emp(_, D, _), S = sum P : { emp(_, D, P) }` asks for some row of the group and for what the group comes to.
With the first asked for by itself, any row would be brought to the group before it is known what the second one needs;
but a group that comes to something has a row. Where the literal is over a view, as SQL makes one of the groups, its
rules stand for it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.rewrite.normalize.occurrences import substitute_in
from upshot.rewrite.shapes import aggregate_of, retyped
from upshot.syntax.ast import Atom, Constant, Not, Term, Variable, Wildcard

L = TypeVar("L", bound=Literal)

DEPTH = 4
"""Views within views that are looked through."""


def without_implied_guards(clauses: Sequence[Clause], program: CheckedProgram) -> tuple[Clause, ...]:
    """The clauses, with the same rows for every view, without literals that an aggregate in the same rule implies."""
    guards = _Guards(clauses, program)
    if not guards.folded:
        return tuple(clauses)
    return tuple(dict.fromkeys(made for clause in clauses for made in guards.freed(clause)))


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a row of what is folded comes from: its columns, and what holds whenever it is there."""

    row: tuple[Term, ...]
    body: tuple[Literal, ...]


class _Guards:
    def __init__(self, clauses: Sequence[Clause], program: CheckedProgram) -> None:
        self.program = program
        self.folded: dict[str, tuple[str, int]] = {}
        """By view of aggregates: the relation that is folded, and how many columns tell groups apart."""
        self._rules: dict[str, list[Clause]] = {}
        for clause in clauses:
            self._rules.setdefault(clause.head.relation, []).append(clause)
            if aggregate_of(clause) is not None:
                rows = next(each for each in clause.body if isinstance(each, Atom))
                self.folded[clause.head.relation] = rows.relation, len(clause.head.args) - 1

    def freed(self, clause: Clause) -> list[Clause]:
        """The clause, or what it becomes without a literal that is implied."""
        if aggregate_of(clause) is not None or not any(_positive(each) in self.folded for each in clause.body):
            return [clause]
        for place, literal in enumerate(clause.body):
            if isinstance(literal, Atom) and literal.relation not in self.folded:
                made = self._without(clause, place, DEPTH)
                if made is not None:
                    return [each for one in made for each in self.freed(one)]
        return [clause]

    def _without(self, clause: Clause, place: int, depth: int) -> list[Clause] | None:
        """What the clause becomes without the literal at a place; None if it is not implied."""
        atom = clause.body[place]
        assert isinstance(atom, Atom)
        for fold in clause.body:
            if isinstance(fold, Atom) and fold.relation in self.folded:
                local = self._implied(clause, atom, fold)
                if local is not None:
                    kept = tuple(each for at, each in enumerate(clause.body) if at != place and each not in local)
                    return [retyped(replace(clause, body=kept), self.program.schemas)]
        rules = self._rules.get(atom.relation, [])
        if not depth or not rules or any(not _is_simple(rule) for rule in rules):
            return None
        made: list[Clause] = []
        for rule in rules:
            found = _expanded(clause, place, rule, self.program)
            if found is None:
                return None
            for each in found:
                inner = next(at for at in range(place, len(each.body)) if isinstance(each.body[at], Atom))
                less = self._without(each, inner, depth - 1)
                if less is None:
                    return None
                made += less
        return made

    def _implied(self, clause: Clause, atom: Atom, fold: Atom) -> list[Literal] | None:
        """The literals about the columns of an atom that nothing else asks for, if some row of every group of the
        aggregate has them all together with the atom; None if that need not be so."""
        below, width = self.folded[fold.relation]
        group = fold.args[:width]
        named = {term.name for term in group if isinstance(term, Variable)}
        local = {*variables(atom)} - named
        about = [each for each in clause.body if each not in (atom, fold) and local & {*variables(each)}]
        elsewhere = {*variables(clause.head), *variables(fold)}
        asked = {name for each in about for name in variables(each)}
        if local & elsewhere or any(isinstance(each, Atom) for each in about) or not asked <= local | named:
            return None
        sources = [found for each in self._sources(below, atom) if (found := _of_group(each, group)) is not None]
        return about if all(_has(source, atom, about, known) for source, known in sources) else None

    def _sources(self, below: str, atom: Atom) -> Iterator[_Source]:
        rules = [] if below == atom.relation else self._rules.get(below, [])
        for rule in rules:
            yield _Source(rule.head.args, rule.body)
        if not rules:
            row = tuple(Variable(f"{place}") for place in range(self.program.schemas[below].arity))
            yield _Source(row, (Atom(below, row),))


Known = Mapping[str, Term]


def _of_group(source: _Source, group: Sequence[Term]) -> tuple[_Source, Known] | None:
    """The source of rows of a group, and what the variables of the group are there; None if it has no such rows."""
    names: dict[str, Term] = {}
    for term, given in zip(source.row, group, strict=False):
        if isinstance(given, Constant):
            if isinstance(term, Constant) and term.value != given.value:
                return None
            if isinstance(term, Variable):
                names.setdefault(term.name, given)
    row, body = [_renamed(term, names) for term in source.row], [_renamed_in(each, names) for each in source.body]
    known: dict[str, Term] = {}
    for term, given in zip(row, group, strict=False):
        if isinstance(given, Variable):
            known.setdefault(given.name, term)
    return _Source(tuple(row), tuple(body)), known


def _has(source: _Source, atom: Atom, about: Iterable[Literal], known: Known) -> bool:
    """Whether the source has an atom like this one, about which all that is asked holds."""
    for each in source.body:
        if isinstance(each, Atom) and each.relation == atom.relation:
            found = _matched(atom, each, known)
            if found is not None and all(_renamed_in(literal, found) in source.body for literal in about):
                return True
    return False


def _matched(atom: Atom, other: Atom, known: Known) -> Known | None:
    """What the variables of an atom are if it is the other one; None if it is not."""
    found = dict(known)
    for term, given in zip(atom.args, other.args, strict=True):
        match term:
            case Wildcard():
                continue
            case Variable(name):
                if isinstance(given, Wildcard) or found.setdefault(name, given) != given:
                    return None
            case Constant(value):
                if not isinstance(given, Constant) or given.value != value:
                    return None
            case _:
                return None
    return found


# ---- rules in place of literals -----------------------------------------------------------------------------------


def _positive(literal: Literal) -> str:
    return literal.relation if isinstance(literal, Atom) else ""


def _is_simple(rule: Clause) -> bool:
    """Whether a rule reads one relation and tests its columns."""
    atoms = [each for each in rule.body if isinstance(each, Atom)]
    negated = any(isinstance(each, Not) and isinstance(each.body, Atom) for each in rule.body)
    terms = all(isinstance(each, Variable | Constant) for each in rule.head.args)
    is_recursive = any(atom.relation == rule.head.relation for atom in atoms)
    return len(atoms) == 1 and not negated and terms and not is_recursive and aggregate_of(rule) is None


def _expanded(user: Clause, place: int, rule: Clause, program: CheckedProgram) -> list[Clause] | None:
    """The clause with the rule's body in place of a literal, none if they contradict each other; None if NULL would
    come to be asked for by name."""
    use = user.body[place]
    assert isinstance(use, Atom)
    types, fresh = dict(user.types), dict[str, Term]()
    for name, type in rule.types.items():
        new = fresh_name(name, types)
        types[new], fresh[name] = type, Variable(new)
    same: dict[str, Term] = {}

    def final(term: Term) -> Term:
        while isinstance(term, Variable) and term.name in same:
            term = same[term.name]
        return term

    for given, wanted in zip(rule.head.args, use.args, strict=True):
        if isinstance(wanted, Wildcard):
            continue
        first, second = final(_renamed(given, fresh)), final(wanted)
        if isinstance(first, Variable) and first != second:
            same[first.name] = second
        elif isinstance(second, Variable) and first != second:
            same[second.name] = first
        elif first != second:
            return []
    names = {name: final(Variable(name)) for name in types}
    nulls = {name for name, term in names.items() if isinstance(term, Constant) and term.value is None}
    rest = (*user.body[:place], *user.body[place + 1 :])
    if any(nulls & {*variables(each)} for each in rest):
        return None
    body = [_renamed_in(_renamed_in(each, fresh), names) for each in rule.body]
    others = [_renamed_in(each, names) for each in rest]
    head = _renamed_in(user.head, names)
    assert isinstance(head, Atom)
    made = replace(user, head=head, body=(*others[:place], *body, *others[place:]), types=types)
    return [retyped(made, program.schemas)]


def _renamed(term: Term, names: Known) -> Term:
    return names.get(term.name, term) if isinstance(term, Variable) else term


def _renamed_in(literal: L, names: Known) -> L:
    made = substitute_in(literal, lambda variable: names.get(variable.name, variable))
    assert isinstance(made, type(literal))
    return made
