// Creates elements from text only: data is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function show(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
}

export const byId = (id) => document.getElementById(id);

export function value(cell) {
  if (cell === null) return "NULL";
  if (isOpen(cell)) return cell.placeholder ?? cell.formula;
  return typeof cell === "string" ? cell : JSON.stringify(cell);
}

// Test whether a cell is a fresh value, or computed from one.
const isOpen = (cell) => Boolean(cell?.placeholder ?? cell?.formula);

// A row in the syntax of programs if its columns are known, otherwise as JSON.
export function fact(name, row, columns = []) {
  return `${name}(${row.map((cell, place) => spelled(cell, columns[place]?.type)).join(", ")})`;
}

export function spelled(cell, type = "") {
  const [kind] = type.split(/[(?]/);
  if (cell === null || isOpen(cell)) return value(cell);
  if (["date", "timestamp", "decimal"].includes(kind)) return `${kind}(${JSON.stringify(cell)})`;
  if (kind === "unsigned") return `${JSON.stringify(cell)}u`;
  return kind === "float" && Number.isInteger(cell) ? cell.toFixed(1) : JSON.stringify(cell);
}

export const number = (n) => Number(n).toLocaleString("en");

export function plural(n, one, many = one + "s") {
  return `${number(n)} ${n === 1 ? one : many}`;
}

export function problem(error) {
  return h("div", { class: "problem", role: "alert" }, error.message, error.help && h("span", { class: "help" }, error.help));
}

export function empty(...words) {
  return h("p", { class: "empty" }, ...words);
}

export function tell(text, fine = false) {
  const note = h("div", { class: fine ? "fine" : null }, text);
  byId("told").append(note);
  setTimeout(() => note.remove(), 7000);
}

export function openDialog(title, ...children) {
  const dialog = byId("dialog");
  const close = h("button", { class: "quiet", onclick: () => dialog.close() }, "close");
  show(dialog, h("header", {}, h("h1", {}, title), close), ...children);
  if (!dialog.open) dialog.showModal();
  close.focus();
  return dialog;
}

// Attributes of a row or box that a click or Enter opens; `more` has functions of other keys. Without preventDefault, the element that gets the focus would receive the key.
export const opens = (open, more = {}) => ({
  tabindex: 0,
  onclick: open,
  onkeydown: (event) => {
    const deed = event.key === "Enter" ? open : more[event.key];
    if (!deed || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    deed();
  },
});
