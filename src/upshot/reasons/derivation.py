"""Derivations as trees: a row, the rule that derives it, and the premises of that rule, down to base facts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.core.json_values import to_json
from upshot.reasons.picture import Card, picture
from upshot.reasons.text_tree import Line, json_tree, text_tree

Row = tuple[Any, ...]

RULE, BASE, ABSENT, AGGREGATE, CONDITION = "rule", "base", "absent", "aggregate", "condition"

MOST_SHOWN = 5
"""The most rows of a group in text."""


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule as it was written, and its file and line; `place` is empty for a generated rule."""

    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.text}  {self.place}".rstrip()


@dataclass(frozen=True, slots=True)
class Moment:
    """The transaction that inserted or deleted a base row."""

    version: int
    time: dt.datetime | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"version {self.version}"
        if self.time is not None:
            text += f", {self.time:%Y-%m-%d %H:%M:%S}"
        return text + f", {json.dumps(self.meta, ensure_ascii=False)}" * bool(self.meta)

    def as_dict(self) -> dict[str, Any]:
        time = None if self.time is None else self.time.isoformat()
        return {"version": self.version, "time": time, "meta": dict(self.meta)}


@dataclass(frozen=True, slots=True, eq=False)
class Derivation:
    """A node of a derivation and all below it. `kind` is `rule` (a row that `rule` derives from the `premises`), `base`
    (a base fact, with the transaction that `inserted` it where that is known, or that `deleted` it), `absent` (no row
    matches a negated literal), `aggregate` (a group with `count` solutions, the first ones in `group`) or `condition`
    (a comparison or test).

    `height` is the number of rules on the longest path down, `size` the number of nodes, where a shared part counts
    each time. In memory, and as text, a shared part exists once.
    """

    kind: str
    statement: str
    relation: str | None = None
    row: Row | None = None
    rule: RuleText | None = None
    premises: tuple[Derivation, ...] = ()
    group: tuple[str, ...] = ()
    count: int = 0
    inserted: Moment | None = None
    deleted: Moment | None = None
    height: int = 0
    size: int = 1
    change: str = ""
    """The change of the row by a version, in answers of `why_changed`: `came`, `went`, or empty."""
    remark: str = ""
    """Replaces the usual note."""

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<derivation of {self.statement}, {self.size} nodes, height {self.height}>"

    def _repr_svg_(self) -> str:
        return self.svg()

    @property
    def nodes(self) -> Iterator[Derivation]:
        """Every node once, each before its premises."""
        seen: set[int] = set()
        pending = [self]
        while pending:
            node = pending.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                pending.extend(reversed(node.premises))

    @property
    def note(self) -> str:
        """The text beside the statement."""
        if self.remark:
            return self.remark
        match self.kind:
            case "rule":
                return str(self.rule)
            case "base":
                inserted = f", inserted in {self.inserted}" if self.inserted else ""
                return "base fact" + inserted + (f", deleted in {self.deleted}" if self.deleted else "")
            case "aggregate":
                if not self.count:
                    return "over nothing"
                more = [f"… {self.count - MOST_SHOWN} more"] * (self.count > MOST_SHOWN)
                return f"over {self.count}: " + "; ".join([*self.group[:MOST_SHOWN], *more])
            case _:
                return ""

    def text(self, *, depth: int | None = None) -> str:
        """The tree as indented text, to a depth if given; a repeated part is only named."""
        return text_tree(self, _line, lambda node: node.premises, depth)

    def json(self) -> str:
        """The tree as JSON of any depth."""
        return json_tree(self.as_dict(), "premises")

    def as_dict(self) -> dict[str, Any]:
        """The tree as JSON values; a repeated part has no premises and is marked `repeated`."""
        made: dict[int, dict[str, Any]] = {}
        top: list[dict[str, Any]] = []
        pending: list[tuple[Derivation, list[dict[str, Any]]]] = [(self, top)]
        while pending:
            node, home = pending.pop()
            if id(node) in made and node.premises:
                without = {key: value for key, value in made[id(node)].items() if key != "premises"}
                home.append({**without, "repeated": True})
                continue
            home.append(made.setdefault(id(node), node._fields()))
            if node.premises:
                inside: list[dict[str, Any]] = []
                home[-1]["premises"] = inside
                pending.extend((premise, inside) for premise in reversed(node.premises))
        return top[0]

    def _fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind, "statement": self.statement}
        if self.row is not None:
            found |= {"relation": self.relation, "row": [to_json(value) for value in self.row]}
        if self.rule is not None:
            found |= {"rule": self.rule.text, "place": self.rule.place or None}
        if self.kind == AGGREGATE:
            found |= {"count": self.count, "group": list(self.group)}
        moments = {"inserted": self.inserted, "deleted": self.deleted}
        found |= {name: moment.as_dict() for name, moment in moments.items() if moment is not None}
        found |= {name: text for name, text in (("change", self.change), ("remark", self.remark)) if text}
        return found

    def svg(self, heading: str = "") -> str:
        return pictures([self], heading)


def pictures(trees: Sequence[Derivation], heading: str = "") -> str:
    return picture(trees, card, lambda node: node.premises, heading)


_SIGNS = {"came": "+ ", "went": "- "}


def _line(node: Derivation) -> Line:
    return Line(_SIGNS.get(node.change, "") + node.statement, node.note)


def card(node: Derivation) -> Card:
    kinds = {RULE: "view", BASE: "base", ABSENT: "constraint"}
    return Card(_line(node).statement, node.note, kinds.get(node.kind, "rule"), negated=node.kind == ABSENT)


def with_moments(tree: Derivation, moments: Mapping[tuple[str, Row], Moment]) -> Derivation:
    """The tree with the transactions that inserted its base facts."""

    def dated(node: Derivation) -> Derivation:
        if node.kind == BASE and node.relation is not None and node.row is not None:
            return replace(node, inserted=moments.get((node.relation, node.row)))
        return node

    return _rebuilt(tree, dated)


def without_meta(tree: Derivation) -> Derivation:
    """The tree without the `meta` of transactions."""

    def bare(node: Derivation) -> Derivation:
        inserted, deleted = (each and replace(each, meta={}) for each in (node.inserted, node.deleted))
        return replace(node, inserted=inserted, deleted=deleted)

    return _rebuilt(tree, bare)


def _rebuilt(tree: Derivation, change: Callable[[Derivation], Derivation]) -> Derivation:
    """The tree with every node changed; shared parts stay shared."""
    made: dict[int, Derivation] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        waiting = [premise for premise in node.premises if id(premise) not in made]
        if waiting:
            pending += [node, *waiting]
        elif id(node) not in made:
            made[id(node)] = replace(change(node), premises=tuple(made[id(each)] for each in node.premises))
    return made[id(tree)]
