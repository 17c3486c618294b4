// Why a row is present or missing, or was inserted or deleted: a derivation as a tree that can be folded.

import { ask, path } from "./api.js";
import { h, show, fact, number, openDialog, plural, problem, empty } from "./dom.js";

const MOST = 20;
const OPEN_DEPTH = 12;

// `mark`: the last change of the row and its version; `unsure`: the row may not exist.
export async function why(relation, row, { mark = null, unsure = false, at = null } = {}) {
  const place = h("div", {}, h("p", { class: "faint" }, "loading…"));
  const dialog = openDialog(`Why ${fact(relation.name, row, relation.columns)}?`, place);
  const asked = new Dialog(relation, row, place, dialog, at);
  if (mark?.sign === "gone") return asked.changed(mark.version);
  if (relation.role === "base" && !unsure) return asked.base(mark);
  return asked.reasons(mark);
}

class Dialog {
  constructor(relation, row, place, dialog, at) {
    Object.assign(this, { relation, row, place, dialog, at });
  }

  address(more = {}) {
    return `explanations/${path(this.relation.name)}?${new URLSearchParams({ row: JSON.stringify(this.row), ...(this.at === null ? {} : { at: this.at }), ...more })}`;
  }

  /* The answer of the server, or its error. */
  async told(more, shown) {
    try {
      show(this.place, ...shown(await ask(this.address(more))));
    } catch (error) {
      show(this.place, problem(error));
    }
  }

  reasons(mark) {
    return this.told({}, (found) => (found.derivation
      ? [tree([found.derivation]), this.tools("delete", "How to delete it?", this.others(found.derivation), this.came(mark), this.picture({}))]
      : [whyNot(found.why_not), this.tools("insert", "How to make it true?", this.picture({}))]));
  }

  base(mark) {
    show(this.place, empty("A base fact: a transaction inserted it."), this.tools("delete", "How to delete it?", this.came(mark)));
  }

  all() {
    return this.told({ limit: MOST }, ({ derivations }) => [
      h("p", { class: "faint" }, derivations.length === MOST ? `The first ${number(MOST)} derivations, the smallest first:` : derivations.length === 1 ? "This is the only derivation:" : `All ${plural(derivations.length, "derivation")}, the smallest first:`),
      tree(derivations), this.tools("delete", "How to delete it?", this.picture({ limit: MOST }))]);
  }

  async changed(version) {
    const more = { changed_in: version };
    await this.told(more, ({ why_changed: { change, time, meta, derivation } }) => [
      h("p", { id: "change" }, `${change === "went" ? "Deleted" : "Inserted"} in version ${number(version)}${time ? `, ${new Date(time).toLocaleString()}` : ""}${notes(meta)}. Inserted rows are marked +, deleted rows −.`),
      tree([derivation]), change === "went" ? this.tools("insert", "How to insert it again?", this.picture(more)) : this.tools("delete", "How to delete it?", this.picture(more))]);
  }

  tools(sign, words, ...others) {
    return h("div", { class: "tools" }, h("button", { class: "main", onclick: () => { this.dialog.close(); location.hash = wishAddress(sign, this.relation.name, this.row); } }, words), others);
  }

  others(derivation) {
    return derivation.kind === "rule" ? h("button", { onclick: () => this.all() }, "all derivations") : null;
  }

  came(mark) {
    return mark ? h("button", { onclick: () => this.changed(mark.version) }, `why was it inserted in version ${number(mark.version)}?`) : null;
  }

  picture(more) {
    return h("a", { href: this.address({ ...more, format: "svg" }), target: "_blank", rel: "noopener" }, "as a picture");
  }
}

const notes = (meta) => (Object.keys(meta ?? {}).length ? `, ${JSON.stringify(meta)}` : "");

// The address of the section with the base changes that insert or delete a row.
export const wishAddress = (sign, name, row) => `#/options/${[sign, name, ...(row ? [JSON.stringify(row)] : [])].map(encodeURIComponent).join("/")}`;

const tree = (derivations) => h("ul", { class: "tree", id: "why" }, derivations.map((each) => node(each)));

const MARKS = { holds: "✓", missing: "✗", "in the way": "✗", false: "✗", open: "?" };

function whyNot(found) {
  const parts = found.parts ?? [];
  const attempts = parts.filter((each) => each.kind !== "fixes");
  const rules = attempts.length
    ? [h("p", { class: "faint" }, "It does not hold. The nearest attempts of each rule:"), h("ul", { class: "tree", id: "why-not" }, attempts.map(attempt))]
    : empty(`It ${found.note || "does not hold"}.`);
  return [rules, ...parts.filter((each) => each.kind === "fixes").map(fixes)];
}

// Base changes that make it true, each with its other effects.
function fixes(found) {
  const words = found.statement[0].toUpperCase() + found.statement.slice(1);
  return h("section", { id: "fixes" }, h("p", {}, `${words} `, h("span", { class: "faint" }, `(${found.note})`)),
    found.parts ? h("ul", { class: "tree" }, found.parts.map((each) => h("li", {}, h("span", { class: "fact" }, each.statement), each.note ? h("div", { class: "because" }, each.note) : null))) : null);
}

function attempt(found) {
  if (found.premises || !("failing" in found || found.kind in MARKS)) return node(found);
  const mark = MARKS[found.kind];
  const head = [mark ? h("b", { class: mark === "✓" ? "plus" : mark === "✗" ? "minus" : "faint" }, `${mark} `) : null, h("span", { class: "fact" }, found.statement)];
  const note = found.note ? h("div", { class: "because" }, found.note, found.others ? `; ${found.others} other choices of values fail equally late` : null) : null;
  if (!found.parts?.length) return h("li", {}, head, note);
  return h("li", {}, h("details", { open: true }, h("summary", {}, head), note, h("ul", {}, found.parts.map(attempt))));
}

const NOTES = {
  base: ({ inserted, deleted }) => `base fact${inserted ? `, inserted in version ${number(inserted.version)}` : ""}${deleted ? `, deleted in version ${number(deleted.version)}` : ""}`,
  aggregate: (found) => `${plural(found.count, "row")} of the group${found.group.length ? `: ${found.group.join(", ")}` : ""}${found.count > found.group.length ? ", …" : ""}`,
  condition: () => "holds",
};
const SIGNS = { came: ["plus", "+ "], went: ["minus", "− "] };

/* Every OPEN_DEPTH levels a subtree is closed until the user opens it: browsers do not draw thousands of nested levels. */
function node(found, depth = 1) {
  const premises = found.premises ?? [];
  const [tone, sign] = SIGNS[found.change] ?? [];
  const head = [sign ? h("b", { class: tone }, sign) : null, h("span", { class: "fact" }, found.statement)];
  const words = found.remark ?? found.rule ?? NOTES[found.kind]?.(found);
  const because = words ? h("div", { class: "because" }, words) : null;
  if (!premises.length) return h("li", {}, head, found.repeated ? h("span", { class: "faint" }, " (as above)") : because);
  const below = h("ul", {});
  const fill = () => below.childElementCount || show(below, premises.map((each) => node(each, depth + 1)));
  const closed = depth % OPEN_DEPTH === 0;
  if (!closed) fill();
  return h("li", {}, h("details", { open: !closed, ontoggle: fill }, h("summary", {}, head, closed ? h("span", { class: "faint" }, " …") : null), because, below));
}
