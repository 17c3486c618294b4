"""Relations that keep more, or less, than their rules derive: `eqrel`, `choice-domain` and subsumption of several
columns, written out as rules.

An equivalence relation holds all pairs of its classes: a class is named by its least member, which a view of best
values keeps, so that deletions touch one class. A choice keeps, of the rows that agree on its domain, the smallest one.
A subsumption of several columns keeps the rows that no other row surpasses in all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from upshot.check.clause.clause_form import TRUE
from upshot.check.findings import Findings
from upshot.check.names.variables import fresh_name
from upshot.check.strata import needs, order_of
from upshot.syntax.ast import (
    And,
    Atom,
    Attribute,
    Comparison,
    Declaration,
    Formula,
    Not,
    Or,
    Rule,
    Subsumption,
    Term,
    Variable,
)

EQREL = "eqrel"


@dataclass(slots=True)
class Expanded:
    """`declarations` and `rules` with those that were made; `loaded` says where rows from files go, if not to the
    relation itself. `subsumptions` are those that are not written out: they order one column, or are refused."""

    declarations: list[Declaration]
    rules: list[Rule]
    subsumptions: list[Subsumption]
    loaded: dict[str, str] = field(default_factory=dict)


def expanded(
    declarations: Sequence[Declaration],
    rules: Sequence[Rule],
    subsumptions: Sequence[Subsumption],
    records: Collection[str],
    findings: Findings,
) -> Expanded:
    """The program with the meaning of `eqrel`, `choice-domain` and subsumption written out; `records` are types without
    order."""
    counts = Counter(each.worse.relation for each in subsumptions)
    wide = {each.worse.relation: each for each in subsumptions if orders_several_columns(each)}
    wide = {name: each for name, each in wide.items() if counts[name] == 1 and not _is_recursive(name, rules)}
    made = Expanded([], list(rules), [each for each in subsumptions if each not in wide.values()])
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
        elif declaration.name in wide and not declaration.choice:
            _unsurpassed(plain, wide[declaration.name], made, taken)
        elif not _chooses_records(declaration, records, findings):
            _choice(plain, declaration.choice, made, taken, findings)
        else:
            made.declarations.append(plain)
    return made


def _equivalence(plain: Declaration, made: Expanded, taken: set[str], findings: Findings) -> None:
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
    x, y, z = (Variable(each) for each in ("X", "Y", "Z"))
    _moved(name, pair, made)
    if recursive:
        made.rules += [
            Rule((Atom(name, (x, y)),), Atom(pair, (x, y)), span=plain.span),
            Rule((Atom(name, (y, x)),), Atom(name, (x, y)), span=plain.span),
            Rule((Atom(name, (x, z)),), And((Atom(name, (x, y)), Atom(name, (y, z)))), span=plain.span),
        ]
        return
    member, least = plain.attributes[0], replace(plain.attributes[1], lattice="min")
    group = _part(replace(plain, attributes=(member, least)), "class", made, taken)
    made.rules += [
        Rule((Atom(group, (x, x)), Atom(group, (y, y))), Atom(pair, (x, y)), span=plain.span),
        Rule((Atom(group, (y, z)),), And((Atom(group, (x, z)), Atom(pair, (x, y)))), span=plain.span),
        Rule((Atom(group, (x, z)),), And((Atom(group, (y, z)), Atom(pair, (x, y)))), span=plain.span),
        Rule((Atom(name, (x, y)),), And((Atom(group, (x, z)), Atom(group, (y, z)))), span=plain.span),
    ]


def _choice(plain: Declaration, domain: Sequence[str], made: Expanded, taken: set[str], findings: Findings) -> None:
    names = [each.name for each in plain.attributes]
    unknown = [each for each in domain if each not in names]
    rest = [place for place, name in enumerate(names) if name not in domain]
    recursive = _is_recursive(plain.name, made.rules)
    if unknown or not rest or (len(rest) > 1 and recursive):
        made.declarations.append(plain)
        _refuse_choice(plain, unknown, bool(rest), findings)
    elif len(rest) == 1 and any(rule.body is not None for rule in made.rules if _defines(rule, plain.name)):
        best = [replace(each, lattice="min") if place in rest else each for place, each in enumerate(plain.attributes)]
        made.declarations.append(replace(plain, attributes=tuple(best)))
    else:
        made.declarations.append(plain)
        every = _part(plain, "all", made, taken)
        worse = _part(plain, "worse", made, taken)
        _moved(plain.name, every, made)
        row = tuple(Variable(f"A{place}") for place in range(len(names)))
        other = tuple(Variable(f"B{place}") if place in rest else row[place] for place in range(len(names)))
        smaller = Or(tuple(_smaller(row, other, rest)))
        both = And((Atom(every, row), Atom(every, other), smaller if len(smaller.parts) > 1 else smaller.parts[0]))
        made.rules += [
            Rule((Atom(worse, row),), both, span=plain.span),
            Rule((Atom(plain.name, row),), And((Atom(every, row), Not(Atom(worse, row)))), span=plain.span),
        ]


def orders_several_columns(item: Subsumption) -> bool:
    """Test whether the better row is at least as good in each of the columns in which the two may differ."""
    pairs = list(zip(item.worse.args, item.better.args, strict=False))
    terms = [term for pair in pairs for term in dict.fromkeys(pair)]
    differing = {pair for pair in pairs if pair[0] != pair[1]}
    parts = item.body.parts if isinstance(item.body, And) else (item.body,)
    ordered = {
        pair
        for part in parts
        if isinstance(part, Comparison) and part.op in ("<", "<=", ">", ">=")
        for pair in ((part.left, part.right), (part.right, part.left))
    }
    return (
        item.worse.relation == item.better.relation
        and len(item.worse.args) == len(item.better.args)
        and all(isinstance(term, Variable) for term in terms)
        and len(set(terms)) == len(terms)
        and len(differing) == len(parts) > 1
        and differing <= ordered
    )


def _unsurpassed(plain: Declaration, item: Subsumption, made: Expanded, taken: set[str]) -> None:
    """Keep the rows that no other row makes the condition true with."""
    made.declarations.append(plain)
    every, worse = _part(plain, "all", made, taken), _part(plain, "worse", made, taken)
    _moved(plain.name, every, made)
    row, other = item.worse.args, item.better.args
    unequal = Or(tuple(Comparison("!=", a, b) for a, b in zip(row, other, strict=True) if a != b))
    both = And((Atom(every, row), Atom(every, other), item.body, unequal))
    made.rules += [
        Rule((Atom(worse, row),), both, span=item.span),
        Rule((Atom(plain.name, row),), And((Atom(every, row), Not(Atom(worse, row)))), span=item.span),
    ]


def _chooses_records(declaration: Declaration, records: Collection[str], findings: Findings) -> bool:
    for each in declaration.attributes:
        if each.name not in declaration.choice and each.type.name in records:
            why = f"column `{each.name}` of `{declaration.name}` is a record, and records have no order"
            cure = "choose by a column of another type, with the record in the domain"
            _report_choice(declaration, why, cure, findings)
            return True
    return False


def _smaller(row: Sequence[Term], other: Sequence[Term], rest: Sequence[int]) -> Iterator[Formula]:
    """The ways in which the other row comes before the row, column by column."""
    for number, place in enumerate(rest):
        same = [Comparison("=", other[each], row[each]) for each in rest[:number]]
        yield (
            And((*same, Comparison("<", other[place], row[place])))
            if same
            else Comparison("<", other[place], row[place])
        )


def _refuse_choice(plain: Declaration, unknown: Sequence[str], has_rest: bool, findings: Findings) -> None:
    why, cure = f"`{plain.name}` is recursive and has several columns beside the domain", "choose in a view above it"
    if not has_rest:
        why, cure = "the domain has all columns", "leave a column out: there is nothing to choose"
    if unknown:
        why, cure = f"`{unknown[0]}` is not a column of `{plain.name}`", "name columns of the relation"
    _report_choice(plain, why, cure, findings)


def _report_choice(plain: Declaration, why: str, cure: str, findings: Findings) -> None:
    findings.error("choice-domain", f"this choice cannot be made: {why}", plain.span, label=why, help=cure)


def _part(plain: Declaration, word: str, made: Expanded, taken: set[str]) -> str:
    name = fresh_name(f"{plain.name}_{word}", taken)
    taken.add(name)
    made.declarations.append(Declaration(name, _plain(plain.attributes, word), part_of=plain.name, span=plain.span))
    return name


def _plain(attributes: Iterable[Attribute], word: str) -> tuple[Attribute, ...]:
    return tuple(each if word == "class" else replace(each, lattice="") for each in attributes)


def _moved(name: str, to: str, made: Expanded) -> None:
    """Let the rules of a relation define another; facts are rules there, since nobody inserts into it."""
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


def _defines(rule: Rule, name: str) -> bool:
    return any(head.relation == name for head in rule.heads)


def _is_recursive(name: str, rules: Iterable[Rule]) -> bool:
    edges = [
        (head.relation, need.relation)
        for rule in rules
        for head in rule.heads
        for need in needs(head.relation, [] if rule.body is None else [rule.body])
    ]
    names: Collection[str] = dict.fromkeys(each for edge in edges for each in edge)
    together = next((part for part in order_of(list(names), edges) if name in part), ())
    return len(together) > 1 or (name, name) in edges
