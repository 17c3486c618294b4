// A binary relation as a graph. Nodes repel, edges pull; the start is a circle, so the same rows give the same picture.

import { h, s, value, number } from "./dom.js";

const MOST = 300, ROUNDS = 220, SIZE = 900;

export function graphOf(relation, rows, marks, more) {
  const shown = rows.slice(0, MOST);
  const nodes = new Map();
  const node = (cell) => {
    const key = JSON.stringify(cell);
    if (!nodes.has(key)) nodes.set(key, { key, label: value(cell), x: 0, y: 0, fx: 0, fy: 0 });
    return nodes.get(key);
  };
  const edges = shown.map((row) => ({ from: node(row[0]), to: node(row[1]), sign: marks.get(JSON.stringify(row))?.sign ?? "", row }));
  settle([...nodes.values()], edges);
  const note = more || rows.length > MOST ? h("p", { class: "faint" }, `The graph shows the first ${number(shown.length)} rows of this page; narrow it with a selection.`) : null;
  return h("div", {}, note, draw(relation, [...nodes.values()], edges));
}

function settle(nodes, edges) {
  nodes.forEach((node, i) => {
    const angle = (2 * Math.PI * i) / nodes.length;
    node.x = SIZE / 2 + (SIZE / 3) * Math.cos(angle);
    node.y = SIZE / 2 + (SIZE / 3) * Math.sin(angle);
  });
  const ideal = SIZE / Math.sqrt(nodes.length + 1);
  for (let round = 0; round < ROUNDS; round += 1) {
    const heat = (SIZE / 10) * (1 - round / ROUNDS);
    for (const node of nodes) { node.fx = (SIZE / 2 - node.x) * 0.02; node.fy = (SIZE / 2 - node.y) * 0.02; }
    for (let i = 0; i < nodes.length; i += 1) {
      for (let j = i + 1; j < nodes.length; j += 1) push(nodes[i], nodes[j], (distance) => -(ideal * ideal) / distance);
    }
    for (const edge of edges) if (edge.from !== edge.to) push(edge.from, edge.to, (distance) => (distance * distance) / ideal / 2);
    for (const node of nodes) {
      const force = Math.hypot(node.fx, node.fy) || 1;
      node.x += (node.fx / force) * Math.min(force, heat);
      node.y += (node.fy / force) * Math.min(force, heat);
    }
  }
}

function push(a, b, pull) {
  const dx = b.x - a.x, dy = b.y - a.y;
  const distance = Math.max(Math.hypot(dx, dy), 1);
  const force = pull(distance);
  a.fx += (dx / distance) * force; a.fy += (dy / distance) * force;
  b.fx -= (dx / distance) * force; b.fy -= (dy / distance) * force;
}

function draw(relation, nodes, edges) {
  const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
  const left = Math.min(...xs) - 60, top = Math.min(...ys) - 40;
  const box = [left, top, Math.max(...xs) - left + 90, Math.max(...ys) - top + 40];
  return s("svg", { class: "graph", id: "graph", viewBox: box.map(Math.round).join(" "), role: "img", "aria-label": `${relation.name} as a graph of ${nodes.length} nodes and ${edges.length} edges` },
    s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 14, refY: 4, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 0 L8 4 L0 8 z" }))),
    edges.map((edge) => s("path", { class: `edge ${edge.sign}`, "marker-end": "url(#tip)", d: edge.from === edge.to ? loop(edge.from) : `M${edge.from.x} ${edge.from.y} L${edge.to.x} ${edge.to.y}` }, s("title", {}, edge.row.map(value).join(" → ")))),
    nodes.map((node) => s("g", { transform: `translate(${node.x} ${node.y})` }, s("circle", { class: "dot", r: 6 }), s("text", { x: 10, y: 4 }, node.label.length > 24 ? node.label.slice(0, 23) + "…" : node.label))));
}

const loop = (node) => `M${node.x} ${node.y} c -30 -40 30 -40 0 0`;
