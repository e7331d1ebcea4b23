/** Shares one stream between the tabs of a browser: one tab reads it and sends what it reads to the others.
 *
 * A browser has six connections to an origin. Seven tabs with a stream each would lock the page out of its own server.
 */

import type { ServerEvent } from "./events";

export class Shared {
  private readonly channel: BroadcastChannel | null;
  private isClosed = false;

  /** `who`: the user. Tabs of different users never share: each gets what its own rights allow. */
  constructor(
    private readonly who: string,
    take: (event: ServerEvent) => void,
  ) {
    this.channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(this.name());
    if (this.channel) this.channel.onmessage = (message: MessageEvent<ServerEvent>) => take(message.data);
  }

  send(event: ServerEvent): void {
    if (!this.isClosed) this.channel?.postMessage(event);
  }

  /** Run `read` while this tab is the one that reads. Without locks, every tab reads for itself. */
  async lead(signal: AbortSignal, read: () => Promise<void>): Promise<void> {
    if (!("locks" in navigator) || !this.channel) return read();
    await navigator.locks.request(this.name(), { signal }, read);
  }

  close(): void {
    this.isClosed = true;
    this.channel?.close();
  }

  private name(): string {
    return `haulout-stream ${this.who}`;
  }
}
