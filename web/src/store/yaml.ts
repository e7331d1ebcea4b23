/** Plain JSON values as YAML, for people to copy. Pure. */

export type Plain = string | number | boolean | null | readonly Plain[] | { readonly [name: string]: Plain };

export function yaml(value: Plain, depth = 0): string {
  const pad = "  ".repeat(depth);
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return value.map((each: Plain) => `${pad}- ${isPlainScalar(each) ? scalar(each) : yaml(each, depth + 1).trimStart()}`).join("\n");
  }
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value as Record<string, Plain>);
    if (!entries.length) return "{}";
    return entries
      .map(([name, each]) => `${pad}${key(name)}:${isPlainScalar(each) ? ` ${scalar(each)}` : isEmpty(each) ? ` ${yaml(each)}` : `\n${yaml(each, depth + 1)}`}`)
      .join("\n");
  }
  return scalar(value as string | number | boolean | null);
}

function isPlainScalar(value: Plain): value is string | number | boolean | null {
  return value === null || typeof value !== "object";
}

function isEmpty(value: Plain): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

function key(name: string): string {
  return /^[A-Za-z][\w./-]*$/.test(name) ? name : JSON.stringify(name);
}

/** A text that YAML could read as something else is quoted. */
function scalar(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value);
  const isSafe = /^[A-Za-z][\w ./-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value) && !value.endsWith(" ");
  return isSafe ? value : JSON.stringify(value);
}
