// A relation as a table: a page of its rows, with inserted and deleted rows marked as they change.

import { ask, parse, path } from "./api.js";
import { h, show, byId, value, number, plural, empty, problem, opens } from "./dom.js";
import { graphOf } from "./graph.js";
import { why, wishAddress } from "./why.js";

const PAGE = 200;
const LATEST = 60;
const STAYS = 12000;
const SETTLES = 150;
// Longer cells, in characters, may be cut off.
const WIDE = 38;

export async function viewSection(place, state, name, mode) {
  const relation = state.relations.find((each) => each.name === name);
  if (!relation) {
    show(place, h("h1", {}, name), empty("There is no such relation, or you may not read it."));
    return { refresh() {}, close() {} };
  }
  const section = new Section(place, state, relation, mode);
  await section.load();
  return section;
}

// The order of the server's pages: the chosen column first; NULL before all values, text by code points.
function before(a, b, column = 0, descends = false) {
  for (const i of [column, ...a.keys()]) {
    if (JSON.stringify(a[i]) === JSON.stringify(b[i])) continue;
    const down = descends && i === column;
    if (a[i] === null || b[i] === null) return (a[i] === null) !== down;
    return (a[i] < b[i]) !== down;
  }
  return false;
}

class Section {
  constructor(place, state, relation, mode) {
    Object.assign(this, { place, state, relation, mode, rows: [], marks: new Map(), latest: [], before: [], next: null, after: null, where: "", order: "", at: null, total: 0 });
    this.body = h("div", {});
    this.strip = h("div", { id: "latest", "aria-live": "polite" });
    this.count = h("span", { class: "faint", id: "row-count" });
    this.past = h("div", { class: "tools", id: "past" });
    this.source = null;
  }

  async load(after = null) {
    this.after = after;
    const params = new URLSearchParams({ limit: PAGE, consistent: false });
    if (this.order) params.set("order", this.order);
    if (after) params.set("after", after);
    if (this.where) params.set("where", this.where);
    if (this.at !== null) params.set("at", this.at);
    const asked = (this.asked = params.toString());
    try {
      const found = await ask(`views/${path(this.relation.name)}?${params}`);
      if (asked !== this.asked) return;
      this.error = null;
      this.total = found.count;
      this.time = found.time ?? null;
      this.columns = found.columns;
      this.rows = found.rows;
      this.next = found.next ?? null;
      this.version = found.version;
    } catch (error) {
      this.error = error;
    }
    this.draw();
    if (this.error || this.at !== null) this.close();
    else if (this.state.subscribes && !this.unfollowed()) this.listen();
  }

  // The reason why the relation cannot be followed, if it cannot: its rows are then read again after each commit. A selection can be followed even if the whole relation cannot.
  unfollowed() {
    const why = this.relation.unfollowed;
    return why && !(this.where && why.code === "not-reported") ? why : null;
  }

  listen() {
    this.close();
    const params = new URLSearchParams({ since: this.version });
    if (this.where) params.set("where", this.where);
    this.source = new EventSource(`views/${path(this.relation.name)}/changes?${params}`);
    this.source.addEventListener("change", (event) => this.changed(parse(event.data)));
    this.source.addEventListener("snapshot", () => this.load(this.after));
  }

  changed(change) {
    this.version = change.version;
    this.total += change.insert.length - change.delete.length;
    const now = Date.now();
    for (const row of change.delete) this.mark(row, "gone", now, change.version);
    for (const row of change.insert) this.mark(row, "come", now, change.version);
    this.latest = this.latest.slice(0, LATEST);
    setTimeout(() => this.settle(), STAYS + 50);
    this.counts();
    this.drawBody();
  }

  // A slider of the versions that can be read, if there are earlier ones.
  drawPast() {
    const { first } = this.relation, last = this.state.version;
    if (first === null || first === undefined || first >= last) return show(this.past);
    const said = this.at === null ? "now" : `version ${number(this.at)}${this.time ? `, ${new Date(this.time).toLocaleString()}` : ""}`;
    if (this.past.firstChild) {
      const slider = this.past.querySelector("input");
      slider.max = last;
      slider.value = this.at ?? last;
      slider.setAttribute("aria-valuetext", said);
      this.past.querySelector("output").textContent = said;
      this.past.querySelector("button").hidden = this.at === null;
      return undefined;
    }
    return show(this.past, h("label", { class: "choice" }, "version ",
      h("input", { type: "range", id: "version", min: first, max: last, value: this.at ?? last, "aria-valuetext": said, oninput: (event) => this.look(Number(event.target.value)) })),
    h("output", { id: "at", for: "version" }, said), h("button", { hidden: this.at === null, onclick: () => this.look(this.state.version) }, "now"));
  }

  // Only the final position of the slider is requested.
  look(version) {
    this.at = version >= this.state.version ? null : version;
    this.time = null;
    this.before = [];
    this.marks.clear();
    this.latest = [];
    this.close();
    this.drawPast();
    clearTimeout(this.waits);
    this.waits = setTimeout(() => this.load(), SETTLES);
  }

  mark(row, sign, now, version) {
    const key = JSON.stringify(row);
    const there = this.rows.some((each) => JSON.stringify(each) === key);
    if (sign === "come" && !there && this.belongs(row)) {
      const at = this.rows.findIndex((each) => this.isBefore(row, each));
      this.rows.splice(at < 0 ? this.rows.length : at, 0, row);
    }
    this.marks.set(key, { sign, version, until: now + STAYS });
    this.latest.unshift({ row, sign, version });
  }

  // Test whether the row belongs to this page: before its end and, unless it is the first page, after its beginning.
  belongs(row) {
    const first = this.rows[0], last = this.rows[this.rows.length - 1];
    return (this.next === null || (last && this.isBefore(row, last))) && (!this.after || (first && this.isBefore(first, row)));
  }

  isBefore(row, other) {
    const column = this.columns.findIndex((each) => each.name === this.order.replace(/^-/, ""));
    return before(row, other, Math.max(column, 0), this.order.startsWith("-"));
  }

  // The first click on a column sorts by it, the second one in descending order, the third one restores the order of the server.
  sort(name) {
    this.order = this.order === name ? `-${name}` : this.order === `-${name}` ? "" : name;
    this.before = [];
    this.load();
  }

  heading({ name, type }) {
    const sorted = this.order === name ? "ascending" : this.order === `-${name}` ? "descending" : null;
    const click = h("button", { class: "sort", title: `sort by ${name}`, onclick: () => this.sort(name) }, name, sorted ? (sorted === "ascending" ? " ↑" : " ↓") : null);
    return h("th", { scope: "col", "aria-sort": sorted }, click, " ", h("small", {}, type));
  }

  settle() {
    const now = Date.now();
    for (const [key, mark] of this.marks) {
      if (mark.until > now) continue;
      this.marks.delete(key);
      if (mark.sign === "gone") this.rows = this.rows.filter((row) => JSON.stringify(row) !== key);
    }
    this.drawBody();
  }

  refresh() {
    this.counts();
    this.drawPast();
    if (this.at === null && this.unfollowed() && this.state.version > this.version) this.load(this.after);
  }

  counts() {
    if (this.error) return show(this.count);
    const whole = !this.where && this.at === null;
    if (whole && this.relation.stored === false) return show(this.count, "not stored: rows are computed by each query");
    return show(this.count, `${plural(whole ? this.state.size(this.relation) : this.total, "row")}${this.where ? " selected" : ""}`);
  }

  draw() {
    const { name, role, columns } = this.relation;
    const tab = (mode, words) => h("button", { "aria-pressed": String(this.mode === mode), onclick: () => { this.mode = mode; this.draw(); } }, words);
    const slid = document.activeElement?.id === "version";
    const wrong = this.where && [400, 404, 409, 422].includes(this.error?.status) ? this.error : null;
    const where = h("input", { type: "search", id: "selection", "aria-invalid": wrong ? "true" : null, "aria-describedby": wrong ? "selection-problem" : null, placeholder: `${name}(${columns.map((_, i) => (i ? "_" : '"a"')).join(", ")})`, "aria-label": "selection", value: this.where, size: 28 });
    const choose = h("form", { onsubmit: (event) => { event.preventDefault(); this.where = where.value.trim(); this.before = []; this.load(); } }, where, " ", h("button", {}, "select"));
    show(this.place,
      h("h1", {}, name, " ", h("span", { class: "tag" }, role)),
      h("p", { class: "faint mono" }, columns.map((each) => `${each.name}: ${each.type}`).join(", ")),
      h("div", { class: "tools" }, columns.length === 2 ? [tab("table", "Table"), tab("graph", "Graph")] : null, choose,
        role === "constraint" ? null : h("a", { href: wishAddress("insert", name) }, "make a row true or false…"), h("span", { class: "grow" }), this.count),
      wrong ? h("div", { id: "selection-problem" }, problem(wrong)) : null,
      this.past,
      this.unfollowed() && this.state.subscribes ? h("p", { class: "tag warn", id: "unfollowed", title: this.unfollowed().help }, `${this.unfollowed().message}. It is read again after each commit.`) : null,
      this.strip, this.body);
    this.counts();
    this.drawPast();
    this.drawBody();
    if (wrong) where.focus();
    else if (slid) byId("version")?.focus();
  }

  drawBody() {
    show(this.strip, this.latest.length ? h("p", { class: "faint" }, "just now: ", this.latest.slice(0, 6).map((each) => h("span", { class: each.sign === "come" ? "plus" : "minus" }, `${each.sign === "come" ? "+" : "−"}(${each.row.map(value).join(", ")})  `)), this.latest.length > 6 ? `and ${number(this.latest.length - 6)} more` : null) : null);
    if (this.error) return show(this.body, byId("selection-problem") ? null : problem(this.error));
    if (!this.rows.length) return show(this.body, empty(this.where ? "No row matches the selection." : this.at === null ? "No rows. Inserted rows appear here at once." : "No rows at this version."));
    if (this.mode === "graph") return show(this.body, graphOf(this.relation, this.rows, this.marks, this.next !== null));
    return show(this.body, this.table(), this.pager());
  }

  table() {
    const rows = this.rows.map((row) => {
      const marked = this.marks.get(JSON.stringify(row)) ?? null;
      const mark = marked?.sign ?? "";
      const open = () => why(this.relation, row, { mark: marked, at: this.at });
      const ways = () => { location.hash = wishAddress(mark === "gone" ? "insert" : "delete", this.relation.name, row); };
      return h("tr", { class: `row ${mark}`, title: mark === "gone" ? "why was it deleted? (Enter) · how to insert it again? (x)" : "why? (Enter) · how to delete it? (x)", ...opens(open, { x: ways }) },
        h("td", { class: "sign" }, mark === "come" ? "+" : mark === "gone" ? "−" : ""),
        row.map((cell) => h("td", { class: cell === null ? "null" : null, title: value(cell).length > WIDE ? value(cell) : null }, value(cell))));
    });
    return h("div", { class: "scroll" }, h("table", { id: "rows" },
      h("thead", {}, h("tr", {}, h("th", {}), this.columns.map((each) => this.heading(each)))),
      h("tbody", {}, rows)));
  }

  pager() {
    if (!this.before.length && this.next === null) return null;
    return h("div", { class: "tools" },
      h("button", { disabled: !this.before.length, onclick: () => this.load(this.before.pop() || null) }, "← previous"),
      h("button", { disabled: this.next === null, onclick: () => { this.before.push(this.after ?? ""); this.load(this.next); } }, "next →"),
      h("span", { class: "faint" }, `page ${number(this.before.length + 1)}, ${number(PAGE)} rows a page`));
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}
