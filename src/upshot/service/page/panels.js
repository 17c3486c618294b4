// Constraints with their witnesses, rules with their firings.

import { ask } from "./api.js";
import { h, show, value, number, plural, empty, problem, opens } from "./dom.js";
import { why, wishAddress } from "./why.js";

export function constraintsSection(place) {
  return panel(place, "Constraints", "Conditions that must never hold, and the rows that violate them.", async () => {
    const { constraints } = await ask("constraints");
    if (!constraints.length) return empty("The program has no constraint that you may read. ", h("code", {}, ".deny name(X) :- …"), " declares one.");
    return constraints.map((each) => h("div", { class: "card" },
      h("h3", {}, h("a", { href: `#/view/${encodeURIComponent(each.name)}` }, each.name), h("span", { class: "tag" }, each.policy),
        h("span", { class: `tag ${each.count ? "bad" : "good"}` }, each.count ? plural(each.count, "witness", "witnesses") : "holds"),
        each.count ? h("a", { href: wishAddress("repair", each.name) }, "how to repair?") : null),
      each.witnesses.length ? h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, each.witnesses.map((row) => witness(each, row))))) : null,
      each.count > each.witnesses.length ? h("p", { class: "faint" }, `and ${number(each.count - each.witnesses.length)} more`) : null));
  });
}

function witness(constraint, row) {
  const open = () => why({ ...constraint, role: "constraint" }, row);
  return h("tr", { class: "row", title: "why? (Enter)", ...opens(open) },
    row.map((cell) => h("td", { class: cell === null ? "null" : null }, value(cell))));
}

export function rulesSection(place) {
  return panel(place, "Rules", "Active rules and their latest firings.", async () => {
    const { rules, firings } = await ask("rules");
    if (!rules.length) return empty("The program has no active rule that you may read. ", h("code", {}, ".rule name(X) when … do insert …"), " declares one.");
    return [
      rules.map((each) => h("div", { class: "card" },
        h("h3", {}, each.name, h("span", { class: "tag" }, each.coupling), h("span", { class: `tag ${each.active ? "good" : ""}` }, each.active ? "active" : "inactive")),
        h("pre", { class: "mono" }, each.text))),
      h("h2", {}, "Latest firings"),
      firings.length ? h("div", { class: "scroll" }, h("table", { id: "firings" },
        h("thead", {}, h("tr", {}, ["version", "rule", "instances"].map((word) => h("th", {}, word)))),
        h("tbody", {}, firings.map((each) => h("tr", {}, h("td", {}, number(each.version)), h("td", {}, each.rule), h("td", {}, each.rows.map((row) => `(${row.map(value).join(", ")})`).join(" "))))))) : empty("No rule has fired since the server started."),
    ];
  });
}

async function panel(place, title, words, load) {
  const body = h("div", {});
  show(place, h("h1", {}, title), h("p", { class: "faint" }, words), body);
  const refresh = async () => {
    try {
      show(body, await load());
    } catch (error) {
      show(body, problem(error));
    }
  };
  await refresh();
  return { refresh, close() {} };
}
