"""Rewrite `eqrel`, `choice-domain` and subsumption over several columns as rules.

An equivalence relation contains all pairs of each class. A class is represented by its least member, which a view of
best values maintains, so that a deletion affects one class. A choice keeps the smallest of the rows that agree on its
domain. With several domains rows are considered in order: one is kept if it agrees on no domain with a row kept before.
A subsumption outside of recursion keeps the rows that no other row dominates; of rows that dominate each other, the
smallest one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.clause.clause_form import TRUE
from upshot.check.findings import Findings
from upshot.check.names.variables import all_names, fresh_name
from upshot.check.strata import needs, order_of
from upshot.syntax import ast, parse, print_term
from upshot.syntax.rebuild import rebuilt
from upshot.values.conditions import ORDERING, TURNED

EQREL = "eqrel"


@dataclass(slots=True)
class Expanded:
    """`declarations` and `rules` with the new ones; `loaded` maps relations to those that take their rows from files.
    `subsumptions` are those that are not rewritten: they order one column, or are refused."""

    declarations: list[ast.Declaration]
    rules: list[ast.Rule]
    subsumptions: list[ast.Subsumption]
    loaded: dict[str, str] = field(default_factory=dict)


def expanded(
    declarations: Sequence[ast.Declaration],
    rules: Sequence[ast.Rule],
    subsumptions: Sequence[ast.Subsumption],
    records: Collection[str],
    findings: Findings,
) -> Expanded:
    """The program with `eqrel`, `choice-domain` and subsumption rewritten; `records` are types without order."""
    wide = _written_out(declarations, rules, subsumptions, records)
    made = Expanded([], list(rules), [each for each in subsumptions if each.worse.relation not in wide])
    special = [each for each in declarations if EQREL in each.qualifiers or each.choice or each.name in wide]
    if not special:
        return Expanded(list(declarations), list(rules), list(subsumptions))
    taken = {each.name for each in declarations}
    for declaration in declarations:
        if declaration not in special:
            made.declarations.append(declaration)
            continue
        plain = replace(declaration, qualifiers=tuple(q for q in declaration.qualifiers if q != EQREL), choice=())
        if EQREL in declaration.qualifiers:
            _equivalence(plain, made, taken, findings)
        elif declaration.name in wide:
            _unsurpassed(plain, wide[declaration.name], made, taken)
        else:
            _choice(plain, declaration.choice, made, taken, _Refusals(records, findings))
    return made


def _equivalence(plain: ast.Declaration, made: Expanded, taken: set[str], findings: Findings) -> None:
    types = [each.type for each in plain.attributes]
    made.declarations.append(plain)
    if len(types) != 2 or types[0] != types[1] or types[0].nullable:
        findings.error(
            "eqrel-columns",
            f"equivalence relation `{plain.name}` must have two columns of one type without `?`",
            plain.span,
            label="not a relation between values of one type",
            help="as in `.decl same(x: symbol, y: symbol) eqrel`",
        )
        return
    name = plain.name
    recursive = _is_recursive(name, made.rules)
    pair = _part(plain, "pair", made, taken)
    _moved(name, pair, made)
    if recursive:
        made.rules += _rules(
            plain,
            f"{name}(X, Y) :- {pair}(X, Y).",
            f"{name}(Y, X) :- {name}(X, Y).",
            f"{name}(X, Z) :- {name}(X, Y), {name}(Y, Z).",
        )
        return
    member, least = plain.attributes[0], replace(plain.attributes[1], lattice="min")
    group = _part(replace(plain, attributes=(member, least)), "class", made, taken)
    made.rules += _rules(
        plain,
        f"{group}(X, X), {group}(Y, Y) :- {pair}(X, Y).",
        f"{group}(Y, Z) :- {group}(X, Z), {pair}(X, Y).",
        f"{group}(X, Z) :- {group}(Y, Z), {pair}(X, Y).",
        f"{name}(X, Y) :- {group}(X, Z), {group}(Y, Z).",
    )


def _choice(
    plain: ast.Declaration, domains: Sequence[Sequence[str]], made: Expanded, taken: set[str], refusals: _Refusals
) -> None:
    names = [each.name for each in plain.attributes]
    rest = [place for place, name in enumerate(names) if name not in domains[0]]
    best = len(domains) == 1 == len(rest) and any(
        rule.body is not None for rule in made.rules if _defines(rule, plain.name)
    )
    if refusals.report(plain, domains, best=best, recursive=_is_recursive(plain.name, made.rules)):
        made.declarations.append(plain)
    elif best:
        least = [replace(each, lattice="min") if place in rest else each for place, each in enumerate(plain.attributes)]
        made.declarations.append(replace(plain, attributes=tuple(least)))
    elif len(domains) == 1:
        made.declarations.append(plain)
        every, worse = _part(plain, "all", made, taken), _part(plain, "worse", made, taken)
        _moved(plain.name, every, made)
        row = [f"A{place}" for place in range(len(names))]
        other = [f"B{place}" if place in rest else row[place] for place in range(len(names))]
        head = ", ".join(row)
        made.rules += _rules(
            plain,
            f"{worse}({head}) :- {every}({head}), {every}({', '.join(other)}), ({_is_before(other, row, rest)}).",
            f"{plain.name}({head}) :- {every}({head}), !{worse}({head}).",
        )
    else:
        made.declarations.append(plain)
        _choice_in_turn(plain, [[names.index(each) for each in domain] for domain in domains], made, taken)


def _choice_in_turn(plain: ast.Declaration, domains: Sequence[Sequence[int]], made: Expanded, taken: set[str]) -> None:
    """Choose among rows that are connected by equal values in a domain: a function chooses from the sequence of all
    their lines."""
    every = _part(plain, "all", made, taken)
    _moved(plain.name, every, made)
    text = ast.TypeName("symbol")
    names = {each.name for each in plain.attributes}
    line, *keys = (
        ast.Attribute(fresh_name(word, names), text) for word in ("line", *(f"key_{n}" for n in range(len(domains))))
    )
    lines = _part(replace(plain, attributes=(*plain.attributes, *keys, line)), "lines", made, taken)
    group = _part(replace(plain, attributes=(keys[0], replace(line, lattice="min"))), "class", made, taken)
    member = _part(replace(plain, attributes=(keys[0], line)), "members", made, taken)
    row, own = [f"A{place}" for place in range(len(names))], [f"K{number}" for number in range(len(domains))]
    shown = ", ".join(row)
    found = f"{lines}({', '.join((*row, *own))}, M)"
    sort_keys = [f"sort_key({each})" for each in row]
    values = [
        f'{key} = cat("{number}:", {", ".join(sort_keys[place] for place in domain)})'
        for number, (key, domain) in enumerate(zip(own, domains, strict=True))
    ]
    text_of_row = ", ".join((*sort_keys, '"|"', ', "\\t", '.join(own)))
    pairs = [pair for key in own[1:] for pair in ((own[0], key), (key, own[0]))]
    made.rules += _rules(
        plain,
        f"{found} :- {every}({shown}), {', '.join(values)}, M = cat({text_of_row}).",
        *(f"{group}({key}, {key}) :- {found}." for key in own),
        *(f"{group}({other}, L) :- {group}({key}, L), {found}." for key, other in pairs),
        f"{member}(L, M) :- {found}, {group}({own[0]}, L).",
        f"{plain.name}({shown}) :- {found}, {group}({own[0]}, L), "
        f'S = sequence Z : {{ {member}(L, Z) }}, window_value(S, M, "chosen symbol 0") = "V1".',
    )


def _written_out(
    declarations: Iterable[ast.Declaration],
    rules: Sequence[ast.Rule],
    subsumptions: Iterable[ast.Subsumption],
    records: Collection[str],
) -> dict[str, list[ast.Subsumption]]:
    """The subsumptions to rewrite: not recursive, over ordered columns, and not the best value of one column."""
    found: dict[str, list[ast.Subsumption]] = {}
    for item in subsumptions:
        found.setdefault(item.worse.relation, []).append(item)
    plain = {
        each.name: each
        for each in declarations
        if each.name in found and not each.choice and EQREL not in each.qualifiers
    }
    return {
        name: items
        for name, items in found.items()
        if name in plain
        and any(ordered_column(each) is None for each in items)
        and all(_can_be_written_out(each, plain[name], records) for each in items)
        and not _is_recursive(name, [*rules, *(ast.Rule((item.worse,), item.body) for item in items)])
    }


def _can_be_written_out(item: ast.Subsumption, declaration: ast.Declaration, records: Collection[str]) -> bool:
    pairs = list(zip(item.worse.args, item.better.args, strict=False))
    attributes = declaration.attributes
    return (
        item.worse.relation == item.better.relation
        and len(item.worse.args) == len(item.better.args) == len(attributes)
        and all(isinstance(term, ast.Variable | ast.Wildcard) for pair in pairs for term in pair)
        and any(one != other for one, other in pairs)
        and not any(each.type.nullable or each.type.name in records for each in attributes)
    )


def ordered_column(item: ast.Subsumption) -> tuple[int, str] | None:
    """The column that a subsumption orders, and `min` or `max`, if it is the best value of one column."""
    pairs = list(zip(item.worse.args, item.better.args, strict=False))
    terms = [term for pair in pairs for term in dict.fromkeys(pair)]
    differing = [place for place, (one, other) in enumerate(pairs) if one != other]
    if len(differing) != 1 or len(set(terms)) < len(terms) or not all(isinstance(term, ast.Variable) for term in terms):
        return None
    (place,), body = differing, item.body
    worse, better = pairs[place]
    if not isinstance(body, ast.Comparison) or body.op not in ORDERING or {body.left, body.right} != {worse, better}:
        return None
    towards = body.op if body.left == better else TURNED[body.op]
    return place, "min" if towards in ("<", "<=") else "max"


def _orders_each_column(item: ast.Subsumption) -> bool:
    """Test whether the better row is at least as good in each of the columns in which the two may differ."""
    pairs = list(zip(item.worse.args, item.better.args, strict=False))
    terms = [term for pair in pairs for term in dict.fromkeys(pair)]
    differing = {pair for pair in pairs if pair[0] != pair[1]}
    parts = item.body.parts if isinstance(item.body, ast.And) else (item.body,)
    ordered = {
        pair
        for part in parts
        if isinstance(part, ast.Comparison) and part.op in ORDERING
        for pair in ((part.left, part.right), (part.right, part.left))
    }
    return (
        item.worse.relation == item.better.relation
        and len(item.worse.args) == len(item.better.args)
        and all(isinstance(term, ast.Variable) for term in terms)
        and len(set(terms)) == len(terms)
        and len(differing) == len(parts) > 1
        and differing <= ordered
    )


def _unsurpassed(plain: ast.Declaration, items: Sequence[ast.Subsumption], made: Expanded, taken: set[str]) -> None:
    """Keep the rows that no other row dominates, or that dominate it as well."""
    made.declarations.append(plain)
    every, worse = _part(plain, "all", made, taken), _part(plain, "worse", made, taken)
    _moved(plain.name, every, made)
    places = range(len(plain.attributes))
    row, other = ([f"{letter}{place}" for place in places] for letter in "AB")
    one_way = len(items) == 1 and _orders_each_column(items[0])
    head = ", ".join(map(print_term, items[0].worse.args) if one_way else row)
    made.rules += _rules(items[0], f"{plain.name}({head}) :- {every}({head}), !{worse}({head}).")
    if one_way:
        made.rules.append(_surpassed(items[0], every, ast.Atom(worse, items[0].worse.args)))
        return
    sides = [
        ast.Attribute(f"{side}_{n}", each.type) for side in ("left", "right") for n, each in enumerate(plain.attributes)
    ]
    pairs = _part(replace(plain, attributes=tuple(sides)), "pairs", made, taken)
    for item in map(_without_wildcards, items):
        made.rules.append(_surpassed(item, every, ast.Atom(pairs, (*item.worse.args, *item.better.args))))
    pair, turned = f"{pairs}({', '.join((*row, *other))})", f"{pairs}({', '.join((*other, *row))})"
    made.rules += _rules(
        items[0],
        f"{worse}({head}) :- {pair}, !{turned}.",
        f"{worse}({head}) :- {pair}, {turned}, ({_is_before(other, row, places)}).",
    )


def _surpassed(item: ast.Subsumption, every: str, head: ast.Atom) -> ast.Rule:
    """The rule that derives `head` from two different rows for which the condition holds."""
    row, other = item.worse.args, item.better.args
    unequal = ast.Or(tuple(ast.Comparison("!=", a, b) for a, b in zip(row, other, strict=True) if a != b))
    return ast.Rule(
        (head,), ast.And((ast.Atom(every, row), ast.Atom(every, other), item.body, unequal)), span=item.span
    )


def _without_wildcards(item: ast.Subsumption) -> ast.Subsumption:
    taken = all_names([item.worse, item.better, item.body])

    def named(atom: ast.Atom) -> ast.Atom:
        args: list[ast.Term] = []
        for each in atom.args:
            name = fresh_name("W", taken)
            taken.add(name)
            args.append(ast.Variable(name) if isinstance(each, ast.Wildcard) else each)
        return replace(atom, args=tuple(args))

    return replace(item, worse=named(item.worse), better=named(item.better))


def _is_before(row: Sequence[str], other: Sequence[str], places: Sequence[int]) -> str:
    """The condition, as text, that a row precedes another in the order of these columns, the first one first."""
    ways = []
    for number, place in enumerate(places):
        equal = [f"{row[each]} = {other[each]}" for each in places[:number]]
        ways.append(", ".join((*equal, f"{row[place]} < {other[place]}")))
    return "; ".join(ways)


def _rules(origin: ast.Declaration | ast.Subsumption, *texts: str) -> list[ast.Rule]:
    """The rules of these texts, with the place of the item that they stand for."""
    items = rebuilt(parse(" ".join(texts)).items, lambda node: replace(node, span=None))
    return [replace(item, span=origin.span) for item in items if isinstance(item, ast.Rule)]


@dataclass(frozen=True, slots=True)
class _Refusals:
    """Reports choices that are not supported; `records` are types without order."""

    records: Collection[str]
    findings: Findings

    def report(self, plain: ast.Declaration, domains: Sequence[Sequence[str]], *, best: bool, recursive: bool) -> bool:
        """Report why the choice is not supported, if so; `best` if it is the best value of a column."""
        found = next(self._reasons(plain, domains, best, recursive), None)
        if found is not None:
            why, cure = found
            message = f"this choice cannot be made: {why}"
            self.findings.error("choice-domain", message, plain.span, label=why, help=cure)
        return found is not None

    def _reasons(
        self, plain: ast.Declaration, domains: Sequence[Sequence[str]], best: bool, recursive: bool
    ) -> Iterator[tuple[str, str]]:
        names = [each.name for each in plain.attributes]
        for name in (each for domain in domains for each in domain if each not in names):
            yield f"`{name}` is not a column of `{plain.name}`", "name columns of the relation"
        if any(set(domain) == set(names) for domain in domains):
            yield "the domain has all columns", "leave a column out: there is nothing to choose"
        for each in plain.attributes:
            what = f"column `{each.name}` of `{plain.name}`"
            if each.type.name in self.records and (len(domains) > 1 or each.name not in domains[0]):
                cure = "choose by a column of another type" + ", with the record in the domain" * (len(domains) == 1)
                yield f"{what} is a record, and records have no order", cure
            if each.type.nullable and not best:
                yield (
                    f"{what} can be NULL, which has no order",
                    "exclude NULL in the rules, and declare the column without `?`",
                )
        if recursive and not best:
            more = "several domains" if len(domains) > 1 else "several columns beside the domain"
            yield f"`{plain.name}` is recursive and has {more}", "choose in a view above it"


def _part(plain: ast.Declaration, word: str, made: Expanded, taken: set[str]) -> str:
    name = fresh_name(f"{plain.name}_{word}", taken)
    taken.add(name)
    made.declarations.append(ast.Declaration(name, _plain(plain.attributes, word), part_of=plain.name, span=plain.span))
    return name


def _plain(attributes: Iterable[ast.Attribute], word: str) -> tuple[ast.Attribute, ...]:
    return tuple(each if word == "class" else replace(each, lattice="") for each in attributes)


def _moved(name: str, to: str, made: Expanded) -> None:
    """Let the rules of a relation define another one; its facts become rules, since users insert no rows there."""
    made.loaded[name] = to
    made.rules = [
        replace(
            rule,
            body=TRUE if rule.body is None else rule.body,
            heads=tuple(replace(head, relation=to) if head.relation == name else head for head in rule.heads),
        )
        if _defines(rule, name)
        else rule
        for rule in made.rules
    ]


def _defines(rule: ast.Rule, name: str) -> bool:
    return any(head.relation == name for head in rule.heads)


def _is_recursive(name: str, rules: Iterable[ast.Rule]) -> bool:
    edges = [
        (head.relation, need.relation)
        for rule in rules
        for head in rule.heads
        for need in needs(head.relation, [] if rule.body is None else [rule.body])
    ]
    names: Collection[str] = dict.fromkeys(each for edge in edges for each in edge)
    together = next((part for part in order_of(list(names), edges) if name in part), ())
    return len(together) > 1 or (name, name) in edges
