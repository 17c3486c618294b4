// The dependency network, base relations on the left, with the changes of the last transaction. The server computes the layout, the same as for `upshot explain --svg`.

import { ask } from "./api.js";
import { h, s, show, number, plural, empty, opens } from "./dom.js";

// Fractions of the natural size. Below the smallest, the drawing scrolls.
const SMALLEST = 0.7, LARGEST = 1.4;

export async function networkSection(place, state) {
  const drawing = h("div", {});
  const wave = h("div", { id: "wave", "aria-live": "polite" });
  show(place, h("h1", {}, "Network"),
    h("p", { class: "faint" }, "Relations, and the views and rules that read them, from left to right. Changes of the last transaction are marked."),
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

function picture(state, commit) {
  const { width, height, frames, box_height: tall } = state.picture;
  const touched = commit?.changes ?? {};
  const all = [...state.relations, ...state.rules];
  const svg = s("svg", { class: "network", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "dependency network" },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 0 L8 4 L0 8 z" }))),
    frames.map(([x, y, wide, high]) => s("rect", { class: "recursive", x, y, width: wide, height: high, rx: 18 }, s("title", {}, "mutually recursive"))),
    all.flatMap((each) => each.reads.map((edge) => line(each, edge, touched))),
    all.map((each) => box(each, tall, touched[each.name], state)));
  svg.style.minWidth = `${width * SMALLEST}px`;
  svg.style.maxWidth = `${width * LARGEST}px`;
  return h("div", { class: "wide" }, svg);
}

function line(view, edge, touched) {
  const hot = edge.relation in touched && view.name in touched;
  const classes = ["edge", edge.negated && "negated", hot && "touched"].filter(Boolean).join(" ");
  const words = `${edge.relation} → ${view.name}${edge.negated ? ", negated" : ""}${edge.aggregated ? ", aggregated" : ""}`;
  return s("g", {}, s("title", {}, words), s("path", { class: classes, "marker-end": "url(#arrow)", d: edge.line }),
    edge.aggregated ? s("text", { class: "sum", "text-anchor": "middle", x: edge.middle[0], y: edge.middle[1] + 5 }, "Σ") : null);
}

function box(relation, height, change, state) {
  const target = relation.role === "rule" ? "#/rules" : `#/view/${encodeURIComponent(relation.name)}`;
  const go = () => { location.hash = target; };
  const { x, y, width } = relation.box;
  const size = relation.role === "rule" ? "rule" : relation.stored === false ? "not stored" : plural(state.size(relation), "row");
  const label = `${relation.name}, ${relation.role}, ${size}${change ? `, ${change.inserted} inserted, ${change.deleted} deleted` : ""}`;
  const signs = [change?.inserted ? s("tspan", { class: "come" }, `+${number(change.inserted)}`) : null, change?.inserted && change.deleted ? " " : null,
    change?.deleted ? s("tspan", { class: "gone" }, `−${number(change.deleted)}`) : null];
  return s("g", {
    class: `box ${relation.role}${change ? " touched" : ""}`, role: "link", "aria-label": label,
    transform: `translate(${x} ${y})`, ...opens(go),
  },
  s("title", {}, label),
  s("rect", { width, height, rx: 8 }),
  s("text", { x: 14, y: 22, class: "name" }, relation.name),
  s("text", { x: 14, y: 40, class: "note" }, size),
  s("text", { x: width - 12, y: 40, class: "signs", "text-anchor": "end" }, signs));
}

export async function loadNetwork() {
  return ask("network");
}
