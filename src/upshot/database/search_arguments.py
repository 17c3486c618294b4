"""Validate the arguments of a search for realizations before it begins: rows, preferences, bounds, fresh values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from upshot.check.program import Clause
from upshot.check.types.constants import fit
from upshot.core.errors import UsageError, counted, unknown_relation
from upshot.core.fact_text import fact
from upshot.core.schema import Column as SchemaColumn
from upshot.core.schema import Role, Schema
from upshot.core.search_bounds import is_amount
from upshot.core.types import Type
from upshot.database.expectations import requested_keys
from upshot.database.realization import Realization
from upshot.database.state import DatabaseState
from upshot.revise.request import DELETE, INSERT, Bounds, Key, Preferences, Request
from upshot.syntax import parse_query, print_term
from upshot.syntax.ast import Atom, Constant, Term, Test, Variable, Wildcard

LEAST_SIDE_EFFECTS = "least_side_effects"
_ROWS = 'rows by relation, as in {"closure": [(1, 3)]}'


def request_of(state: DatabaseState, insert: Any, delete: Any) -> Request:
    """The request: rows to insert and delete, without contradictions."""
    parts = {"insert": insert, "delete": delete}
    for word, given in parts.items():
        if given is not None and not isinstance(given, Mapping):
            message = f"`{word}` is a dict of rows by relation, not {_kind(given)}"
            raise UsageError(message, code="wrong-argument", help=f"give {_ROWS}")
    request = Request(
        requested_keys(state, _without_patterns(state, insert, "insert")),
        requested_keys(state, _without_patterns(state, delete, "delete")),
    )
    if both := request.insert & request.delete:
        name, row = min(both, key=repr)
        message = f"`{fact(state.compiled.checked.schemas[name], row)}` is both inserted and deleted by the request"
        raise UsageError(message, code="request-contradicts", help="request one of the two")
    _refuse_shared_keys(state.schemas, request)
    return request


def _without_patterns(state: DatabaseState, given: Mapping[str, Any] | None, word: str) -> dict[str, Any]:
    """Rows by relation, with patterns replaced by their rows."""
    found = dict(given or {})
    for name, rows in found.items():
        patterns = patterns_in(rows)
        if patterns and word == "insert":
            message = f"`{patterns[0]}` is a pattern; rows to insert must be given by their values"
            raise UsageError(message, code="wrong-argument", help=f"give {_ROWS}")
        if patterns:
            named = [] if isinstance(rows, str) else [each for each in rows if not isinstance(each, str)]
            found[name] = named + [row for each in patterns for row in pattern_rows(state, name, each)]
    return found


def patterns_in(rows: Any) -> list[str]:
    """The patterns among rows to delete, or the only one."""
    listed = [rows] if isinstance(rows, str) else rows if isinstance(rows, list | tuple) else []
    return [each for each in listed if isinstance(each, str) and "(" in each]


def pattern_rows(state: DatabaseState, name: str, text: str) -> list[tuple[Any, ...]]:
    """The rows of a relation that a pattern such as `access("ann", _)` matches."""
    schema = state.schema(name)
    atom = parse_query(_double_quoted(text.strip().removesuffix(".")))
    example = f"as in '{name}({', '.join('_' * schema.arity)})'"
    if not isinstance(atom, Atom) or atom.relation != name or len(atom.args) != schema.arity:
        message = f"`{text}` is no pattern of `{name}`, which has {counted(schema.arity, 'column')}"
        raise UsageError(message, code="wrong-argument", help=example)
    terms: list[Term] = []
    types: dict[str, Type] = {}
    tests: list[Test] = []
    for place, (term, column) in enumerate(zip(atom.args, schema.columns, strict=True)):
        known = _pattern_constant(text, term, column, example)
        if known is not None and known.value is not None:
            terms.append(known)
            continue
        terms.append(Variable(f"Any{place}"))
        types[f"Any{place}"] = column.type
        if known is not None:
            tests.append(Test("is_null", (Variable(f"Any{place}"),)))
    columns = tuple(SchemaColumn(f"v{place}", column.type) for place, column in enumerate(schema.columns))
    head = Schema(f"pattern_of_{name}", columns, Role.VIEW)
    clause = Clause(Atom(head.name, tuple(terms)), (Atom(name, tuple(terms)), *tests), types)
    with state.reading() as engine:
        return list(engine.query(head, (clause,)))


_QUOTED = re.compile(r""" "(?:[^"\\]|\\.)*" | '((?:[^'\\]|\\.)*)' """, re.VERBOSE)


def _double_quoted(text: str) -> str:
    """The pattern with its texts in double quotes: the whole is often a Python string in those.

    >>> _double_quoted("access('ann', _)")
    'access("ann", _)'
    """
    return _QUOTED.sub(lambda found: found[0] if found[1] is None else _as_text(found[1]), text)


def _as_text(inner: str) -> str:
    escaped = inner.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
    return f'"{escaped}"'


def _pattern_constant(text: str, term: Term, column: SchemaColumn, example: str) -> Constant | None:
    """The constant of a pattern, converted to the type of its column; None for `_`."""
    match term:
        case Constant(value):
            fitted, problem = fit(value, column.type)
            if value is None and not column.type.nullable:
                problem = "is in no column without `?`"
            if problem:
                message = f"`{text}`: {print_term(term)} {problem}, and column `{column.name}` is `{column.type}`"
                raise UsageError(message, code="wrong-argument", help=example)
            return Constant(fitted, column.type.required())
        case Wildcard():
            return None
        case Variable(other):
            # Text without quotes would match every row.
            message = f"`{text}` has the variable `{other}`: a pattern has constants and `_`"
            raise UsageError(message, code="wrong-argument", help=f'write text in quotes: "{other}"; {example}')
        case _:
            message = f"`{text}` computes: a pattern has constants and `_`"
            raise UsageError(message, code="wrong-argument", help=example)


def require_rows(request: Request, delete: Any) -> Request:
    """The request; `UsageError` if it is empty. A pattern that no row matches is satisfied already."""
    if request.insert or request.delete or any(map(patterns_in, (delete or {}).values())):
        return request
    message = "the request is empty"
    raise UsageError(message, code="empty-request", help=f"name rows to insert or delete: {_ROWS}")


def _refuse_shared_keys(schemas: Mapping[str, Schema], request: Request) -> None:
    """`UsageError` if two rows to insert share a key."""
    seen: dict[tuple[str, tuple[int, ...], tuple[Any, ...]], Key] = {}
    for key in sorted(request.insert, key=repr):
        name, row = key
        schema = schemas[name]
        for places in schema.keys:
            other = seen.setdefault((name, tuple(places), tuple(row[place] for place in places)), key)
            if other is not key:
                shown = f"`{fact(schema, other[1])}` and `{fact(schema, row)}`"
                columns = ", ".join(schema.columns[place].name for place in places)
                message = f"{shown} cannot both hold: they share the key ({columns}) of `{name}`"
                raise UsageError(message, code="request-contradicts", help="request one of the two")


def require_base_rows(state: DatabaseState, *parts: Any) -> None:
    """`UsageError` unless these are rows of base relations: a transaction is repaired."""
    for given in parts:
        for name in given if isinstance(given, Mapping) else ():
            if state.compiled.home(state.schema(name).name) is None:
                raise UsageError(
                    f"`{name}` is a view: a transaction changes base relations",
                    code="not-a-base-relation",
                    help="`db.realize`, or `upshot update`, finds the base changes for rows of views",
                )


def require_name(constraint: Any) -> None:
    """`UsageError` unless this can be the name of a constraint."""
    if constraint is not None and not isinstance(constraint, str):
        message = f"`constraint` is the name of a constraint, not {_kind(constraint)}"
        raise UsageError(
            message, code="wrong-argument", help='give rows by relation: db.repairs(insert={"member": [(1,)]})'
        )


def limit_of(limit: Any) -> int | None:
    """The maximal number of realizations; None for all."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        message = "`limit` is a positive number, or None for all"
        raise UsageError(message, code="wrong-argument", help="as in limit=3")
    return limit


def bounds_of(bounds: Any) -> Bounds:
    """The bounds of the search."""
    if bounds is None:
        return Bounds()
    if not isinstance(bounds, Bounds):
        message = f"`bounds` are given as `upshot.Bounds`, not {_kind(bounds)}"
        raise UsageError(message, code="wrong-argument", help="as in bounds=upshot.Bounds(seconds=2)")
    return bounds


def preferences_of(state: DatabaseState, frozen: Any, cost: Any, prefer: Any = None) -> Preferences:
    """The preferences stated by `frozen` and `cost`, by the relations that store the rows."""
    names = (frozen,) if isinstance(frozen, str) else () if frozen is None else frozen
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        message = f"`frozen` is a list of base relations, not {_kind(frozen)}"
        raise UsageError(message, code="wrong-argument", help='as in frozen=["granted", "+member"]')
    if cost is not None and not isinstance(cost, Mapping):
        message = f"`cost` is a dict of prices by base relation, not {_kind(cost)}"
        raise UsageError(message, code="wrong-argument", help='as in cost={"-granted": 5}')
    barred = {place for text in names for place in _places(state, text, "frozen")}
    given = {text: (_places(state, text, "cost"), price) for text, price in (cost or {}).items()}
    prices: dict[tuple[str, str], float] = {}
    # A price for one direction overrides one for both.
    for text, (places, price) in sorted(given.items(), key=lambda item: item[0][:1] in (INSERT, DELETE)):
        if not is_amount(price) or price == math.inf:
            message = f"the cost of `{text}` is not a non-negative number"
            raise UsageError(message, code="wrong-argument", help='as in cost={"-granted": 5}')
        prices |= dict.fromkeys(places, price)
    if prefer not in (None, LEAST_SIDE_EFFECTS):
        message = f"`prefer` is `{LEAST_SIDE_EFFECTS}`, not {_kind(prefer)}"
        raise UsageError(message, code="wrong-argument", help=f'as in prefer="{LEAST_SIDE_EFFECTS}"')
    return Preferences(frozenset(barred), prices, prefer is not None)


def _places(state: DatabaseState, text: Any, word: str) -> list[tuple[str, str]]:
    if not isinstance(text, str):
        message = f"`{word}` names base relations, and {_kind(text)} is no name"
        raise UsageError(message, code="wrong-argument", help='as in "granted", "+granted" or "-granted"')
    signs = [text[0]] if text[:1] in (INSERT, DELETE) else [INSERT, DELETE]
    name = text[1:] if text[:1] in (INSERT, DELETE) else text
    changed = {each: schema for each, schema in state.schemas.items() if state.compiled.home(each) is not None}
    if name not in state.schemas:
        # Suggest only relations that can be changed.
        raise unknown_relation(name, {n: s for n, s in changed.items() if s.role is Role.BASE} or changed)
    home = state.compiled.home(name)
    if home is None:
        message = f"`{name}` is a view: only base relations are changed"
        raise UsageError(message, code="not-a-base-relation", help="name a base relation")
    return [(home, sign) for sign in signs]


def values_of(realization: Realization, values: Any) -> dict[str, Any]:
    """A value for each placeholder, by its name."""
    names = {each.name.lstrip("?"): each for each in realization.placeholders}
    example = f'{{"?{next(iter(names), "1")}": …}}'
    if values is not None and (not isinstance(values, Mapping) or not all(isinstance(each, str) for each in values)):
        message = f"`values` is a dict of values by placeholder, not {_kind(values)}"
        raise UsageError(message, code="wrong-argument", help=f"as in `db.apply(realization, {example})`")
    given = {name.lstrip("?"): value for name, value in (values or {}).items()}
    for name in given:
        if name not in names:
            listed = ", ".join(f"`{each.name}`" for each in realization.placeholders)
            hint = f"it has {listed}" if listed else "it leaves nothing open: leave out the values"
            raise UsageError(f"the realization has no placeholder `?{name}`", code="wrong-argument", help=hint)
    missing = [each.name for name, each in names.items() if name not in given]
    if missing:
        raise UsageError(
            f"the realization leaves {', '.join(f'`{name}`' for name in missing)} open",
            code="placeholder-open",
            help=f'give the fresh value: `db.apply(realization, {{"{missing[0]}": …}})`',
        )
    return {f"?{name}": value for name, value in given.items()}


def _kind(given: object) -> str:
    """A short description of a wrong argument."""
    shown = repr(given)
    return f"`{shown}`" if len(shown) <= 40 else f"a {type(given).__name__}"
