"""Translate definitions in SQL to items of a program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from upshot.check.names.variables import fresh_name
from upshot.core.errors import ProgramError
from upshot.core.schema import Schema
from upshot.core.span import Span
from upshot.core.types import Kind
from upshot.sql.names import new_name, refuse_schema
from upshot.sql.queries.block import Block
from upshot.sql.queries.queries import QueryReader, checked_names
from upshot.sql.queries.row_sets import RowSet
from upshot.sql.queries.sources import Scope
from upshot.sql.queries.tables import table_declaration
from upshot.sql.reading import read_script
from upshot.sql.spellings import in_one_spelling
from upshot.sql.translation import Branch, Translation, variable_name
from upshot.sql.trees import inner_query, mark_folds, unwrapped
from upshot.sql.trigger_reading import TriggerForm
from upshot.sql.triggers import trigger_rule
from upshot.sql.trouble import Refused, Statement, understood
from upshot.syntax.ast import Atom, Deny, FunctorDeclaration, Item, Program, Rule, Variable
from upshot.values.functors import MARK, signed_name


@dataclass(frozen=True, slots=True)
class Catalog:
    """The relations that a text can use; `parts` maps hidden views, which it cannot use, to the views that they belong
    to."""

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    functors: Mapping[str, str] = field(default_factory=dict)
    """The signatures of the functions of the user, by `@name`."""


def sql_program(text: str, name: str = "<text>", catalog: Catalog | None = None) -> Program:
    """The program of a text of SQL, over the relations of the catalog.

    >>> from upshot.syntax import print_program
    >>> table = "CREATE TABLE edge (a BIGINT NOT NULL, b BIGINT);"
    >>> print(print_program(sql_program(table + "CREATE VIEW start AS SELECT a FROM edge WHERE b IS NULL")), end="")
    .decl edge(a: number, b: number?)
    .decl start(a: number)
    start(a) :- edge(a, b), is_null(b).
    """
    script = read_script(text, name)
    catalog = catalog or Catalog()
    functors = {**catalog.functors, **declared_functors(script.directives)}
    making = _Making(dict(catalog.schemas), catalog.parts, functors)
    mistakes = list(script.mistakes)
    for statement in script.statements:
        try:
            with understood(statement):
                mark_folds(statement.tree, functors)
                in_one_spelling(statement.tree, functors)
                making.add(statement)
        except Refused as refused:
            mistakes.append(refused.diagnostic)
    whole = Span(script.source, 0, len(text))
    program = Program((*making.items, *script.directives), span=whole)
    if mistakes:
        mistakes.sort(key=lambda each: each.span.start if each.span is not None else 2**63)
        raise ProgramError(mistakes)
    return program


@dataclass(slots=True)
class _Making:
    """The items so far; the next statement can use the relations of `schemas`."""

    schemas: dict[str, Schema]
    parts: Mapping[str, str]
    functors: Mapping[str, str] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    primaries: dict[str, tuple[str, ...]] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    """The hidden views of this text, with the views that they belong to."""

    def add(self, statement: Statement) -> None:
        if statement.kind == "assertion":
            self._assertion(statement)
        elif statement.trigger is not None:
            self._trigger(statement, statement.trigger)
        elif statement.kind == "query":
            statement.refuse(
                "sql-query-in-program", "a query defines nothing", help="write CREATE VIEW name AS …, or use `db.sql`"
            )
        elif statement.tree.args["kind"] == "TABLE":
            self._table(statement)
        else:
            self._view(statement)

    def _table(self, statement: Statement) -> None:
        declaration, schema = table_declaration(statement, self.schemas, self.primaries)
        if statement.tree.args.get("exists") and schema.name in self.schemas:
            return
        self._refuse_twice(statement, schema.name)
        self.items.append(declaration)
        self.schemas[schema.name] = schema
        if schema.keys:
            self.primaries[schema.name] = declaration.keys[0]

    def _view(self, statement: Statement) -> None:
        tree = statement.tree
        target, columns = tree.this, []
        if isinstance(target, exp.Schema):
            target, columns = target.this, target.expressions
        refuse_schema(statement, target)
        name = new_name(statement, target.this)
        if tree.args.get("exists") and name in self.schemas:
            return
        self._refuse_twice(statement, name)
        for each in _properties(tree):
            if not isinstance(each, exp.MaterializedProperty):
                statement.unsupported(f"`{statement.spelled(each)}` of a view", each, help="remove it")
        query = tree.args.get("expression")
        if not isinstance(query, exp.Expression):
            statement.refuse("sql-syntax", "the view has no query", tree, help="write CREATE VIEW name AS SELECT …")
        reader = QueryReader()
        translation = self._translation(statement, name, reader)
        given = [each.this if isinstance(each, exp.ColumnDef) else each for each in columns]
        named = [new_name(statement, each) for each in given if isinstance(each, exp.Identifier)]
        if reader.defined_by_recursion(translation, query, named):
            self._keep(translation, translation.schemas[name])
            return
        rows = reader.rows(translation, query)
        names = checked_names(translation, named or rows.names, len(rows.names), tree.this)
        self._keep(translation, translation.define(name, names, rows.types(translation), rows.branches))

    def _assertion(self, statement: Statement) -> None:
        """A constraint: the rows of `NOT EXISTS (…)` are its witnesses; any other condition may not be false."""
        assert statement.name is not None
        name = new_name(statement, statement.name)
        self._refuse_twice(statement, name)
        reader = QueryReader()
        translation = self._translation(statement, name, reader)
        node = unwrapped(statement.tree)
        head = Atom(name, (), span=statement.place(statement.name))
        if isinstance(node, exp.Not) and isinstance(inner := unwrapped(node.this), exp.Exists):
            rows = reader.rows(translation, inner_query(inner.this))
            if (rule := _only_rule(translation, rows)) is not None and rule.body is not None:
                self._keep(translation, None)
                self.items.append(Deny(replace(head, args=rule.heads[0].args), rule.body, span=statement.span))
                return
            names = _distinct_names(rows.names)
            witnesses = translation.view("witnesses", names, rows.types(translation), rows.branches)
        else:
            block = Block(translation, Scope())
            false = block.holds(node, value=False, certain=True)
            names = []
            witnesses = translation.view("witnesses", [], [], [Branch((false,), ())])
        terms = tuple(map(Variable, names))
        self._keep(translation, None)
        self.items.append(Deny(replace(head, args=terms), Atom(witnesses, terms), span=statement.span))

    def _trigger(self, statement: Statement, form: TriggerForm) -> None:
        name = new_name(statement, form.name)
        self._refuse_twice(statement, name)
        reader = QueryReader()
        translation = self._translation(statement, name, reader)
        rule = trigger_rule(translation, reader, form)
        self._keep(translation, None)
        self.items.append(rule)

    def _translation(self, statement: Statement, owner: str, reader: QueryReader) -> Translation:
        visible = {name: each for name, each in self.schemas.items() if name != owner and name not in self.own}
        taken = {*self.own, *(part for part, of in self.parts.items() if of != owner), owner}
        return Translation(statement, visible, owner, reader, frozenset(taken), functors=self.functors)

    def _keep(self, translation: Translation, made: Schema | None) -> None:
        self.items += translation.items
        for item in translation.items:
            part_of = getattr(item, "part_of", "")
            if part_of:
                self.own[item.name] = part_of  # type: ignore[union-attr]
        if made is not None:
            self.schemas[made.name] = made

    def _refuse_twice(self, statement: Statement, name: str) -> None:
        if name in _defined(self.items):
            statement.refuse(
                "duplicate-declaration", f"`{name}` is defined twice in the text", help="remove one of the definitions"
            )


def declared_functors(items: Iterable[Item]) -> dict[str, str]:
    """The functions that are declared with built-in types; the checker reports the others."""
    kinds = {kind.value for kind in Kind}
    found: dict[str, str] = {}
    for item in items:
        if isinstance(item, FunctorDeclaration):
            types = [each.type.name for each in item.parameters]
            if {*types, item.result.name} <= kinds:
                found[f"{MARK}{item.name}"] = signed_name(
                    item.name, [Kind(type) for type in types], Kind(item.result.name), item.revision,
                    stateful=item.stateful, fold=item.fold,
                )  # fmt: skip
    return found


def _only_rule(translation: Translation, rows: RowSet) -> Rule | None:
    """The only rule that derives the rows, if the variables of its head have the names of the columns."""
    rules = [rule for branch in rows.branches for rule in translation.rules("", branch)]
    if len(rules) != 1:
        return None
    variables = [term.name for term in rules[0].heads[0].args if isinstance(term, Variable)]
    return rules[0] if variables == _distinct_names(rows.names) else None


def _distinct_names(names: Sequence[str]) -> list[str]:
    """The names as distinct names of variables."""
    found: list[str] = []
    for name in names:
        found.append(fresh_name(variable_name(name), found))
    return found


def _defined(items: Collection[Item]) -> set[str]:
    return {item.head.relation if isinstance(item, Deny) else getattr(item, "name", "") for item in items}


def _properties(tree: exp.Expression) -> list[exp.Expression]:
    found = tree.args.get("properties")
    return list(found.expressions) if found is not None else []
