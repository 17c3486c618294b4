// The open section, the state of the program, keys and theme.

import { ask, parse } from "./api.js";
import { h, show, byId, number, openDialog, tell } from "./dom.js";
import { loadNetwork, networkSection } from "./network.js";
import { viewSection } from "./table.js";
import { changeSection } from "./change.js";
import { optionsSection } from "./options.js";
import { constraintsSection, rulesSection } from "./panels.js";

const TABS = [["#/", "Network", "1"], ["#/change", "Change", "2"], ["#/options", "Options", "3"], ["#/constraints", "Constraints", "4"], ["#/rules", "Rules", "5"]];
const ROLES = [["base", "Base relations"], ["view", "Views"], ["constraint", "Constraints"]];

const state = {
  relations: [], rules: [], commits: [], version: 0, sizes: new Map(),
  size(relation) { return this.sizes.get(relation.name) ?? relation.rows ?? 0; },
};
let open = { refresh() {}, close() {} };
let source = null;

async function start() {
  try {
    await reload();
  } catch (error) {
    if (error.status === 401) return signIn();
    show(byId("main"), h("div", { class: "problem" }, error.message, " ", h("button", { onclick: start }, "try again")));
    return undefined;
  }
  listen();
  return route();
}

async function reload() {
  const found = await loadNetwork();
  Object.assign(state, found, { sizes: new Map(), rules: found.rules ?? [] });
  byId("leave").hidden = !found.session;
  sidebar();
}

function signIn(words = "") {
  show(byId("side"));
  const token = h("input", { type: "password", id: "token", autocomplete: "off", required: true, size: 40 });
  const failed = h("p", { class: "minus", role: "alert" }, words);
  show(byId("main"), h("form", { class: "card sign-in", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await ask("session", { method: "POST", body: { token: token.value } });
      start();
    } catch (error) {
      show(failed, error.message);
      token.value = "";
    }
  } }, h("h1", {}, "Sign in"), h("p", { class: "faint" }, "This server requires a token. It is kept in a cookie that scripts cannot read, until you sign out."),
  h("label", { for: "token" }, "token"), token, failed, h("p", {}, h("button", { class: "main" }, "sign in"))));
  token.focus();
}

function listen() {
  source?.close();
  if (!state.subscribes) {
    byId("live").className = "live";
    byId("live").textContent = `version ${number(state.version)}; this token may not follow changes`;
    return;
  }
  source = new EventSource(`commits/stream?since=${state.version}`);
  let broken = false;
  source.addEventListener("open", () => { live(true); if (broken) start(); });
  source.addEventListener("error", () => { broken = true; live(false); });
  source.addEventListener("commit", (event) => committed(parse(event.data)));
  source.addEventListener("lost", start);
  live(false);
}

function live(on) {
  byId("live").className = `live ${on ? "on" : "off"}`;
  byId("live").textContent = `version ${number(state.version)}${on ? "" : " (reconnecting)"}`;
}

function committed(commit) {
  state.version = commit.version;
  state.commits = [commit, ...state.commits].slice(0, 50);
  for (const relation of state.relations) {
    const change = commit.changes[relation.name];
    if (change) state.sizes.set(relation.name, state.size(relation) + change.inserted - change.deleted);
  }
  live(true);
  sidebar();
  open.refresh();
}

let filter = "";

function sidebar() {
  const had = document.activeElement?.id === "filter";
  const input = h("input", { id: "filter", type: "search", placeholder: "find a relation ( / )", "aria-label": "find a relation", value: filter,
    oninput: (event) => { filter = event.target.value; lists(); } });
  const body = h("div", {});
  const lists = () => show(body, ROLES.map(([role, words]) => {
    const found = state.relations.filter((each) => each.role === role && each.name.toLowerCase().includes(filter.toLowerCase()));
    return found.length ? h("section", {}, h("h2", {}, words), h("ul", {}, found.map(entry))) : null;
  }));
  lists();
  show(byId("side"), input, body);
  if (had) { input.focus(); input.setSelectionRange(filter.length, filter.length); }
}

// On a narrow screen the list is hidden until the user opens it.
function unfold(open) {
  byId("side").classList.toggle("unfolded", open);
  byId("list").setAttribute("aria-expanded", String(open));
}

function entry(relation) {
  const target = `#/view/${encodeURIComponent(relation.name)}`;
  const [section, name] = place();
  const size = relation.stored === false ? "·" : number(state.size(relation));
  const bad = relation.role === "constraint" && state.size(relation) > 0;
  return h("li", {}, h("a", { href: target, "aria-current": section === "view" && name === relation.name ? "page" : null },
    h("span", { title: relation.name }, relation.name), h("span", { class: `count${bad ? " bad" : ""}` }, size)));
}

// The parts of the address: a section, a relation, and details.
const place = () => (location.hash || "#/").split("/").map(decodeURIComponent).slice(1);

let turn = 0;

async function route() {
  const mine = (turn += 1);
  open.close();
  open = { refresh() {}, close() {} };
  byId("dialog").close();
  unfold(false);
  const [section = "", name, mode, row] = place();
  show(byId("tabs"), TABS.map(([target, words, key]) => h("a", { href: target, title: `key ${key}`, "aria-current": target === `#/${section}` ? "page" : null }, words)));
  sidebar();
  const body = h("div", {});
  show(byId("main"), body);
  const made = { "": networkSection, change: changeSection, options: (...given) => optionsSection(...given, { sign: name, name: mode, row }), constraints: constraintsSection, rules: rulesSection }[section];
  const opened = section === "view" ? await viewSection(body, state, name, mode === "graph" ? "graph" : "table") : await (made ?? networkSection)(body, state);
  if (mine === turn) open = opened;
  else opened.close();
  document.title = name && section === "view" ? `${name} – Upshot` : "Upshot";
}

const KEYS = [["1 – 5", "network, change, options, constraints, rules"], ["/", "find a relation"], ["j, k", "next row, previous row"], ["Enter", "explain this row"], ["x", "how to delete this row"], ["t", "light or dark"], ["?", "these keys"], ["Esc", "close"]];

function keys(event) {
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
  const tab = TABS.find((each) => each[2] === event.key);
  if (tab) location.hash = tab[0];
  else if (event.key === "/") { event.preventDefault(); unfold(true); byId("filter")?.focus(); }
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "t") theme();
  else if (event.key === "?") help();
}

function step(by) {
  const rows = [...document.querySelectorAll("tr.row")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

function help() {
  openDialog("Keyboard", h("dl", { class: "keys" }, KEYS.flatMap(([key, words]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)])));
}

function theme(chosen) {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = chosen ?? (dark ? "light" : "dark");
  localStorage.setItem("theme", root.dataset.theme);
}

async function leave() {
  try {
    await ask("session", { method: "DELETE" });
  } catch (error) {
    tell(error.message);
  }
  source?.close();
  open.close();
  signIn("signed out");
}

const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") theme(kept);
byId("list").addEventListener("click", () => unfold(!byId("side").classList.contains("unfolded")));
byId("theme").addEventListener("click", () => theme());
byId("keys").addEventListener("click", help);
byId("leave").addEventListener("click", leave);
addEventListener("hashchange", route);
addEventListener("keydown", keys);
// A browser keeps a left page with its streams, and opens only six connections to a server.
addEventListener("pagehide", () => { source?.close(); open.close(); });
addEventListener("pageshow", (event) => { if (event.persisted) start(); });
start();
