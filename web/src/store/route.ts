/** The address of the page: the path of a view, and its filters in the query. */

import { computed, signal } from "@preact/signals";

const address = signal(typeof location === "undefined" ? "/" : location.pathname + location.search);

export const path = computed(() => address.value.split("?")[0] ?? "/");
export const query = computed(() => new URLSearchParams(address.value.split("?")[1] ?? ""));

export function watchAddress(): void {
  addEventListener("popstate", () => {
    address.value = location.pathname + location.search;
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href^='/']");
    if (!(link instanceof HTMLAnchorElement) || link.target) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

/** Go to a view. Browser back returns. */
export function go(to: string): void {
  if (to === address.value) return;
  history.pushState(null, "", to);
  address.value = to;
  scrollTo(0, 0);
}

/** Change filters of the present view. The address is replaced: typing a word makes no ten steps back. */
export function refine(changes: Record<string, string>): void {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const to = path.value + (next.size ? `?${next}` : "");
  history.replaceState(null, "", to);
  address.value = to;
}

/** Return a filter of the present view. */
export function refined(name: string): string {
  return query.value.get(name) ?? "";
}

export function nodeAddress(name: string): string {
  return `/nodes/${encodeURIComponent(name)}`;
}

/** Return the address of the fleet with a filter. */
export function fleetAddress(filters: Record<string, string>): string {
  return `/fleet?${new URLSearchParams(filters)}`;
}
