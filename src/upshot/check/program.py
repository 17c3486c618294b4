"""The checked program: rules in clause form, names resolved, terms typed, strata in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upshot.core.diagnostic import Diagnostic
from upshot.core.operations import SIGNS
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import Type
from upshot.syntax.ast import Atom, Comparison, Directive, Not, Rule, Test, TypeDeclaration

if TYPE_CHECKING:
    from upshot.check.strata import Need

Literal = Atom | Not | Comparison | Test
"""One conjunct of a clause. A `Not` holds an `Atom` or a `Test` (negated comparisons are turned round by check)."""


@dataclass(frozen=True, slots=True)
class Clause:
    """`head :- body.` with one head and a conjunction of literals.

    Every `Constant` is typed and converted, every variable has an entry in `types`. An aggregate occurs only as the
    right side of `Variable = aggregate`. Head arguments are variables, constants or calls. Wildcards occur only in
    atoms. `origin` is the place in the user's text.
    """

    head: Atom
    body: tuple[Literal, ...]
    types: Mapping[str, Type] = field(hash=False)
    origin: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ViewOptions:
    strategy: str = "auto"
    materialized: bool | None = None
    policy: str = "auto"
    events: str = "all"
    """The changes that are reported: all, insert, delete or none."""
    semantics: str = "strict"
    """strict: net changes; nervous: also rows without a net change that were derived from a changed row."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint and its options. `existing` is for violations that exist when the constraint is defined. The
    relation of the same name contains the witnesses."""

    name: str
    on_violation: str = "reject"
    existing: str = "reject"


CONSTRAINT_OPTIONS: Mapping[str, tuple[str, ...]] = {"on_violation": ("reject", "warn"), "existing": ("reject", "keep")}
"""The values of each option of constraints, its default first."""


EVERY: tuple[Mapping[str, object], ...] = ({},)
"""Active for all bindings of the parameters."""


@dataclass(frozen=True, slots=True)
class WindowTable:
    """A table of the rows `inserted` into or `deleted` from a relation in the window of a rule, or of pairs of a
    deleted row and an inserted one with the same `key` (`updated`)."""

    schema: Schema
    relation: str
    operation: str
    key: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleAction:
    """`insert` or `delete` rows of a base relation, or `call` a function; `columns` are the places of its arguments in
    an instance, `text` is its source text."""

    kind: str
    target: str
    columns: tuple[int, ...]
    span: Span | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """`instance`: the columns of an instance, parameters first, then the arguments of actions. `shown`: the places of
    the columns that users see, the parameters or, without any, all variables. `identity`: the places that identify an
    instance. `triggers`: pairs of a relation and `inserted`, `deleted` or `updated`; any of them causes a turn.

    `clauses` derive the instances from the current state, the `windows`, and `helpers` that they define. `expanded` are
    helpers of a nervous rule: the rows of a view that are derived from a changed row. `before` derive the identities
    that held before the window; those do not fire. A strict condition without an event is a hidden view, `becomes`,
    over the identity: its inserted rows fire the rule, and if an instance has no other columns there are no clauses. A
    condition that selects whole rows of one relation needs no view: `becomes` is that relation, or None, and the
    clauses select from its window.

    `bindings` are hidden base relations with the parameter values for which the rule is active; condition and clauses
    read them. `activations` and `deactivations` are the rows that the text inserts and deletes. A rule that is not
    awake has no view: `asleep` are the clauses that it would have.
    """

    name: str
    parameters: tuple[str, ...]
    instance: Schema
    shown: tuple[int, ...]
    identity: tuple[int, ...]
    triggers: tuple[tuple[str, str], ...]
    windows: tuple[WindowTable, ...] = ()
    clauses: tuple[Clause, ...] = ()
    helpers: Mapping[str, Schema] = field(default_factory=dict, hash=False)
    expanded: Mapping[str, str] = field(default_factory=dict, hash=False)
    before: tuple[Clause, ...] = ()
    before_schema: Schema | None = None
    becomes: str | None = None
    actions: tuple[RuleAction, ...] = ()
    priority: int = 0
    semantics: str = "strict"
    coupling: str = "deferred"
    per: str = "set"
    precedes: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    activations: tuple[Mapping[str, object], ...] = field(default=EVERY, hash=False)
    deactivations: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    bindings: tuple[Schema, ...] = ()
    asleep: tuple[Clause, ...] = ()
    span: Span | None = field(default=None, compare=False)

    @property
    def is_awake(self) -> bool:
        """Test whether the rule is active for all values, or for those that `bindings` have."""
        return bool(self.bindings) or self.activations == EVERY

    @property
    def reacts_to(self) -> frozenset[tuple[str, str]]:
        """The changes that the rule reacts to: pairs of a relation and `inserted` or `deleted`. See `relevant_changes`
        in `check/active/events.py` for those that must be reported in addition."""
        stated = {*self.triggers, *((table.relation, table.operation) for table in self.windows)}
        found = {(relation, sign) for relation, operation in stated for sign in SIGNS[operation]}
        return frozenset(found) if self.is_awake else frozenset()

    @property
    def visible(self) -> Schema:
        """The schema of an instance as users see it."""
        return Schema(self.name, tuple(self.instance.columns[place] for place in self.shown))


@dataclass(slots=True)
class CheckedRules:
    """The checked rules, and the hidden views of their conditions. `expandable` are the clauses of the views that
    nervous conditions expand."""

    rules: list[CheckedRule] = field(default_factory=list)
    schemas: dict[str, Schema] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    options: dict[str, ViewOptions] = field(default_factory=dict)
    expandable: Mapping[str, Sequence[Clause]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownRule:
    """A rule that was checked without findings. Its clauses are valid as long as its relations have the same
    `schemas`."""

    rule: Rule
    schemas: Mapping[str, Schema]
    clauses: tuple[Clause, ...]

    def fits(self, schemas: Mapping[str, Schema]) -> bool:
        """Test whether every relation of the rule still has the same schema."""
        return all(schemas.get(name) == schema for name, schema in self.schemas.items())


@dataclass(frozen=True, slots=True)
class KnownRules:
    """The rules of a checked program by identity, with its type declarations: a larger program reuses their clauses."""

    types: tuple[TypeDeclaration, ...] = ()
    rules: Mapping[int, KnownRule] = field(default_factory=dict)

    def under(self, types: Sequence[TypeDeclaration]) -> Mapping[int, KnownRule]:
        """The rules, if they were checked with these declarations."""
        return self.rules if self.types == tuple(types) else {}


NOTHING_KNOWN = KnownRules()


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """`strata`: the views and constraints in evaluation order; each inner tuple is a strongly connected component of
    the dependency graph, so that a component is recursive if it has two views, or one that uses itself.

    `facts`: the facts of base relations, as tuples of Python values. A fact of a view is a `Clause` with an empty body.
    The rows that a view reads from files are in the hidden base relation `input_part[view]`, with an additional clause
    `r(X…) :- r_input(X…).`
    """

    schemas: Mapping[str, Schema]
    clauses: tuple[Clause, ...]
    facts: Mapping[str, tuple[tuple[object, ...], ...]]
    strata: tuple[tuple[str, ...], ...]
    options: Mapping[str, ViewOptions] = field(default_factory=dict)
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    directives: tuple[Directive, ...] = ()
    input_part: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[CheckedRule, ...] = ()
    """Active rules, in the order of their definition."""
    hidden: frozenset[str] = frozenset()
    """The views of rule conditions, which are hidden from users."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Hidden views that belong to another view, by their names."""
    functors: Mapping[str, str] = field(default_factory=dict)
    """The signatures of the functions of the user, by `@name`."""
    undecided: frozenset[str] = frozenset()
    """The relations that depend on a rule with alternatives in its head: they have no rows here."""
    warnings: tuple[Diagnostic, ...] = ()
    known: KnownRules = field(default_factory=KnownRules, repr=False, compare=False)
