"""Rules with alternatives in the head, and the relations that they leave undecided.

A program with such a rule has several perfect models. A relation that depends on one differs from model to model: it is
excluded from maintenance, and `db.models` computes the models of the excluded part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from upshot.check.equivalences import EQREL
from upshot.check.findings import Findings
from upshot.check.names.variables import atoms, walk
from upshot.check.strata import Need, needs, order, unstratified
from upshot.syntax import ast


@dataclass(frozen=True, slots=True)
class Undecided:
    """`relations`: those whose rows differ from model to model. `rules` and `denies`: all that use one of them."""

    relations: frozenset[str] = frozenset()
    rules: tuple[ast.Rule | ast.DisjunctiveRule, ...] = ()
    denies: tuple[ast.Deny, ...] = ()


def undecided(
    rules: Sequence[ast.Rule],
    disjunctive: Sequence[ast.DisjunctiveRule],
    denies: Sequence[ast.Deny],
    findings: Findings,
) -> Undecided:
    """The part of a program that depends on rules with alternatives; its errors are in the findings."""
    if not disjunctive:
        return Undecided()
    every: list[ast.Rule | ast.DisjunctiveRule] = [*rules, *disjunctive]
    found = [need for rule in every for need in _needs(rule)]
    names = {head.relation for rule in disjunctive for head in rule.heads}
    grown = True
    while grown:
        above = {need.head for need in found if need.relation in names} - names
        names |= above
        grown = bool(above)
    part = tuple(rule for rule in every if any(head.relation in names for head in rule.heads))
    denied = tuple(each for each in denies if any(atom.relation in names for atom in atoms(each.body)))
    views = list(dict.fromkeys(head.relation for rule in every for head in rule.heads))
    for wrong in unstratified(order(views, found), found):
        findings.include(wrong)
    bodies: list[ast.Formula | None] = [*(each.body for each in part), *(each.body for each in denied)]
    for body in bodies:
        _refuse_aggregates(body, names, findings)
    return Undecided(frozenset(names), part, denied)


def _needs(rule: ast.Rule | ast.DisjunctiveRule) -> Iterable[Need]:
    """The relations that each head uses; alternatives of one head depend on each other."""
    body = [] if rule.body is None else [rule.body]
    for head in rule.heads:
        yield from needs(head.relation, [*body, *head.args])
        if isinstance(rule, ast.DisjunctiveRule):
            yield from (Need(head.relation, other.relation, "", other.span) for other in rule.heads if other != head)


def _refuse_aggregates(body: ast.Formula | None, names: Iterable[str], findings: Findings) -> None:
    nodes: Iterable[ast.Formula | ast.Term] = () if body is None else walk(body)
    for node in nodes:
        if isinstance(node, ast.Aggregate) and any(atom.relation in names for atom in atoms(node.body)):
            findings.error(
                "aggregate-of-alternatives",
                "this aggregate is over a relation that depends on a rule with alternatives",
                node.span,
                label="its value differs from model to model",
                help="aggregate over relations that do not depend on such a rule",
            )


def refuse_qualifiers(part: Undecided, items: Iterable[ast.Item], findings: Findings) -> None:
    """Report properties of undecided relations, or of constraints over one, that cannot be maintained: only rules and
    constraints define models."""
    denied = {each.head.relation for each in part.denies}
    for item in items if part.relations else ():
        for name, words in _qualifiers(item):
            if name in part.relations or (isinstance(item, ast.DenyPolicy) and name in denied):
                findings.error(
                    "unsupported-alternatives",
                    f"{words} cannot be kept for `{name}`, which depends on a rule with alternatives in its head",
                    item.span,
                    label="differs from model to model",
                    help="leave it out, and state what excludes a model as `.deny name(…) :- …`",
                )


def _qualifiers(item: ast.Item) -> Iterator[tuple[str, str]]:
    """The relations or constraints for which an item states other properties than columns and rules, and their names in
    messages."""
    match item:
        case ast.Declaration(name=name):
            yield from ((name, f"`{each.lattice}`") for each in item.attributes if each.lattice not in ("", "union"))
            yield from ((name, f"`{each}`") for each in item.qualifiers if each == EQREL)
            yield from ((name, "`choice-domain`") for _ in item.choice[:1])
            yield from ((name, "a key") for _ in item.keys[:1])
            yield from ((name, "a constraint of its declaration") for _ in item.constraints[:1])
            for each in item.constraints:
                if isinstance(each, ast.ForeignKey) and each.relation != name:
                    yield each.relation, f"a foreign key of `{name}`"
        case ast.Subsumption(worse=worse):
            yield worse.relation, "a subsumption"
        case ast.ViewDirective(relation=relation):
            yield relation, "options of a view"
        case ast.DenyPolicy(name=name, options=options):
            yield from ((name, "`existing=keep`") for each in options if each == ("existing", "keep"))
