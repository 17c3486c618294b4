"""Translate the constraints of declarations into `.deny` constraints.

    .decl order(item: symbol, n: number?) foreign(item) quantity(item) notnull(n) check(n > 0)

    order_foreign_item(item, n) :- order(item, n), !quantity(item, _).
    order_notnull_n(item, n) :- order(item, n), is_null(n).
    order_check_1(item, n) :- order(item, n), n <= 0.

The witnesses are whole rows. As in SQL, an unknown condition is no violation: a foreign key with NULL refers to
nothing, and a check is violated only if it is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.check.findings import Findings
from upshot.check.names.relations import Relations
from upshot.check.names.variables import fresh_name, occurrences, walk
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.syntax import ast, literals, operators
from upshot.syntax.rebuild import rebuilt
from upshot.values.conditions import OPPOSITE

_NO_VARIABLES = {*operators.AGGREGATES, *operators.INFIX, *operators.PREFIX, *literals.CONSTANT_NAMES, "_", "nil"}


def named_forms(declaration: ast.Declaration) -> list[tuple[str, ast.ShortForm]]:
    """The constraints of a declaration with their names; `notnull` is one constraint for each column."""
    found: list[tuple[str, ast.ShortForm]] = []
    unnamed = 0
    for form in declaration.constraints:
        if isinstance(form, ast.NotNull):
            found += [(f"notnull_{c}", ast.NotNull((c,), span=form.span)) for c in dict.fromkeys(form.columns)]
            continue
        if isinstance(form, ast.ValueCheck) and not form.name:
            unnamed += 1
        found.append((form.name or _default_name(form, unnamed), form))
    return [(f"{declaration.name}_{name}", form) for name, form in found]


def _default_name(form: ast.ForeignKey | ast.Determines | ast.ValueCheck, number: int) -> str:
    match form:
        case ast.ForeignKey(columns=columns):
            return "_".join(("foreign", *columns))
        case ast.Determines(determined=determined):
            return "_".join(("determines", *determined))
        case ast.ValueCheck():
            return f"check_{number}"


@dataclass(slots=True)
class ShortForms:
    """`names` are all constraints, also those with errors, which have no `.deny`."""

    names: list[str] = field(default_factory=list)
    denies: list[ast.Deny] = field(default_factory=list)


def short_forms(
    declarations: Iterable[ast.Declaration], denies: Iterable[ast.Deny], known: Relations, findings: Findings
) -> ShortForms:
    """The constraints of all declarations; `denies` are the `.deny` constraints of the text."""
    taken = {deny.head.relation: deny.head.span for deny in denies}
    made = ShortForms()
    for declaration in declarations:
        if not declaration.constraints or known.schemas[declaration.name].span is not declaration.span:
            continue
        maker = _Maker(known.schemas[declaration.name], known, findings)
        for name, form in named_forms(declaration):
            if maker.is_idle(form):
                continue
            made.names.append(name)
            if name in taken:
                _clash(name, form, taken[name], findings)
            elif (body := maker.body(form)) is not None:
                head = ast.Atom(name, maker.row, span=form.span)
                made.denies.append(ast.Deny(head, body, span=form.span))
            taken[name] = form.span
    return made


def _clash(name: str, form: ast.ShortForm, earlier: Span | None, findings: Findings) -> None:
    findings.error(
        "name-clash",
        f"two constraints have the name `{name}`",
        form.span,
        label="the second of this name",
        help="name one of them, as in `check positive(…)` or `foreign stocked(…) …`",
        notes=((earlier, "the first is here"),) if earlier is not None else (),
    )


class _Maker:
    """Makes bodies over one row of a relation; `row` has a variable for each column."""

    def __init__(self, schema: Schema, known: Relations, findings: Findings) -> None:
        self._schema, self._known, self._findings = schema, known, findings
        self._columns = {column.name: column for column in schema.columns}
        self._variables = _variables(column.name for column in schema.columns)
        self.row = tuple(ast.Variable(self._variables[column.name]) for column in schema.columns)

    def is_idle(self, form: ast.ShortForm) -> bool:
        """Test whether the type of the column implies the constraint; then warn, and add none."""
        if not isinstance(form, ast.NotNull):
            return False
        (column,) = form.columns
        if column not in self._columns or self._columns[column].type.nullable:
            return False
        self._findings.warn(
            "idle-notnull",
            f"column `{column}` of `{self._schema.name}` is not nullable anyway",
            form.span,
            label="redundant",
            help=f"remove it, or declare `{column}` with a type that ends in `?`",
        )
        return True

    def body(self, form: ast.ShortForm) -> ast.Formula | None:
        """The condition under which a row is a witness; None after an error."""
        before = self._findings.reported
        match form:
            case ast.ForeignKey():
                parts = self._foreign_key(form)
            case ast.Determines():
                parts = self._determines(form)
            case ast.NotNull():
                parts = self._not_null(form)
            case ast.ValueCheck():
                parts = self._value_check(form)
        if self._findings.reported > before or parts is None:
            return None
        return ast.And((self._atom(self._variables, form.span), *parts), span=form.span)

    def _atom(self, variables: Mapping[str, str], span: Span | None) -> ast.Atom:
        """The atom of a row, with wildcards for columns without a variable."""
        args = tuple(
            ast.Variable(variables[c.name], span=span) if c.name in variables else ast.Wildcard(span=span)
            for c in self._schema.columns
        )
        return ast.Atom(self._schema.name, args, span=span)

    # ---- one method for each form ---------------------------------------------------------------

    def _foreign_key(self, form: ast.ForeignKey) -> list[ast.Formula] | None:
        self._known_columns(form.columns, self._schema, form.span)
        other = self._known.schemas.get(form.relation)
        if other is None:
            self._findings.unknown_relation(form.relation, form.span, self._known.schemas)
            return None
        self._known_columns(form.referred, other, form.span)
        if len(form.columns) != len(form.referred):
            self._wrong_number(form)
            return None
        pairs = dict(zip(form.referred, form.columns, strict=True))
        if other.name not in self._known.vague and self._schema.name not in self._known.vague:
            self._same_types(form, other)
        args = tuple(
            self._variable(pairs[c.name]) if c.name in pairs else ast.Wildcard(span=form.span) for c in other.columns
        )
        return [*self._none_null(form.columns), ast.Not(ast.Atom(other.name, args, span=form.span), span=form.span)]

    def _determines(self, form: ast.Determines) -> list[ast.Formula]:
        self._known_columns((*form.columns, *form.determined), self._schema, form.span)
        same = {column: self._variable(column).name for column in form.columns}
        cases: list[ast.Formula] = []
        for column in form.determined:
            other = fresh_name(f"other_{column}", self._variables.values())
            partner = self._atom({**same, column: other}, form.span)
            differ = ast.Comparison("!=", self._variable(column), ast.Variable(other), span=form.span)
            cases.append(ast.And((partner, differ), span=form.span))
        return [ast.Or(tuple(cases), span=form.span)]

    def _not_null(self, form: ast.NotNull) -> list[ast.Formula]:
        self._known_columns(form.columns, self._schema, form.span)
        return [ast.Test("is_null", (self._variable(column),), span=form.span) for column in form.columns]

    def _value_check(self, form: ast.ValueCheck) -> list[ast.Formula]:
        self._check_names(form.condition)
        return [rebuilt(self._false(form.condition), self._with_variable)]

    # ---- a condition is false, or true, and not unknown -----------------------------------------

    def _false(self, formula: ast.Formula) -> ast.Formula:
        match formula:
            case ast.And(parts=parts):
                return ast.Or(tuple(map(self._false, parts)), span=formula.span)
            case ast.Or(parts=parts):
                return ast.And(tuple(map(self._false, parts)), span=formula.span)
            case ast.Not(body=body):
                return self._true(body)
            case ast.Comparison(op=op):
                return replace(formula, op=OPPOSITE[op])
            case ast.Test(name=name, args=args):
                denied = ast.Not(formula, span=formula.span)
                columns = [] if name == "is_null" else [v.name for a in args for v in occurrences(a)]
                guards = self._none_null(dict.fromkeys(columns))
                return ast.And((*guards, denied), span=formula.span) if guards else denied
            case ast.Atom():
                return formula

    def _true(self, formula: ast.Formula) -> ast.Formula:
        match formula:
            case ast.And(parts=parts):
                return ast.And(tuple(map(self._true, parts)), span=formula.span)
            case ast.Or(parts=parts):
                return ast.Or(tuple(map(self._true, parts)), span=formula.span)
            case ast.Not(body=body):
                return self._false(body)
            case ast.Atom() | ast.Comparison() | ast.Test():
                return formula

    def _with_variable(self, node: Any) -> Any:
        """The variable of the column that a check names."""
        return replace(node, name=self._variable(node.name).name) if isinstance(node, ast.Variable) else node

    def _variable(self, column: str) -> ast.Variable:
        return ast.Variable(self._variables.get(column, column))

    def _none_null(self, columns: Iterable[str]) -> list[ast.Formula]:
        """The condition that none of the nullable ones of these columns is NULL."""
        nullable = [c for c in columns if c in self._columns and self._columns[c].type.nullable]
        return [ast.Not(ast.Test("is_null", (self._variable(column),))) for column in nullable]

    # ---- errors ---------------------------------------------------------------------------------

    def _known_columns(self, columns: Sequence[str], schema: Schema, span: Span | None) -> None:
        names = [column.name for column in schema.columns]
        owner = f"a constraint of `{self._schema.name}`"
        self._findings.check_columns(columns, schema.name, names, owner, span)

    def _wrong_number(self, form: ast.ForeignKey) -> None:
        self._findings.error(
            "wrong-arity",
            f"foreign key of `{self._schema.name}` has {len(form.columns)} columns but refers to {len(form.referred)}",
            form.span,
            label="column counts must match",
            help=f"write `foreign({', '.join(form.columns)}) {form.relation}(…)` with {len(form.columns)} columns",
        )

    def _same_types(self, form: ast.ForeignKey, other: Schema) -> None:
        theirs = {column.name: column.type for column in other.columns}
        for column, referred in zip(form.columns, form.referred, strict=True):
            if column not in self._columns or referred not in theirs:
                continue
            own, their = self._columns[column].type.required(), theirs[referred].required()
            if (own.kind, own.scale) != (their.kind, their.scale):
                self._findings.error(
                    "type-mismatch",
                    f"column `{column}` of `{self._schema.name}` is `{own}`, but it refers to `{referred}` of "
                    f"`{other.name}`, which is `{their}`",
                    form.span,
                    label="no common value",
                    help="declare both columns with one type",
                )

    def _check_names(self, condition: ast.Formula) -> None:
        """Report names in a check other than columns."""
        for node in walk(condition, inside_aggregates=False):
            match node:
                case ast.Variable(name=name) if name not in self._columns:
                    self._findings.unknown_column(name, self._schema.name, self._columns, node.span)
                case ast.Atom(relation=name) if name in self._columns and not node.args:
                    self._reads_relation(f"`{name}` is a column, not a condition", node, f"write `{name} = true`")
                case ast.Atom(relation=name):
                    self._reads_relation(f"a check sees one row and cannot read `{name}`", node)
                case ast.Aggregate(function=name):
                    self._reads_relation(f"a check sees one row and cannot aggregate (`{name}`)", node)
                case _:
                    pass

    def _reads_relation(self, message: str, node: ast.Atom | ast.Aggregate, help: str = "") -> None:
        own = f"{self._schema.name}({', '.join(self._variables.values())})"
        help = help or f"write `.deny name(…) :- {own}, ….`"
        self._findings.error("check-reads-relation", message, node.span, label="not a value of the row", help=help)


def _variables(columns: Iterable[str]) -> dict[str, str]:
    """A variable for each column, with the same name if variables can have it."""
    found: dict[str, str] = {}
    names = list(columns)
    for column in names:
        base = f"{column.strip('_') or 'column'}_" if column in _NO_VARIABLES else column
        found[column] = base if base == column else fresh_name(base, {*names, *found.values()})
    return found
