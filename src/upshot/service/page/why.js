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

const NOTES = {
  base: (found) => (found.inserted ? `base fact, inserted with version ${found.inserted.version}` : "base fact"),
  absent: () => "no such row",
  aggregate: (found) => `${found.count} rows of the group: ${found.group.join(", ")}${found.count > found.group.length ? ", …" : ""}`,
  condition: () => "holds",
};

function node(found) {
  const premises = found.premises ?? [];
  const head = h("span", { class: "fact" }, found.statement);
  const words = found.rule ?? NOTES[found.kind]?.(found);
  const because = words ? h("div", { class: "because" }, words) : null;
  if (!premises.length) return h("li", {}, head, found.repeated ? h("span", { class: "faint" }, " (as above)") : because);
  return h("li", {}, h("details", { open: true }, h("summary", {}, head), because, h("ul", {}, premises.map(node))));
}
