/** The forecast of the fleet as it is, which timeline, map and nodes share; and forecasts of changes. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, post, Problem } from "../api/client";
import type { Forecast, Plan } from "../api/types";
import { session } from "./session";

export interface Forecasting {
  readonly plan: Plan | null;
  /** When the picture was taken that it begins with. */
  readonly asOf: string | null;
  readonly state: "none" | "running" | "done" | "failed";
  readonly progress: number | null;
  readonly why: string;
}

export const NONE: Forecasting = { plan: null, asOf: null, state: "none", progress: null, why: "" };

const present = signal<Forecasting>(NONE);
const ASK_EVERY_MS = 700;
// Older than this, a forecast that is shown is made again.
const FRESH_FOR_MS = 120_000;

export function forecast(): Forecasting {
  return present.value;
}

/** Keep a forecast of the fleet while a view that shows it is open. */
export function useForecast(): Forecasting {
  const isKnown = session.value.state === "in";
  useEffect(() => {
    if (!isKnown) return undefined;
    const gone = new AbortController();
    const renew = (): void => {
      const { asOf, state } = present.peek();
      const isFresh = state === "done" && Date.now() - Date.parse(asOf ?? "") < FRESH_FOR_MS;
      if (!isFresh && !document.hidden) void make({}, gone.signal, (found) => (present.value = { ...found, plan: found.plan ?? present.peek().plan }));
    };
    renew();
    const timer = setInterval(renew, FRESH_FOR_MS);
    return () => {
      clearInterval(timer);
      gone.abort();
    };
  }, [isKnown]);
  return present.value;
}

/** Make a forecast with changes, and report its progress until it is done or `gone` aborts. */
export async function make(changes: Record<string, unknown>, gone: AbortSignal, report: (found: Forecasting) => void): Promise<void> {
  const report_ = (found: Forecasting): void => {
    if (!gone.aborted) report(found);
  };
  report_({ ...NONE, state: "running" });
  try {
    const { id } = await post<{ id: string }>("forecasts", { changes });
    while (!gone.aborted) {
      const found = await get<Forecast>(`forecasts/${encodeURIComponent(id)}`, gone);
      if (found.state === "done" && found.plan) {
        return report_({ plan: found.plan, asOf: found.asOf ?? found.plan.beginsAt, state: "done", progress: 1, why: "" });
      }
      if (found.state === "failed" || found.state === "cancelled") return report_({ ...NONE, state: "failed", why: found.detail ?? found.state });
      report_({ ...NONE, state: "running", progress: found.progress ?? null });
      await new Promise((done) => setTimeout(done, ASK_EVERY_MS));
    }
  } catch (error) {
    report_({ ...NONE, state: "failed", why: error instanceof Problem ? error.message : String(error) });
  }
}
