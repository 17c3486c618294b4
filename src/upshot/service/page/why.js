// Why a row is there: its derivation, as a tree that can be folded.

import { ask, path } from "./api.js";
import { h, show, fact, openDialog, problem, empty } from "./dom.js";

export async function why(relation, row, gone = false, unsure = false) {
  const place = h("div", {}, h("p", { class: "faint" }, "asking…"));
  const dialog = openDialog(`Why ${fact(relation.name, row)}?`, place);
  const ways = (sign, words) => h("p", {}, h("button", { class: "main", onclick: () => { dialog.close(); location.hash = wishAddress(sign, relation.name, row); } }, words));
  if (gone) return show(place, empty("This row has just gone: nothing derives it any more."), ways("insert", "Bring it back: how?"));
  if (relation.role === "base" && !unsure) return show(place, empty("A base fact: it is there because a transaction inserted it."), ways("delete", "Remove it: how?"));
  try {
    const found = await ask(`explanations/${path(relation.name)}?row=${encodeURIComponent(JSON.stringify(row))}`);
    show(place, found.derivation ? [h("ul", { class: "tree", id: "why" }, node(found.derivation)), ways("delete", "Remove it: how?")] : [whyNot(found.why_not), ways("insert", "Make it true: how?")]);
  } catch (error) {
    show(place, problem(error));
  }
}

// The place of the page that tells what would make a row come or go.
export const wishAddress = (sign, name, row) => `#/options/${[sign, name, ...(row ? [JSON.stringify(row)] : [])].map(encodeURIComponent).join("/")}`;

const MARKS = { holds: "✓", missing: "✗", "in the way": "✗", false: "✗", open: "?" };

function whyNot(found) {
  if (!found.parts?.length) return empty(`It is ${found.note || "not there"}.`);
  return [h("p", { class: "faint" }, "It is not there. This is how near each rule comes to it:"), h("ul", { class: "tree", id: "why-not" }, found.parts.map(attempt))];
}

function attempt(found) {
  if (found.premises || !("failing" in found || found.kind in MARKS)) return node(found);
  const mark = MARKS[found.kind];
  const head = [mark ? h("b", { class: mark === "✓" ? "plus" : mark === "✗" ? "minus" : "faint" }, `${mark} `) : null, h("span", { class: "fact" }, found.statement)];
  const note = found.note ? h("div", { class: "because" }, found.note, found.others ? `; ${found.others} other choices of values come as near` : null) : null;
  if (!found.parts?.length) return h("li", {}, head, note);
  return h("li", {}, h("details", { open: true }, h("summary", {}, head), note, h("ul", {}, found.parts.map(attempt))));
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
