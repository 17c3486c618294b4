"""The perfect models of a program with alternatives in heads, from a solver; nothing of them is maintained.

The engine computes what could be true in some model, and every instance of a rule over it; the solver chooses. For
stratified programs its stable models are the perfect ones. [Przymusinski 1991]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from upshot.check.clause.clause_form import alternatives
from upshot.check.disjunctions import Undecided, undecided
from upshot.check.findings import Findings
from upshot.check.names.variables import all_names, fresh_name
from upshot.core.errors import UsageError
from upshot.core.rows import Rows
from upshot.core.schema import Schema
from upshot.database.engines import local_engine
from upshot.database.program.compile import compile_items, empty_program
from upshot.database.program.redefine import redefine
from upshot.database.state import DatabaseState
from upshot.engine.limits import Limits
from upshot.syntax.ast import (
    And,
    Atom,
    Comparison,
    Constant,
    Declaration,
    Deny,
    DenyPolicy,
    DisjunctiveRule,
    Formula,
    FunctorDeclaration,
    Item,
    Not,
    Rule,
    Term,
    Test,
    TypeDeclaration,
    Variable,
    Wildcard,
)

if TYPE_CHECKING:
    from upshot.database.database import Database

Row = tuple[Any, ...]
Fact = tuple[str, Row]


@dataclass(frozen=True, slots=True)
class Models:
    """`models`: at most `limit` models, each a mapping from the undecided relations to their rows; `complete` if there
    are no others. `cautious` has the rows of all models, `brave` those of any model, of all that exist."""

    models: tuple[Mapping[str, Rows], ...]
    complete: bool
    cautious: Mapping[str, Rows]
    brave: Mapping[str, Rows]

    def __iter__(self) -> Iterator[Mapping[str, Rows]]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)


@dataclass(frozen=True, slots=True)
class GroundRule:
    """A rule instance: one of the heads is true if all of `true` are and none of `false` is."""

    heads: tuple[Fact, ...]
    true: tuple[Fact, ...]
    false: tuple[Fact, ...]


def models(state: DatabaseState, limit: int | None) -> Models:
    """The perfect models of the program over the current rows."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise UsageError("`limit` must be a positive integer", code="wrong-argument", help="as in db.models(limit=10)")
    items = state.compiled.program.items
    part = undecided(
        [each for each in items if isinstance(each, Rule)],
        [each for each in items if isinstance(each, DisjunctiveRule)],
        [each for each in items if isinstance(each, Deny) and each.head.relation not in _warning(items)],
        Findings(),
    )
    if not part.relations:
        raise UsageError(
            "no rule has alternatives in its head: the program has one model",
            code="no-alternatives",
            help="read its relations with `db.rows`, or write `s(X) | t(X) :- r(X).`",
        )
    ground = _Grounding(state, part)
    schemas = {name: state.compiled.checked.schemas[name] for name in sorted(part.relations)}
    return _solved(ground.instances(), schemas, limit)


def _warning(items: Iterable[Item]) -> set[str]:
    """The constraints that only warn: they exclude no model."""
    stated = {
        each.name: value
        for each in items
        if isinstance(each, DenyPolicy)
        for option, value in each.options
        if option == "on_violation"
    }
    return {name for name, value in stated.items() if value == "warn"}


# ---- grounding ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Conjunction:
    """One conjunction of a rule, with variables for all values of undecided literals; `view` has its instances.
    `columns` are the variables with the terms for their values."""

    view: str
    heads: tuple[Atom, ...]
    body: tuple[Formula, ...]
    columns: Mapping[str, Term]


class _Grounding:
    def __init__(self, state: DatabaseState, part: Undecided) -> None:
        self._state, self._part = state, part
        self._names = part.relations

    def instances(self) -> list[GroundRule]:
        """All instances of the undecided rules over the rows that are true in some model."""
        from upshot.database.database import Database  # noqa: PLC0415 - which has this module

        parts = [each for number, rule in enumerate(self._rules()) for each in self._conjunctions(rule, number)]
        limits = Limits(functions=self._state.functions)
        scratch_state = DatabaseState(partial(local_engine, limits), local_engine(limits), empty_program())
        scratch_state.engine.install(scratch_state.compiled.plan)
        scratch_state.engine.accept()
        with Database(state=scratch_state) as scratch:
            redefine(scratch_state, compile_items(self._items(parts), scratch_state.compiled))
            self._fill(scratch)
            possible = {name: set(map(_same, scratch.rows(name))) for name in self._names}
            return [
                made
                for each in parts
                for row in map(_same, scratch.rows(each.view))
                if (made := self._instance(each, dict(zip(each.columns, row, strict=True)), possible)) is not None
            ]

    def _rules(self) -> Iterator[tuple[tuple[Atom, ...], Formula | None, bool]]:
        """Heads and bodies; of a rule with several true heads, one each; of a constraint, no head."""
        for rule in self._part.rules:
            if isinstance(rule, DisjunctiveRule):
                yield rule.heads, rule.body, True
            else:
                for head in rule.heads:
                    if head.relation in self._names:
                        yield (head,), rule.body, True
        for deny in self._part.denies:
            yield (), deny.body, False

    def _conjunctions(self, rule: tuple[tuple[Atom, ...], Formula | None, bool], number: int) -> Iterator[_Conjunction]:
        heads, body, _ = rule
        for choice, literals in enumerate(alternatives(body)):
            taken = all_names([*literals, *(term for head in heads for term in head.args)])
            found: list[Formula] = []
            for literal in literals:
                if isinstance(literal, Atom) and literal.relation in self._names:
                    plain, values = self._plain(literal, taken)
                    found.append(plain)
                    # A literal joins with no NULL, and no NULL is equal to a value.
                    found += [
                        Comparison("=", Variable(name), term, span=term.span)
                        for name, term in values.items()
                        if not isinstance(term, Wildcard)
                    ]
                else:
                    found.append(literal)
            made: list[Atom] = []
            computed: dict[str, Term] = {}
            for head in heads:
                plain, values = self._plain(head, taken)
                made.append(plain)
                computed |= values
            wanted = [*made, *(each for each in found if self._is_undecided(each))]
            columns = {v: computed.get(v, Variable(v)) for atom in wanted for v in _variables(atom)}
            view = fresh_name(f"instance_{number}_{choice}", self._state.compiled.checked.schemas)
            yield _Conjunction(view, tuple(made), tuple(found), columns)

    def _plain(self, atom: Atom, taken: set[str]) -> tuple[Atom, dict[str, Term]]:
        """The atom with variables and constants only, and the terms for new variables. A constant NULL occurs in a head
        only; in a body it is equal to nothing."""
        args: list[Term] = []
        values: dict[str, Term] = {}
        for term in atom.args:
            if isinstance(term, Variable | Constant):
                args.append(term)
                continue
            name = fresh_name("value", taken)
            taken.add(name)
            args.append(Variable(name))
            values[name] = term
        return replace(atom, args=tuple(args)), values

    def _is_undecided(self, literal: Formula) -> bool:
        inner = literal.body if isinstance(literal, Not) else literal
        return isinstance(inner, Atom) and inner.relation in self._names

    def _items(self, parts: Sequence[_Conjunction]) -> tuple[Item, ...]:
        """The program for grounding: all alternatives hold, and undecided negated literals are omitted."""
        items = self._state.compiled.program.items
        made: list[Item] = [each for each in items if isinstance(each, TypeDeclaration | FunctorDeclaration)]
        made += [
            replace(each, keys=(), constraints=(), qualifiers=(), part_of="")
            for each in items
            if isinstance(each, Declaration)
        ]
        for each in parts:
            body = And(tuple(x for x in each.body if not (isinstance(x, Not) and self._is_undecided(x))) or (_TRUE,))
            for head in each.heads:
                terms = (each.columns.get(x.name, x) if isinstance(x, Variable) else x for x in head.args)
                made.append(Rule((replace(head, args=tuple(terms)),), body))
            made += [Deny(Atom(each.view, tuple(each.columns.values())), body)]
            made += [DenyPolicy(each.view, (("on_violation", "warn"),))]
        return tuple(made)

    def _fill(self, scratch: Database) -> None:
        """Insert the rows of all decided relations, also of views."""
        with scratch.transaction() as tx:
            for name in sorted(scratch.schemas.keys() & self._state.compiled.visible.keys()):
                rows = list(self._state.engine.rows(name))
                if rows:
                    tx.insert(name, rows)

    def _instance(
        self, part: _Conjunction, binding: Mapping[str, Any], possible: Mapping[str, set[Row]]
    ) -> GroundRule | None:
        true: list[Fact] = []
        false: list[Fact] = []
        for literal in part.body:
            if not self._is_undecided(literal):
                continue
            if isinstance(literal, Not):
                assert isinstance(literal.body, Atom)
                false += self._matching(literal.body, binding, possible[literal.body.relation])
            elif isinstance(literal, Atom):
                true.append((literal.relation, _row(literal, binding)))
        return GroundRule(tuple((head.relation, _row(head, binding)) for head in part.heads), tuple(true), tuple(false))

    def _matching(self, atom: Atom, binding: Mapping[str, Any], rows: Iterable[Row]) -> Iterator[Fact]:
        wanted = [None if isinstance(term, Wildcard) else (_value(term, binding),) for term in atom.args]
        for row in rows:
            # NULL matches nothing, as in every literal; NaN is one object.
            if all(
                each is None or (each[0] is not None and each == (value,))
                for each, value in zip(wanted, row, strict=True)
            ):
                yield atom.relation, row


_TRUE = Test("true", ())


def _same(row: Row) -> Row:
    """The row with one object for every NaN."""
    return tuple(math.nan if value != value else value for value in row)


def _variables(literal: Formula) -> Iterator[str]:
    inner = literal.body if isinstance(literal, Not) else literal
    assert isinstance(inner, Atom)
    for term in inner.args:
        if isinstance(term, Variable):
            yield term.name
        elif not isinstance(term, Constant | Wildcard):
            raise UsageError(
                "a negated literal of a rule with alternatives computes a value",
                code="unsupported-alternatives",
                span=literal.span,
                help="compute it in front: `Y = X + 1, !p(Y)`",
            )


def _row(atom: Atom, binding: Mapping[str, Any]) -> Row:
    return tuple(_value(term, binding) for term in atom.args)


def _value(term: Term, binding: Mapping[str, Any]) -> Any:
    if isinstance(term, Variable):
        return binding[term.name]
    assert isinstance(term, Constant)
    return term.value


# ---- solving --------------------------------------------------------------------------------------------------


def _solved(instances: Sequence[GroundRule], schemas: Mapping[str, Schema], limit: int | None) -> Models:
    found, complete = _enumerated(instances, limit)
    cautious = _enumerated(instances, None, mode="cautious")[0][-1:] if found else []
    brave = _enumerated(instances, None, mode="brave")[0][-1:] if found else []

    def shown(facts: Iterable[Fact]) -> dict[str, Rows]:
        known = list(facts)
        return {
            name: Rows.of(schema, Rows.of(schema, [row for relation, row in known if relation == name]).sorted())
            for name, schema in schemas.items()
        }

    return Models(
        tuple(shown(each) for each in found), complete, shown(cautious[0] if cautious else ()),
        shown(brave[0] if brave else ()),
    )  # fmt: skip


def _enumerated(
    instances: Sequence[GroundRule], limit: int | None, mode: str = "auto"
) -> tuple[list[frozenset[Fact]], bool]:
    """The stable models, and whether these are all; in the modes `cautious` and `brave` the last one is the answer."""
    try:
        import clingo  # noqa: PLC0415 - only here
    except ImportError:
        raise UsageError("models need the package `clingo`", code="no-solver", help="pip install clingo") from None
    control = clingo.Control([f"--enum-mode={mode}", f"--models={0 if limit is None else limit + 1}"])
    numbers: dict[Fact, int] = {}
    with control.backend() as backend:

        def atom(fact: Fact) -> int:
            if fact not in numbers:
                numbers[fact] = backend.add_atom(clingo.Function("a", [clingo.Number(len(numbers))]))
            return numbers[fact]

        for each in instances:
            body = [*(atom(fact) for fact in each.true), *(-atom(fact) for fact in each.false)]
            backend.add_rule([atom(fact) for fact in each.heads], body)
    facts = {clingo.Function("a", [clingo.Number(place)]): fact for place, fact in enumerate(numbers)}
    found: list[frozenset[Fact]] = []
    with control.solve(yield_=True) as handle:
        for model in handle:
            found.append(frozenset(facts[symbol] for symbol in model.symbols(atoms=True)))
    return (found, True) if limit is None or len(found) <= limit else (found[:limit], False)
