// Requests of the page. It uses the same routes, scopes and errors as every client.

export class Problem extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.help = error.help;
    this.details = error.details;
  }
}

export async function ask(path, { method = "GET", body, signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      signal,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "unreachable", message: "the server cannot be reached", help: "check that it is running" });
  }
  if (answer.status === 204) return null;
  const found = await answer.text().then(parse).catch(() => null);
  if (answer.ok) return found;
  const error = found?.error ?? { code: "unknown", message: `the server answered ${answer.status}` };
  throw new Problem(answer.status, error);
}

// Integers that JavaScript would round become BigInt, and are sent back exactly. A text without long integers is parsed without a reviver, which allows deep trees.
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value, context) => (typeof value === "number" && /^-?\d+$/.test(context?.source ?? "") && !Number.isSafeInteger(value) ? BigInt(context.source) : value));
}

BigInt.prototype.toJSON = function exact() {
  return JSON.rawJSON ? JSON.rawJSON(this.toString()) : this.toString();
};

export const path = (...parts) => parts.map(encodeURIComponent).join("/");
