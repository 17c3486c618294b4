"""Translate CREATE TABLE to a declaration: columns, keys, and constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from upshot.core.schema import Column, Role, Schema
from upshot.core.types import SYMBOL, Type
from upshot.sql.expressions.column_types import column_type, is_padded, longest
from upshot.sql.expressions.formulas import FALSE, TRUE
from upshot.sql.names import chosen, new_name, refuse_schema, relation_name
from upshot.sql.queries.block import Block
from upshot.sql.queries.queries import QueryReader
from upshot.sql.queries.sources import FromItem, Scope, SourceColumn
from upshot.sql.translation import Translation, type_name
from upshot.sql.trouble import Statement
from upshot.syntax import ast

_PLAIN = (
    exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In,
    exp.Column, exp.Identifier, exp.Literal, exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Boolean,
)  # fmt: skip


@dataclass(slots=True)
class _TableParts:
    """The parts of a table, in the order of the text."""

    statement: Statement
    name: str
    types: dict[str, Type] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    primary: tuple[str, ...] = ()
    unique: list[tuple[tuple[str, ...], exp.Expression]] = field(default_factory=list)
    foreign: list[tuple[str, tuple[str, ...], exp.Reference, exp.Expression]] = field(default_factory=list)
    checks: list[tuple[str, exp.Expression]] = field(default_factory=list)
    limits: list[tuple[str, int]] = field(default_factory=list)
    padded: list[str] = field(default_factory=list)
    """Columns of CHAR(n), whose values have no blanks at the end."""

    def column(self, identifier: exp.Expression) -> str:
        """The column of a constraint."""
        inner = identifier.this if not isinstance(identifier, exp.Identifier) else identifier
        inner = inner.this if isinstance(inner, exp.Column) else inner
        found = chosen(inner, self.types) if isinstance(inner, exp.Identifier) else []
        if len(found) != 1:
            self.statement.refuse(
                "unknown-column", f"`{identifier.sql()}` is not a column of `{self.name}`", identifier,
                help=f"its columns are {', '.join(self.types)}",
            )  # fmt: skip
        return found[0]


def table_declaration(
    statement: Statement, schemas: Mapping[str, Schema], primaries: Mapping[str, tuple[str, ...]]
) -> tuple[ast.Declaration, Schema]:
    """The declaration of a table and its schema. `primaries` are the primary keys of the tables of the same text."""
    tree = statement.tree
    schema = tree.this
    if not isinstance(schema, exp.Schema) or tree.args.get("expression") is not None:
        statement.unsupported("a table without columns", tree, help="list the columns, or create a view")
    refuse_schema(statement, schema.this)
    _refuse_properties(statement, tree)
    table = _TableParts(statement, new_name(statement, schema.this.this))
    definitions = schema.expressions
    for definition in definitions:
        if isinstance(definition, exp.ColumnDef):
            _column(table, definition)
    for definition in definitions:
        if isinstance(definition, exp.ColumnDef):
            for constraint in definition.args.get("constraints") or []:
                _of_column(table, definition, constraint)
        else:
            _constraint(table, definition, "")
    return _declared(table, schemas, primaries)


def _refuse_properties(statement: Statement, tree: exp.Expression) -> None:
    properties = tree.args.get("properties")
    for each in properties.expressions if properties is not None else []:
        statement.unsupported(f"`{each.sql(statement.dialect)}` of a table", each, help="remove it")


def _column(table: _TableParts, definition: exp.ColumnDef) -> None:
    name = new_name(table.statement, definition.this)
    kind = definition.args.get("kind")
    if name in table.types:
        table.statement.refuse(
            "duplicate-column", f"duplicate column `{name}` in `{table.name}`", definition, help="give one another name"
        )
    if not isinstance(kind, exp.DataType):
        table.statement.refuse("sql-type", f"column `{name}` has no type", definition, help="write its type")
    table.types[name] = column_type(table.statement, kind, definition)
    if (most := longest(kind)) is not None:
        table.limits.append((name, most))
    if is_padded(kind):
        table.padded.append(name)


def _of_column(table: _TableParts, definition: exp.ColumnDef, constraint: exp.Expression) -> None:
    """A constraint of a column."""
    column = table.column(definition.this)
    kind = constraint.args.get("kind")
    name = constraint.args.get("this")
    label = new_name(table.statement, name) if isinstance(name, exp.Identifier) else ""
    match kind:
        case exp.NotNullColumnConstraint():
            if not kind.args.get("allow_null"):
                table.required.add(column)
        case exp.PrimaryKeyColumnConstraint():
            _primary(table, (column,), definition)
        case exp.UniqueColumnConstraint():
            table.unique.append(((column,), definition))
        case exp.Reference():
            table.foreign.append((label, (column,), kind, definition))
        case exp.CheckColumnConstraint():
            table.checks.append((label, kind.this))
        case _:
            table.statement.unsupported(
                f"`{constraint.sql(table.statement.dialect)}`", definition,
                help="use NOT NULL, PRIMARY KEY, UNIQUE, REFERENCES or CHECK",
            )  # fmt: skip


def _constraint(table: _TableParts, definition: exp.Expression, label: str) -> None:
    """A constraint of the table."""
    match definition:
        case exp.Constraint():
            inner = new_name(table.statement, definition.this)
            for each in definition.expressions:
                _constraint(table, each, inner)
        case exp.PrimaryKey():
            _primary(table, tuple(map(table.column, definition.expressions)), definition)
        case exp.UniqueColumnConstraint():
            named = definition.this
            unique = named.expressions if isinstance(named, exp.Schema) else [named]
            table.unique.append((tuple(map(table.column, unique)), definition))
        case exp.ForeignKey():
            columns = tuple(map(table.column, definition.expressions))
            table.foreign.append((label, columns, definition.args["reference"], definition))
        case exp.CheckColumnConstraint():
            table.checks.append((label, definition.this))
        case exp.Check():
            table.checks.append((label, definition.this))
        case _:
            table.statement.unsupported(
                f"`{definition.sql(table.statement.dialect)}`", definition,
                help="use PRIMARY KEY, UNIQUE, FOREIGN KEY or CHECK",
            )  # fmt: skip


def _primary(table: _TableParts, columns: tuple[str, ...], node: exp.Expression) -> None:
    if table.primary:
        table.statement.refuse("duplicate-key", f"`{table.name}` has two primary keys", node, help="keep one of them")
    table.primary = columns
    table.required.update(columns)


# ---- declarations -----------------------------------------------------------------------------


def _declared(
    table: _TableParts, schemas: Mapping[str, Schema], primaries: Mapping[str, tuple[str, ...]]
) -> tuple[ast.Declaration, Schema]:
    statement = table.statement
    types = {
        name: type if name in table.required else type.optional() for name, type in table.types.items()
    }  # fmt: skip
    columns = tuple(Column(name, type) for name, type in types.items())
    keys = [table.primary] if table.primary else []
    constraints: list[ast.ShortForm] = []
    for names, node in table.unique:
        if set(names) in [set(key) for key in keys]:
            continue
        if all(not types[name].nullable for name in names):
            keys.append(names)
        else:
            constraints.append(_unique(table, types, names, node))
    schema = Schema(
        table.name, columns, Role.BASE, tuple(tuple(list(types).index(n) for n in key) for key in keys),
        span=statement.span,
    )  # fmt: skip
    for label, names, reference, node in table.foreign:
        constraints.append(_foreign(table, label, names, reference, node, {**schemas, table.name: schema}, primaries))
    for name, most in table.limits:
        length = ast.Comparison("<=", ast.Call("strlen", (ast.Variable(name),)), ast.Constant(most))
        constraints.append(ast.ValueCheck(length, f"length_{name}", span=statement.span))
    for name in table.padded:
        blank = ast.Test("match", (ast.Constant("[\\s\\S]* ", SYMBOL), ast.Variable(name)))
        constraints.append(ast.ValueCheck(ast.Not(blank), f"blanks_{name}", span=statement.span))
    constraints += [_check(table, schema, label, node) for label, node in table.checks]
    attributes = tuple(ast.Attribute(c.name, type_name(c.type)) for c in columns)
    made = ast.Declaration(table.name, attributes, tuple(keys), (), tuple(constraints), span=statement.span)
    return made, schema


def _unique(
    table: _TableParts, types: Mapping[str, Type], names: tuple[str, ...], node: exp.Expression
) -> ast.Determines:
    """UNIQUE over nullable columns: they determine all other columns, so that equal rows are one row."""
    others = tuple(name for name in types if name not in names)
    if not others or any(types[name].nullable for name in others):
        table.statement.unsupported(
            "UNIQUE over nullable columns, in a table with other nullable columns", node,
            help="declare the unique columns NOT NULL, or write CREATE ASSERTION",
        )  # fmt: skip
    return ast.Determines(names, others, f"unique_{'_'.join(names)}", span=table.statement.place(node))


def _foreign(
    table: _TableParts, label: str, names: tuple[str, ...], reference: exp.Expression, node: exp.Expression,
    schemas: Mapping[str, Schema], primaries: Mapping[str, tuple[str, ...]],
) -> ast.ForeignKey:  # fmt: skip
    statement = table.statement
    options = [str(option).upper() for option in reference.args.get("options") or []]
    if any("NO ACTION" not in option and "RESTRICT" not in option for option in options):
        statement.unsupported(f"`{' '.join(options)}`", node, help="a violation rejects the transaction; remove it")
    target = reference.this
    other = target.this if isinstance(target, exp.Schema) else target
    relation = relation_name(statement, other, schemas)
    if isinstance(target, exp.Schema):
        known = [column.name for column in schemas[relation].columns]
        referred = tuple((chosen(each, known) or [each.name])[0] for each in target.expressions)
    else:
        referred = table.primary if relation == table.name else primaries.get(relation, ())
        referred = referred or _only_key(schemas[relation])
        if not referred:
            statement.refuse(
                "sql-syntax", f"`{relation}` has no primary key to reference", node, help="name the referenced columns"
            )
    return ast.ForeignKey(names, relation, referred, label, span=statement.place(node))


def _only_key(schema: Schema) -> tuple[str, ...]:
    return tuple(schema.columns[place].name for place in schema.keys[0]) if len(schema.keys) == 1 else ()


def _check(table: _TableParts, schema: Schema, label: str, node: exp.Expression) -> ast.ValueCheck:
    """A condition that no row may make false."""
    columns = [SourceColumn(schema.name, c.name, ast.Variable(c.name), c.type) for c in schema.columns]
    translation = Translation(table.statement, {schema.name: schema}, schema.name, QueryReader())
    scope = Scope(None, [FromItem(schema.name, columns)])
    block = Block(translation, scope)
    if any(node.find_all(exp.Query)):
        table.statement.unsupported("a query in CHECK", node, help="write CREATE ASSERTION")
    condition = _condition(block, node)
    if translation.items:
        table.statement.unsupported("a list that long in CHECK", node, help="compare with bounds")
    return ast.ValueCheck(condition, label, span=table.statement.place(node))


def _condition(block: Block, node: exp.Expression) -> ast.Formula:
    """The formula of a CHECK, which is satisfied if it is unknown. A simple condition is translated directly; any other
    one becomes the negation of its being false."""
    if all(isinstance(each, _PLAIN) or _is_null_test(each) for each in node.walk()):
        return block.holds(node, value=True, certain=True)
    false = block.holds(node, value=False, certain=True)
    return TRUE if false == FALSE else ast.Not(false)


def _is_null_test(node: exp.Expr) -> bool:
    return isinstance(node, exp.Is | exp.Null) and (
        isinstance(node.parent, exp.Is) if isinstance(node, exp.Null) else isinstance(node.expression, exp.Null)
    )
