/** What sort a root cause is, and its title. Pure. */

import type { Cause, Row } from "../api/types";
import { instant } from "./times";

/** `bad`: somebody has to act. `plan`: it ends by itself, as planned. `unknown`: something cannot be read. */
export type Sort = "bad" | "plan" | "unknown";

export function sortOf(cause: { readonly code: string; readonly until?: string | null }): Sort {
  if (/unread|not-listed|forbidden|unknown/.test(cause.code)) return "unknown";
  if (cause.until || /window|closed|paused|wait|soak|turn|no-room|full/.test(cause.code)) return "plan";
  return "bad";
}

const CONCERN: Sort[] = ["bad", "plan", "unknown"];

/** The rows of nodes by their names, as far as the age of a cause needs them. */
type Rows = ReadonlyMap<string, Pick<Row, "since">>;

/** Return since when the first of the nodes that wait directly is in its state. */
export function sinceOf(cause: Cause, rows: Rows): string | null {
  let first: string | null = null;
  for (const name of cause.at.length ? cause.at : cause.nodes) {
    const since = rows.get(name)?.since;
    if (since && (first === null || since < first)) first = since;
  }
  return first;
}

/** Return the causes with those first that somebody has to act on, and among them those that keep most nodes, then the oldest. */
export function ranked(causes: readonly Cause[], rows: Rows): Cause[] {
  const since = new Map(causes.map((cause) => [cause, instant(sinceOf(cause, rows)) ?? Number.POSITIVE_INFINITY]));
  const isOlder = (a: Cause, b: Cause): number => Number(since.get(a)! > since.get(b)!) - Number(since.get(a)! < since.get(b)!);
  return [...causes].sort((a, b) => CONCERN.indexOf(sortOf(a)) - CONCERN.indexOf(sortOf(b)) || b.nodes.length - a.nodes.length || isOlder(a, b));
}

// What is shorter says too little to be a title.
const LEAST_TITLE = 24;

/** Return the first part of a text as a title, and the rest. Names contain colons, so only `: ` and `; ` divide. */
export function titleOf(text: string): [title: string, rest: string] {
  const place = LEAST_TITLE + text.slice(LEAST_TITLE).search(/[;:] /);
  if (place < LEAST_TITLE) return [capital(text), ""];
  return [capital(text.slice(0, place)), capital(text.slice(place + 2))];
}

/** Return the name of the budget that a cause is about; empty if it is about something else. */
export function budgetOf(text: string): string {
  return /^budget ([\w.-]+)[:, ]/.exec(text)?.[1] ?? "";
}

/** A first word that is a name stays as it is. */
function capital(text: string): string {
  return /^[a-z]+(\s|$)/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}
