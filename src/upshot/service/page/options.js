// Base changes that insert or delete rows of views, with their other effects.

import { ask, parse } from "./api.js";
import { h, show, fact, number, plural, empty, problem } from "./dom.js";
import { cell, firstMisfit } from "./change.js";
import { card } from "./realization.js";
import { why } from "./why.js";

const GROUPS = [["view", "Views"], ["base", "Base relations"]];
const TAGS = { all: ["good", "complete"], more: ["warn", "the first ones"], "none exists": ["bad", "none exists"], "only through frozen": ["bad", "only through frozen"], "bounds reached": ["warn", "cut short"] };

export async function optionsSection(place, state, asked) {
  const relations = state.relations.filter((each) => each.role !== "constraint");
  if (!relations.length) {
    show(place, h("h1", {}, "Options"), empty("There is no relation that you may read."));
    return { refresh() {}, close() {} };
  }
  const section = new Section(place, state, relations);
  await section.open(asked);
  return section;
}

class Section {
  constructor(place, state, relations) {
    Object.assign(this, { place, state, relations, wishes: [], repair: null, answer: null, turn: 0 });
    this.relation = h("select", { id: "relation", "aria-label": "relation", onchange: () => this.drawFields() },
      GROUPS.map(([role, words]) => [words, relations.filter((each) => each.role === role)]).filter(([, found]) => found.length)
        .map(([words, found]) => h("optgroup", { label: words }, found.map((each) => h("option", {}, each.name)))));
    this.fields = h("span", { class: "tools" });
    this.list = h("div", { "aria-live": "polite" });
    this.result = h("div", { id: "options", "aria-live": "polite" });
    this.find = h("button", { class: "main", id: "find", onclick: () => this.search() }, "Find options");
  }

  async open({ sign, name, row }) {
    const known = this.relations.find((each) => each.name === name);
    this.draw();
    if (known) this.relation.value = name;
    this.drawFields();
    if (sign === "repair" && name) this.repair = name;
    else if (known && row !== undefined) this.wishes.push({ sign: sign === "insert" ? "insert" : "delete", name, row: parse(row) });
    this.drawList();
    if (this.wishes.length || this.repair) await this.search();
    else this.fields.querySelector("input")?.focus();
  }

  current() {
    return this.relations.find((each) => each.name === this.relation.value);
  }

  draw() {
    const bases = this.state.relations.filter((each) => each.role === "base");
    this.frozen = bases.map((each) => h("input", { type: "checkbox", id: `frozen-${each.name}`, value: each.name }));
    this.least = h("input", { type: "checkbox", id: "least" });
    this.limit = h("input", { type: "number", id: "limit", min: 1, max: 1000, placeholder: "usual" });
    this.fresh = h("input", { type: "number", id: "new-values", min: 0, max: 10, placeholder: "usual" });
    show(this.place, h("h1", {}, "Options"),
      h("p", { class: "faint" }, "State which rows should be true and which should be false. Each option is a set of base changes with all its effects, the smallest first."),
      h("form", { class: "tools", id: "wish", onsubmit: (event) => { event.preventDefault(); this.add("insert"); } }, this.relation, this.fields,
        h("button", { type: "submit" }, "should be true"), h("button", { type: "button", onclick: () => this.add("delete") }, "should be false"),
        h("button", { type: "button", class: "quiet", onclick: () => this.explain() }, "why, or why not?")),
      this.list,
      h("details", { id: "preferences" }, h("summary", {}, "Preferences"),
        h("div", { class: "tools" }, h("span", { class: "faint" }, "do not change:"), bases.length ? bases.map((each, n) => h("label", { class: "choice" }, this.frozen[n], ` ${each.name}`)) : "no base relations"),
        h("div", { class: "tools" }, h("label", { class: "choice" }, this.least, " fewest side effects first"), h("label", { class: "choice" }, "at most ", this.limit, " options"), h("label", { class: "choice" }, "at most ", this.fresh, " fresh values in each"))),
      h("div", { class: "tools" }, this.find), this.result);
  }

  drawFields() {
    show(this.fields, this.current().columns.map((column) => h("input", { "aria-label": column.name, placeholder: `${column.name}: ${column.type}`, size: 16 })));
  }

  row() {
    return [...this.fields.querySelectorAll("input")].map((input, i) => cell(input.value, this.current().columns[i].type));
  }

  /* Test whether every field has a value of its column; report the first that does not. */
  fits() {
    const wrong = firstMisfit(this.fields, this.current().columns);
    if (wrong) show(this.result, problem({ message: wrong, help: "fill it in, then choose “should be true” or “should be false”" }));
    return !wrong;
  }

  add(sign) {
    if (!this.fits()) return;
    this.wishes.push({ sign, name: this.relation.value, row: this.row() });
    this.fields.querySelectorAll("input").forEach((input) => { input.value = ""; });
    this.drawList();
    this.find.focus();
  }

  explain() {
    if (this.fits()) why(this.current(), this.row(), { unsure: true });
  }

  drawList() {
    const items = this.wishes.map((wish, n) => this.entry(wish.sign, fact(wish.name, wish.row, this.relations.find((each) => each.name === wish.name)?.columns), wish.sign === "insert" ? "should be true" : "should be false", () => this.wishes.splice(n, 1)));
    if (this.repair) items.push(this.entry("delete", this.repair === "*" ? "every violation" : `every witness of ${this.repair}`, "should be repaired", () => { this.repair = null; }));
    show(this.list, items.length ? h("div", { class: "scroll" }, h("table", { id: "wishes" }, h("tbody", {}, items))) : empty("No goals yet: fill in a row of a view, then “should be true” or “should be false”."));
    this.find.disabled = !items.length;
    this.turn += 1;
    this.answer = null;
    show(this.result);
  }

  entry(sign, words, should, remove) {
    return h("tr", { class: sign === "insert" ? "come" : "gone wished" }, h("td", { class: "sign" }, sign === "insert" ? "+" : "−"), h("td", {}, words), h("td", { class: "faint" }, should),
      h("td", {}, h("button", { class: "quiet", "aria-label": "remove", onclick: () => { remove(); this.drawList(); } }, "✕")));
  }

  body() {
    const body = { insert: {}, delete: {}, frozen: this.frozen.filter((each) => each.checked).map((each) => each.value), side_effect_free_first: this.least.checked };
    if (this.limit.value !== "") body.limit = Number(this.limit.value);
    if (this.fresh.value !== "") body.bounds = { new_constants: Number(this.fresh.value) };
    for (const wish of this.wishes) (body[wish.sign][wish.name] ??= []).push(wish.row);
    if (this.repair) body.repair = this.repair;
    return body;
  }

  async search() {
    const mine = (this.turn += 1);
    this.find.disabled = true;
    show(this.result, h("p", { class: "faint", role: "status" }, "searching…"));
    let answer = null, failure = null;
    try {
      answer = await ask("realizations", { method: "POST", body: this.body() });
    } catch (error) {
      failure = error;
    }
    // A newer search was started: ignore this answer.
    if (mine !== this.turn) return;
    this.answer = answer;
    this.find.disabled = false;
    show(this.result, failure ? problem(failure) : this.found());
  }

  found() {
    const { status, reason, realizations, version } = this.answer;
    const [tone, words] = TAGS[status] ?? ["", status];
    this.stale = h("div", {});
    return [
      h("h2", {}, realizations.length ? plural(realizations.length, "option") : "No option"),
      h("p", { id: "status" }, h("span", { class: `tag ${tone}` }, words), ` ${reason[0]?.toUpperCase() ?? ""}${reason.slice(1)}. At version ${number(version)}.`),
      this.stale,
      realizations.map((each, n) => card(each, n, this.answer, this.state, (outcome) => this.committed(outcome))),
    ];
  }

  committed(outcome) {
    this.answer = null;
    this.wishes = [];
    this.repair = null;
    this.drawList();
    show(this.result, outcome);
  }

  refresh() {
    if (!this.answer || this.state.version <= this.answer.version) return;
    show(this.stale, h("p", { class: "tag warn" }, `The database is at version ${this.state.version} by now. An option is checked again before it is committed. `, h("button", { class: "quiet", onclick: () => this.search() }, "search again")));
  }

  close() {
    this.turn += 1;
  }
}
