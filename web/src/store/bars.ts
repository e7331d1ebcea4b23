/** Records of the logbook and courses of the forecast as bars of the timeline. Pure. */

import type { LogRecord, PlannedNode } from "../api/types";
import type { Bar, Lane } from "../draw/timeline";
import { lookOfOutcome, lookOfState, type Look } from "./looks";
import { instant } from "./times";

/** A part of a maintenance. */
export type Part = "waited" | "drain" | "work" | "return";

/** A bar with the part of the maintenance that it is. */
export interface PartBar extends Bar {
  readonly part: Part;
}

// The part that begins with each phase of a record.
const PARTS: Record<string, Part> = { requested: "waited", begun: "work", drained: "work", done: "return" };
// How long a course is drawn whose end the forecast does not know.
const ENDLESS_MS = 7 * 86_400_000;

/** Return what a record is about, in words. */
export function subjectOf(record: LogRecord): string {
  return record.spec.owner?.name || record.spec.surface;
}

/** Return the limits that let a maintenance go, and what people did while it lasted: why its node was out. */
export function rulesOf(record: LogRecord): string[] {
  const acts = (record.status?.acts ?? []).map((each) => [each.act, each.by && `by ${each.by}`, each.reason && `(${each.reason})`].filter(Boolean).join(" "));
  return [...(record.status?.limits ?? []), ...acts];
}

/** Return the bars of a record, one for each part. An open record lasts until `now`; `drains`: its node is being drained. */
export function barsOf(record: LogRecord, now: number, drains = false): PartBar[] {
  const begun = instant(record.spec.begunAt);
  if (begun === null) return [];
  const outcome = record.status?.outcome;
  const end = instant(record.status?.endedAt) ?? now;
  const known = (record.status?.phases ?? []).map(({ name, at }) => ({ name, at: instant(at) }));
  const at = (name: string): number | null => known.find((phase) => phase.name === name)?.at ?? null;
  const drained = at("drained");
  const begins = known
    .filter((phase): phase is { name: string; at: number } => phase.at !== null && PARTS[phase.name] !== undefined && phase.name !== "begun")
    .map((phase) => ({ part: PARTS[phase.name]!, at: phase.at }));
  begins.push({ part: drained !== null || (!outcome && drains) ? "drain" : "work", at: begun });
  begins.sort((a, b) => a.at - b.at);
  const what = subjectOf(record);
  return begins
    .map(({ part, at: from }, i): PartBar => {
      const look: Look = part === "waited" ? "wait" : part === "drain" && !isWrong(outcome, drained) ? "drain" : outcome ? lookOfOutcome(outcome) : "work";
      return { from, to: begins[i + 1]?.at ?? Math.max(end, from), look, forecast: false, part, said: `${what}: ${saidOf(part, outcome)}` };
    })
    .filter((bar) => bar.to > bar.from || bar.part === "work");
}

/** Whether a maintenance ended badly before its node was empty, so that its drain is what failed. */
function isWrong(outcome: string | null | undefined, drained: number | null): boolean {
  return !!outcome && outcome !== "Completed" && drained === null;
}

function saidOf(part: Part, outcome: string | null | undefined): string {
  if (part === "waited") return "waited for its turn";
  if (part === "drain") return "draining";
  if (part === "return") return "given back";
  return outcome ? outcome.toLowerCase() : "in maintenance";
}

const PLANNED: Partial<Record<Look, Part>> = { wait: "waited", drain: "drain", work: "work" };
const PLANNED_WORDS: Record<Part, string> = { waited: "waits for its turn", drain: "draining", work: "in maintenance", return: "back in service" };

/** Return the bars of what the forecast says of a node from `now` on, without the time in service. */
export function plannedBars(node: PlannedNode, now: number): PartBar[] {
  return node.states
    .map((each) => ({ look: lookOfState(each.state), from: Math.max(instant(each.from) ?? now, now), to: instant(each.to) ?? now + ENDLESS_MS }))
    .filter((each) => each.to > now && PLANNED[each.look] !== undefined)
    .map(({ look, from, to }) => ({ from, to, look, forecast: true, part: PLANNED[look]!, said: PLANNED_WORDS[PLANNED[look]!] }));
}

/** One maintenance of one node, past or foreseen. `cause`: what it waited for. `by`: who asked for it. `rules`: the limits that let it go. */
export interface Visit {
  readonly node: string;
  readonly what: string;
  readonly from: number;
  readonly to: number;
  readonly look: Look;
  readonly outcome: string;
  readonly cause: string;
  readonly by: string;
  readonly reason: string;
  readonly rules: readonly string[];
  readonly bars: readonly PartBar[];
}

/** Return the time of all visits: what has no end counts by its beginning alone. */
export function extentOf(visits: readonly Visit[], now: number): { from: number; to: number } {
  const ends = visits.map((visit) => (visit.to < now + ENDLESS_MS ? visit.to : visit.from));
  return { from: Math.min(now, ...visits.map((visit) => visit.from)), to: Math.max(now, ...ends) };
}

/** Return a record as a visit, without the time before its turn. */
export function visitOf(record: LogRecord, now: number, drains: boolean): Visit | null {
  const bars = barsOf(record, now, drains).filter((bar) => bar.part !== "waited");
  if (!bars.length) return null;
  const outcome = record.status?.outcome;
  const [waited] = record.status?.waitedFor ?? [];
  return {
    node: record.spec.node.name,
    what: subjectOf(record),
    from: bars[0]!.from,
    to: bars.at(-1)!.to,
    look: outcome ? lookOfOutcome(outcome) : drains ? "drain" : "work",
    outcome: outcome ? spaced(outcome) : drains ? "draining" : "in maintenance",
    cause: waited ? [spaced(waited.code), waited.subject].filter(Boolean).join(": ") : "",
    by: record.spec.requestedBy?.name ?? "",
    reason: record.spec.reason ?? "",
    rules: rulesOf(record),
    bars,
  };
}

/** Return what the forecast says of a node as a visit. */
export function plannedVisit(node: PlannedNode, now: number): Visit | null {
  const bars = plannedBars(node, now).filter((bar) => bar.part !== "waited");
  if (!bars.length) return null;
  return {
    node: node.name, what: "", from: bars[0]!.from, to: bars.at(-1)!.to, look: bars[0]!.look as Look, outcome: "forecast",
    cause: node.waitsFor, by: "", reason: "", rules: [], bars,
  };
}

/** `NodeGone` or `window-closed` as words. */
function spaced(name: string): string {
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, " ").replaceAll("-", " ").toLowerCase();
}

const NAMES = new Intl.Collator("en", { numeric: true });
// A group with more maintenances at once than this draws the others over each other.
const MOST_LINES = 40;

/** Return a lane for each node, those that begin first on top. */
export function nodeLanes(visits: readonly Visit[], address: (name: string) => string): Lane[] {
  return sorted(visits, (visit) => visit.node).map(([label, mine]) => ({ label, to: address(label), bars: mine.flatMap((visit) => visit.bars) }));
}

/** Return lanes for each group, as few as show its maintenances side by side. The first one has the name of the group. */
export function groupLanes(visits: readonly Visit[], name: (visit: Visit) => string): Lane[] {
  return sorted(visits, name).flatMap(([label, mine]) => {
    const lines: { ends: number; bars: Bar[] }[] = [];
    for (const visit of [...mine].sort((a, b) => a.from - b.from)) {
      const free = lines.find((line) => line.ends <= visit.from) ?? (lines.length < MOST_LINES ? null : lines.at(-1)!);
      const bars = visit.bars.map((bar) => ({ ...bar, said: `${visit.node}, ${bar.said}`, to: bar.to }));
      if (free) {
        free.ends = Math.max(free.ends, visit.to);
        free.bars.push(...bars);
      } else lines.push({ ends: visit.to, bars });
    }
    return lines.map((line, i) => ({ label: i ? "" : label, group: label, to: "", bars: line.bars }));
  });
}

function sorted(visits: readonly Visit[], name: (visit: Visit) => string): [string, Visit[]][] {
  const found = new Map<string, Visit[]>();
  for (const visit of visits) {
    const place = name(visit);
    const known = found.get(place);
    if (known) known.push(visit);
    else found.set(place, [visit]);
  }
  const first = new Map([...found].map(([label, mine]) => [label, mine.reduce((least, visit) => Math.min(least, visit.from), Number.POSITIVE_INFINITY)]));
  return [...found].sort(([a], [b]) => first.get(a)! - first.get(b)! || NAMES.compare(a, b));
}
