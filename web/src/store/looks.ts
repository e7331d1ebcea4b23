/** How states look: a shape and a word for each, and a color in the sheet. Pure. */

import type { Row } from "../api/types";

export const LOOKS = ["ok", "wait", "drain", "stuck", "work", "safe", "cordoned", "off", "unknown"] as const;
export type Look = (typeof LOOKS)[number];

export const WORDS: Record<Look, string> = {
  ok: "in service",
  wait: "waiting",
  drain: "draining",
  stuck: "draining, blocked",
  work: "in maintenance",
  safe: "safe to work",
  cordoned: "cordoned",
  off: "not ready",
  unknown: "unknown",
};

const BY_STATE: Record<string, Look> = {
  "in service": "ok",
  waiting: "wait",
  draining: "drain",
  "in maintenance": "work",
  // Still cordoned, and given back next.
  returning: "cordoned",
  cordoned: "cordoned",
  "not ready": "off",
  // The names of states in a forecast.
  operational: "ok",
  "maintenance-required": "wait",
  changing: "work",
  "in-maintenance": "work",
};

export function lookOfState(state: string): Look {
  return BY_STATE[state] ?? "unknown";
}

/** Return the look of a node: its state, and whether its drain is blocked or the node is safe to work on. */
export function lookOf(row: Row): Look {
  const look = lookOfState(row.state);
  if (look === "drain" && row.cause) return "stuck";
  if (look === "work" && row.safeToWork === true) return "safe";
  return look;
}

/** Return the look of an outcome of a maintenance in the logbook. */
export function lookOfOutcome(outcome: string | null | undefined): Look {
  if (!outcome) return "work";
  return { Completed: "safe", Cancelled: "off", Failed: "stuck", NodeGone: "off", Lost: "unknown" }[outcome] as Look ?? "unknown";
}
