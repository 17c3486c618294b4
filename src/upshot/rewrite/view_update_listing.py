"""The rules of view updating as text: `∇+q1(X) & !r1(X) → ∇+r1(X).`"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from upshot.rewrite.demand.request_rules import CHANGE, Signed
from upshot.rewrite.listing import ListedRule, RuleListing
from upshot.rewrite.view_updates import ViewUpdateRule, ViewUpdates
from upshot.syntax.ast import Variable
from upshot.syntax.printing import print_atom, print_formula


def list_view_updates(updates: ViewUpdates) -> RuleListing:
    """R∇ by view, then R∇τ by purpose."""
    lines, listed = list[str](), list[ListedRule]()
    for about, phase, rules in _groups(updates):
        lines += ["", f"// {about}"]
        for rule in rules:
            listed.append(_listed(rule, about, phase))
            lines.append(f"{' & '.join(listed[-1].body)} → {listed[-1].head}.")
    return RuleListing(tuple(listed), (), "\n".join(lines).lstrip("\n") + "\n")


def _groups(updates: ViewUpdates) -> Iterator[tuple[str, str, Sequence[ViewUpdateRule]]]:
    """Heading, phase and rules, in the order in which they are printed."""
    for view, rules in groupby(updates.requests, lambda rule: rule.given[0].atom.relation):
        yield f"requests to {view}", "request", list(rules)
    for name in updates.folded:
        yield f"{name} aggregates: rows of a group whose insertion or deletion changes its value", "request", ()
    kinds = {
        "contradictions": [rule for rule in updates.transitions if not rule.heads],
        "constraints are repaired": [rule for rule in updates.transitions if rule.heads and _starts(rule)],
        "side effects are compensated": [r for r in updates.transitions if r.heads and len(r.given) > 1],
        "base changes": [r for r in updates.transitions if r.heads and r.heads[0].kind == CHANGE],
    }
    for words, members in kinds.items():
        if members:
            yield words, "transition", members


def _starts(rule: ViewUpdateRule) -> bool:
    return len(rule.given) == 1 and rule.given[0].kind == CHANGE


def _listed(rule: ViewUpdateRule, about: str, phase: str) -> ListedRule:
    # As in the paper: what is asked, the state it is tested against, then what has changed.
    asked = [_signed(each) for each in rule.given if each.kind != CHANGE]
    changed = [_signed(each) for each in rule.given if each.kind == CHANGE]
    body = (*asked, *map(print_formula, rule.tests), *changed)
    origin = rule.source.origin if rule.source is not None else None
    return ListedRule("", about, phase, about, _heads(rule), body, origin)


def _heads(rule: ViewUpdateRule) -> str:
    if rule.free:
        (head,) = rule.heads
        return " ∨ ".join([_at(head, rule.free, "1"), "…", _at(head, rule.free, "n"), _at(head, rule.free, "_new")])
    return " ∨ ".join(map(_signed, rule.heads)) or "false"


def _at(head: Signed, free: tuple[int, ...], which: str) -> str:
    """The head with constants of the free columns: c for the first, d for the next."""
    letters = {place: "cdefghijklmnopqrstuvwxyz"[number % 24] for number, place in enumerate(free)}
    args = tuple(Variable(f"{letters[i]}{which}") if i in letters else arg for i, arg in enumerate(head.atom.args))
    return _signed(replace(head, atom=replace(head.atom, args=args)))


def _signed(each: Signed) -> str:
    return f"{each.kind}{each.sign}{print_atom(each.atom)}"
