/** The present instant and the time zone in which times are shown. */

import { signal } from "@preact/signals";

/** The present in milliseconds. It moves once a second while the page is visible. */
export const now = signal(Date.now());

const KEPT = "haulout-time-zone";

/** `local`, or the name of a time zone. */
export const zone = signal(kept());

const TICK_MS = 1000;
// Between two ticks, more than this much time means that the computer slept or that its clock was set.
const JUMP_MS = 5000;

/** Run the clock. `jumped` is called after the computer slept, or when its clock was set. */
export function runClock(jumped: () => void): void {
  let last = Date.now();
  const tick = (): void => {
    const at = Date.now();
    const moved = at - last;
    last = at;
    if (!document.hidden) now.value = at;
    // Timers of hidden pages run rarely: there a gap says nothing.
    if (!document.hidden && (moved > JUMP_MS || moved < -TICK_MS)) jumped();
  };
  setInterval(tick, TICK_MS);
  document.addEventListener("visibilitychange", () => {
    last = Date.now();
    now.value = last;
  });
}

export function showTimesIn(name: string): void {
  zone.value = name;
  localStorage.setItem(KEPT, name);
}

export function localZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function kept(): string {
  const name = typeof localStorage === "undefined" ? null : localStorage.getItem(KEPT);
  return name ?? "local";
}
