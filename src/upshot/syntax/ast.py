"""The syntax tree: frozen nodes, each with its place in the text.

Spans are ignored by comparisons, so `parse(print(p)) == p`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from upshot.core.span import Span
from upshot.core.types import Type


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


# ---- terms ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable(SyntaxNode):
    name: str


@dataclass(frozen=True, slots=True)
class Wildcard(SyntaxNode):
    """`_`: matches anything, NULL included."""


@dataclass(frozen=True, slots=True)
class Parameter(SyntaxNode):
    """`$x` in a query: a value bound by the caller, never spliced into text."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant(SyntaxNode):
    """A Python value (see `core.types`). The parser sets `type` only if the literal determines it (`4u`, `4.0`,
    `date("…")`); `check` sets it in all other constants and converts the value to that type."""

    value: Any
    type: Type | None = None


@dataclass(frozen=True, slots=True)
class Call(SyntaxNode):
    """A function or an operator of `values.functions`: `a + b` is `Call("+", (a, b))`, `-a` is `Call("neg", (a,))`. The
    parser makes `Call("[", (a, b))` of a record `[a, b]` and `Call("$A", (a,))` of a branch `$A(a)`; `check` replaces
    them by functions of `values.structures`."""

    function: str
    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Aggregate(SyntaxNode):
    """`sum E : { body }`; `function` is one of `values.aggregates`; `target` is None for count."""

    function: str
    target: Term | None
    body: Formula


Term = Variable | Wildcard | Parameter | Constant | Call | Aggregate


# ---- formulas (rule bodies) -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Atom(SyntaxNode):
    """`r(t1, …, tn)`. In rule conditions `state` is old, inserted, deleted or updated; elsewhere empty."""

    relation: str
    args: tuple[Term, ...]
    state: str = ""


@dataclass(frozen=True, slots=True)
class Comparison(SyntaxNode):
    """`left op right`, `op` one of `= != < <= > >=`."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Test(SyntaxNode):
    """A built-in predicate: `contains(s, t)`, `match(p, s)`, `is_null(x)`, and `true` / `false` with no arguments."""

    name: str
    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Not(SyntaxNode):
    body: Formula


@dataclass(frozen=True, slots=True)
class And(SyntaxNode):
    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or(SyntaxNode):
    parts: tuple[Formula, ...]


Formula = Atom | Comparison | Test | Not | And | Or


# ---- items ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypeName(SyntaxNode):
    """A type as written: `symbol`, `City`, `decimal(10,2)?`."""

    name: str
    arguments: tuple[int, ...] = ()
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Attribute(SyntaxNode):
    """`d: number`, or `d: min number`. The `lattice` word says which of the values derived for the same other columns
    is kept."""

    name: str
    type: TypeName
    lattice: str = ""


@dataclass(frozen=True, slots=True)
class ForeignKey(SyntaxNode):
    """`foreign(a, …) other(b, …)`: the values of these columns must occur in a row of another relation."""

    columns: tuple[str, ...]
    relation: str
    referred: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Determines(SyntaxNode):
    """`determines(a, … : b, …)`: rows that agree on the first columns agree on the others."""

    columns: tuple[str, ...]
    determined: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class NotNull(SyntaxNode):
    """`notnull(a, …)`"""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValueCheck(SyntaxNode):
    """`check(a > 0, a < b)`: a condition that no row may make false; its variables are the columns."""

    condition: Formula
    name: str = ""


ShortForm = ForeignKey | Determines | NotNull | ValueCheck
"""A constraint written with the declaration of its relation; `name` is empty if the text has none."""


@dataclass(frozen=True, slots=True)
class Declaration(SyntaxNode):
    """`.decl r(a: t, …) key(a, …) check(…)`; `qualifiers` are Soufflé's tuning words, kept and ignored. `part_of` names
    the view that this view belongs to: it is created and dropped with that view, and hidden from users."""

    name: str
    attributes: tuple[Attribute, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    qualifiers: tuple[str, ...] = ()
    constraints: tuple[ShortForm, ...] = ()
    part_of: str = ""
    choice: tuple[tuple[str, ...], ...] = ()
    """`choice-domain x, (y, z)`: no two rows of the relation agree on all columns of one of these domains."""


@dataclass(frozen=True, slots=True)
class BranchDeclaration(SyntaxNode):
    """`Circle { radius: float }` of an algebraic data type; the only branch of a record type has no name."""

    name: str
    fields: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class TypeDeclaration(SyntaxNode):
    """`.type City <: symbol`; Soufflé's `.type City = symbol` and unions `.type T = A | B` keep `equivalent`. Records
    and algebraic data types have `branches` and no bases."""

    name: str
    bases: tuple[TypeName, ...]
    equivalent: bool = False
    branches: tuple[BranchDeclaration, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive(SyntaxNode):
    """`.input r(key="value", …)`; `kind` is input, output or printsize."""

    kind: str
    relation: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ViewDirective(SyntaxNode):
    """`.view r strategy=rod materialized=false policy=strict`, with the options as text."""

    relation: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Rule(SyntaxNode):
    """`head, head :- body.`; a fact has no body."""

    heads: tuple[Atom, ...]
    body: Formula | None = None


@dataclass(frozen=True, slots=True)
class DisjunctiveRule(SyntaxNode):
    """`head | head :- body.`: for each solution of the body, one of the heads holds."""

    heads: tuple[Atom, ...]
    body: Formula | None = None


@dataclass(frozen=True, slots=True)
class FunctorDeclaration(SyntaxNode):
    """`.functor f(x: number): number pure`. The values of a `stateful` function can change with `db.refresh`, which
    increments its `revision`: `stateful(3)`. A `fold` is an aggregate."""

    name: str
    parameters: tuple[Attribute, ...]
    result: TypeName
    stateful: bool = False
    revision: int = 0
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Subsumption(SyntaxNode):
    """`worse <= better :- body.`: a row is dropped if the body is true for it and another row."""

    worse: Atom
    better: Atom
    body: Formula


@dataclass(frozen=True, slots=True)
class Deny(SyntaxNode):
    """`.deny name(args) :- body.`"""

    head: Atom
    body: Formula


@dataclass(frozen=True, slots=True)
class DenyPolicy(SyntaxNode):
    """`.deny name on_violation=reject`"""

    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EventClause(SyntaxNode):
    """`on insert r(X)`; `kind` is insert, delete or change."""

    kind: str
    atom: Atom


@dataclass(frozen=True, slots=True)
class ActionClause(SyntaxNode):
    """`insert r(X)`, `delete r(X)` or `call f(X)`."""

    kind: str
    atom: Atom


@dataclass(frozen=True, slots=True)
class ActiveRule(SyntaxNode):
    """`.rule name(params) option=value on … when … do …`."""

    name: str
    parameters: tuple[Term, ...]
    options: tuple[tuple[str, str], ...] = ()
    event: EventClause | None = None
    condition: Formula | None = None
    actions: tuple[ActionClause, ...] = ()


@dataclass(frozen=True, slots=True)
class Activation(SyntaxNode):
    """`.activate rule(X = 1)`, or `.deactivate` if not `active`; without `bindings`, for all values. With `X = _` the
    values are the rows of a hidden relation, which other activations insert."""

    rule: str
    bindings: tuple[tuple[str, Constant | Wildcard], ...] = ()
    active: bool = True


@dataclass(frozen=True, slots=True)
class Ignored(SyntaxNode):
    """A Soufflé tuning directive (`.pragma`, `.plan` …): it has no effect, and is kept for printing."""

    text: str


@dataclass(frozen=True, slots=True)
class ComponentUse(SyntaxNode):
    """`Name<A, B>`, where a component extends or instantiates another."""

    name: str
    arguments: tuple[TypeName, ...] = ()


@dataclass(frozen=True, slots=True)
class Component(SyntaxNode):
    """`.comp Name<T> : Base<T> { … }`; `syntax.components` expands its instances."""

    name: str
    parameters: tuple[str, ...]
    bases: tuple[ComponentUse, ...]
    items: tuple[Item | Component | ComponentInstance | Override, ...]


@dataclass(frozen=True, slots=True)
class ComponentInstance(SyntaxNode):
    """`.init name = Component<A>`"""

    name: str
    component: ComponentUse


@dataclass(frozen=True, slots=True)
class Override(SyntaxNode):
    """`.override r`: the component does not inherit the rules of `r`."""

    relation: str


Item = (
    Declaration
    | TypeDeclaration
    | Directive
    | ViewDirective
    | Rule
    | DisjunctiveRule
    | FunctorDeclaration
    | Subsumption
    | Deny
    | DenyPolicy
    | ActiveRule
    | Activation
    | Ignored
)


WrittenItem = Item | Component | ComponentInstance | Override
"""An item of the text, before components are expanded."""


@dataclass(frozen=True, slots=True)
class Program(SyntaxNode):
    items: tuple[Item, ...]


CAST = "as "
"""The prefix of the function that `as(x, T)` calls: `Call("as T", (x,))`."""


def subterms(term: Term) -> Iterator[Term]:
    """The term and every term inside it, aggregate bodies excluded, outermost first."""
    stack: list[Term] = [term]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, Call):
            stack.extend(reversed(current.args))
