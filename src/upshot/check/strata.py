"""Stratification: the evaluation order of views, and cycles through negation or aggregation."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from upshot.check.program import Clause
from upshot.core.diagnostic import Diagnostic
from upshot.core.errors import ProgramError
from upshot.core.schema import Role, Schema
from upshot.core.span import Span
from upshot.syntax.ast import Aggregate, And, Atom, Call, Comparison, Formula, Not, Or, Term, Test

Components = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Need:
    """View `head` uses `relation`; `how` is empty, `!` or the name of an aggregate."""

    head: str
    relation: str
    how: str
    span: Span | None


def needs(head: str, body: Iterable[Formula | Term]) -> Iterator[Need]:
    """The relations that a rule uses, in the order of the text."""
    stack: list[tuple[Formula | Term, str, Span | None]] = [(node, "", None) for node in body]
    stack.reverse()
    while stack:
        node, how, negation = stack.pop()
        match node:
            case Atom():
                yield Need(head, node.relation, how, (negation if how == "!" else None) or node.span)
                stack.extend((a, "", None) for a in reversed(node.args))
            case Not():
                inside = how if how not in ("", "!") else "" if how else "!"
                stack.append((node.body, inside, node.span))
            case And() | Or():
                stack.extend((part, how, None) for part in reversed(node.parts))
            case Comparison():
                stack += ((node.right, how, None), (node.left, how, None))
            case Call() | Test():
                stack.extend((a, how, None) for a in reversed(node.args))
            case Aggregate():
                stack.append((node.body, node.function, None))
                if node.target is not None:
                    stack.append((node.target, node.function, None))
            case _:
                pass


def stratify(schemas: Mapping[str, Schema], clauses: Iterable[Clause]) -> Components:
    """The strongly connected components of the views, each after those that it uses; ties in order of declaration.

    Raises `ProgramError` with slug `unstratified` when a view depends on its own negation or aggregation.
    """
    rules = tuple(clauses)
    found = [need for clause in rules for need in needs(clause.head.relation, clause.body)]
    heads = [clause.head.relation for clause in rules]
    views = view_names(schemas, heads)
    components = order(views, found)
    wrong = unstratified(components, found)
    if wrong:
        raise ProgramError(wrong)
    return components


def view_names(schemas: Mapping[str, Schema], heads: Iterable[str]) -> list[str]:
    """The relations that have rules or are declared as views, in order of declaration."""
    defined = dict.fromkeys(heads)
    views = [n for n, s in schemas.items() if s.role is not Role.BASE or n in defined]
    return views + [n for n in defined if n not in schemas]


def order_of(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> Components:
    """The strongly connected components of a graph, each after those that its edges point to."""
    return order(names, [Need(source, target, "", None) for source, target in edges])


def order(views: Sequence[str], found: Iterable[Need]) -> Components:
    """The components in topological order; ties in the order of `views`."""
    number = {name: i for i, name in enumerate(views)}
    uses: list[list[int]] = [[] for _ in views]
    for need in found:
        if need.relation in number and need.head in number:
            uses[number[need.head]].append(number[need.relation])
    component = component_numbers(uses)
    members: dict[int, list[int]] = {}
    for view, root in enumerate(component):
        members.setdefault(root, []).append(view)
    missing = dict.fromkeys(members, 0)
    users: dict[int, set[int]] = {root: set() for root in members}
    for view, used in enumerate(uses):
        for other in used:
            a, b = component[view], component[other]
            if a != b and a not in users[b]:
                users[b].add(a)
                missing[a] += 1
    ready = [(members[root][0], root) for root, count in missing.items() if count == 0]
    heapq.heapify(ready)
    result: list[tuple[str, ...]] = []
    while ready:
        _, root = heapq.heappop(ready)
        result.append(tuple(views[i] for i in members[root]))
        for user in users[root]:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, (members[user][0], user))
    return tuple(result)


def component_numbers(edges: Sequence[Sequence[int]]) -> list[int]:
    """The component of each node, as the number of one of its members. [Tarjan 1972, iterative]"""
    count = len(edges)
    index = [-1] * count
    low = [0] * count
    component = [-1] * count
    open_nodes: list[int] = []
    clock = 0
    for start in range(count):
        if index[start] >= 0:
            continue
        work = [(start, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                index[node] = low[node] = clock
                clock += 1
                open_nodes.append(node)
            else:
                low[node] = min(low[node], low[edges[node][position - 1]])
            for next_position in range(position, len(edges[node])):
                other = edges[node][next_position]
                if index[other] < 0:
                    work += [(node, next_position + 1), (other, 0)]
                    break
                if component[other] < 0:
                    low[node] = min(low[node], index[other])
            else:
                if low[node] == index[node]:
                    while component[node] < 0:
                        component[open_nodes.pop()] = node
    return component


def unstratified(components: Components, found: Sequence[Need]) -> list[Diagnostic]:
    """One diagnostic for every component with a cycle through negation or aggregation."""
    of = {name: i for i, names in enumerate(components) for name in names}
    inside: dict[int, list[Need]] = {}
    for need in found:
        where = of.get(need.head)
        if where is not None and of.get(need.relation) == where:
            inside.setdefault(where, []).append(need)
    result = []
    for where in sorted(inside):
        if any(need.how for need in inside[where]):
            result.append(_explain(_shortest_circle(inside[where])))
    return result


_MOST_STARTS = 50


def _shortest_circle(found: Sequence[Need]) -> list[Need]:
    """A short cycle that begins with negation or aggregation: the shortest from one of the first `_MOST_STARTS`."""
    by_head: dict[str, list[Need]] = {}
    for need in found:
        by_head.setdefault(need.head, []).append(need)
    circles = [_circle(need, by_head) for need in [n for n in found if n.how][:_MOST_STARTS]]
    return min(circles, key=len)


def _circle(first: Need, by_head: Mapping[str, Sequence[Need]]) -> list[Need]:
    arrived: dict[str, Need | None] = {first.relation: None}
    queue = deque([first.relation])
    while queue and first.head not in arrived:
        name = queue.popleft()
        for need in by_head.get(name, ()):
            if need.relation not in arrived:
                arrived[need.relation] = need
                queue.append(need.relation)
    back: list[Need] = []
    step = arrived.get(first.head)
    while step is not None:
        back.append(step)
        step = arrived[step.head]
    return [first, *reversed(back)]


def _explain(circle: Sequence[Need]) -> Diagnostic:
    first = circle[0]
    through = "negation" if first.how == "!" else "aggregation"
    notes = tuple((need.span, _words(need)) for need in circle)
    return Diagnostic(
        "unstratified",
        f"`{first.head}` depends on itself through {through}",
        first.span,
        label=f"`{first.relation}` must be complete first, but it depends on `{first.head}`"
        if first.relation != first.head
        else f"`{first.head}` must be complete first",
        notes=notes,
        help=_help(first),
    )


def _help(first: Need) -> str:
    if first.how in ("min", "max"):
        return (
            f"keep the best value in a column of `{first.relation}`, declared `{first.how} number` or of another type, "
            "and derive every value; or break the cycle"
        )
    return "break the cycle: define one of its relations without the others"


def _words(need: Need) -> str:
    match need.how:
        case "":
            return f"`{need.head}` needs `{need.relation}` here"
        case "!":
            return f"`{need.head}` needs `!{need.relation}` here"
        case function:
            return f"`{need.head}` needs `{function}` over `{need.relation}` here"
