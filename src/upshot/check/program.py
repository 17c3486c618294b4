"""The checked program: every rule in clause form, every name resolved, every term typed, strata in order."""

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
    """`head :- body.` with one head and a conjunction; disjunctions and several heads were split.

    Every `Constant` is typed and converted, every variable has an entry in `types`. Aggregates stay as terms on
    one side of a `=` comparison (check moves any other aggregate there, onto a fresh variable). Head arguments are
    variables,
    constants or calls. Wildcards occur only in atoms. `origin` leads back to the user's text.
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
    """strict: net changes; nervous: also what was there before, or still is, and was derived through a change."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """`on_violation` is reject or warn; `existing`, what becomes of violations that are there when the constraint is
    stated, is reject or keep. The relation of the same name holds the witnesses."""

    name: str
    on_violation: str = "reject"
    existing: str = "reject"


EVERY: tuple[Mapping[str, object], ...] = ({},)
"""Active for all bindings of the parameters."""


@dataclass(frozen=True, slots=True)
class WindowTable:
    """The rows that came to (`inserted`) or went from (`deleted`) a relation in a rule's window, under a name of their
    own; or pairs of a row that went and one with the same `key` that came (`updated`)."""

    schema: Schema
    relation: str
    operation: str
    key: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleAction:
    """`insert` or `delete` rows of a base relation, or `call` a function; `columns` are the places of its arguments in
    an instance; `text` is what was written."""

    kind: str
    target: str
    columns: tuple[int, ...]
    span: Span | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """`instance`: the values an instance consists of, parameters first, then what the actions use. `shown`: the places
    of those that users see, the parameters or, without any, all variables. `identity`: the places that tell instances
    apart. `triggers`: pairs of a relation and `inserted`, `deleted` or `updated`; one of them is
    enough for a turn.

    `clauses` derive the instances from the current state, the `windows`, and `helpers` that they define themselves.
    `expanded` are helpers of a nervous rule: the rows of a view that are derived through a changed row.
    `before` derive the identities that held before the window already; those do not fire. A strict condition without an
    event is a hidden view, `becomes`, over the identity: its additions are what fires, and if an instance is nothing
    but its identity there are no clauses. A condition that picks whole rows of one relation needs no view: `becomes` is
    that relation, or nothing, and the clauses pick from its window.

    `bindings` are hidden base relations whose rows are the values of parameters that the rule is active for; condition
    and clauses read them. `activations` and `deactivations` are the rows that the text adds and takes away. A rule that
    is not awake has no view: `asleep` are the clauses it would have.
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
    def hears(self) -> frozenset[tuple[str, str]]:
        """The changes that the rule listens to: pairs of a relation and `inserted` or `deleted`. What else it has to be
        told of: `check/active/events.py`."""
        stated = {*self.triggers, *((table.relation, table.operation) for table in self.windows)}
        found = {(relation, sign) for relation, operation in stated for sign in SIGNS[operation]}
        return frozenset(found) if self.is_awake else frozenset()

    @property
    def visible(self) -> Schema:
        """The columns that users see of an instance."""
        return Schema(self.name, tuple(self.instance.columns[place] for place in self.shown))


@dataclass(slots=True)
class CheckedRules:
    """The checked rules, and the hidden views that their conditions are, with all that views have. `expandable` are the
    clauses of views that nervous conditions look through."""

    rules: list[CheckedRule] = field(default_factory=list)
    schemas: dict[str, Schema] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    options: dict[str, ViewOptions] = field(default_factory=dict)
    expandable: Mapping[str, Sequence[Clause]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownRule:
    """A rule that was checked without a finding. Its clauses stay the same as long as the relations that it names have
    the same `schemas`."""

    rule: Rule
    schemas: Mapping[str, Schema]
    clauses: tuple[Clause, ...]

    def fits(self, schemas: Mapping[str, Schema]) -> bool:
        """Test whether every relation of the rule has the schema that the clauses were made for."""
        return all(schemas.get(name) == schema for name, schema in self.schemas.items())


@dataclass(frozen=True, slots=True)
class KnownRules:
    """The rules of a checked program by identity, under its type declarations: a larger program that has them too takes
    their clauses as they are."""

    types: tuple[TypeDeclaration, ...] = ()
    rules: Mapping[int, KnownRule] = field(default_factory=dict)

    def under(self, types: Sequence[TypeDeclaration]) -> Mapping[int, KnownRule]:
        """The rules, if these are the declarations that they were checked under."""
        return self.rules if self.types == tuple(types) else {}


NOTHING_KNOWN = KnownRules()


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """`strata`: the views (constraints included) in evaluation order; each inner tuple is one strongly connected
    component of the dependency graph, so a component is recursive when it has two views or one that uses itself.

    `facts`: the bodiless ground clauses of *base* relations, as tuples of Python values. A bodiless clause of a
    view is an ordinary `Clause` with an empty body. A relation with rules that is also `.input` or `input_part`'s
    key keeps its
    loaded facts in the hidden base relation named by `input_part` (with a clause `r(X…) :- r_input(X…).` added).
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
    """The views of rule conditions, which users cannot name."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Views that were made for another, which they lead to; users do not see them either."""
    functors: Mapping[str, str] = field(default_factory=dict)
    """The functions of users, by `@name`: each name with its types."""
    undecided: frozenset[str] = frozenset()
    """The relations that depend on a rule with alternatives in its head: they have no rows here."""
    warnings: tuple[Diagnostic, ...] = ()
    known: KnownRules = field(default_factory=KnownRules, repr=False, compare=False)
