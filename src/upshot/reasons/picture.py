"""Trees as SVG pictures without external resources, and the style of all pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from xml.sax.saxutils import escape

NAME_WIDTH, NOTE_WIDTH = 9.8, 7.1
"""Of a character, in DejaVu Sans: the widest font of the stack."""

STYLE = """
  text { font-family: ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
  .paper { fill: #ffffff; }
  .name { font-size: 14px; font-weight: 600; fill: #1f2933; }
  .note { font-size: 11.5px; fill: #5b6874; }
  .box { stroke-width: 1.4; }
  .base { fill: #e6f0fa; stroke: #3a78b5; }
  .view { fill: #eaf6ec; stroke: #36864a; }
  .constraint { fill: #fcebe8; stroke: #b83a26; }
  .rule { fill: #f3ecfb; stroke: #7a4bb5; }
  .recursive { fill: none; stroke: #36864a; stroke-dasharray: 2 4; }
  .edge { fill: none; stroke: #7b8794; stroke-width: 1.4; }
  .negated { stroke: #b83a26; stroke-dasharray: 6 4; }
  .aggregated { stroke: #8a5a00; }
  .fires { fill: none; stroke: #7a4bb5; stroke-width: 1.4; stroke-dasharray: 3 4; }
  .looping { stroke: #b83a26; stroke-width: 2; }
  .cause { font-size: 11.5px; fill: #7a4bb5; stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
  .tip { fill: #7b8794; }
  .sum { font-size: 13px; font-weight: 700; fill: #8a5a00; stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #10161d; }
    .name { fill: #e6edf3; }
    .note { fill: #9aa7b4; }
    .base { fill: #13263a; stroke: #5b9bd8; }
    .view { fill: #14291a; stroke: #56b06c; }
    .constraint { fill: #331814; stroke: #ff8a75; }
    .rule { fill: #251a35; stroke: #b58ce6; }
    .recursive { stroke: #56b06c; }
    .edge { stroke: #7d8894; }
    .negated { stroke: #ff8a75; }
    .aggregated { stroke: #e3b341; }
    .fires { stroke: #b58ce6; }
    .looping { stroke: #ff8a75; }
    .cause { fill: #b58ce6; stroke: #10161d; }
    .tip { fill: #7d8894; }
    .sum { fill: #e3b341; stroke: #10161d; }
  }
"""
"""Plain values instead of CSS variables, which many SVG converters do not know."""


Node = TypeVar("Node")

MARGIN, GAP, SPACE = 32.0, 44.0, 16.0
TALL, FLAT = 52.0, 34.0
LINE = 24.0
"""The height of a heading."""
LONGEST, LONGEST_NOTE = 72, 100


@dataclass(frozen=True, slots=True)
class Card:
    """A box with two lines, and the class of its colors; its edge is drawn `negated` if it stands for absence."""

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
    """Trees from left to right, one below the other under the heading; each node is level with the middle of the nodes
    below it; a repeated part of a tree is drawn once."""
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
    """The nodes in preorder, each with its column, numbered after those `before`."""
    placed: list[_Placed] = []
    drawn: set[int] = set()
    pending: list[tuple[Node, int | None]] = [(root, None)]
    while pending:
        node, parent = pending.pop()
        inside = below(node)
        box = card(node)
        if inside and id(node) in drawn:
            box, inside = Card(box.statement, "as above", box.kind, box.negated), ()
        drawn.add(id(node))
        home = None if parent is None else placed[parent - before]
        if home is not None:
            home.inside += 1
        x = MARGIN if home is None else home.x + home.card.width + GAP
        pending.extend((each, before + len(placed)) for each in reversed(inside))
        placed.append(_Placed(box, x, parent))
    return placed


def _stacked(placed: list[_Placed], above: float) -> float:
    """Set the vertical position of every node, below the margin and the space `above`; the height of the picture."""
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
    return _short(text.replace("  ", " · "), LONGEST_NOTE)
