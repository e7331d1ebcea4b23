/** Acts: what is written, with whose right, and what came of it. */

import { signal } from "@preact/signals";
import { post, Problem } from "../api/client";
import type { Act, ActDone, ActRequest, Missing, Target } from "../api/types";

/** Rises with each act that was done, so that views ask again. */
export const actsSeq = signal(0);

export interface Dialog {
  /** The ways to do an act of one name, such as `start` with one of several surfaces. */
  readonly offers: readonly Act[];
  /** More than one: the same act for several objects, one request each. */
  readonly targets: readonly Target[];
}

export const dialog = signal<Dialog | null>(null);

export interface Outcome {
  readonly target: Target;
  readonly done: ActDone | null;
  readonly problem: Problem | null;
}

/** Send an act for each target, in their order. Each request has a key, so that a repeated one is not done twice. */
export async function send(request: Omit<ActRequest, "target">, targets: readonly Target[], keys: readonly string[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [i, target] of targets.entries()) {
    outcomes.push(await one({ ...request, target }, target, keys[i]!));
  }
  if (!request.dryRun) actsSeq.value += 1;
  return outcomes;
}

async function one(request: ActRequest, target: Target, key: string): Promise<Outcome> {
  try {
    return { target, done: await post<ActDone>("acts", request, { "X-Haulout-Act": key }), problem: null };
  } catch (error) {
    return { target, done: null, problem: error instanceof Problem ? error : new Problem(0, "unexpected", String(error)) };
  }
}

export function newKey(): string {
  return crypto.randomUUID();
}

/** Return the missing right in words, such as `needs create nodemaintenances`. */
export function rightText(missing: Partial<Missing>): string {
  const resource = [missing.resource, missing.group].filter(Boolean).join(".");
  return `needs ${missing.verb ?? ""} ${resource}${missing.namespace ? ` in ${missing.namespace}` : ""}`;
}

const TITLES: Record<string, string> = {
  start: "Start maintenance", cancel: "Cancel maintenance", "let-go": "Let go", letgo: "Let go", override: "Override a limit",
};

export function titleOf(act: string): string {
  return TITLES[act] ?? act.charAt(0).toUpperCase() + act.slice(1).replaceAll("-", " ");
}
