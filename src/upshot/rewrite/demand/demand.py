"""Demand programs: rules that query the states of views without stored rows by bindings and never compute them whole.

Every strategy without stored views (`rod`, `epf`, `propagation`, `differencing`) and every query with bound arguments
(`magic_sets`) becomes a `DemandProgram`: plain rules over generated relations, and an order of *gates*. A rule without
a gate may run whenever its relations grow. A rule with a gate tests the absence of rows, so it runs only when the rules
without a gate are at their fixpoint and no lower gate has waiting rows: then all queries below it are answered
completely. A gate lets through the rows that wait when it opens; rows that its own rules add wait for the next time.
Magic sets break stratification; gates replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from upshot.check.names.variables import fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.optimizations import ALL, Optimizations
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Type
from upshot.rewrite.demand.sip import is_bound, next_literal
from upshot.rewrite.shapes import aggregate_of, clauses_by_head, relations_read, row_variables
from upshot.syntax.ast import Atom, Constant, Not, Test, Variable


class RowOrigin(Enum):
    """The source of the rows of a generated relation."""

    STORED = "stored"
    """a stored relation in its old or new state"""
    CHANGE = "change"
    """the net change of a stored relation, an input of the program"""
    BINDINGS = "bindings"
    """the bindings with which a view's state is queried (the magic relation)"""
    ANSWERS = "answers"
    """the rows of a view's state found so far; at the fixpoint, complete for all queried bindings"""
    PART = "part"
    """an intermediate result: a prefix of a body, an overestimate, candidates"""
    NET = "net"
    """the result: the exact insertions or deletions of a view"""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The content of a generated relation: rows about `relation`, in `state` (a state's name, or an adornment)."""

    origin: RowOrigin
    relation: str
    state: str


@dataclass(frozen=True, slots=True)
class DemandRule:
    """A generated clause; `source` is the clause it was made from, `gate` as in the module's docstring. The literals at
    the positions `rows` compare whole rows, with NULL equal to itself; all others join as in any program."""

    name: str
    clause: Clause
    source: Clause | None = None
    gate: int | None = None
    rows: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class DemandProgram:
    rules: tuple[DemandRule, ...]
    relations: Mapping[str, Meaning] = field(hash=False)
    schemas: Mapping[str, Schema] = field(hash=False)
    views: tuple[str, ...] = ()
    """The views whose changes it computes, in the order of evaluation."""
    last_read: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Relations whose rows can be dropped early, with the last gate that reads them: before a rule of a higher gate
    runs, all of them but the reported changes may be dropped."""
    program: CheckedProgram | None = field(default=None, repr=False, compare=False)
    """The program whose rules it was made from, as prepared for the strategies."""
    _nets: Mapping[tuple[str, str], str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        nets = {(m.relation, m.state): name for name, m in self.relations.items() if m.origin is RowOrigin.NET}
        object.__setattr__(self, "_nets", nets)

    def net(self, view: str, state: str) -> str | None:
        """The relation of the insertions (`plus`) or deletions (`minus`) of a view, if any rule derives them."""
        return self._nets.get((view, state))


@dataclass(frozen=True, slots=True)
class RelationReading:
    """The generated relation that a body reads in place of a relation, and the state that must be queried first, if
    any."""

    relation: str
    queried_state: str | None = None


Read = Callable[[str], RelationReading]


@dataclass(frozen=True, slots=True)
class DerivedRule:
    """A rule to be made from the clause `source`; `read` maps the relations of its literals. Negated views are tested
    behind `gate`; if the rule `waits`, all of it is behind the gate. `rows`: {0} if the driver compares whole rows."""

    name: str
    head: Atom
    source: Clause
    read: Read
    gate: int
    rows: frozenset[int] = frozenset()
    waits: bool = False


class DemandBuilder:
    """A demand program under construction, over a program in normal form.

    `stored` views can be read in both states, like base relations. `changed` has the signs (`ins`, `del`) of the
    changes of each stored relation; None: all. The changes of `helpers` are not reported. `needed` are the views and
    signs (`plus`, `minus`) whose rules are generated; None: all. `nervous` views may report more than their net
    changes. Of the `optimizations`, `sip` joins literals outward instead of from left to right, and `memo` uses the
    answers about views that cannot change for both states.
    """

    def __init__(
        self,
        program: CheckedProgram,
        *,
        stored: Collection[str] = (),
        changed: Mapping[str, Collection[str]] | None = None,
        helpers: Collection[str] = (),
        needed: Collection[tuple[str, str]] | None = None,
        nervous: Collection[str] = (),
        optimizations: Optimizations = ALL,
    ) -> None:
        self.program, self.sip = program, optimizations.sip
        self.small: frozenset[str] = frozenset()
        """Relations that are joined first, wherever they occur in a body."""
        self._helpers, self._needed, self._nervous = frozenset(helpers), needed, frozenset(nervous)
        self.stored = frozenset(stored) | {n for n, s in program.schemas.items() if s.role is Role.BASE}
        self.level = {name: max(level - 1, 0) for name, level in levels(program).items()}
        self.clauses: Mapping[str, list[Clause]] = clauses_by_head(program.clauses)
        self.clauses_before: Mapping[str, list[Clause]] | None = None
        """The rules of the old state, if they differ from those of the new one."""
        self.of_changes = False
        """The program computes changes: the old state is read to find deleted rows."""
        self._changed = changed
        self._unchanged = self._unaffected() if changed is not None and optimizations.memo else frozenset()
        self.rules: list[DemandRule] = []
        self._known: set[DemandRule] = set()
        self.relations: dict[str, Meaning] = {}
        self.schemas: dict[str, Schema] = {}
        self._names: dict[Meaning, str] = {}
        self._taken = set(program.schemas)
        self.state_queries: list[tuple[str, str, str]] = []
        """View, state and adornment of every state query; `add_query_rules` adds the rules that answer them."""
        self.gates = 1 + max(self.level.values(), default=0)
        """Gates below this number belong to query rules: one per level."""

    def program_made(self, views: Iterable[str] = (), last_read: Mapping[str, int] | None = None) -> DemandProgram:
        return DemandProgram(
            tuple(self.rules), dict(self.relations), dict(self.schemas), tuple(views), dict(last_read or {}),
            self.program,
        )  # fmt: skip

    # ---- names ---------------------------------------------------------------------------------------------

    def name(self, relation: str, state: str, *, width: int | None = None) -> str:
        """The generated relation with the relation's rows in a state, or their first `width` columns."""
        state = self._one_state(relation, state)
        meaning = Meaning(self._origin(relation, state), relation, state)
        if meaning not in self._names:
            named = relation if state == "old" else self._fresh(f"{relation}_{state}")
            schema = self.program.schemas[relation]
            # In a store of an earlier version, deleted rows may have more digits than their columns declare.
            deleted = self.of_changes and state.startswith(("old", "minus"))
            self._enter(named, meaning, (schema.widest() if deleted else schema).columns[:width])
        return self._names[meaning]

    def _origin(self, relation: str, state: str) -> RowOrigin:
        if relation in self.stored:
            return RowOrigin.STORED if state in ("old", "new") else RowOrigin.CHANGE
        if state in ("plus", "minus") and relation not in self._helpers:
            return RowOrigin.NET
        return RowOrigin.ANSWERS if state in ("old", "new") else RowOrigin.PART

    def part(self, name: str, about: str, columns: Mapping[str, Type]) -> str:
        """A new relation for an intermediate result."""
        made = self._fresh(name)
        self._enter(made, Meaning(RowOrigin.PART, about, made), tuple(Column(n, t) for n, t in columns.items()))
        return made

    def _fresh(self, base: str) -> str:
        return fresh_name(base, self._taken)

    def _enter(self, name: str, meaning: Meaning, columns: tuple[Column, ...]) -> None:
        self._taken.add(name)
        self._names[meaning] = name
        self.relations[name] = meaning
        self.schemas[name] = Schema(name, columns, Role.BASE if meaning.origin in INPUTS else Role.VIEW)

    def can_change(self, relation: str, sign: str) -> bool:
        """Test whether a stored relation may have insertions (`ins`) or deletions (`del`)."""
        return self._changed is None or sign in self._changed.get(relation, ())

    def _unaffected(self) -> frozenset[str]:
        """The relations that depend on no relation that may change."""
        found = {name for name in self.stored if not any(self.can_change(name, sign) for sign in ("ins", "del"))}
        for layer in self.program.strata:
            read = {name for view in layer for clause in self.clauses[view] for name in relations_read(clause)}
            if layer[0] not in self.stored and read.difference(layer) <= found:
                found.update(layer)
        return frozenset(found)

    def is_unchanged(self, relation: str) -> bool:
        """Test whether the relation is known to have the same rows in both states."""
        return relation in self._unchanged and self.clauses_before is None

    def _one_state(self, relation: str, state: str) -> str:
        return "old" if state == "new" and self.is_unchanged(relation) else state

    def is_needed(self, view: str, sign: str) -> bool:
        """Test whether anything depends on the view's changes of this sign (`plus` or `minus`)."""
        return self._needed is None or (view, sign) in self._needed

    def is_nervous(self, view: str) -> bool:
        return view in self._nervous

    # ---- state queries -------------------------------------------------------------------------------------

    def request_rows(
        self, atom: Atom, state: str, bound: Collection[str], body: Sequence[Literal], types: Mapping[str, Type],
        source: Clause | None = None, gate: int | None = None,
    ) -> None:  # fmt: skip
        """Add the rule `m_r^ad(bound arguments) :- body.`: each solution of the body queries the rows of the atom in a
        state, behind the gate if there is one."""
        adornment = "".join("b" if is_bound(term, bound) else "f" for term in atom.args)
        if self.is_aggregate(atom.relation) and adornment:
            # Queries bind the group only; a bound value is compared afterwards.
            adornment = adornment[:-1] + "f"
        args = tuple(term for term, letter in zip(atom.args, adornment, strict=True) if letter == "b")
        head = Atom(self.magic(atom.relation, state, adornment), args)
        body = (*body, *self._not_null(atom, adornment, types))
        if tuple(body) != (head,):
            self.add("M", head, body, types, source=source, gate=gate)

    def _not_null(self, atom: Atom, adornment: str, types: Mapping[str, Type]) -> list[Literal]:
        """Tests that leave out NULL for columns that cannot be NULL."""
        columns = self.program.schemas[atom.relation].columns
        places = zip(atom.args, adornment, columns, strict=True)
        bound = [(term, column.type) for term, letter, column in places if letter == "b"]
        return [
            Not(Test("is_null", (term,)))
            for term, type in bound
            if isinstance(term, Variable) and types[term.name].nullable and not type.nullable
        ]

    def magic(self, relation: str, state: str, adornment: str) -> str:
        """The relation of the bindings of a state query."""
        state = self._one_state(relation, state)
        suffix = "" if state == "old" else f"_{state}"
        meaning = Meaning(RowOrigin.BINDINGS, relation, f"{state} {adornment}")
        if meaning not in self._names:
            columns = self.program.schemas[relation].columns
            # A queried value may have more digits than the column declares.
            bound = tuple(
                replace(c, type=c.type.widest()) for c, letter in zip(columns, adornment, strict=True) if letter == "b"
            )
            self._enter(self._fresh(f"m_{relation}{suffix}_{adornment or 'all'}"), meaning, bound)
            self.state_queries.append((relation, state, adornment))
        return self._names[meaning]

    def rules_in(self, view: str, state: str) -> list[Clause]:
        """The clauses that define a view in a state."""
        return self.clauses[view] if state != "old" or self.clauses_before is None else self.clauses_before[view]

    def is_aggregate(self, relation: str) -> bool:
        clauses = (*self.clauses.get(relation, ()), *(self.clauses_before or {}).get(relation, ()))
        return any(aggregate_of(clause) is not None for clause in clauses)

    def state(self, state: str) -> Read:
        """Read every relation in one state; views that are not stored are queried."""

        def read(relation: str) -> RelationReading:
            name = self.name(relation, state)
            return RelationReading(name, None if self.relations[name].origin is RowOrigin.STORED else state)

        return read

    # ---- rules ---------------------------------------------------------------------------------------------

    def row(self, relation: str) -> tuple[Variable, ...]:
        """One variable per column, for rules about whole rows."""
        return tuple(map(Variable, row_variables(self.program.schemas[relation])))

    def row_types(self, relation: str) -> dict[str, Type]:
        schema = self.program.schemas[relation]
        return dict(zip(row_variables(schema), schema.types, strict=True))

    def gate(self, view: str, step: int) -> int:
        """A gate of a view's changes; it is above those of all queries and of all changes below the view."""
        return self.gates + STEPS * self.level[view] + step

    def add(
        self, name: str, head: Atom, body: Iterable[Literal], types: Mapping[str, Type], *,
        source: Clause | None = None, gate: int | None = None, rows: Iterable[int] = (),
    ) -> None:  # fmt: skip
        literals = tuple(body)
        used = {v for part in (head, *literals) for v in variables(part)}
        clause = Clause(
            head, literals, {v: t for v, t in types.items() if v in used}, source.origin if source else None
        )
        rule = DemandRule(name, clause, source, gate, frozenset(rows))
        if rule not in self._known:
            self._known.add(rule)
            self.rules.append(rule)

    def derive(self, derived: DerivedRule, driver: Atom | None, rest: Sequence[Literal]) -> None:
        """Add `derived.head :- driver, rest.`, joined from the driver outward. Before a view that must be queried, the
        literals so far become an intermediate relation, whose rows are the bindings of the query."""
        types = derived.source.types
        if driver is not None and 0 in derived.rows:
            driver, rest, types = self._with_nulls(driver, rest, types)
        _Chain(self, derived, types).run(driver, list(rest))

    def _with_nulls(
        self, driver: Atom, rest: Sequence[Literal], types: Mapping[str, Type]
    ) -> tuple[Atom, Sequence[Literal], Mapping[str, Type]]:
        """Replace NULL constants by variables that are tested for NULL: the driver compares whole rows, and a NULL
        constant would match nothing."""
        args, tests, known = list(driver.args), list[Literal](), dict(types)
        for place, term in enumerate(args):
            if isinstance(term, Constant) and term.value is None:
                args[place] = missing = Variable(fresh_name("Null", set(known)))
                known[missing.name] = self.schemas[driver.relation].columns[place].type
                tests.append(Test("is_null", (missing,)))
        return replace(driver, args=tuple(args)), (*tests, *rest), known


class _Chain:
    """Splits one body into rules; `_prefix` are the literals joined so far."""

    def __init__(self, demand: DemandBuilder, derived: DerivedRule, types: Mapping[str, Type]) -> None:
        self._demand, self._derived, self._types = demand, derived, types
        self._rows = derived.rows
        self._prefix: list[Literal] = []
        self._bound: set[str] = set()
        self._gated = False

    def run(self, driver: Atom | None, waiting: list[Literal]) -> None:
        if driver is not None:
            self._prefix.append(driver)
            self._bound.update(variables(driver))
        initial = frozenset(self._bound)
        while waiting:
            place = next_literal(
                waiting, self._bound, self._types, self._is_queried, outward=self._demand.sip, small=self._demand.small,
                initial=initial, rule=self._derived.source.body,
            )  # fmt: skip
            literal = waiting.pop(place)
            match literal:
                case Atom():
                    self._positive(literal, waiting)
                case Not(Atom() as atom):
                    self._negative(literal, atom, waiting)
                case _:
                    self._prefix.append(literal)
            self._bound.update(variables(literal, inside_aggregates=False))
        self._emit(self._derived.head, self._derived.name)

    def _is_queried(self, literal: Literal) -> bool:
        atom = literal.body if isinstance(literal, Not) else literal
        return isinstance(atom, Atom) and self._derived.read(atom.relation).queried_state is not None

    def _positive(self, atom: Atom, waiting: Sequence[Literal]) -> None:
        reading = self._derived.read(atom.relation)
        if reading.queried_state is not None:
            self._cut((atom, *waiting))
            self._query(atom, reading.queried_state, self._prefix)
        self._prefix.append(replace(atom, relation=reading.relation))

    def _negative(self, literal: Not, atom: Atom, waiting: Sequence[Literal]) -> None:
        reading = self._derived.read(atom.relation)
        if reading.queried_state is not None:
            if not self._gated or not set(variables(atom)).issubset(variables(self._prefix[0])):
                self._cut((literal, *waiting))
            self._query(atom, reading.queried_state, self._prefix[:1])
            self._gated = True
        self._prefix.append(replace(literal, body=replace(atom, relation=reading.relation)))

    def _query(self, atom: Atom, state: str, body: Sequence[Literal]) -> None:
        self._demand.request_rows(atom, state, self._bound, body, self._types, self._derived.source)

    def _cut(self, later: Iterable[Literal]) -> None:
        """Replace the literals joined so far by one literal of an intermediate relation."""
        if len(self._prefix) <= 1 and not self._gated:
            return
        needed = {v for literal in (*later, self._derived.head) for v in variables(literal)}
        kept = {v: self._types[v] for p in self._prefix for v in variables(p) if v in needed and v in self._bound}
        view = self._derived.source.head.relation
        name = self._demand.part(f"{view}_sup", view, kept)
        atom = Atom(name, tuple(map(Variable, kept)))
        self._emit(atom, "S")
        self._prefix, self._gated, self._rows = [atom], False, frozenset({0})

    def _emit(self, head: Atom, name: str) -> None:
        gate = self._derived.gate if self._gated or self._derived.waits else None
        rows = self._rows if self._prefix else ()
        self._demand.add(name, head, self._prefix, self._types, source=self._derived.source, gate=gate, rows=rows)


INPUTS = (RowOrigin.STORED, RowOrigin.CHANGE)
"""Relations of these origins have no rules."""

STEPS = 5
"""Gates of the changes of one level: negations in bodies, the new state of the stratum itself, queries of the other
state, net changes, the new state as strata above read it."""
IN_BODIES, OWN_STATE, FILTERING, NETTING, STATE_ABOVE = range(STEPS)


def guards(atom: Atom, types: Mapping[str, Type]) -> list[Literal]:
    """The conditions under which a change of a negated relation is relevant: no NULL, which makes the negation true
    before and after."""
    names = [term for term in atom.args if isinstance(term, Variable) and types[term.name].nullable]
    return [Not(Test("is_null", (term,))) for term in names]


def levels(program: CheckedProgram) -> dict[str, int]:
    """The level of every relation: 0 if no rule defines it, else one more than the highest that its rules read."""
    found, clauses = dict.fromkeys(program.schemas, 0), clauses_by_head(program.clauses)
    for layer in program.strata:
        read = {name for view in layer for clause in clauses[view] for name in relations_read(clause)}
        found.update(dict.fromkeys(layer, 1 + max((found[name] for name in read.difference(layer)), default=0)))
    return found
