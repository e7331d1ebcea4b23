/** The rows of the fleet, and how events of the stream change them: pure. */

import type { FleetDocument, Row, Tables } from "../api/types";

/** All that is known of the nodes. A row that did not change is the same object as before. */
export interface Fleet {
  readonly epoch: string;
  readonly seq: number;
  readonly at: string;
  readonly tables: Tables;
  readonly rows: ReadonlyMap<string, Row>;
}

export const NO_FLEET: Fleet = { epoch: "", seq: -1, at: "", tables: {}, rows: new Map() };

export interface RowsEvent {
  seq: number;
  set?: Row[];
  gone?: string[];
  at?: string;
}

export function fleetOf(document: FleetDocument): Fleet {
  const { epoch, seq, at, tables, nodes } = document;
  return { epoch, seq, at: at ?? "", tables, rows: new Map(nodes.map((row) => [row.name, row])) };
}

/** Return the fleet after an event. An event that is not newer changes nothing. */
export function withRows(fleet: Fleet, event: RowsEvent): Fleet {
  if (event.seq <= fleet.seq) return fleet;
  const rows = new Map(fleet.rows);
  for (const row of event.set ?? []) rows.set(row.name, row);
  for (const name of event.gone ?? []) rows.delete(name);
  return { ...fleet, seq: event.seq, at: event.at ?? fleet.at, rows };
}

export type Listing = { state: "listed" | "not-yet" | "unreadable"; why: string };

/** Return whether a kind could be read. `kind` may be followed by an API group in the tables. */
export function listing(tables: Tables, kind: string): Listing {
  const found = Object.entries(tables).filter(([name]) => name === kind || name.startsWith(`${kind}/`) || name.startsWith(`${kind}.`));
  const said = found.map(([, text]) => text).find((text) => text !== "listed") ?? (found.length ? "listed" : "not-yet");
  if (said.startsWith("unreadable")) return { state: "unreadable", why: said.replace(/^unreadable:?\s*/, "") };
  return { state: said === "listed" ? "listed" : "not-yet", why: "" };
}

/** Return the kinds that cannot be read, with the reason. */
export function unreadable(tables: Tables): [kind: string, why: string][] {
  return Object.entries(tables)
    .filter(([, text]) => text.startsWith("unreadable"))
    .map(([kind, text]) => [kind, text.replace(/^unreadable:?\s*/, "")]);
}
