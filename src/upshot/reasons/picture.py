"""Trees as SVG pictures that need nothing else, in the style of the dependency network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from xml.sax.saxutils import escape

from upshot.core.picture_style import NAME_WIDTH, NOTE_WIDTH, STYLE

Node = TypeVar("Node")

MARGIN, GAP, SPACE = 32.0, 44.0, 16.0
TALL, FLAT = 52.0, 34.0
LINE = 24.0
"""Of the paper that a heading takes."""
LONGEST, LONGEST_NOTE = 72, 100


@dataclass(frozen=True, slots=True)
class Card:
    """A box: its two lines, and the class of its colours; the way to it is drawn `negated` where it says what is not
    there."""

    statement: str
    note: str
    kind: str
    negated: bool = False

    @property
    def width(self) -> float:
        return max(len(_short(self.statement)) * NAME_WIDTH, len(_note(self.note)) * NOTE_WIDTH) + 28

    @property
    def height(self) -> float:
        return TALL if self.note else FLAT


@dataclass(slots=True)
class _Placed:
    card: Card
    x: float
    parent: int | None
    y: float = 0.0
    inside: int = 0

    @property
    def middle(self) -> float:
        return self.y + self.card.height / 2


def picture(
    roots: Sequence[Node], card: Callable[[Node], Card], below: Callable[[Node], Sequence[Node]], heading: str = ""
) -> str:
    """Trees from left to right, one below the other under the heading, each node level with the middle of what is below
    it; a part that is used twice in a tree is drawn whole once."""
    placed: list[_Placed] = []
    for root in roots:
        placed += _placed(root, card, below, len(placed))
    height = _stacked(placed, LINE if heading else 0.0)
    width = max(each.x + each.card.width for each in placed) + MARGIN
    width = max(width, len(_short(heading, LONGEST_NOTE)) * NAME_WIDTH + 2 * MARGIN)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(heading or "derivation", {chr(34): "&quot;"})}">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
    ]
    if heading:
        words = escape(_short(heading, LONGEST_NOTE))
        parts.append(f'<text class="name" x="{MARGIN:.1f}" y="{MARGIN:.1f}">{words}</text>')
    parts += [_edge(placed[each.parent], each) for each in placed if each.parent is not None]
    parts += map(_box, placed)
    return "\n".join([*parts, "</svg>", ""])


def _placed(
    root: Node, card: Callable[[Node], Card], below: Callable[[Node], Sequence[Node]], before: int
) -> list[_Placed]:
    """The nodes in the order of a walk, each with its column, numbered after those `before`."""
    placed: list[_Placed] = []
    drawn: set[int] = set()
    left: list[tuple[Node, int | None]] = [(root, None)]
    while left:
        node, parent = left.pop()
        inside = below(node)
        told = card(node)
        if inside and id(node) in drawn:
            told, inside = Card(told.statement, "as above", told.kind, told.negated), ()
        drawn.add(id(node))
        home = None if parent is None else placed[parent - before]
        if home is not None:
            home.inside += 1
        x = MARGIN if home is None else home.x + home.card.width + GAP
        left.extend((each, before + len(placed)) for each in reversed(inside))
        placed.append(_Placed(told, x, parent))
    return placed


def _stacked(placed: list[_Placed], above: float) -> float:
    """Gives every node its height on the paper, below the margin and what is `above`; that of the paper."""
    first = y = MARGIN + above
    for each in placed:
        if not each.inside:
            each.y = y
            y += each.card.height + SPACE
    middles: dict[int, list[float]] = {}
    for number in range(len(placed) - 1, -1, -1):
        each = placed[number]
        if each.inside:
            found = middles[number]
            each.y = (min(found) + max(found)) / 2 - each.card.height / 2
        if each.parent is not None:
            middles.setdefault(each.parent, []).append(each.middle)
    # A node with one small child is taller than it.
    top = min(each.y for each in placed)
    for each in placed:
        each.y += max(first - top, 0.0)
    return max(each.y + each.card.height for each in placed) + MARGIN


def _edge(parent: _Placed, child: _Placed) -> str:
    start, end = parent.x + parent.card.width, child.x
    half = (start + end) / 2
    line = f"M{start:.1f} {parent.middle:.1f} C{half:.1f} {parent.middle:.1f} {half:.1f} {child.middle:.1f} "
    return f'<path class="edge{" negated" * child.card.negated}" d="{line}{end:.1f} {child.middle:.1f}"/>'


def _box(each: _Placed) -> str:
    card = each.card
    name = each.y + (21 if card.note else 22)
    note = f'<text class="note" x="{each.x + 14:.1f}" y="{each.y + 40:.1f}">{escape(_note(card.note))}</text>'
    return (
        f"<g><title>{escape(f'{card.statement} {card.note}'.strip())}</title>"
        f'<rect class="box {card.kind}" x="{each.x:.1f}" y="{each.y:.1f}" width="{card.width:.1f}" '
        f'height="{card.height:.1f}" rx="9"/>'
        f'<text class="name" x="{each.x + 14:.1f}" y="{name:.1f}">{escape(_short(card.statement))}</text>'
        f"{note if card.note else ''}</g>"
    )


def _short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _note(text: str) -> str:
    """The note on one line; pictures know no columns."""
    return _short(text.replace("  ", " · "), LONGEST_NOTE)
