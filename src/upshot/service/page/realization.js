// One realization as a card: base changes, placeholders, effects, and a button that commits it.

import { ask } from "./api.js";
import { h, show, fact, plural, problem, spelled, tell } from "./dom.js";
import { SHOWN, cell, effects, witnesses } from "./change.js";

const OPEN_UP_TO = 20;

export function card(way, number, answer, state, committed) {
  const changes = [...each(way.delete, "gone"), ...each(way.insert, "come")];
  const outcome = h("div", { "aria-live": "polite" });
  const inputs = Object.entries(way.placeholders).map(([name, type]) => ({ name, type, input: h("input", { "aria-label": name, placeholder: `a fresh ${type}`, size: 20 }) }));
  const locked = [...new Set(changes.map((change) => change.name))].filter((name) => !state.relations.find((known) => known.name === name)?.writable);
  const preview = h("button", {}, "What if?");
  const commit = h("button", { class: "main" }, "Commit");
  const ready = () => { preview.disabled = commit.disabled = !changes.length || locked.length > 0 || inputs.some(({ input }) => input.value === ""); };
  inputs.forEach(({ input }) => input.addEventListener("input", ready));
  const filled = () => ({ insert: withValues(way.insert, inputs), delete: way.delete });
  preview.addEventListener("click", () => send("what-if", filled(), outcome, (found) => show(outcome, h("h2", {}, "Effects"), effects(found))));
  commit.addEventListener("click", () => send("transactions", { ...filled(), expect: answer.request }, outcome, (found) => {
    tell(`committed as version ${found.version}`, true);
    committed([h("h2", {}, `Version ${found.version}`), effects(found)]);
  }, unmet(way)));
  ready();
  return h("article", { class: "card way", "aria-label": `option ${number + 1}` },
    h("h3", {}, `Option ${number + 1}`, h("span", { class: "tag" }, plural(changes.length, "change")), way.cost === changes.length ? null : h("span", { class: "tag" }, `cost ${way.cost}`),
      h("span", { class: `tag ${way.side_effects ? "warn" : "good"}` }, way.side_effects ? plural(way.side_effects, "side effect") : "no side effect")),
    changes.length ? h("div", { class: "scroll" }, h("table", { class: "changes" }, h("tbody", {}, changes.map((change) =>
      h("tr", { class: change.sign }, h("td", { class: "sign" }, change.sign === "come" ? "+" : "−"), h("td", {}, fact(change.name, change.row, columnsOf(change.name, state)))))))) : h("p", { class: "faint" }, "Nothing to do: already true."),
    inputs.length ? h("div", { class: "tools open-values" }, inputs.map(({ name, type, input }) => h("label", { class: "choice" }, h("code", {}, name), ` ${type} `, input))) : null,
    way.conditions.map((condition) => h("p", { class: "faint" }, "where ", h("code", {}, condition))),
    witnesses(way.violations),
    consequences(way, answer.request, state), perhaps(way),
    way.firings.length ? h("p", {}, "Rules that fire: ", way.firings.map((firing) => `${firing.rule} (${plural(firing.rows.length, "instance")})`).join(", ")) : null,
    locked.length ? h("p", { class: "faint" }, `You may not change ${locked.join(", ")}.`) : null,
    h("div", { class: "tools" }, preview, commit), outcome);
}

function columnsOf(name, state) {
  return state.relations.find((known) => known.name === name)?.columns;
}

function* each(facts, sign) {
  for (const [name, rows] of Object.entries(facts)) for (const row of rows) yield { sign, name, row };
}

// Its effects: the goals, then other changes of views, and what rules add to base relations.
function consequences(way, request, state) {
  const named = (facts) => new Set(["insert", "delete"].flatMap((sign) => Object.entries(facts[sign]).flatMap(([name, rows]) => rows.map((row) => sign + fact(name, row)))));
  const [asked, own] = [named(request), named(way)];
  const isBase = (name) => state.relations.find((known) => known.name === name)?.role === "base";
  const rows = Object.entries(way.changes).flatMap(([name, change]) => ["delete", "insert"].flatMap((sign) => change[sign].map((row) =>
    ({ sign, name, row, base: isBase(name), wanted: asked.has(sign + fact(name, row)) })))).filter(({ sign, name, row, base }) => !base || !own.has(sign + fact(name, row)));
  if (!rows.length) return null;
  rows.sort((a, b) => b.wanted - a.wanted || a.base - b.base);
  return h("details", { class: "effects", open: rows.length <= OPEN_UP_TO }, h("summary", {}, `Effects: ${plural(rows.length, "row")} of ${[...new Set(rows.map(({ name }) => name))].join(", ")}`),
    h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.slice(0, SHOWN).map(({ sign, name, row, base, wanted }) =>
      h("tr", { class: sign === "insert" ? "come" : "gone" }, h("td", { class: "sign" }, sign === "insert" ? "+" : "−"), h("td", {}, fact(name, row, columnsOf(name, state))), h("td", { class: "faint note" }, base ? `by rules${tried(way, name)}` : wanted ? "goal" : `also${tried(way, name)}`)))))),
    rows.length > SHOWN ? h("p", { class: "faint" }, `and ${plural(rows.length - SHOWN, "row")} more`) : null);
}

// The fresh values for which a relation changes like this; others may change it differently.
function tried(way, name) {
  if (!way.by_trial?.relations.includes(name)) return "";
  return ` for ${Object.entries(way.by_trial.values).map(([known, cell]) => `${known} = ${spelled(cell, way.placeholders[known])}`).join(", ")}`;
}

function perhaps(way) {
  const others = (way.by_trial?.relations ?? []).filter((name) => !way.changes[name]);
  return others.length ? h("p", { class: "faint" }, `Other values may also change rows of ${others.join(", ")}.`) : null;
}

function withValues(facts, inputs) {
  const values = new Map(inputs.map(({ name, type, input }) => [name, cell(input.value, type)]));
  const filled = (row) => row.map((each) => (each?.placeholder ? values.get(each.placeholder) : each));
  return Object.fromEntries(Object.entries(facts).map(([name, rows]) => [name, rows.map(filled)]));
}

// The hint for a rejected change with chosen values.
function unmet(way) {
  return way.conditions.length ? `Valid values satisfy ${way.conditions.join(" and ")}.` : "";
}

async function send(where, body, outcome, told, hint = "") {
  try {
    told(await ask(where, { method: "POST", body }));
  } catch (error) {
    const isRefused = ["not-as-expected", "constraint-violated"].includes(error.code);
    show(outcome, problem(isRefused && hint ? { message: error.message, help: hint } : error));
  }
}
