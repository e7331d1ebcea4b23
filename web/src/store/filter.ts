/** The filter of nodes: words as people type them, and whether a row matches. Pure. */

import type { Row } from "../api/types";
import { lookOf, WORDS } from "./looks";

export interface Term {
  /** Empty: the text may be anywhere in the row. `label`: a label of the node. */
  field: "" | "state" | "surface" | "cause" | "label";
  key: string;
  value: string;
  not: boolean;
}

const FIELDS: Record<string, Term["field"]> = { state: "state", surface: "surface", by: "surface", cause: "cause" };

/** Return the terms of a filter, such as `zone-a state:draining pool=gpu -cause:"budget night"`. All of them have to match. */
export function termsOf(text: string): Term[] {
  const words = text.match(/-?(?:[^\s"]*"[^"]*"|[^\s"]+)/g) ?? [];
  return words.map(termOf).filter((term) => term.value !== "" || term.key !== "");
}

function termOf(word: string): Term {
  const not = word.startsWith("-") && word.length > 1;
  const plain = (not ? word.slice(1) : word).replaceAll('"', "");
  const field = FIELDS[/^([a-z]+):/.exec(plain)?.[1] ?? ""];
  if (field) return { field, key: "", value: plain.slice(plain.indexOf(":") + 1).toLowerCase(), not };
  const equals = plain.indexOf("=");
  if (equals > 0) return { field: "label", key: plain.slice(0, equals), value: plain.slice(equals + 1), not };
  return { field: "", key: "", value: plain.toLowerCase(), not };
}

export function matches(row: Row, terms: readonly Term[]): boolean {
  return terms.every((term) => found(row, term) !== term.not);
}

function found(row: Row, { field, key, value }: Term): boolean {
  switch (field) {
    case "state":
      return row.state.includes(value) || WORDS[lookOf(row)].includes(value);
    case "surface":
      return row.holders.some((holder) => holder.toLowerCase().includes(value));
    case "cause":
      return (row.cause ?? "").toLowerCase().includes(value);
    case "label":
      return labelled(row.labels, key, value);
    default:
      return (
        row.name.toLowerCase().includes(value) ||
        row.state.includes(value) ||
        Object.values(row.labels).some((each) => each.toLowerCase().includes(value))
      );
  }
}

/** A label may be named by its last part: `zone` for `topology.kubernetes.io/zone`. */
function labelled(labels: Row["labels"], key: string, value: string): boolean {
  return Object.entries(labels).some(([name, each]) => (name === key || name.endsWith(`/${key}`)) && (value === "" || each === value));
}
