"""Rules that compute changes of views nobody stores: states of views are asked for with bindings, never computed whole.

Every algorithm that works without stored views (`rod`, `epf`, `propagation`, `differencing`) and every query with bound
arguments (`magic_sets`) is written as a `DemandProgram`: plain rules over generated relations, and an order of *gates*.
A rule without a gate may run whenever its relations grow. A rule with a gate tests the absence of rows, so it runs only
when no rule without a gate has anything left to do and no lower gate has rows waiting: all that was asked below has
then been answered completely. A gate lets through the rows that wait when it opens; what its own rules add waits again.
Magic sets break stratification; the gates are what takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from upshot.check.names.variables import atoms, fresh_name, variables
from upshot.check.program import CheckedProgram, Clause, Literal
from upshot.core.optimizations import ALL, Optimizations
from upshot.core.schema import Column, Role, Schema
from upshot.core.types import Type
from upshot.rewrite.demand.sip import is_bound, next_literal
from upshot.rewrite.normalize.term_type import row_variables
from upshot.rewrite.shapes import aggregate_of, atoms_of
from upshot.syntax.ast import Atom, Constant, Not, Test, Variable


class RowOrigin(Enum):
    """The source of the rows of a generated relation."""

    STORED = "stored"
    """a relation that is stored, read where it lies, in its old or new state"""
    CHANGE = "change"
    """the net change of a stored relation, given before the first rule runs"""
    ASKED = "asked"
    """the bindings that a view's state has been asked for"""
    ANSWERS = "answers"
    """the rows of a view's state found so far, complete for all bindings asked for when the rules are quiet"""
    PART = "part"
    """a step on the way: prefixes of bodies, overestimates, candidates"""
    NET = "net"
    """the result: the exact insertions or deletions of a view"""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The content of a generated relation: rows about `relation`, in `state` (a state's name, or an adornment)."""

    held: RowOrigin
    relation: str
    state: str


@dataclass(frozen=True, slots=True)
class DemandRule:
    """A generated clause; `source` is the clause it was made from, `gate` as in the module's text. The literals at the
    positions `rows` compare whole rows as sets do, with NULL equal to itself; all others join as in any program."""

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
    """Relations that need not be kept to the end, with the last gate that reads them: when a rule of a higher gate is
    about to run, their rows can go, but for results that somebody waits for."""
    program: CheckedProgram | None = field(default=None, repr=False, compare=False)
    """The program whose rules it was made from, as the strategies take them."""
    _nets: Mapping[tuple[str, str], str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        nets = {(m.relation, m.state): name for name, m in self.relations.items() if m.held is RowOrigin.NET}
        object.__setattr__(self, "_nets", nets)

    def net(self, view: str, state: str) -> str | None:
        """The relation that holds the insertions (`plus`) or deletions (`minus`) of a view, if any rule gives some."""
        return self._nets.get((view, state))


@dataclass(frozen=True, slots=True)
class RelationReading:
    """The reading of a relation by a body's literals: the generated relation, and the state of it that must be asked
    for first, if there is one."""

    relation: str
    asked: str | None = None


Read = Callable[[str], RelationReading]


@dataclass(frozen=True, slots=True)
class DerivedRule:
    """The head of a rule to be made from the clause `source`, whose literals are read as `read` says. Negated views are
    tested behind `gate`; if the rule `waits`, all of it stands there. `rows`: {0} if the driver compares whole rows."""

    name: str
    head: Atom
    source: Clause
    read: Read
    gate: int
    rows: frozenset[int] = frozenset()
    waits: bool = False


class DemandBuilder:
    """A demand program being made over a program in normal form.

    `stored` are the views that are there in both states, like base relations. `changed` names the signs (`ins`, `del`)
    that each stored relation can change by; None for all. `helpers` are views that nobody waits for: their changes are
    steps on the way. `needed` are the views and signs (`plus`, `minus`) whose rules must be there; None for all.
    `nervous` views may report more than their net changes. Of the `optimizations`, `sip` joins literals outward and not
    from left to right, and `memo` lets the answers about views that nothing can change serve both states.
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
        """Relations that are joined first, wherever they stand."""
        self._helpers, self._needed, self._nervous = frozenset(helpers), needed, frozenset(nervous)
        self.stored = frozenset(stored) | {n for n, s in program.schemas.items() if s.role is Role.BASE}
        self.level = {name: max(level - 1, 0) for name, level in levels(program).items()}
        self.clauses: dict[str, list[Clause]] = {name: [] for name in program.schemas}
        for clause in program.clauses:
            self.clauses[clause.head.relation].append(clause)
        self.clauses_before: dict[str, list[Clause]] | None = None
        """The rules of the old state, where they are others than those of the new one."""
        self.of_changes = False
        """The program computes changes: the old state is read to find what is deleted."""
        self._changed = changed
        self._steady = self._unaffected() if changed is not None and optimizations.memo else frozenset()
        self.rules: list[DemandRule] = []
        self._known: set[DemandRule] = set()
        self.relations: dict[str, Meaning] = {}
        self.schemas: dict[str, Schema] = {}
        self._names: dict[Meaning, str] = {}
        self._taken = set(program.schemas)
        self.asked: list[tuple[str, str, str]] = []
        """Every state query asked for: view, state, adornment. Query rules are made for each."""
        self.gates = 1 + max(self.level.values(), default=0)
        """Gates below this number belong to query rules: one a level."""

    def program_made(self, views: Iterable[str] = (), last_read: Mapping[str, int] | None = None) -> DemandProgram:
        return DemandProgram(
            tuple(self.rules), dict(self.relations), dict(self.schemas), tuple(views), dict(last_read or {}),
            self.program,
        )  # fmt: skip

    # ---- names ---------------------------------------------------------------------------------------------

    def name(self, relation: str, state: str, *, width: int | None = None) -> str:
        """The generated relation that holds the relation's rows in a state, or their first `width` columns."""
        state = self._one_state(relation, state)
        meaning = Meaning(self._held(relation, state), relation, state)
        if meaning not in self._names:
            named = relation if state == "old" else self._fresh(f"{relation}_{state}")
            schema = self.program.schemas[relation]
            # A row that is gone may have had more digits than its columns declare, in a store of an earlier version.
            gone = self.of_changes and state.startswith(("old", "minus"))
            self._enter(named, meaning, (schema.widest() if gone else schema).columns[:width])
        return self._names[meaning]

    def _held(self, relation: str, state: str) -> RowOrigin:
        if relation in self.stored:
            return RowOrigin.STORED if state in ("old", "new") else RowOrigin.CHANGE
        if state in ("plus", "minus") and relation not in self._helpers:
            return RowOrigin.NET
        return RowOrigin.ANSWERS if state in ("old", "new") else RowOrigin.PART

    def part(self, name: str, about: str, columns: Mapping[str, Type]) -> str:
        """A relation of its own for a step on the way."""
        made = self._fresh(name)
        self._enter(made, Meaning(RowOrigin.PART, about, made), tuple(Column(n, t) for n, t in columns.items()))
        return made

    def _fresh(self, wish: str) -> str:
        return fresh_name(wish, self._taken)

    def _enter(self, name: str, meaning: Meaning, columns: tuple[Column, ...]) -> None:
        self._taken.add(name)
        self._names[meaning] = name
        self.relations[name] = meaning
        self.schemas[name] = Schema(name, columns, Role.BASE if meaning.held in _GIVEN else Role.VIEW)

    def can_change(self, relation: str, sign: str) -> bool:
        """Test whether a stored relation may change by this sign (`ins` or `del`)."""
        return self._changed is None or sign in self._changed.get(relation, ())

    def _unaffected(self) -> frozenset[str]:
        """The relations whose new state is the old one: nothing that they rest on changes."""
        steady = {name for name in self.stored if not any(self.can_change(name, sign) for sign in ("ins", "del"))}
        for layer in self.program.strata:
            read = {atom.relation for v in layer for c in self.clauses[v] for each in c.body for atom in atoms(each)}
            if layer[0] not in self.stored and read.difference(layer) <= steady:
                steady.update(layer)
        return frozenset(steady)

    def is_steady(self, relation: str) -> bool:
        """Test whether the relation is known to be in the new state what it is in the old one."""
        return relation in self._steady and self.clauses_before is None

    def _one_state(self, relation: str, state: str) -> str:
        return "old" if state == "new" and self.is_steady(relation) else state

    def wants(self, view: str, sign: str) -> bool:
        """Test whether anything depends on the view's changes of this sign (`plus` or `minus`)."""
        return self._needed is None or (view, sign) in self._needed

    def is_nervous(self, view: str) -> bool:
        return view in self._nervous

    # ---- asking --------------------------------------------------------------------------------------------

    def ask(self, atom: Atom, state: str, bound: Collection[str], given: Sequence[Literal], types: Mapping[str, Type],
            source: Clause | None = None, gate: int | None = None) -> None:  # fmt: skip
        """`m_r^ad(bound arguments) :- given.`: whatever satisfies `given` asks for the atom's rows in a state, behind
        a gate if there is one."""
        adornment = "".join("b" if is_bound(term, bound) else "f" for term in atom.args)
        if self.is_aggregate(atom.relation) and adornment:
            # A group's value is asked for by its group; a value that is known already is compared afterwards.
            adornment = adornment[:-1] + "f"
        args = tuple(term for term, letter in zip(atom.args, adornment, strict=True) if letter == "b")
        head = Atom(self.magic(atom.relation, state, adornment), args)
        given = (*given, *self._without_null(atom, adornment, types))
        if tuple(given) != (head,):
            self.add("M", head, given, types, source=source, gate=gate)

    def _without_null(self, atom: Atom, adornment: str, types: Mapping[str, Type]) -> list[Literal]:
        """NULL is not asked for in a column that has none."""
        columns = self.program.schemas[atom.relation].columns
        places = zip(atom.args, adornment, columns, strict=True)
        bound = [(term, column.type) for term, letter, column in places if letter == "b"]
        return [
            Not(Test("is_null", (term,)))
            for term, type in bound
            if isinstance(term, Variable) and types[term.name].nullable and not type.nullable
        ]

    def magic(self, relation: str, state: str, adornment: str) -> str:
        """The relation of the bindings that this state query was asked for."""
        state = self._one_state(relation, state)
        suffix = "" if state == "old" else f"_{state}"
        meaning = Meaning(RowOrigin.ASKED, relation, f"{state} {adornment}")
        if meaning not in self._names:
            columns = self.program.schemas[relation].columns
            # A value that is asked for may have more digits than the column it is looked for in.
            bound = tuple(
                replace(c, type=c.type.widest()) for c, letter in zip(columns, adornment, strict=True) if letter == "b"
            )
            self._enter(self._fresh(f"m_{relation}{suffix}_{adornment or 'all'}"), meaning, bound)
            self.asked.append((relation, state, adornment))
        return self._names[meaning]

    def rules_in(self, view: str, state: str) -> list[Clause]:
        """The clauses that define a view in a state."""
        return self.clauses[view] if state != "old" or self.clauses_before is None else self.clauses_before[view]

    def is_aggregate(self, relation: str) -> bool:
        clauses = (*self.clauses.get(relation, ()), *(self.clauses_before or {}).get(relation, ()))
        return any(aggregate_of(clause) is not None for clause in clauses)

    def state(self, state: str) -> Read:
        """Reads every relation in one state, asking for the rows of views that are not stored in it."""

        def read(relation: str) -> RelationReading:
            name = self.name(relation, state)
            return RelationReading(name, None if self.relations[name].held is RowOrigin.STORED else state)

        return read

    # ---- rules ---------------------------------------------------------------------------------------------

    def row(self, relation: str) -> tuple[Variable, ...]:
        """One variable per column, for rules about whole rows."""
        return tuple(map(Variable, row_variables(self.program.schemas[relation])))

    def row_types(self, relation: str) -> dict[str, Type]:
        schema = self.program.schemas[relation]
        return dict(zip(row_variables(schema), schema.types, strict=True))

    def gate(self, view: str, step: int) -> int:
        """The gates of a view's changes lie above those of all queries and of all changes below the view."""
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
        """`derived.head :- driver, rest.`, from the driver outward: before a view is read whose rows must be asked for,
        what precedes it becomes a relation of its own and asks for them."""
        types = derived.source.types
        if driver is not None and 0 in derived.rows:
            driver, rest, types = self._with_nulls(driver, rest, types)
        _Chain(self, derived, types).run(driver, list(rest))

    def _with_nulls(
        self, driver: Atom, rest: Sequence[Literal], types: Mapping[str, Type]
    ) -> tuple[Atom, Sequence[Literal], Mapping[str, Type]]:
        """A literal that compares whole rows finds NULL by a variable that is NULL: the constant matches nothing."""
        args, tests, known = list(driver.args), list[Literal](), dict(types)
        for place, term in enumerate(args):
            if isinstance(term, Constant) and term.value is None:
                args[place] = missing = Variable(fresh_name("Null", set(known)))
                known[missing.name] = self.schemas[driver.relation].columns[place].type
                tests.append(Test("is_null", (missing,)))
        return replace(driver, args=tuple(args)), (*tests, *rest), known


class _Chain:
    """A body on its way to rules: `prefix` has been joined so far."""

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
        given = frozenset(self._bound)
        while waiting:
            place = next_literal(
                waiting, self._bound, self._types, self._is_asked, outward=self._demand.sip, small=self._demand.small,
                given=given, rule=self._derived.source.body,
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

    def _is_asked(self, literal: Literal) -> bool:
        atom = literal.body if isinstance(literal, Not) else literal
        return isinstance(atom, Atom) and self._derived.read(atom.relation).asked is not None

    def _positive(self, atom: Atom, waiting: Sequence[Literal]) -> None:
        reading = self._derived.read(atom.relation)
        if reading.asked is not None:
            self._cut((atom, *waiting))
            self._demand.ask(atom, reading.asked, self._bound, self._prefix, self._types, self._derived.source)
        self._prefix.append(replace(atom, relation=reading.relation))

    def _negative(self, literal: Not, atom: Atom, waiting: Sequence[Literal]) -> None:
        reading = self._derived.read(atom.relation)
        if reading.asked is not None:
            if not self._gated or not set(variables(atom)).issubset(variables(self._prefix[0])):
                self._cut((literal, *waiting))
            asking = self._prefix[:1]
            self._demand.ask(atom, reading.asked, self._bound, asking, self._types, self._derived.source)
            self._gated = True
        self._prefix.append(replace(literal, body=replace(atom, relation=reading.relation)))

    def _cut(self, later: Iterable[Literal]) -> None:
        """Make one literal of what was joined so far."""
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
        self._demand.add(
            name,
            head,
            self._prefix,
            self._types,
            source=self._derived.source,
            gate=gate,
            rows=self._rows if self._prefix else (),
        )


_GIVEN = (RowOrigin.STORED, RowOrigin.CHANGE)

STEPS = 5
"""Gates of the changes of one level: negations in bodies, the new state of the stratum itself, questions to the other
state, net changes, the new state as strata above read it."""
IN_BODIES, OWN_STATE, FILTERING, NETTING, STATE_ABOVE = range(STEPS)


def guards(atom: Atom, types: Mapping[str, Type]) -> list[Literal]:
    """The conditions on the change of a negated relation for it to matter: a NULL makes the negation true before and
    after."""
    names = [term for term in atom.args if isinstance(term, Variable) and types[term.name].nullable]
    return [Not(Test("is_null", (term,))) for term in names]


def levels(program: CheckedProgram) -> dict[str, int]:
    """The level of every relation: 0 if no rule defines it, else one more than the highest that its rules read."""
    found = dict.fromkeys(program.schemas, 0)
    read: dict[str, set[str]] = {name: set() for name in program.schemas}
    for clause in program.clauses:
        read[clause.head.relation].update(atom.relation for _, atom, _ in atoms_of(clause))
    for layer in program.strata:
        below = {name for view in layer for name in read[view]}.difference(layer)
        found.update(dict.fromkeys(layer, 1 + max((found[name] for name in below), default=0)))
    return found
