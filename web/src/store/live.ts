/** What the stream keeps up to date: the fleet, its causes, budgets, maintenances and rollouts; and whether it is live. */

import { batch, computed, signal } from "@preact/signals";
import { get, Problem } from "../api/client";
import type { ServerEvent } from "../api/events";
import { Shared } from "../api/share";
import { follow } from "../api/stream";
import type { Budget, Cause, Failure, FleetDocument, Installation, Rollout, Tables, Windows, Work } from "../api/types";
import { fleetOf, NO_FLEET, withRows, type RowsEvent } from "./fleet";
import { enter, session, whoami } from "./session";

/** A list that the server keeps. `null` is *not yet*; `why` says why it cannot be read. */
export interface Known<T> {
  readonly items: T | null;
  readonly why: string;
}

const NOT_YET = { items: null, why: "" };

export const fleet = signal(NO_FLEET);
export const causes = signal<Known<Cause[]>>(NOT_YET);
export const failures = signal<Known<Failure[]>>(NOT_YET);
export const budgets = signal<Known<Budget[]>>(NOT_YET);
export const works = signal<Known<Work[]>>(NOT_YET);
export const rollouts = signal<Known<Rollout[]>>(NOT_YET);
/** The time zones of the windows of budgets and profiles. */
export const zones = signal<string[]>([]);
export const installation = signal<Known<Installation>>(NOT_YET);

/** When the stream was heard last, in milliseconds; `connected` while it is open. */
const heardAt = signal(0);
const connected = signal(false);

/** `live`; `stale` with the instant of the last knowledge; or `connecting` before the first picture. */
export const liveness = computed<{ state: "live" | "stale" | "connecting"; since: number }>(() => {
  if (fleet.value.seq < 0) return { state: "connecting", since: 0 };
  if (!connected.value) return { state: "stale", since: heardAt.value };
  if (outage.value) return { state: "stale", since: Date.parse(fleet.value.at) || heardAt.value };
  return { state: "live", since: 0 };
});

/** Why the API server of the cluster does not answer; empty while it does. */
export const outage = computed(() => {
  const found = fleet.value.tables.Node ?? "";
  return fleet.value.seq >= 0 && found.startsWith("unreadable") ? found.replace(/^unreadable:?\s*/, "") : "";
});

const LISTS = { causes, failures, budgets, works, rollouts } as const;
const MOST_IN_PAGE = 500;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 4000;
// The operator's pods and leader change without a change of any node.
const INSTALLATION_EVERY_MS = 15_000;

let shared: Shared | null = null;
let run = new AbortController();
let lastInstallation = 0;

/** Keep everything up to date while the page is visible. */
export function runLive(): void {
  document.addEventListener("visibilitychange", () => (document.hidden ? pause() : resume()));
  if (!document.hidden) resume();
}

/** Get everything afresh: after a sleep, nothing that we know is known to be true. */
export function refresh(): void {
  if (document.hidden) return;
  pause();
  resume();
}

function pause(): void {
  run.abort();
  run = new AbortController();
  shared?.close();
  shared = null;
  connected.value = false;
}

function resume(): void {
  run.abort();
  run = new AbortController();
  void keep(run.signal);
}

/** Get the picture and follow the stream, again and again until `signal` aborts. */
async function keep(signal: AbortSignal): Promise<void> {
  let pauseFor = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    try {
      await enter();
      await attend(signal, () => (pauseFor = FIRST_PAUSE_MS));
    } catch (error) {
      if (signal.aborted) return;
      connected.value = false;
      if (error instanceof Problem && error.status === 401) {
        if (session.value.state === "out") return;
        continue;
      }
    }
    await wait(pauseFor * (0.75 + Math.random() / 2), signal);
    pauseFor = Math.min(pauseFor * 2, LONGEST_PAUSE_MS);
  }
}

/** Get the picture, then take changes: from the stream if this tab leads, else from the tab that does. */
async function attend(signal: AbortSignal, entered: () => void): Promise<void> {
  shared?.close();
  const waiting: ServerEvent[] = [];
  let ready = false;
  shared = new Shared(`${whoami.value?.door ?? ""} ${whoami.value?.user ?? ""}`, (event) => {
    if (ready) take(event);
    else waiting.push(event);
  });
  await picture(signal);
  ready = true;
  waiting.forEach(take);
  connected.value = true;
  entered();
  const mine = shared;
  await Promise.race([
    mine.lead(signal, () =>
      follow(fleet.value.seq, signal, (event) => {
        take(event);
        mine.send(event);
      }),
    ),
    silence(signal),
  ]);
}

/** Ends when nothing was heard for long, so that a tab whose leader hangs asks for itself. */
async function silence(signal: AbortSignal): Promise<void> {
  heardAt.value = Date.now();
  while (!signal.aborted && Date.now() - heardAt.value < 40_000) await wait(2000, signal);
}

async function picture(signal: AbortSignal): Promise<void> {
  const found = await get<FleetDocument>("fleet", signal);
  const lists = await Promise.all(Object.keys(LISTS).map((name) => known(name, signal)));
  batch(() => {
    fleet.value = fleetOf(found);
    Object.values(LISTS).forEach((list, i) => ((list as { value: unknown }).value = lists[i]));
    heardAt.value = Date.now();
  });
  lastInstallation = 0;
  void refreshInstallation();
  void refreshZones();
}

/** Ask in which time zones windows open. Without an answer, the choice of time zones has only that of the browser and UTC. */
async function refreshZones(): Promise<void> {
  const day = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();
  const found = await get<{ windows: Windows[] }>(`calendar?from=${day(0)}&to=${day(1)}`).catch(() => null);
  if (found) zones.value = [...new Set(found.windows.map((each) => each.timeZone ?? ""))].filter((name) => name && name !== "UTC").sort();
}

async function known(name: string, signal: AbortSignal): Promise<Known<unknown>> {
  try {
    const found = await get<Record<string, unknown>>(name, signal);
    let items = found[name];
    // Long lists come in pages. Afterwards the stream sends them whole.
    for (let next = found.continue; typeof next === "string" && next && Array.isArray(items); ) {
      const more = await get<Record<string, unknown>>(`${name}?limit=${MOST_IN_PAGE}&continue=${encodeURIComponent(next)}`, signal);
      items = [...items, ...((more[name] as unknown[] | undefined) ?? [])];
      next = more.continue;
    }
    return { items: items ?? found, why: "" };
  } catch (error) {
    if (error instanceof Problem && error.status !== 401 && error.status !== 0) return { items: null, why: error.message };
    throw error;
  }
}

function take(event: ServerEvent): void {
  heardAt.value = Date.now();
  void refreshInstallation();
  if (event.name === "comment" || !event.data) {
    if (event.name === "resync") refresh();
    return;
  }
  if (event.name === "resync") return refresh();
  if (event.name === "rows") fleet.value = withRows(fleet.value, event.data as RowsEvent);
  if (event.name === "tables") {
    const { tables, at } = event.data as { tables: Tables; at?: string };
    fleet.value = { ...fleet.value, tables, at: at ?? fleet.value.at };
  }
  if (event.name in LISTS) {
    const items = (event.data as Record<string, unknown>)[event.name];
    (LISTS[event.name as keyof typeof LISTS] as { value: unknown }).value = { items, why: "" };
  }
}

async function refreshInstallation(): Promise<void> {
  if (Date.now() - lastInstallation < INSTALLATION_EVERY_MS) return;
  lastInstallation = Date.now();
  try {
    const found = await get<{ installation?: Installation }>("installation");
    installation.value = { items: found.installation ?? (found as unknown as Installation), why: "" };
  } catch (error) {
    if (error instanceof Problem && error.status === 403) installation.value = { items: null, why: error.message };
  }
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      done();
    });
  });
}
