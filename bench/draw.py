"""`python -m bench.draw RESULTS.jsonl`: the picture of docs/explanation/strategies.md, from the answers of `bench b5`.

The figures drawn are written beside the picture, so that it can be drawn again without measuring.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation"
PANELS = {"closure of blocks(2000 k, 6000 k)": "blocks", "modules × k: what M is based on": "based_on"}
SIZES = (1, 10, 100)
LEFT, TOP, WIDTH, HEIGHT, GAP = 56, 34, 240, 190, 150
COLORS = {
    "rod": "#d9822b",
    "epf": "#2f80ed",
    "propagation": "#9b51e0",
    "differencing": "#27ae60",
    "recompute": "#888888",
}

STYLE = """
text { font: 12px sans-serif; fill: #24292f; } .axis { stroke: #8c959f; } .grid { stroke: #8c959f33; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } }
"""

Series = dict[str, dict[str, list[float | None]]]


def series(lines: Iterable[Mapping[str, Any]]) -> Series:
    """Milliseconds an insertion takes, by panel and strategy, one a size; None where it was not measured."""
    found: Series = {panel: {} for panel in PANELS.values()}
    for line in lines:
        task, answer = line["task"], line["answer"]
        place, panel, strategy = _place(task)
        if panel not in found or answer["error"] or place is None:
            continue
        seconds = statistics.median(answer["times"]["insert"])
        found[panel].setdefault(strategy, [None] * len(SIZES))[place] = round(seconds * 1e3, 3)
    return found


def _place(task: Mapping[str, Any]) -> tuple[int | None, str, str]:
    """Which size, panel and line an answer belongs to."""
    options = task["options"]
    if task["kind"] == "modules":
        return SIZES.index(options["copies"]), options["view"], options["strategy"]
    if task["kind"] == "edges":
        factor = task["graph"]["measures"][0] // 2000
        return SIZES.index(factor) if factor in SIZES else None, "blocks", options["strategy"]
    return None, "", ""


def picture(figures: Series) -> str:
    """Both panels, on logarithmic scales, readable on light and dark pages."""
    width, height = LEFT + 2 * WIDTH + GAP + 90, TOP + HEIGHT + 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Milliseconds for one inserted row, by strategy, as the untouched part grows</title>",
        f"<style>{STYLE}</style>",
    ]
    for number, (title, panel) in enumerate(PANELS.items()):
        parts += _panel(LEFT + number * (WIDTH + GAP), title, figures[panel])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(left: int, title: str, lines: Mapping[str, list[float | None]]) -> list[str]:
    values = [value for line in lines.values() for value in line if value]
    low = math.floor(math.log10(min(values, default=1)))
    high = math.ceil(math.log10(max(values, default=10)))

    def y(value: float) -> float:
        return TOP + HEIGHT * (1 - (math.log10(value) - low) / max(1, high - low))

    def x(place: int) -> float:
        return left + WIDTH * place / (len(SIZES) - 1)

    parts = [f'<text x="{left}" y="16" font-weight="bold">{title}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + WIDTH}" y1="{at:.0f}" y2="{at:.0f}"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.0f}" text-anchor="end">{_words(power)}</text>')
    for place, size in enumerate(SIZES):
        parts.append(f'<text x="{x(place):.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">k = {size}</text>')
    parts.append(f'<line class="axis" x1="{left}" x2="{left + WIDTH}" y1="{TOP + HEIGHT}" y2="{TOP + HEIGHT}"/>')
    ends: list[float] = []
    for name, line in sorted(lines.items(), key=lambda pair: -(pair[1][-1] or 0)):
        points = [(x(i), y(value)) for i, value in enumerate(line) if value]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
        at = max([points[-1][1] + 4, *(end + 13 for end in ends[-1:])])
        ends.append(at)
        parts.append(f'<text x="{points[-1][0] + 6:.0f}" y="{at:.0f}" style="fill:{COLORS[name]}">{name}</text>')
    return parts


def _words(power: int) -> str:
    """So many powers of ten of milliseconds."""
    return f"{10.0**power:g} ms" if power < 3 else f"{10.0 ** (power - 3):g} s"


def main(argv: list[str]) -> int:
    figures = PAGE / "strategies.json"
    if argv:
        lines = [json.loads(line) for name in argv for line in Path(name).read_text().splitlines()]
        figures.write_text(json.dumps(series(lines), indent=1) + "\n")
    (PAGE / "strategies.svg").write_text(picture(json.loads(figures.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
