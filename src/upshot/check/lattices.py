"""Lattice columns, of which only the best value is kept: their declarations, and the check that recursion is monotone.

A recursive rule reads the best value so far. Its derived rows stay valid when that value improves if the rule is
monotone: a better input value derives the same rows, or rows with better values. Then evaluation in any order reaches
the least fixpoint. A rule that is not monotone is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from upshot.check.equivalences import ordered_column
from upshot.check.findings import Findings
from upshot.check.names.relations import Relations
from upshot.check.names.variables import fold, occurrences, terms_of
from upshot.check.program import Clause, Literal
from upshot.core.errors import unknown_relation
from upshot.core.schema import Lattice, Role, Schema
from upshot.core.span import Span
from upshot.core.types import Kind, Type
from upshot.syntax import ast, print_formula, print_term
from upshot.values.conditions import ORDERING

_FUNCTION = {"min": "min", "max": "max", "any": "max", "all": "min"}
_CURE = (
    "in a recursion, keep the best value of one column, as in `dist(X, A) <= dist(X, B) :- B <= A.`, bound the "
    "others, and drop the rows in a view above it"
)

Trend = int
"""The direction of a value while lattice columns improve: 0 constant, 1 up only, -1 down only, 2 either way."""
_EITHER = 2


# ---- declaration ----------------------------------------------------------------------------------------------


def lattices(
    declarations: Iterable[ast.Declaration],
    subsumptions: Iterable[ast.Subsumption],
    known: Relations,
    findings: Findings,
) -> None:
    """Set the lattice of every schema, from the words of its columns or a subsumption. Roles must be assigned."""
    for declaration in declarations:
        # `union` has no effect: a relation is the union of the rows that its rules derive.
        named = [(place, each.lattice) for place, each in enumerate(declaration.attributes)]
        words = [(place, word) for place, word in named if word not in ("", "union")]
        if len(words) > 1:
            _refuse_second(declaration, findings)
        for place, word in words[:1]:
            span = declaration.attributes[place].span
            # The least member of a class represents it; any order will do, since users cannot read it.
            if not declaration.part_of and _is_record(declaration.name, place, span, known, findings):
                continue
            _declare(declaration.name, place, word, span, known, findings)
    for subsumption in subsumptions:
        found = _subsumed(subsumption, known, findings)
        name = subsumption.worse.relation
        if found is not None and not _is_record(name, found[0], subsumption.span, known, findings):
            _declare(name, *found, subsumption.span, known, findings)


def _refuse_second(declaration: ast.Declaration, findings: Findings) -> None:
    findings.error(
        "several-lattice-columns",
        f"relation `{declaration.name}` keeps the best value of two columns",
        [each for each in declaration.attributes if each.lattice not in ("", "union")][1].span,
        label="the second one",
        help="declare one relation for each, with the other columns in both",
    )


def _is_record(name: str, place: int, span: Span | None, known: Relations, findings: Findings) -> bool:
    """Test whether a lattice column has records, which have no order; if so, it is reported."""
    schema = known.schemas[name]
    if name in known.vague or place >= schema.arity or schema.columns[place].type.kind is not Kind.RECORD:
        return False
    column = schema.columns[place]
    findings.error(
        "lattice-type",
        f"column `{column.name}` of `{name}` is `{column.type}`, a record, and records have no best value",
        span,
        label="records have no order",
        help="keep the best value of one field, in a column of its own",
    )
    return True


def _declare(name: str, place: int, word: str, span: Span | None, known: Relations, findings: Findings) -> None:
    schema, lattice = known.schemas[name], Lattice(place, _FUNCTION[word])
    if name in known.vague or place >= schema.arity:
        return
    type, column = schema.columns[place].type, schema.columns[place].name
    if schema.role is Role.BASE:
        findings.error(
            "lattice-of-base-relation",
            f"`{name}` has no rules, so that there is nothing to choose the best `{column}` of",
            span,
            label="a base relation",
            help=f"leave `{word}` out, and define a view of it with `{word}`",
        )
    elif type.nullable or (word in ("any", "all") and type.kind is not Kind.BOOLEAN):
        needed = "a `boolean`" if word in ("any", "all") else "a type without `?`"
        findings.error(
            "lattice-type",
            f"`{word}` needs {needed}, and column `{column}` of `{name}` is `{type}`",
            span,
            label=f"`{word}` of `{type}`",
            help="exclude NULL in the rules" if type.nullable else "use `min` or `max`",
        )
    elif schema.lattice is not None and schema.lattice != lattice:
        findings.error(
            "conflicting-lattice",
            f"the best rows of `{name}` are stated twice, and differently",
            span,
            label="differs from what was stated before",
            help="keep one of the two",
        )
    else:
        known.schemas[name] = replace(schema, lattice=lattice)


def _subsumed(item: ast.Subsumption, known: Relations, findings: Findings) -> tuple[int, str] | None:
    """The column that a subsumption orders, and `min` or `max`; any other subsumption is refused."""
    worse, better = item.worse, item.better
    schema = known.schemas.get(worse.relation)
    if schema is None or worse.relation in known.vague:
        if schema is None:
            error = unknown_relation(worse.relation, (), otherwise="declare it")
            _refuse(item, error.message, findings, help=error.help)
        return None
    if worse.relation != better.relation or not len(worse.args) == len(better.args) == schema.arity:
        _refuse(item, f"both rows must be of `{worse.relation}`, with {schema.arity} columns", findings)
        return None
    found = ordered_column(item)
    if found is None:
        _refuse(item, _reason(item, schema), findings)
    return found


def _reason(item: ast.Subsumption, schema: Schema) -> str:
    """The reason why a subsumption that is not the order of one column is not supported."""
    if item.worse.args == item.better.args:
        return "no column differs between the two rows"
    if not all(
        isinstance(term, ast.Variable | ast.Wildcard) for atom in (item.worse, item.better) for term in atom.args
    ):
        return "the columns must be variables"
    for column in schema.columns:
        if column.type.nullable or column.type.kind is Kind.RECORD:
            return f"column `{column.name}` is `{column.type}`, which has no order"
    return f"`{schema.name}` is recursive, and the condition does not order just one column"


def _refuse(item: ast.Subsumption, why: str, findings: Findings, help: str = _CURE) -> None:
    findings.error(
        "unsupported-subsumption",
        f"this subsumption cannot be kept: {why}",
        item.span,
        label="keeps no best value of one column",
        help=help,
    )


# ---- monotone use ---------------------------------------------------------------------------------------------


def check_monotone(
    schemas: Mapping[str, Schema], clauses: Iterable[Clause], strata: Iterable[Sequence[str]], findings: Findings
) -> None:
    """Report every use of a lattice value in its own recursion where a better value could remove rows."""
    component = {view: frozenset(views) for views in strata for view in views}
    if not any(schema.lattice is not None for schema in schemas.values()):
        return
    for clause in clauses:
        own = component.get(clause.head.relation, frozenset())
        if any(isinstance(each, ast.Atom) and each.relation in own for each in clause.body):
            _Uses(schemas, own, clause, findings).check()


@dataclass(slots=True)
class _Uses:
    """The uses of lattice values in one recursive clause."""

    schemas: Mapping[str, Schema]
    own: frozenset[str]
    clause: Clause
    findings: Findings

    def check(self) -> None:
        trends: dict[str, Trend] = {}
        for literal in self.clause.body:
            lattice = self._lattice(literal)
            if lattice is not None and isinstance(literal, ast.Atom):
                self._source(literal, lattice, trends)
        if not trends:
            return
        self._atoms(frozenset(trends))
        defining = self._computed(trends)
        for place, literal in enumerate(self.clause.body):
            if place not in defining:
                self._literal(literal, trends)
        self._head(trends)

    def _lattice(self, literal: Literal) -> Lattice | None:
        """The lattice of a literal whose relation is in the recursion of the head."""
        if not isinstance(literal, ast.Atom) or literal.relation not in self.own:
            return None
        return self.schemas[literal.relation].lattice

    def _source(self, atom: ast.Atom, lattice: Lattice, trends: dict[str, Trend]) -> None:
        term = atom.args[lattice.column]
        match term:
            case ast.Variable(name):
                trends[name] = -1 if lattice.function == "min" else 1
            case ast.Wildcard():
                pass
            case _:
                self._report(atom, f"it looks for the value `{print_term(term)}`, which a better one replaces")

    def _atoms(self, names: frozenset[str]) -> None:
        """Report joins of lattice values: a value may occur in one literal only, in its lattice column."""
        seen: set[str] = set()
        for literal in self.clause.body:
            if not isinstance(literal, ast.Atom | ast.Not):
                continue
            lattice = self._lattice(literal)
            for place, term in enumerate(terms_of(literal)):
                for variable in occurrences(term):
                    if variable.name not in names:
                        continue
                    first = lattice is not None and place == lattice.column and variable.name not in seen
                    if not first:
                        self._report(literal, f"it joins `{variable.name}`, which a better value replaces")
                    seen.add(variable.name)

    def _computed(self, trends: dict[str, Trend]) -> set[int]:
        """Add the trends of variables that equations define; return the positions of these equations."""
        bound = {v.name for each in self.clause.body if isinstance(each, ast.Atom) for v in occurrences(each)}
        places: set[int] = set()
        grown = True
        while grown:
            grown = False
            for place, literal in enumerate(self.clause.body):
                name, value = _equation(literal, bound | trends.keys())
                if name and any(v.name in trends for v in occurrences(value)):
                    trends[name] = self._trend(value, trends)
                    places.add(place)
                    grown = True
        return places

    def _literal(self, literal: Literal, trends: Mapping[str, Trend]) -> None:
        match literal:
            case ast.Atom() | ast.Not(ast.Atom()):
                return
            case ast.Comparison(op, left, right):
                down, up = (left, right) if op in ("<", "<=") else (right, left)
                falls, rises = self._trend(down, trends), self._trend(up, trends)
                holds = not (falls or rises) or (op in ORDERING and falls in (0, -1) and rises in (0, 1))
            case ast.Test() | ast.Not():
                holds = not any(v.name in trends for term in terms_of(literal) for v in occurrences(term))
            case _:
                assert_never(literal)
        if not holds:
            self._report(literal, "a better value can make it false")

    def _head(self, trends: Mapping[str, Trend]) -> None:
        head = self.clause.head
        lattice = self.schemas[head.relation].lattice
        for place, term in enumerate(head.args):
            expected = 0
            if lattice is not None and place == lattice.column:
                expected = -1 if lattice.function == "min" else 1
            trend = self._trend(term, trends)
            if trend and trend != expected:
                column = self.schemas[head.relation].columns[place].name
                why = (
                    f"a better value in gives a worse `{column}`"
                    if expected
                    else f"column `{column}` would keep every intermediate value; declare it `min` or `max`"
                )
                self._report(head, why)

    def _trend(self, term: ast.Term, trends: Mapping[str, Trend]) -> Trend:
        def visit(current: ast.Term, parts: tuple[Trend, ...]) -> Trend:
            match current:
                case ast.Variable(name):
                    return trends.get(name, 0)
                case ast.Call(function, args):
                    if not any(parts):
                        return 0
                    rule = _TRENDS.get(function)
                    return _EITHER if rule is None else rule(parts, [self._sign(each) for each in args])
                case ast.Aggregate():
                    return _EITHER if any(v.name in trends for v in occurrences(current)) else 0
            return 0

        return fold(term, visit)

    def _sign(self, term: ast.Term) -> int:
        """1 for a term that is never negative, -1 for one that is never positive, 0 for others."""
        match term:
            case ast.Constant(value) if isinstance(value, int | float) and not isinstance(value, bool):
                return 1 if value >= 0 else -1
            case ast.Variable(name):
                return 1 if self.clause.types.get(name, Type(Kind.NUMBER)).kind is Kind.UNSIGNED else 0
        return 0

    def _report(self, literal: Literal, why: str) -> None:
        relation = next(name for name in sorted(self.own) if self.schemas[name].lattice is not None)
        lattice = self.schemas[relation].lattice
        assert lattice is not None
        best = "least" if lattice.function == "min" else "greatest"
        self.findings.error(
            "not-monotone",
            f"`{print_formula(literal)}` is not monotone in `{relation}`, which keeps the {best} "
            f"`{self.schemas[relation].columns[lattice.column].name}`: {why}",
            literal.span or self.clause.origin,
            label="not monotone",
            help="use the value only where a better one derives as much, or read the relation in a view of its own, "
            "outside the recursion",
        )


def _equation(literal: Literal, bound: Iterable[str]) -> tuple[str, ast.Term]:
    """The variable that an equation defines, if it is not bound otherwise, and its value."""
    if isinstance(literal, ast.Comparison) and literal.op == "=":
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(side, ast.Variable) and side.name not in bound:
                return side.name, other
    return "", ast.Constant(0)


def _together(*trends: Trend) -> Trend:
    moving = {trend for trend in trends if trend}
    return 0 if not moving else moving.pop() if len(moving) == 1 else _EITHER


def _turned(trend: Trend) -> Trend:
    return trend if trend == _EITHER else -trend


def _product(parts: tuple[Trend, ...], signs: Sequence[int]) -> Trend:
    (left, right), (one, other) = parts, signs
    if left and right:
        return _together(left, right) if one == other == 1 else _EITHER
    sign = other if left else one
    return _EITHER if sign == 0 else left + right if sign > 0 else _turned(left + right)


def _quotient(parts: tuple[Trend, ...], signs: Sequence[int]) -> Trend:
    return _product(parts, signs) if not parts[1] else _EITHER


_TRENDS: Mapping[str, Callable[[tuple[Trend, ...], Sequence[int]], Trend]] = {
    "+": lambda parts, _: _together(*parts),
    "-": lambda parts, _: _together(parts[0], _turned(parts[1])),
    "neg": lambda parts, _: _turned(parts[0]),
    "min": lambda parts, _: _together(*parts),
    "max": lambda parts, _: _together(*parts),
    "*": _product,
    "/": _quotient,
}
"""The functions that are monotone in their operands."""
