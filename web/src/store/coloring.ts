/** By what the nodes of the map are colored: state, surface, root cause, a label, or the forecast. Pure. */

import type { Plan, Row } from "../api/types";
import { LOOKS, lookOf, lookOfState, WORDS } from "./looks";

export interface Legend {
  /** Shape and color of a row. */
  readonly look: (row: Row) => string;
  readonly entries: readonly { readonly look: string; readonly word: string; readonly count: number }[];
}

const CATEGORIES = 7;
const OTHER = "c7";

export function byState(rows: readonly Row[]): Legend {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(lookOf(row), (counts.get(lookOf(row)) ?? 0) + 1);
  const entries = LOOKS.filter((look) => counts.has(look)).map((look) => ({ look, word: WORDS[look], count: counts.get(look)! }));
  return { look: lookOf, entries };
}

/** Color by a text of each row. Rows without one look as in service; the most frequent texts get shapes of their own. */
export function byText(rows: readonly Row[], text: (row: Row) => string, none: string): Legend {
  const counts = new Map<string, number>();
  for (const row of rows) counts.set(text(row), (counts.get(text(row)) ?? 0) + 1);
  const without = counts.get("") ?? 0;
  counts.delete("");
  const sorted = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  const looks = new Map(sorted.slice(0, CATEGORIES).map(([value], i) => [value, `c${i}`]));
  const others = sorted.slice(CATEGORIES).reduce((sum, [, n]) => sum + n, 0);
  return {
    look: (row) => {
      const value = text(row);
      return value ? (looks.get(value) ?? OTHER) : "ok";
    },
    entries: [
      ...sorted.slice(0, CATEGORIES).map(([word, n]) => ({ look: looks.get(word)!, word, count: n })),
      ...(others ? [{ look: OTHER, word: `${sorted.length - CATEGORIES} others`, count: others }] : []),
      ...(without ? [{ look: "ok", word: none, count: without }] : []),
    ],
  };
}

/** Color by the state that the forecast gives to each node at an instant. */
export function byForecast(rows: readonly Row[], plan: Plan, at: number): Legend {
  const states = new Map<string, string>();
  for (const node of plan.nodes) {
    const found = node.states.find((each) => Date.parse(each.from) <= at && (!each.to || at < Date.parse(each.to)));
    if (found) states.set(node.name, lookOfState(found.state));
  }
  const look = (row: Row): string => states.get(row.name) ?? "unknown";
  const entries = LOOKS.map((each) => ({ look: each, word: each === "unknown" ? "not in the forecast" : WORDS[each], count: rows.filter((row) => look(row) === each).length }));
  return { look, entries: entries.filter((each) => each.count) };
}
