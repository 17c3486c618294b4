"""Production rules as queries of PostgreSQL. [Ceri & Widom 1994]

A rule reads its driver from a table of changed rows, and every other relation in its new or old state; the old state is
without the inserted rows and with the deleted ones. Views of the same component are read from their tables, which have
the old rows during deletions and the new ones during insertions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from upshot.check.program import Clause, Literal
from upshot.core.operations import DELETED, INSERTED
from upshot.core.schema import Schema
from upshot.core.types import BOOLEAN, Type
from upshot.export.postgres_terms import ExportFindings, Expressions, column_names, quoted
from upshot.strategies.production_rules import BEFORE, ProductionRule, RulePurpose
from upshot.syntax.ast import Aggregate, And, Atom, Comparison, Constant, Not, Test, Variable, Wildcard


@dataclass(frozen=True, slots=True)
class TableNames:
    """The names of the tables of a program: relations in one schema, their changes in another."""

    schemas: Mapping[str, Schema]
    visible: str
    internal: str

    def rows(self, relation: str) -> str:
        return f"{quoted(self.visible)}.{quoted(relation)}"

    def part(self, relation: str, part: str) -> str:
        """A table of changes: `ins`, `del`; `next` and `wave` are used while its component is computed."""
        return f"{quoted(self.internal)}.{quoted(f'{relation}__{part}')}"

    def columns(self, relation: str, alias: str = "") -> str:
        prefix = f"{alias}." if alias else ""
        return ", ".join(prefix + name for name in column_names(self.schemas[relation]))

    def same(self, relation: str, left: str, right: str) -> str:
        """The condition that two rows of a relation are equal; NULL equals NULL."""
        schema = self.schemas[relation]
        nullable = [column.type.nullable for column in schema.columns] or [False]
        pairs = zip(column_names(schema), nullable, strict=True)
        return " AND ".join(f"{left}.{n} {_equals(null)} {right}.{n}" for n, null in pairs)

    def before(self, relation: str) -> str:
        """The rows of a relation before the transaction."""
        rows, inserted, deleted = self.rows(relation), self.part(relation, "ins"), self.part(relation, "del")
        return (
            f"(SELECT {self.columns(relation, 'n')} FROM {rows} n WHERE NOT EXISTS"
            f" (SELECT 1 FROM {inserted} i WHERE {self.same(relation, 'n', 'i')})"
            f" UNION ALL SELECT {self.columns(relation)} FROM {deleted})"
        )


def _equals(nullable: bool) -> str:
    return "IS NOT DISTINCT FROM" if nullable else "="


def rule_query(rule: ProductionRule, component: Sequence[str], tables: TableNames, findings: ExportFindings) -> str:
    """A query for the distinct rows that a rule derives."""
    if rule.group is RulePurpose.REINSERT:
        query = _Select(rule.source, component, tables, findings)
        query.literals(rule.source.body)
        query.is_among(tables.part(rule.view, "del"))
        return query.text()
    query = _Select(rule.clause, component, tables, findings)
    body = rule.clause.body[1:] if rule.group is RulePurpose.START else rule.clause.body
    query.literals(body)
    return query.text()


@dataclass(slots=True)
class _Select:
    """A SELECT, built literal by literal."""

    clause: Clause
    component: Sequence[str]
    tables: TableNames
    findings: ExportFindings
    sources: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    terms: Expressions = field(init=False)

    def __post_init__(self) -> None:
        self.terms = Expressions(self.clause.types, self.findings, self.clause.origin)

    def literals(self, body: Sequence[Literal]) -> None:
        atoms = [literal for literal in body if isinstance(literal, Atom)]
        for atom in atoms:
            self._source(atom)
        rest = [literal for literal in body if not isinstance(literal, Atom)]
        while binding := next((each for each in rest if self._binds(each)), None):
            rest.remove(binding)
        for literal in rest:
            self._condition(literal)

    def _source(self, atom: Atom) -> None:
        alias = f"t{len(self.sources) + 1}"
        self.sources.append(f"{self._table(atom)} {alias}")
        self.conditions += self._matches(atom, alias, bind=True)

    def _table(self, atom: Atom) -> str:
        relation = atom.relation
        if relation in self.component:
            return (
                self.tables.part(relation, "wave") if atom.state in (INSERTED, DELETED) else self.tables.rows(relation)
            )
        match atom.state:
            case "inserted" | "deleted":
                return self.tables.part(relation, "ins" if atom.state == INSERTED else "del")
            case state if state == BEFORE:
                return self.tables.before(relation)
            case _:
                return self.tables.rows(relation)

    def _matches(self, atom: Atom, alias: str, *, bind: bool) -> list[str]:
        """The conditions on the columns of an atom; NULL does not join."""
        found = []
        names = column_names(self.tables.schemas[atom.relation])
        for name, term in zip(names, atom.args, strict=False):
            match term:
                case Wildcard():
                    pass
                case Variable(variable) if bind and variable not in self.terms.columns:
                    self.terms.columns[variable] = f"{alias}.{name}"
                case _:
                    found.append(f"{alias}.{name} = {self.terms.text(term)}")
        return found

    def _binds(self, literal: Literal) -> bool:
        """Bind the variable of an equation whose other side is bound; NULL satisfies no equation."""
        if not (isinstance(literal, Comparison) and literal.op == "="):
            return False
        for target, value in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(target, Variable) and target.name not in self.terms.columns:
                if isinstance(value, Aggregate):
                    text = self._fold(value)
                elif self.terms.is_bound(value):
                    text = self.terms.text(value)
                else:
                    continue
                self.terms.columns[target.name] = text
                if not isinstance(value, Constant | Aggregate):
                    self.conditions.append(f"{text} IS NOT NULL")
                return True
        return False

    def _condition(self, literal: Literal) -> None:
        match literal:
            case Comparison():
                self.conditions.append(self.terms.comparison(literal))
            case Test():
                self.conditions.append(self.terms.test(literal))
            case Not(Test() as test):
                self.conditions.append(f"NOT COALESCE({self.terms.test(test)}, FALSE)")
            case Not(Atom() as atom):
                inner = " AND ".join(self._matches(atom, "a", bind=False)) or "TRUE"
                self.conditions.append(f"NOT EXISTS (SELECT 1 FROM {self._table(atom)} a WHERE {inner})")
            case _:
                raise AssertionError(f"no literal of a clause: {literal}")

    def _fold(self, term: Aggregate) -> str:
        """The aggregate as a query over the rows of its group."""
        atom = term.body.parts[0] if isinstance(term.body, And) else term.body
        assert isinstance(atom, Atom), "normal form gives every aggregate one atom"
        inner = Expressions(self.clause.types, self.findings, self.clause.origin, dict(self.terms.columns))
        conditions = []
        for name, arg in zip(column_names(self.tables.schemas[atom.relation]), atom.args, strict=False):
            if isinstance(arg, Variable) and arg.name not in inner.columns:
                inner.columns[arg.name] = f"g.{name}"
            elif not isinstance(arg, Wildcard):
                conditions.append(f"g.{name} = {inner.text(arg)}")
        target = "" if term.target is None else inner.text(term.target)
        where = " AND ".join(conditions) or "TRUE"
        return f"(SELECT {inner.fold(term, target)} FROM {self._table(atom)} g WHERE {where})"

    def is_among(self, rows: str) -> None:
        """Restrict the heads to rows of a table; NULL equals NULL."""
        relation = self.clause.head.relation
        self.sources.append(f"{rows} d")
        schema = self.tables.schemas[relation]
        for column, (term, type) in zip(column_names(schema), self._head(), strict=True):
            self.conditions.append(f"d.{column} {_equals(type.nullable)} {term}")

    def _head(self) -> list[tuple[str, Type]]:
        schema = self.tables.schemas[self.clause.head.relation]
        if not schema.columns:
            return [("TRUE", BOOLEAN)]
        return [(self.terms.text(arg), type) for arg, type in zip(self.clause.head.args, schema.types, strict=True)]

    def text(self) -> str:
        head = ", ".join(term for term, _ in self._head())
        sources = f" FROM {', '.join(self.sources)}" if self.sources else ""
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return f"SELECT DISTINCT {head}{sources}{where}"
