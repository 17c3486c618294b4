// Why a row is there: its derivation, as a tree that can be folded.

import { ask, path } from "./api.js";
import { h, show, fact, openDialog, problem, empty } from "./dom.js";

export async function why(relation, row, gone = false) {
  const place = h("div", {}, h("p", { class: "faint" }, "asking…"));
  openDialog(`Why ${fact(relation.name, row)}?`, place);
  if (gone) return show(place, empty("This row has just gone: nothing derives it any more."));
  if (relation.role === "base") return show(place, empty("A base fact: it is there because a transaction inserted it."));
  try {
    const found = await ask(`explanations/${path(relation.name)}?row=${encodeURIComponent(JSON.stringify(row))}`);
    show(place, h("ul", { class: "tree", id: "why" }, node(found.derivation)));
  } catch (error) {
    show(place, problem(error));
  }
}

function node(found) {
  const premises = found.premises ?? [];
  const head = h("span", { class: "fact" }, found.text);
  const because = found.rule ? h("div", { class: "because" }, found.rule) : found.note ? h("div", { class: "because" }, found.note) : null;
  if (!premises.length) return h("li", {}, head, " ", because);
  return h("li", {}, h("details", { open: true }, h("summary", {}, head), because, h("ul", {}, premises.map(node))));
}
