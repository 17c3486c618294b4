"""The rules of view updating as text: `∇+q1(X) & !r1(X) → ∇+r1(X).`"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from upshot.rewrite.demand.request_rules import CHANGE, Signed
from upshot.rewrite.view_updates import ViewUpdateRule, ViewUpdates
from upshot.syntax.ast import Variable
from upshot.syntax.printing import print_atom, print_formula


def print_view_updates(updates: ViewUpdates) -> str:
    """R∇ by view, then R∇τ by purpose."""
    lines = list(_requests(updates))
    kinds = {
        "contradictions": [rule for rule in updates.transitions if not rule.heads],
        "constraints are repaired": [rule for rule in updates.transitions if rule.heads and _starts(rule)],
        "side effects are compensated": [r for r in updates.transitions if r.heads and len(r.given) > 1],
        "base changes": [r for r in updates.transitions if r.heads and r.heads[0].kind == CHANGE],
    }
    for words, rules in kinds.items():
        if rules:
            lines += ["", f"// {words}", *map(_rule, rules)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _starts(rule: ViewUpdateRule) -> bool:
    return len(rule.given) == 1 and rule.given[0].kind == CHANGE


def _requests(updates: ViewUpdates) -> Iterator[str]:
    view = None
    for rule in updates.requests:
        if rule.given[0].atom.relation != view:
            view = rule.given[0].atom.relation
            yield ""
            yield f"// requests to {view}"
        yield _rule(rule)
    for name in updates.folded:
        yield ""
        yield f"// {name} aggregates: of a group, those rows are asked to go or to come that move its value"


def _rule(rule: ViewUpdateRule) -> str:
    # As in the paper: what is asked, the state it is tested against, then what has changed.
    asked = [_signed(each) for each in rule.given if each.kind != CHANGE]
    changed = [_signed(each) for each in rule.given if each.kind == CHANGE]
    body = [*asked, *map(print_formula, rule.tests), *changed]
    return f"{' & '.join(body)} → {_heads(rule)}."


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
