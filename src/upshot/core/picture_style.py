"""What all pictures have in common: their colours, for light and dark, and how wide a character is."""

from __future__ import annotations

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
"""Plain values and no CSS variables, which many programs that convert SVG do not know."""
