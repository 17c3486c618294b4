"""Draw a dependency network as a self-contained SVG picture, for light and dark backgrounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from upshot.core.schema import Role, Schema
from upshot.database.explain.dependencies import Dependency
from upshot.database.explain.network import Network
from upshot.reasons.picture import NAME_WIDTH, NOTE_WIDTH, STYLE

MARGIN, GAP, BOX_HEIGHT, BOX_SPACE, LANE = 32.0, 96.0, 52.0, 22.0, 14.0
LONGEST_NOTE = 44
LEGEND = 34.0
POINT = 10.0
"""The width of the point at each side of a rule's box."""


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def middle(self) -> float:
        return self.y + BOX_HEIGHT / 2


@dataclass(frozen=True, slots=True)
class Arrow:
    """One active rule can trigger another, or itself: the label beside the arrow, and its tooltip. `looping`: on a
    cycle that is not known to end."""

    source: str
    target: str
    label: str
    words: str
    looping: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of the boxes, the points of each long edge, and the size of the picture."""

    boxes: Mapping[str, Box]
    lanes: Mapping[Dependency, tuple[tuple[float, float, float], ...]]
    groups: tuple[tuple[str, ...], ...]
    width: float
    height: float

    def line(self, edge: Dependency) -> tuple[str, tuple[float, float]]:
        """The curve of an edge, as the `d` of an SVG path, and its middle."""
        left, right = self.boxes[edge.relation], self.boxes[edge.view]
        if edge.relation == edge.view:
            x, y = left.right, left.middle
            line = f"M{x:.1f} {y - 20:.1f} C{x + 26:.1f} {y - 30:.1f} {x + 26:.1f} {y:.1f} {x + 2:.1f} {y - 9:.1f}"
            return line, (x + 20, y - 14)
        if left.x == right.x:
            return _beside(left, right)
        return _across(left, right, self.lanes.get(edge, ()))

    def frame(self, group: Sequence[str]) -> tuple[float, float, float, float]:
        """Left, top, width and height of the frame around boxes."""
        boxes = [self.boxes[name] for name in group]
        left, top = min(box.x for box in boxes) - 9, min(box.y for box in boxes) - 9
        return left, top, max(b.right for b in boxes) - left + 9, max(b.y for b in boxes) + BOX_HEIGHT - top + 9


def svg(network: Network, schemas: Mapping[str, Schema], notes: Mapping[str, str], arrows: Sequence[Arrow] = ()) -> str:
    """The picture; `notes` are the small lines under the names, `arrows` connect active rules."""
    notes = {name: _short(note) for name, note in notes.items()}
    layout = laid_out(network, notes)
    fires, room = _arrows(arrows, layout.boxes)
    width = max(max(layout.width, 680.0) + room, 860.0 * bool(network.rules))
    height = layout.height + LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="dependency network">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0.5 L8 4 L0 7.5 z"/></marker></defs>',
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
    ]
    parts += [_group(*layout.frame(group)) for group in layout.groups]
    parts += [_edge(edge, layout) for edge in network.edges]
    parts += fires
    for name, box in layout.boxes.items():
        kind = "rule" if name in network.rules else schemas[name].role.value
        parts.append(_node(schemas[name], kind, box, notes[name]))
    parts.append(_legend(height, rules=bool(network.rules), looping=any(arrow.looping for arrow in arrows)))
    return "\n".join([*parts, "</svg>", ""])


def laid_out(network: Network, notes: Mapping[str, str]) -> Layout:
    """Layers as centered columns from left to right; a passing edge takes a lane instead of a box."""
    heights = [sum(_slot_height(slot.members) for slot in layer) for layer in network.layers]
    tallest = max(heights, default=0.0)
    boxes: dict[str, Box] = {}
    lanes: dict[Dependency, tuple[tuple[float, float, float], ...]] = {}
    x = MARGIN
    for layer, height in zip(network.layers, heights, strict=True):
        members = [name for slot in layer for name in slot.members]
        width = max((max(_name_width(n), len(notes[n]) * NOTE_WIDTH) + 28 for n in members), default=0.0)
        y = MARGIN + (tallest - height) / 2
        for slot in layer:
            if slot.passing is not None:
                lanes[slot.passing] = (*lanes.get(slot.passing, ()), (x, x + width, y + LANE / 2))
            for place, name in enumerate(slot.members):
                boxes[name] = Box(x, y + BOX_SPACE / 2 + place * (BOX_HEIGHT + BOX_SPACE), width)
            y += _slot_height(slot.members)
        x += width + GAP
    slots = [slot.members for layer in network.layers for slot in layer]
    groups = tuple(members for members in slots if members and network.recursive.issuperset(members))
    return Layout(boxes, lanes, groups, x - GAP + MARGIN, tallest + 2 * MARGIN)


def _name_width(name: str) -> float:
    """Names are bold; `m`, `w` and capitals are wider than other letters."""
    return sum(NAME_WIDTH * (1.5 if letter in "mwMW" else 1.15 if letter.isupper() else 1) for letter in name)


def _slot_height(members: tuple[str, ...]) -> float:
    return len(members) * (BOX_HEIGHT + BOX_SPACE) if members else LANE


def _node(schema: Schema, kind: str, box: Box, note: str) -> str:
    """Base relations have corners, views are round, active rules have a point on either side."""
    if kind == "rule":
        shape = f'<path class="box rule" d="{_hexagon(box)}"/>'
    else:
        shape = (
            f'<rect class="box {kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
            f'height="{BOX_HEIGHT:.0f}" rx="{4 if schema.role is Role.BASE else 14}"/>'
        )
    return (
        f"<g><title>{escape(str(schema))}</title>{shape}"
        f'<text class="name" x="{box.x + 14:.1f}" y="{box.y + 22:.1f}">{escape(schema.name)}</text>'
        f'<text class="note" x="{box.x + 14:.1f}" y="{box.y + 40:.1f}">{escape(note)}</text></g>'
    )


def _hexagon(box: Box) -> str:
    left, right, bottom = box.x + POINT, box.right - POINT, box.y + BOX_HEIGHT
    return (
        f"M{box.x:.1f} {box.middle:.1f} L{left:.1f} {box.y:.1f} H{right:.1f} L{box.right:.1f} {box.middle:.1f} "
        f"L{right:.1f} {bottom:.1f} H{left:.1f} Z"
    )


def _arrows(arrows: Sequence[Arrow], boxes: Mapping[str, Box]) -> tuple[list[str], float]:
    """Curves to the right of the rules, and their width."""
    lines: list[str] = []
    labels: list[str] = []
    bow = 30.0
    for lane in _lanes(arrows, boxes):
        for arrow in lane:
            source, target = boxes[arrow.source], boxes[arrow.target]
            x, start, end = source.right - POINT * 8 / (BOX_HEIGHT / 2), source.middle + 8, target.middle - 8
            line = f"M{x:.1f} {start:.1f} C{x + bow:.1f} {start:.1f} {x + bow:.1f} {end:.1f} {x + 2:.1f} {end:.1f}"
            title, place = f"<title>{escape(arrow.words)}</title>", (x + 0.75 * bow + 4, (start + end) / 2 + 4)
            kind = "fires looping" if arrow.looping else "fires"
            lines.append(f'<g>{title}<path class="{kind}" marker-end="url(#tip)" d="{line}"/></g>')
            labels.append(f'<text class="cause" x="{place[0]:.1f}" y="{place[1]:.1f}">{escape(arrow.label)}</text>')
        # A Bézier curve reaches three quarters of the distance to its control points.
        bow += (max(len(arrow.label) for arrow in lane) * NOTE_WIDTH + 10) / 0.75
    return [*lines, *labels], 0.75 * bow if lines else 0.0


def _lanes(arrows: Sequence[Arrow], boxes: Mapping[str, Box]) -> list[list[Arrow]]:
    """Arrows that do not overlap share a lane; the shortest are inside."""
    lanes: list[list[Arrow]] = []
    ends = {arrow: sorted((boxes[arrow.source].y, boxes[arrow.target].y)) for arrow in arrows}

    def apart(one: Arrow, other: Arrow) -> bool:
        (top, bottom), (first, last) = ends[one], ends[other]
        return (top, bottom) != (first, last) and (bottom <= first or last <= top)

    for arrow in sorted(arrows, key=lambda arrow: ends[arrow][1] - ends[arrow][0]):
        free = next((lane for lane in lanes if all(apart(arrow, other) for other in lane)), None)
        if free is None:
            lanes.append([arrow])
        else:
            free.append(arrow)
    return lanes


def _edge(edge: Dependency, layout: Layout) -> str:
    line, middle = layout.line(edge)
    kind = " negated" * edge.negated + " aggregated" * edge.aggregated
    words = f"{edge.relation} → {edge.view}" + ", negated" * edge.negated + ", aggregated" * edge.aggregated
    mark = f'<text class="sum" text-anchor="middle" x="{middle[0]:.1f}" y="{middle[1] + 5:.1f}">Σ</text>'
    title = f"<title>{escape(words)}</title>"
    return f'<g>{title}<path class="edge{kind}" marker-end="url(#tip)" d="{line}"/>{mark * edge.aggregated}</g>'


def _beside(left: Box, right: Box) -> tuple[str, tuple[float, float]]:
    """The curve between two boxes of one layer; upward and downward edges bulge differently, so that both are
    visible."""
    down = right.y > left.y
    start, end = (left.middle + 10, right.middle - 10) if down else (left.middle - 4, right.middle + 4)
    bend = left.right + (24 if down else 44) + abs(end - start) / 12
    line = f"M{left.right:.1f} {start:.1f} C{bend:.1f} {start:.1f} {bend:.1f} {end:.1f} {right.right + 2:.1f} {end:.1f}"
    return line, ((left.right + 3 * bend) / 4, (start + end) / 2)


def _across(left: Box, right: Box, lanes: tuple[tuple[float, float, float], ...]) -> tuple[str, tuple[float, float]]:
    """The curve between boxes of two layers, straight through its lane in each layer between, and the middle of its
    last bend."""
    x, y = left.right, left.middle
    line = f"M{x:.1f} {y:.1f}"
    for start, end, level in lanes:
        half = (x + start) / 2
        line += f" C{half:.1f} {y:.1f} {half:.1f} {level:.1f} {start:.1f} {level:.1f} L{end:.1f} {level:.1f}"
        x, y = end, level
    half = (x + right.x) / 2
    line += f" C{half:.1f} {y:.1f} {half:.1f} {right.middle:.1f} {right.x - 1:.1f} {right.middle:.1f}"
    return line, (half, (y + right.middle) / 2)


def _group(left: float, top: float, width: float, height: float) -> str:
    return f'<rect class="recursive" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="18"/>'


def _legend(height: float, *, rules: bool, looping: bool) -> str:
    y, x = height - 20, MARGIN
    parts = []
    lines = [("edge", "uses"), ("edge negated", "uses negated"), ("edge aggregated", "Σ aggregates over")]
    lines += [("fires", "can trigger")] * rules + [("fires looping", "on a cycle")] * looping
    for kind, words in lines:
        parts.append(f'<path class="{kind}" d="M{x:.0f} {y:.1f} h28"/>')
        parts.append(f'<text class="note" x="{x + 36:.0f}" y="{y + 4:.1f}">{words}</text>')
        x += 64 + len(words) * NOTE_WIDTH
    parts.append(f'<rect class="recursive" x="{x:.0f}" y="{y - 8:.1f}" width="24" height="16" rx="6"/>')
    parts.append(f'<text class="note" x="{x + 32:.0f}" y="{y + 4:.1f}">mutually recursive</text>')
    return "".join(parts)


def _short(note: str) -> str:
    return note if len(note) <= LONGEST_NOTE else note[: LONGEST_NOTE - 1] + "…"
