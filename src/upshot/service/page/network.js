// The dependency network, base relations on the left, with the wave of the last transaction on it.

import { ask } from "./api.js";
import { h, s, show, number, plural, empty, opens } from "./dom.js";

const WIDTH = 190, HEIGHT = 46, GAP_X = 90, GAP_Y = 22, EDGE = 24;

export async function networkSection(place, state) {
  const drawing = h("div", {});
  const wave = h("div", { id: "wave", "aria-live": "polite" });
  show(place, h("h1", {}, "Network"),
    h("p", { class: "faint" }, "What rests on what. The last transaction's wave is drawn on it: rows that came and went, relation by relation."),
    wave, drawing);
  const draw = () => {
    const last = state.commits[0];
    show(wave, waveText(last));
    show(drawing, state.relations.length ? picture(state, last) : empty("The program declares no relation that you may read."));
  };
  draw();
  return { refresh: draw, close() {} };
}

function waveText(commit) {
  if (!commit) return empty("No transaction since the server started. Make one under “Change”, or send one to ", h("code", {}, "POST /transactions"), ".");
  const changed = Object.entries(commit.changes);
  const parts = changed.map(([name, change]) => [
    h("a", { href: `#/view/${encodeURIComponent(name)}` }, name), " ",
    change.inserted ? h("span", { class: "plus" }, `+${number(change.inserted)} `) : null,
    change.deleted ? h("span", { class: "minus" }, `−${number(change.deleted)} `) : null,
  ]);
  const took = commit.seconds === undefined || commit.seconds === null ? "" : ` in ${(commit.seconds * 1000).toFixed(2)} ms`;
  return h("p", {}, h("b", {}, `Version ${commit.version}`), `${took}: `, parts.length ? parts.flat() : "nothing that you may read changed");
}

// Longest path from the base; members of a cycle share a layer, since each edge back into it is left out.
function layersOf(relations) {
  const known = new Map(relations.map((each) => [each.name, each]));
  const level = new Map();
  const visit = (name, trail) => {
    if (level.has(name)) return level.get(name);
    if (trail.has(name)) return -1;
    trail.add(name);
    const below = known.get(name).reads.filter((each) => known.has(each.relation)).map((each) => visit(each.relation, trail));
    trail.delete(name);
    const found = 1 + Math.max(-1, ...below);
    level.set(name, found);
    return found;
  };
  relations.forEach((each) => visit(each.name, new Set()));
  const layers = [];
  relations.forEach((each) => (layers[level.get(each.name)] ??= []).push(each));
  return ordered(layers.filter(Boolean));
}

function ordered(layers) {
  for (let sweep = 0; sweep < 4; sweep += 1) {
    for (let i = 1; i < layers.length; i += 1) {
      const where = new Map(layers.slice(0, i).flatMap((layer) => layer.map((each, n) => [each.name, n / layer.length])));
      const mean = (each) => {
        const found = each.reads.map((edge) => where.get(edge.relation)).filter((n) => n !== undefined);
        return found.length ? found.reduce((a, b) => a + b) / found.length : 0.5;
      };
      layers[i].sort((a, b) => mean(a) - mean(b) || a.name.localeCompare(b.name));
    }
  }
  return layers;
}

function picture(state, commit) {
  const layers = layersOf([...state.relations, ...state.rules]);
  const tallest = Math.max(...layers.map((layer) => layer.length));
  const width = EDGE * 2 + layers.length * WIDTH + (layers.length - 1) * GAP_X;
  const height = EDGE * 2 + tallest * HEIGHT + (tallest - 1) * GAP_Y;
  const places = new Map();
  layers.forEach((layer, x) => layer.forEach((each, y) => {
    const free = (tallest - layer.length) * (HEIGHT + GAP_Y);
    places.set(each.name, { x: EDGE + x * (WIDTH + GAP_X), y: EDGE + free / 2 + y * (HEIGHT + GAP_Y) });
  }));
  const touched = commit?.changes ?? {};
  const all = [...state.relations, ...state.rules];
  const svg = s("svg", { class: "network", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "dependency network" },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 0 L8 4 L0 8 z" }))),
    all.flatMap((each) => each.reads.filter((edge) => places.has(edge.relation)).map((edge) => line(places, each, edge, touched))),
    all.map((each) => box(each, places.get(each.name), touched[each.name], state)));
  svg.style.maxWidth = `${width * 1.4}px`;
  return svg;
}

function line(places, view, edge, touched) {
  const from = places.get(edge.relation), to = places.get(view.name);
  const hot = edge.relation in touched && (view.name in touched);
  const classes = ["edge", edge.negated && "negated", hot && "touched"].filter(Boolean).join(" ");
  if (edge.relation === view.name) {
    const x = from.x + WIDTH - 34, y = from.y;
    return s("path", { class: classes, "marker-end": "url(#arrow)", d: `M${x} ${y} c -4 -22 26 -22 22 0` });
  }
  const x1 = from.x + WIDTH, y1 = from.y + HEIGHT / 2, x2 = to.x, y2 = to.y + HEIGHT / 2;
  if (x2 <= x1) {
    const dip = Math.max(y1, y2) + HEIGHT;
    return s("path", { class: classes, "marker-end": "url(#arrow)", d: `M${x1} ${y1} C ${x1 + 50} ${dip}, ${x2 - 50} ${dip}, ${x2} ${y2}` });
  }
  const bend = (x2 - x1) / 2;
  return s("path", { class: classes, "marker-end": "url(#arrow)", d: `M${x1} ${y1} C ${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}` });
}

function box(relation, at, change, state) {
  const target = relation.role === "rule" ? "#/rules" : `#/view/${encodeURIComponent(relation.name)}`;
  const go = () => { location.hash = target; };
  const size = relation.role === "rule" ? "rule" : relation.stored === false ? "not stored" : plural(state.size(relation), "row");
  const label = `${relation.name}, ${relation.role}, ${size}${change ? `, ${change.inserted} came, ${change.deleted} went` : ""}`;
  const shown = relation.name.length > 22 ? relation.name.slice(0, 21) + "…" : relation.name;
  return s("g", {
    class: `box ${relation.role}${change ? " touched" : ""}`, role: "link", "aria-label": label,
    transform: `translate(${at.x} ${at.y})`, ...opens(go),
  },
  s("title", {}, label),
  s("rect", { width: WIDTH, height: HEIGHT, rx: 8 }),
  s("text", { x: 12, y: 20 }, shown),
  s("text", { x: 12, y: 36, class: "note" }, size),
  change?.inserted ? s("text", { x: WIDTH - 10, y: 20, class: "come", "text-anchor": "end" }, `+${number(change.inserted)}`) : null,
  change?.deleted ? s("text", { x: WIDTH - 10, y: 37, class: "gone", "text-anchor": "end" }, `−${number(change.deleted)}`) : null);
}

export async function loadNetwork() {
  return ask("network");
}
