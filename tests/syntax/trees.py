"""Random trees as the parser builds them: conjunctions and disjunctions flat, constants typed by their spelling."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from hypothesis import strategies as st

from upshot.core.types import BOOLEAN, DATE, FLOAT, SYMBOL, TIMESTAMP, UNSIGNED, Kind, Type
from upshot.syntax.ast import (
    ActionClause,
    Activation,
    ActiveRule,
    Aggregate,
    And,
    Atom,
    Attribute,
    Call,
    Comparison,
    Constant,
    Declaration,
    Deny,
    DenyPolicy,
    Determines,
    Directive,
    EventClause,
    ForeignKey,
    Formula,
    Ignored,
    Item,
    Not,
    NotNull,
    Or,
    Parameter,
    Program,
    Rule,
    Term,
    Test,
    TypeDeclaration,
    TypeName,
    ValueCheck,
    Variable,
    ViewDirective,
    Wildcard,
)

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)

names = st.sampled_from(
    ("edge", "closure", "r", "p2", "X", "old", "inserted", "do", "when", "key", "date", "?q", "_t", "not")
)
variables = st.sampled_from(("X", "Y", "Zeta", "?x", "_y", "old", "do", "on", "key", "bor", "date", "contains"))


def _decimal(digits: int, scale: int) -> Constant:
    value = Decimal(digits).scaleb(-scale)
    return Constant(
        value, Type(Kind.DECIMAL, precision=max(len(str(abs(digits))) if digits else 0, scale, 1), scale=scale)
    )


constants = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(Constant),
    st.integers(-20, 20).map(Constant),
    st.integers(0, 2**64 - 1).map(lambda n: Constant(n, UNSIGNED)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: Constant(x, FLOAT)),
    st.booleans().map(lambda b: Constant(b, BOOLEAN)),
    _TEXT.map(lambda s: Constant(s, SYMBOL)),
    st.just(Constant(None)),
    st.dates(date(1, 1, 1)).map(lambda d: Constant(d, DATE)),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)).map(
        lambda t: Constant(t, TIMESTAMP)
    ),
    st.builds(_decimal, st.integers(-(10**17), 10**17), st.integers(0, 6)),
)

_INFIX = ("+", "-", "*", "/", "%", "^", "band", "bor", "bxor", "bshl", "bshr", "land", "lor")


def _terms(parameters: bool) -> st.SearchStrategy[Term]:
    leaves: st.SearchStrategy[Term] = variables.map(Variable) | constants | st.just(Wildcard())
    if parameters:
        leaves |= variables.map(Parameter)
    return st.deferred(lambda: leaves | _calls(parameters))


def _calls(parameters: bool) -> st.SearchStrategy[Term]:
    inner = query_terms if parameters else terms
    body = query_formulas if parameters else formulas
    return st.one_of(
        st.builds(Call, st.sampled_from(_INFIX), st.tuples(inner, inner)),
        st.builds(Call, st.sampled_from(("neg", "bnot", "lnot")), st.tuples(inner)),
        st.builds(Call, st.sampled_from(("cat", "max", "min", "substr")), st.tuples(inner, inner)),
        st.builds(Call, st.sampled_from(("strlen", "to_number", "ord")), st.tuples(inner)),
        st.builds(Aggregate, st.just("count"), st.none(), body),
        st.builds(Aggregate, st.sampled_from(("sum", "min", "max", "mean")), inner, body),
    )


def _flat(kind: type[And] | type[Or], parts: list[Formula]) -> Formula:
    return kind(tuple(q for p in parts for q in (p.parts if isinstance(p, kind) else (p,))))


def _formulas(term: st.SearchStrategy[Term], states: bool) -> st.SearchStrategy[Formula]:
    args = st.lists(term, max_size=3).map(tuple)
    state = st.sampled_from(("", "old", "inserted", "deleted")) if states else st.just("")
    literals = st.one_of(
        st.builds(Atom, names, args, state),
        st.builds(Comparison, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), term, term),
        st.builds(Test, st.sampled_from(("contains", "match", "is_null")), args),
        st.builds(Test, st.sampled_from(("true", "false")), st.just(())),
    )
    return st.recursive(
        literals,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: _flat(And, parts)),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: _flat(Or, parts)),
        ),
        max_leaves=4,
    )


terms = _terms(parameters=False)
query_terms = _terms(parameters=True)
formulas = _formulas(terms, states=False)
query_formulas = _formulas(query_terms, states=False)
_checks = _formulas(st.sampled_from(("n", "count", "max", "key")).map(Variable) | constants, states=False)
conditions = _formulas(variables.map(Variable) | constants, states=True)

atoms = st.builds(Atom, names, st.lists(terms, max_size=4).map(tuple))
_words = st.sampled_from(("strategy", "rod", "auto", "on", "when", "x1"))
_values = _words | st.integers(-5, 99).map(str) | _TEXT
_options = st.lists(st.tuples(_words, _values), max_size=3).map(tuple)
_type_names = st.builds(
    TypeName, st.sampled_from(("symbol", "number", "City")), st.just(()), st.booleans()
) | st.builds(TypeName, st.just("decimal"), st.tuples(st.integers(1, 18), st.integers(0, 18)), st.booleans())
_columns = st.sampled_from(("a", "count", "item", "key", "x?"))
_some_names = st.lists(_columns, min_size=1, max_size=3).map(tuple)

_form_names = st.sampled_from(("", "positive", "check", "key"))
_short_forms = st.one_of(
    st.builds(ForeignKey, _some_names, st.sampled_from(("edge", "r", "key", "check")), _some_names, _form_names),
    st.builds(Determines, _some_names, _some_names, _form_names),
    st.builds(NotNull, _some_names),
    st.builds(ValueCheck, _checks, _form_names),
)

items: st.SearchStrategy[Item] = st.one_of(
    st.builds(Rule, st.lists(atoms, min_size=1, max_size=2).map(tuple), st.none() | formulas),
    st.builds(
        Declaration,
        names,
        st.lists(st.builds(Attribute, _columns, _type_names), max_size=9).map(tuple),
        st.lists(_some_names, max_size=2).map(tuple),
        st.lists(st.sampled_from(("btree", "brie", "inline", "no_magic")), max_size=2).map(tuple),
        st.lists(_short_forms, max_size=3).map(tuple),
    ),
    st.builds(TypeDeclaration, names, st.tuples(_type_names), st.booleans()),
    st.builds(TypeDeclaration, names, st.lists(_type_names, min_size=2, max_size=3).map(tuple), st.just(True)),
    st.builds(
        Directive,
        st.sampled_from(("input", "output", "printsize")),
        names,
        st.lists(st.tuples(_words, _TEXT), max_size=2).map(tuple),
    ),
    st.builds(ViewDirective, names, _options),
    st.builds(Deny, atoms, formulas),
    st.builds(DenyPolicy, names, _options.filter(bool)),
    st.builds(
        ActiveRule,
        names,
        st.lists(variables.map(Variable), max_size=2).map(tuple),
        _options,
        st.none() | st.builds(EventClause, st.sampled_from(("insert", "delete", "change")), atoms),
        st.none() | conditions,
        st.lists(
            st.builds(ActionClause, st.sampled_from(("insert", "delete", "call")), atoms), min_size=1, max_size=3
        ).map(tuple),
    ),
    st.builds(Activation, names, st.lists(st.tuples(variables, constants), max_size=2).map(tuple), st.booleans()),
    st.sampled_from(('.pragma "a"', '.pragma "a" "b"', ".plan 0:(1,2), 1:(2,1)", ".plan 0:()")).map(Ignored),
)

programs = st.lists(items, max_size=6).map(lambda found: Program(tuple(found)))
