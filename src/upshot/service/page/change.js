// A form for a transaction, with a preview of its effects.

import { ask } from "./api.js";
import { h, show, value, number, plural, empty, problem, tell } from "./dom.js";

export const SHOWN = 50;

export async function changeSection(place, state) {
  const bases = state.relations.filter((each) => each.writable);
  if (!bases.length) {
    show(place, h("h1", {}, "Change"), empty("There is no relation that you may change."));
    return { refresh() {}, close() {} };
  }
  const draft = { insert: {}, delete: {} };
  const outcome = h("div", { id: "outcome", "aria-live": "polite" });
  const list = h("div", {});
  const relation = h("select", { id: "relation", "aria-label": "relation" }, bases.map((each) => h("option", {}, each.name)));
  const fields = h("span", { class: "tools" });
  const current = () => bases.find((each) => each.name === relation.value);
  const drawFields = () => show(fields, current().columns.map((column) => h("input", { "aria-label": column.name, placeholder: `${column.name}: ${column.type}`, size: 16 })));
  relation.addEventListener("change", drawFields);
  const add = (sign) => {
    const wrong = firstMisfit(fields, current().columns);
    if (wrong) { show(outcome, problem({ message: wrong })); return; }
    const cells = [...fields.querySelectorAll("input")].map((input, i) => cell(input.value, current().columns[i].type));
    (draft[sign][relation.value] ??= []).push(cells);
    fields.querySelectorAll("input").forEach((input) => { input.value = ""; });
    fields.querySelector("input")?.focus();
    drawList();
  };
  const remove = (sign, name, n) => {
    draft[sign][name].splice(n, 1);
    if (!draft[sign][name].length) delete draft[sign][name];
    drawList();
  };
  const drawList = () => {
    const items = ["insert", "delete"].flatMap((sign) => Object.entries(draft[sign]).flatMap(([name, rows]) => rows.map((row, n) =>
      h("tr", { class: sign === "insert" ? "come" : "gone" }, h("td", { class: "sign" }, sign === "insert" ? "+" : "−"), h("td", {}, `${name}(${row.map(value).join(", ")})`),
        h("td", {}, h("button", { class: "quiet", "aria-label": "remove", onclick: () => remove(sign, name, n) }, "✕"))))));
    show(list, items.length ? h("div", { class: "scroll" }, h("table", { id: "draft" }, h("tbody", {}, items))) : empty("No changes yet: fill in a row, then “+ insert” or “− delete”."));
    preview.disabled = commit.disabled = !items.length;
    show(outcome);
  };
  const send = async (where, told) => {
    try {
      const found = await ask(where, { method: "POST", body: draft });
      told(found);
    } catch (error) {
      show(outcome, problem(error));
    }
  };
  const preview = h("button", { id: "preview", onclick: () => send("what-if", (found) => show(outcome, h("h2", {}, "Effects"), effects(found))) }, "What if?");
  const commit = h("button", { id: "commit", class: "main", onclick: () => send("transactions", (found) => {
    draft.insert = {}; draft.delete = {};
    drawList();
    show(outcome, h("h2", {}, `Version ${found.version}`), effects(found));
    tell(`committed as version ${found.version}`, true);
  }) }, "Commit");
  show(place, h("h1", {}, "Change"),
    h("p", { class: "faint" }, "Empty fields are NULL where the column admits it, empty text where it does not."),
    h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); add("insert"); } }, relation, fields,
      h("button", { type: "submit" }, "+ insert"), h("button", { type: "button", onclick: () => add("delete") }, "− delete")),
    list, h("div", { class: "tools" }, preview, commit), outcome);
  drawFields();
  drawList();
  return { refresh() {}, close() {} };
}

export function cell(text, type) {
  const kind = type.replace("?", "");
  if (text === "" && (type.endsWith("?") || kind !== "symbol")) return null;
  if (kind === "boolean" && ["true", "false"].includes(text)) return text === "true";
  if (["number", "unsigned"].includes(kind) && /^\s*-?\d+\s*$/.test(text)) return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text.trim());
  if (kind === "float" && text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  return text;
}

const SHAPES = { number: /^\s*-?\d+\s*$/, unsigned: /^\s*\d+\s*$/, boolean: /^(true|false)$/, date: /^\d{4}-\d\d-\d\d$/, decimal: /^\s*-?\d+(\.\d+)?\s*$/, float: /^\s*(-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|NaN|-?Infinity)\s*$/i };

/* The reason why a text is not a value of a column, or nothing. */
function misfit(text, column) {
  const kind = column.type.replace("?", "").replace(/\(.*/, "");
  if (cell(text, column.type) === null) return column.type.endsWith("?") ? "" : `${column.name} is blank, but must be a ${kind}`;
  if (kind in SHAPES && !SHAPES[kind].test(text)) return `${column.name} must be a ${kind}, not “${text}”`;
  return "";
}

/* Mark the fields without a value of their column and focus the first; return its problem, or nothing. */
export function firstMisfit(fields, columns) {
  const inputs = [...fields.querySelectorAll("input")];
  const words = inputs.map((input, i) => misfit(input.value, columns[i]));
  inputs.forEach((input, i) => (words[i] ? input.setAttribute("aria-invalid", "true") : input.removeAttribute("aria-invalid")));
  const first = words.findIndex(Boolean);
  inputs[first]?.focus();
  return words[first] ?? "";
}

export function effects(found) {
  const changes = Object.entries(found.changes);
  return [
    witnesses(found.violations),
    changes.length ? changes.map(([name, change]) => h("div", { class: "card" }, h("h3", {}, name,
      change.insert.length ? h("span", { class: "plus" }, `+${number(change.insert.length)}`) : null, change.delete.length ? h("span", { class: "minus" }, `−${number(change.delete.length)}`) : null),
    listing(change))) : empty("No change: the rows are already as requested."),
    found.firings?.length ? h("p", {}, "Rules that fire: ", found.firings.map((each) => `${each.rule} (${plural(each.rows.length, "instance")})`).join(", ")) : null,
  ];
}

function listing(change) {
  const rows = [...change.insert.map((row) => ["come", "+", row]), ...change.delete.map((row) => ["gone", "−", row])];
  return h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.slice(0, SHOWN).map(([kind, sign, row]) =>
    h("tr", { class: kind }, h("td", { class: "sign" }, sign), row.map((each) => h("td", {}, value(each))))))),
  rows.length > SHOWN ? h("p", { class: "faint" }, ` and ${number(rows.length - SHOWN)} more`) : null);
}

export function witnesses(violations) {
  const found = Object.entries(violations ?? {});
  if (!found.length) return null;
  return found.map(([name, rows]) => h("div", { class: "problem" }, h("b", {}, `violates ${name}`), ": ",
    rows.slice(0, SHOWN).map((row) => `(${row.map(value).join(", ")})`).join(" ")));
}
