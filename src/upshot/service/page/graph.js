// A binary relation as a force-directed graph. The start is a circle, so the same rows give the same picture. Components are placed side by side.

import { h, s, value, number } from "./dom.js";

const MOST = 300, ROUNDS = 220, APART = 110, GAP = 40;
const LETTER = 7.6, LONGEST = 40;
// The smallest drawing area: a small graph is not enlarged, and is not reduced on a narrow screen.
const HIGH = 460;
const wide = () => Math.min(760, Math.max(innerWidth - 40, 300));

export function graphOf(relation, rows, marks, more) {
  const shown = rows.slice(0, MOST);
  const nodes = new Map();
  const node = (cell) => {
    const key = JSON.stringify(cell);
    if (!nodes.has(key)) nodes.set(key, { key, label: value(cell), x: 0, y: 0, fx: 0, fy: 0 });
    return nodes.get(key);
  };
  const edges = shown.map((row) => ({ from: node(row[0]), to: node(row[1]), sign: marks.get(JSON.stringify(row))?.sign ?? "", row }));
  pack(componentsOf([...nodes.values()], edges).map(settled));
  const note = more || rows.length > MOST ? h("p", { class: "faint" }, `The graph shows the first ${number(shown.length)} rows of this page; narrow it with a selection.`) : null;
  return h("div", {}, note, draw(relation, [...nodes.values()], edges));
}

function componentsOf(nodes, edges) {
  const near = new Map(nodes.map((node) => [node, []]));
  for (const { from, to } of edges) { near.get(from).push(to); near.get(to).push(from); }
  const seen = new Set();
  const found = [];
  for (const first of nodes) {
    if (seen.has(first)) continue;
    const members = [first];
    seen.add(first);
    // The list grows during the iteration.
    for (const node of members) for (const other of near.get(node)) if (!seen.has(other)) { seen.add(other); members.push(other); }
    found.push({ nodes: members, edges: edges.filter((edge) => members.includes(edge.from)) });
  }
  return found.sort((a, b) => b.nodes.length - a.nodes.length);
}

// Place the nodes of a component; return its area, labels included.
function settled({ nodes, edges }) {
  const radius = (APART * nodes.length) / (2 * Math.PI);
  nodes.forEach((node, i) => {
    const angle = (2 * Math.PI * i) / nodes.length;
    node.x = radius * Math.cos(angle);
    node.y = radius * Math.sin(angle);
  });
  for (let round = 0; round < ROUNDS; round += 1) {
    const heat = APART * (1 - round / ROUNDS);
    for (const node of nodes) { node.fx = -node.x * 0.02; node.fy = -node.y * 0.02; }
    for (let i = 0; i < nodes.length; i += 1) {
      for (let j = i + 1; j < nodes.length; j += 1) push(nodes[i], nodes[j], (distance) => -(APART * APART) / distance);
    }
    for (const edge of edges) if (edge.from !== edge.to) push(edge.from, edge.to, (distance) => (distance * distance) / APART / 2);
    for (const node of nodes) {
      const force = Math.hypot(node.fx, node.fy) || 1;
      node.x += (node.fx / force) * Math.min(force, heat);
      node.y += (node.fy / force) * Math.min(force, heat);
    }
  }
  const left = Math.min(...nodes.map((node) => node.x)) - 16, top = Math.min(...nodes.map((node) => node.y)) - 36;
  const width = Math.max(...nodes.map((node) => node.x + 16 + LETTER * shown(node.label).length)) - left;
  const height = Math.max(...nodes.map((node) => node.y)) + 16 - top;
  return { nodes, left, top, width, height };
}

// Arrange the components in rows that are about as wide as the screen.
function pack(parts) {
  const area = parts.reduce((sum, part) => sum + (part.width + GAP) * (part.height + GAP), 0);
  const room = Math.max(...parts.map((part) => part.width), Math.sqrt((area * wide()) / HIGH));
  let x = 0, y = 0, tallest = 0;
  for (const part of parts) {
    if (x && x + part.width > room) { x = 0; y += tallest + GAP; tallest = 0; }
    for (const node of part.nodes) { node.x += x - part.left; node.y += y - part.top; }
    x += part.width + GAP;
    tallest = Math.max(tallest, part.height);
  }
}

const shown = (label) => (label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label);

function push(a, b, pull) {
  const dx = b.x - a.x, dy = b.y - a.y;
  const distance = Math.max(Math.hypot(dx, dy), 1);
  const force = pull(distance);
  a.fx += (dx / distance) * force; a.fy += (dy / distance) * force;
  b.fx -= (dx / distance) * force; b.fy -= (dy / distance) * force;
}

function draw(relation, nodes, edges) {
  const right = Math.max(...nodes.map((node) => node.x + 16 + LETTER * shown(node.label).length)), bottom = Math.max(...nodes.map((node) => node.y)) + 16;
  const width = Math.max(right, wide()), height = Math.max(bottom, HIGH);
  const box = [(right - width) / 2, (bottom - height) / 2, width, height];
  return s("svg", { class: "graph", id: "graph", viewBox: box.map(Math.round).join(" "), role: "img", "aria-label": `${relation.name} as a graph of ${nodes.length} nodes and ${edges.length} edges` },
    s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 14, refY: 4, markerWidth: 11, markerHeight: 11, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 0 L8 4 L0 8 z" }))),
    edges.map((edge) => s("path", { class: `edge ${edge.sign}`, "marker-end": "url(#tip)", d: edge.from === edge.to ? loop(edge.from) : `M${edge.from.x} ${edge.from.y} L${edge.to.x} ${edge.to.y}` }, s("title", {}, edge.row.map(value).join(" → ")))),
    nodes.map((node) => s("g", { transform: `translate(${node.x} ${node.y})` }, s("title", {}, node.label), s("circle", { class: "dot", r: 6 }), s("text", { x: 10, y: 4 }, shown(node.label)))));
}

const loop = (node) => `M${node.x} ${node.y} c -30 -40 30 -40 0 0`;
