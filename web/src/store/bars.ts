/** Records of the logbook and courses of the forecast as bars of the timeline. Pure. */

import type { LogRecord, PlannedNode } from "../api/types";
import type { Bar, Lane } from "../draw/timeline";
import { lookOfOutcome, lookOfState, WORDS, type Look } from "./looks";
import { instant } from "./times";

const PHASES: Record<string, Look> = { Draining: "drain", Drained: "work", Waiting: "wait" };

/** Return the bars of a record: one for each phase, the last in the colour of its outcome. An open record lasts until `now`. */
export function barsOf(record: LogRecord, now: number): Bar[] {
  const begun = instant(record.spec.begunAt);
  if (begun === null) return [];
  const end = instant(record.status?.endedAt) ?? now;
  const phases = (record.status?.phases ?? [])
    .map((phase) => ({ name: phase.name, at: instant(phase.at) }))
    .filter((phase): phase is { name: string; at: number } => phase.at !== null && phase.at >= begun && phase.at < end)
    .sort((a, b) => a.at - b.at);
  const parts = phases.length ? phases : [{ name: "", at: begun }];
  const what = record.spec.owner?.name || record.spec.surface;
  return parts.map((phase, i) => {
    const isLast = i === parts.length - 1;
    const outcome = record.status?.outcome;
    const look = isLast && outcome ? lookOfOutcome(outcome) : lookOfPhase(phase.name);
    const said = [what, phase.name && spaced(phase.name), isLast && outcome ? spaced(outcome) : ""].filter(Boolean).join(", ");
    return { from: phase.at, to: parts[i + 1]?.at ?? end, look, forecast: false, said };
  });
}

function lookOfPhase(name: string): Look {
  if (PHASES[name]) return PHASES[name];
  if (/drain|evict/i.test(name)) return "drain";
  return /wait|queue/i.test(name) ? "wait" : "work";
}

/** `InMaintenance` as words. */
function spaced(name: string): string {
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
}

/** Return the bars of what the forecast says of a node from `now` on, without the time in service. */
export function plannedBars(node: PlannedNode, now: number): Bar[] {
  return node.states
    .map((each) => ({ state: each.state, from: Math.max(instant(each.from) ?? now, now), to: instant(each.to) ?? now + 7 * 86_400_000 }))
    .filter((each) => each.to > now && lookOfState(each.state) !== "ok")
    .map((each) => ({ from: each.from, to: each.to, look: lookOfState(each.state), forecast: true, said: WORDS[lookOfState(each.state)] }));
}

/** A bar with what lanes are made of. `by`: who asked for it. */
export interface NamedBar extends Bar {
  readonly node: string;
  readonly cause: string;
  readonly by: string;
}

const NAMES = new Intl.Collator("en", { numeric: true });

/** Return a lane for each value of `name`, those that begin first on top. */
export function lanesOf(bars: readonly NamedBar[], name: (bar: NamedBar) => string, address: (name: string) => string): Lane[] {
  const found = new Map<string, NamedBar[]>();
  for (const bar of bars) {
    const place = name(bar);
    const known = found.get(place);
    if (known) known.push(bar);
    else found.set(place, [bar]);
  }
  const first = (each: readonly NamedBar[]): number => each.reduce((least, bar) => Math.min(least, bar.from), Number.POSITIVE_INFINITY);
  return [...found]
    .map(([label, each]) => ({ label, to: address(label), bars: each, begins: first(each) }))
    .sort((a, b) => a.begins - b.begins || NAMES.compare(a.label, b.label))
    .map(({ label, to, bars: each }) => ({ label, to, bars: each }));
}
