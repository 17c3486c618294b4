"""The answer of `why_not` as a tree: the row, the rules that could derive it, and the state of their literals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upshot.core.errors import counted
from upshot.core.json_values import to_json
from upshot.reasons.derivation import BASE, Derivation, Moment, RuleText, card, with_moments, without_meta
from upshot.reasons.picture import Card, picture
from upshot.reasons.text_tree import Line, json_tree, text_tree

Row = tuple[Any, ...]

ROW, ATTEMPT, HOLDS, MISSING, BLOCKED, FALSE, OPEN, FIXES, FIX = (
    "row", "attempt", "holds", "missing", "in the way", "false", "open", "fixes", "fix",
)  # fmt: skip

_MARKS = {HOLDS: "✓", MISSING: "✗", BLOCKED: "✗", FALSE: "✗", OPEN: "?"}


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """A node of the answer and all below it. `kind` is `row` (an absent row, over the attempts to derive it), `attempt`
    (a rule and values for some of its variables; `count` other choices of values fail equally late), or the state of a
    literal of the rule: it `holds`, its row is `missing`, a row blocks a negated one (`in the way`), a condition is
    `false`, or it is `open` since a variable of it has no value. The last part of a row may be of kind `fixes`: each
    `fix` in it is a set of base changes that would insert the row, with its `details`.

    `failing` is the number of literals that do not hold, of the nearest attempt for a row.
    """

    kind: str
    statement: str
    relation: str | None = None
    row: Row | None = None
    rule: RuleText | None = None
    parts: tuple[Failure | Derivation, ...] = ()
    failing: int = 0
    count: int = 0
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the JSON form."""
    inserted: Moment | None = None
    """The transaction that inserted a blocking base fact, if it is known."""

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{self.statement} does not hold, {counted(len(self.parts), 'attempt')}>"

    def _repr_svg_(self) -> str:
        return self.svg()

    def text(self, *, depth: int | None = None) -> str:
        """The tree as indented text, to a depth if given."""
        root: Failure | Derivation = self
        return text_tree(root, _line, _below, depth)

    def json(self) -> str:
        return json_tree(self.as_dict(), "parts", "premises")

    def as_dict(self) -> dict[str, Any]:
        """The tree as JSON values."""
        found: dict[str, Any] = {"kind": self.kind, "statement": self.statement}
        if self.row is not None:
            found |= {"relation": self.relation, "row": [to_json(value) for value in self.row]}
        if self.rule is not None:
            found |= {"rule": self.rule.text, "place": self.rule.place or None}
        if self.kind in (ROW, ATTEMPT):
            found["failing"] = self.failing
        if self.kind == ATTEMPT:
            found["others"] = self.count
        if self.note:
            found["note"] = self.note
        if self.inserted is not None:
            found["inserted"] = self.inserted.as_dict()
        found |= self.details
        if self.parts:
            found["parts"] = [part.as_dict() for part in self.parts]
        return found

    def svg(self) -> str:
        root: Failure | Derivation = self
        return picture([root], _card, _below)


def base_facts(failure: Failure) -> Iterator[tuple[str, Row]]:
    """The base facts of derivations in the answer, and blocking rows, also of views."""
    for part in failure.parts:
        if isinstance(part, Failure):
            yield from base_facts(part)
        else:
            yield from ((node.relation, node.row) for node in part.nodes if node.kind == BASE)  # type: ignore[misc]
    if failure.kind == BLOCKED and failure.relation is not None and failure.row is not None:
        yield failure.relation, failure.row


def dated(failure: Failure, moments: Mapping[tuple[str, Row], Moment]) -> Failure:
    """The answer with the transactions that inserted its base facts."""
    parts = tuple(
        dated(part, moments) if isinstance(part, Failure) else with_moments(part, moments) for part in failure.parts
    )
    key = failure.relation or "", failure.row or ()
    return replace(failure, parts=parts, inserted=moments.get(key) if failure.kind == BLOCKED else None)


def without_notes(failure: Failure) -> Failure:
    """The answer without the `meta` of transactions."""
    parts = tuple(without_notes(part) if isinstance(part, Failure) else without_meta(part) for part in failure.parts)
    return replace(failure, parts=parts, inserted=failure.inserted and replace(failure.inserted, meta={}))


def _line(node: Failure | Derivation) -> Line:
    if isinstance(node, Derivation):
        return Line(node.statement, node.note)
    mark = f"{_MARKS[node.kind]} " if node.kind in _MARKS else ""
    inserted = f", inserted in {node.inserted}" if node.inserted else ""
    return Line(mark + node.statement, node.note + inserted)


def _card(node: Failure | Derivation) -> Card:
    if isinstance(node, Derivation):
        return card(node)
    kinds = {ROW: "constraint", ATTEMPT: "rule", HOLDS: "view", OPEN: "base", FIXES: "rule", FIX: "base"}
    line = _line(node)
    return Card(line.statement, line.note, kinds.get(node.kind, "constraint"), negated=node.kind == BLOCKED)


def _below(node: Failure | Derivation) -> Sequence[Failure | Derivation]:
    return node.parts if isinstance(node, Failure) else node.premises
