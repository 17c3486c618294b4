"""Translate a trigger to an active rule: its transition tables are window tables, its query is the condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from upshot.check.names.variables import atoms
from upshot.core.operations import DELETED, INSERTED, UPDATED
from upshot.core.schema import Role, Schema
from upshot.sql.expressions.formulas import TRUE, conjuncts
from upshot.sql.names import new_name, relation_name
from upshot.sql.queries.queries import QueryReader
from upshot.sql.translation import Translation, equality
from upshot.sql.trigger_reading import TriggerForm
from upshot.sql.trouble import Statement
from upshot.syntax import ast
from upshot.syntax.rebuild import map_atoms

_STATES = {"insert": INSERTED, "delete": DELETED, "update": UPDATED}
_CURE = "join the transition table itself, or let the trigger insert into a table that a view reads"


def trigger_rule(translation: Translation, reader: QueryReader, form: TriggerForm) -> ast.ActiveRule:
    """The rule of a trigger; the auxiliary views of its query are added to the translation."""
    statement = translation.statement
    relation = relation_name(statement, exp.Table(this=form.table), translation.schemas)
    tables = _transition_tables(statement, form, translation.schemas[relation])
    if form.function is not None:
        return _calling(translation, form, relation)
    body = statement.tree
    action, target, query = _deleted(statement, body) if isinstance(body, exp.Delete) else _inserted(statement, body)
    name = relation_name(statement, target, translation.schemas)
    schema = translation.schemas[name]
    translation.schemas.update((name, each) for name, (each, _) in tables.items())
    rows = reader.rows(translation, query)
    _refuse_hidden_tables(translation, tables)
    rules = [rule for branch in rows.branches for rule in translation.rules(name, branch)]
    terms, condition = _one_rule(translation, rules, len(rows.names))
    event, rest = _event(form, relation, condition, tables, translation.schemas[relation].arity)
    row = _row(statement, body, terms, schema)
    act = ast.ActionClause(action, ast.Atom(name, row, span=statement.place(target)), span=statement.place(body))
    return ast.ActiveRule(new_name(statement, form.name), (), (), event, rest, (act,), span=statement.span)


def _transition_tables(
    statement: Statement, form: TriggerForm, schema: Schema
) -> dict[str, tuple[Schema, tuple[int, int]]]:
    """The transition tables by name, each with the numbers of columns before and after its own in the pair of rows of
    an update."""
    found = {}
    for age, identifier in form.tables.items():
        name = new_name(statement, identifier)
        around = (0, 0)
        if form.event == "update":
            around = (0, schema.arity) if age == "OLD" else (schema.arity, 0)
        found[name] = (Schema(name, schema.columns, Role.BASE, span=statement.place(identifier)), around)
    return found


# ---- actions --------------------------------------------------------------------------------------


def _calling(translation: Translation, form: TriggerForm, relation: str) -> ast.ActiveRule:
    """A rule that calls a function with the columns of each row; of an update, the old and then the new ones."""
    assert form.function is not None
    statement = translation.statement
    ages = ("old_", "new_") if form.event == "update" else ("",)
    columns = translation.schemas[relation].columns
    row = tuple(translation.variable(age + column.name) for age in ages for column in columns)
    event = ast.EventClause(form.event, ast.Atom(relation, row, span=statement.place(form.table)))
    call = ast.ActionClause(
        "call", ast.Atom(new_name(statement, form.function), row, span=statement.place(form.function))
    )
    return ast.ActiveRule(new_name(statement, form.name), (), (), event, None, (call,), span=statement.span)


def _inserted(statement: Statement, tree: exp.Expression) -> tuple[str, exp.Table, exp.Expression]:
    """The table and the query of `INSERT INTO t (columns) SELECT …`."""
    if not isinstance(tree, exp.Insert):
        statement.unsupported("this statement of a trigger", tree, help="write INSERT INTO … SELECT … or DELETE FROM …")
    query: exp.Expression | None = tree.args.get("expression")
    _refuse_extras(statement, tree, ("this", "expression"))
    if query is None or not isinstance(query, exp.Query):
        statement.unsupported("INSERT without a query", tree, help="write INSERT INTO table (columns) SELECT …")
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return "insert", target, query


def _refuse_extras(statement: Statement, tree: exp.Expression, known: Collection[str]) -> None:
    for key, value in tree.args.items():
        if value and key not in known:
            what = f"{key.upper()} of {tree.key.upper()} in a trigger"
            statement.unsupported(what, tree, help="write INSERT INTO … SELECT … or DELETE FROM … WHERE … without it")


def _deleted(statement: Statement, tree: exp.Delete) -> tuple[str, exp.Table, exp.Expression]:
    """The table of `DELETE FROM t USING … WHERE …`, and the query of its rows."""
    _refuse_extras(statement, tree, ("this", "using", "where"))
    target: exp.Table = tree.this
    name = exp.to_identifier(target.alias_or_name)
    query = exp.select(exp.Column(this=exp.Star(), table=name)).from_(target)
    for table in tree.args.get("using") or ():
        query = query.join(table, join_type="cross")
    where = tree.args.get("where")
    return "delete", target, query.where(where.this) if where is not None else query


def _row(statement: Statement, tree: exp.Expression, terms: Sequence[ast.Term], schema: Schema) -> tuple[ast.Term, ...]:
    """The values in the order of the columns of the table, with NULL for columns that are not listed."""
    listed = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    names = [new_name(statement, each) for each in listed] or [column.name for column in schema.columns]
    if len(names) != len(terms):
        words = f"the query has {len(terms)} columns for {len(names)} of `{schema.name}`"
        statement.refuse("wrong-arity", words, tree.this, help="select one value for each column")
    values = dict(zip(names, terms, strict=True))
    for name in values:
        if name not in {column.name for column in schema.columns}:
            words = f"`{schema.name}` has no column `{name}`"
            known = ", ".join(column.name for column in schema.columns)
            statement.refuse("unknown-column", words, tree.this, help=f"its columns are {known}")
    missing = [column.name for column in schema.columns if column.name not in values and not column.type.nullable]
    if missing:
        words = f"no value for column `{missing[0]}` of `{schema.name}`"
        statement.refuse("wrong-arity", words, tree.this, help="list the column and select a value for it")
    return tuple(values.get(column.name) or ast.Constant(None, column.type) for column in schema.columns)


# ---- events and conditions ------------------------------------------------------------------------


def _one_rule(
    translation: Translation, rules: Sequence[ast.Rule], arity: int
) -> tuple[tuple[ast.Term, ...], ast.Formula]:
    """The values of the rules of the query, and their condition; several rules are alternatives."""
    if len(rules) == 1:
        return rules[0].heads[0].args, rules[0].body or TRUE
    if not rules or any(translation.nullable_columns(rules, arity)):
        what = "a query of several cases that can be NULL" if rules else "a query that never has rows"
        translation.statement.unsupported(what, help="write one trigger for each case, without CASE or UNION")
    row = tuple(translation.variable("value") for _ in range(arity))
    cases: list[ast.Formula] = [
        ast.And((*conjuncts(rule.body or TRUE), *map(equality, row, rule.heads[0].args))) for rule in rules
    ]
    return row, ast.Or(tuple(cases))


def _event(
    form: TriggerForm,
    relation: str,
    condition: ast.Formula,
    tables: Mapping[str, tuple[Schema, tuple[int, int]]],
    arity: int,
) -> tuple[ast.EventClause, ast.Formula | None]:
    """The event, with the first literal over a transition table if it is a conjunct; and the rest of the condition."""
    state = _STATES[form.event]

    def read(atom: ast.Atom) -> ast.Atom:
        if atom.relation not in tables:
            return atom
        before, behind = tables[atom.relation][1]
        args = (*(ast.Wildcard(),) * before, *atom.args, *(ast.Wildcard(),) * behind)
        return ast.Atom(relation, args, state, span=atom.span)

    parts = [] if condition == TRUE else list(conjuncts(map_atoms(condition, read)))
    first = next((part for part in parts if isinstance(part, ast.Atom) and part.state == state), None)
    if first is None:
        any_row = (ast.Wildcard(),) * (arity * (2 if form.event == "update" else 1))
        event = ast.EventClause(form.event, ast.Atom(relation, any_row))
    else:
        parts.remove(first)
        event = ast.EventClause(form.event, replace(first, state=""))
    if not parts:
        return event, None
    return event, parts[0] if len(parts) == 1 else ast.And(tuple(parts))


def _refuse_hidden_tables(translation: Translation, tables: Mapping[str, object]) -> None:
    """Refuse views over a transition table: views cannot read the window of a rule."""
    for item in translation.items:
        if isinstance(item, ast.Rule) and item.body is not None:
            for atom in atoms(item.body):
                if atom.relation in tables:
                    what = f"`{atom.relation}` in a subquery, a group, an outer join or behind LIMIT"
                    translation.statement.unsupported(what, help=_CURE)
