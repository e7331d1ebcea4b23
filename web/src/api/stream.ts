/** One connection to the stream of changes. */

import { Problem, sessionHeaders } from "./client";
import { EventReader, type ServerEvent } from "./events";

// The server sends a comment every 15 s. After two missing ones the connection counts as dead.
export const SILENT_MS = 35_000;

/** Read the stream until it ends or `signal` aborts, and hand each event over. Throws a Problem if it is refused. */
export async function follow(since: number, signal: AbortSignal, take: (event: ServerEvent) => void): Promise<void> {
  const dead = new AbortController();
  const ends = AbortSignal.any([signal, dead.signal]);
  let timer = setTimeout(() => dead.abort(), SILENT_MS);
  try {
    const reply = await fetch(`/api/v1/stream?since=${encodeURIComponent(since)}`, {
      headers: { Accept: "text/event-stream", ...sessionHeaders() },
      credentials: "same-origin",
      cache: "no-store",
      signal: ends,
    });
    if (!reply.ok || !reply.body) throw new Problem(reply.status, `http-${reply.status}`, reply.statusText);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => dead.abort(), SILENT_MS);
      events.events(value).forEach(take);
    }
  } finally {
    clearTimeout(timer);
  }
}
