/** The timeline: lanes of bars on one axis of past and forecast. From bars and a width to draw commands. */

import { clock, day, offset, startOfDay } from "../store/times";
import type { Command } from "./commands";

/** `look`: as in the map. `forecast`: hatched, because it has not happened. `said`: what it is, in words. */
export interface Bar {
  readonly from: number;
  readonly to: number;
  readonly look: string;
  readonly forecast: boolean;
  readonly said: string;
}

/** One line of bars. `group`: the name of the group where only its first lane has the label. */
export interface Lane {
  readonly label: string;
  readonly group?: string;
  readonly to: string;
  readonly bars: readonly Bar[];
}

export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface Axis extends Span {
  readonly x: number;
  readonly width: number;
}

export const LANE = 22;
export const AXIS = 28;
const STEPS_MIN = [1, 5, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080];
const LEAST_STEP_PX = 72;

export function axisOf(span: Span, width: number): Axis {
  const x = width < 600 ? 96 : 180;
  return { ...span, x, width: Math.max(1, width - x - 12) };
}

export function place(axis: Axis, at: number): number {
  const share = (at - axis.from) / Math.max(1, axis.to - axis.from);
  return axis.x + Math.min(1, Math.max(0, share)) * axis.width;
}

/** Return the instants at which the axis has a mark: full steps of the day in the time zone. */
export function marks(axis: Axis, zone: string): number[] {
  const minutes = (axis.to - axis.from) / 60_000;
  const step = (STEPS_MIN.find((each) => (each / minutes) * axis.width >= LEAST_STEP_PX) ?? 10_080) * 60_000;
  const first = startOfDay(axis.from, zone);
  const found: number[] = [];
  for (let at = first; at <= axis.to; at += step) {
    // After a change of daylight saving time, marks stay on full steps of the clock.
    const shown = at + (offset(first, zone) - offset(at, zone)) * 3_600_000;
    if (shown >= axis.from && shown <= axis.to) found.push(shown);
  }
  return found;
}

/** Return the commands for the lanes between two heights. The axis is drawn at the top of what is seen. */
export function timelineCommands(
  axis: Axis,
  lanes: readonly Lane[],
  windows: readonly Span[],
  now: number,
  zone: string,
  from: number,
  to: number,
): Command[] {
  const commands: Command[] = [];
  const bottom = AXIS + lanes.length * LANE;
  for (const each of windows.filter((span) => span.to > axis.from && span.from < axis.to)) {
    const x = place(axis, each.from);
    commands.push({ kind: "band", x, y: AXIS, w: place(axis, each.to) - x, h: bottom - AXIS });
  }
  const found = marks(axis, zone);
  found.forEach((at, i) => {
    const x = place(axis, at);
    const isNewDay = i === 0 || day(at, zone) !== day(found[i - 1]!, zone);
    commands.push({ kind: "line", x, y: AXIS - 6, w: 0, h: bottom - AXIS + 6, tone: "line" });
    const text = isNewDay && i > 0 ? day(at, zone) : clock(at, zone);
    commands.push({ kind: "text", x, y: 16, text, tone: "axis", width: 100, align: "center" });
  });
  for (let i = Math.max(1, Math.floor((from - AXIS) / LANE)); i < Math.min(lanes.length, Math.ceil((to - AXIS) / LANE)); i += 1) {
    // A rule above each group.
    if (lanes[i]!.group && lanes[i]!.label) commands.push({ kind: "line", x: 0, y: AXIS + i * LANE + 0.5, w: axis.x + axis.width, h: 0, tone: "line" });
  }
  const first = Math.max(0, Math.floor((from - AXIS) / LANE));
  const last = Math.min(lanes.length, Math.ceil((to - AXIS) / LANE));
  for (let i = first; i < last; i += 1) commands.push(...laneCommands(axis, lanes[i]!, AXIS + i * LANE));
  if (now >= axis.from && now <= axis.to) {
    const x = place(axis, now);
    commands.push({ kind: "line", x, y: AXIS - 8, w: 0, h: bottom - AXIS + 8, tone: "now" });
    commands.push({ kind: "text", x, y: bottom + 14, text: "now", tone: "now", width: 60, align: "center" });
  }
  return commands;
}

function laneCommands(axis: Axis, lane: Lane, y: number): Command[] {
  const commands: Command[] = [
    { kind: "text", x: axis.x - 10, y: y + 15, text: lane.label, tone: "soft", width: axis.x - 16, align: "right" },
  ];
  for (const bar of lane.bars) {
    if (bar.to < axis.from || bar.from > axis.to) continue;
    const x = place(axis, bar.from);
    const w = Math.max(2, place(axis, bar.to) - x - 1);
    commands.push({ kind: "bar", x, y: y + 5, w, h: 12, look: bar.look, hatched: bar.forecast });
  }
  return commands;
}

/** Return the lane and the bar at a point. */
export function barAt(axis: Axis, lanes: readonly Lane[], x: number, y: number): { lane: Lane; bar: Bar | null } | null {
  const lane = lanes[Math.floor((y - AXIS) / LANE)];
  if (!lane || y < AXIS) return null;
  const bar = lane.bars.find((each) => place(axis, each.from) <= x && x <= Math.max(place(axis, each.to), place(axis, each.from) + 3));
  return { lane, bar: bar ?? null };
}
