/** The nodes of the fleet in groups by labels. Pure. */

import type { Row } from "../api/types";
import { lookOf, type Look } from "./looks";

export interface Group {
  /** The values of the grouping labels, outermost first. */
  readonly path: readonly string[];
  readonly rows: readonly Row[];
  readonly groups: readonly Group[];
}

export const ZONE = "topology.kubernetes.io/zone";
const NAMES = new Intl.Collator("en", { numeric: true });

export function byName(a: Row, b: Row): number {
  return NAMES.compare(a.name, b.name);
}

/** Return the groups by the first label, each with its groups by the next. Without labels there is one group. */
export function grouped(rows: Iterable<Row>, labels: readonly string[], path: readonly string[] = []): Group[] {
  const sorted = path.length ? [...rows] : [...rows].sort(byName);
  const [label, ...deeper] = labels;
  if (!label) return [{ path: path.length ? path : [""], rows: sorted, groups: [] }];
  const found = new Map<string, Row[]>();
  for (const row of sorted) {
    const value = row.labels[label] ?? "";
    const known = found.get(value);
    if (known) known.push(row);
    else found.set(value, [row]);
  }
  return [...found]
    .sort(([a], [b]) => (a === "" ? 1 : b === "" ? -1 : NAMES.compare(a, b)))
    .map(([value, members]) => ({
      path: [...path, value],
      rows: members,
      groups: deeper.length ? grouped(members, deeper, [...path, value]) : [],
    }));
}

/** Return the labels by which nodes can be grouped: those with more than one value and fewer than nodes, the usual ones first. */
export function groupLabels(rows: Iterable<Row>): string[] {
  const values = new Map<string, Set<string>>();
  let nodes = 0;
  for (const row of rows) {
    nodes += 1;
    for (const [name, value] of Object.entries(row.labels)) {
      const known = values.get(name);
      if (known) known.add(value);
      else values.set(name, new Set([value]));
    }
  }
  const useful = [...values].filter(([name, found]) => (found.size < nodes || nodes < 3) && !name.endsWith("/hostname"));
  const rank = (name: string): number => (name === ZONE ? 0 : /rack|pool|nodegroup/.test(name) ? 1 : 2);
  return useful.map(([name]) => name).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/** Return the labels by which the fleet is grouped unless a person chooses: the zone, and racks or pools inside it. */
export function usualLabels(labels: readonly string[]): string[] {
  const zone = labels.filter((name) => name === ZONE);
  const inner = labels.filter((name) => /(^|\/)rack$/.test(name)).slice(0, 1);
  return [...zone, ...inner];
}

export function countLooks(rows: Iterable<Row>): Map<Look, number> {
  const counts = new Map<Look, number>();
  for (const row of rows) {
    const look = lookOf(row);
    counts.set(look, (counts.get(look) ?? 0) + 1);
  }
  return counts;
}

/** Return the short name of a label: its last part. */
export function shortLabel(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}
