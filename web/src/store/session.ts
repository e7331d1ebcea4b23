/** Who uses the console: the secret or token that opens it, and what the server says of its owner. */

import { signal } from "@preact/signals";
import { get, login, Problem, useToken } from "../api/client";
import type { WhoAmI } from "../api/types";

/** `out`: the server knows no session of ours. `why`: what the person should know about it. */
export interface Session {
  readonly state: "entering" | "in" | "out";
  readonly why: string;
}

export const session = signal<Session>({ state: "entering", why: "" });
export const whoami = signal<WhoAmI | null>(null);

// How long the picture waits for who we are.
const WHO_WITHIN_MS = 2000;

let secret = "";
// The fragment of the link that skips the bar at the top.
const CONTENT = "#main";

/** Take the secret out of the address, where it would be seen, stored and sent to colleagues. Return whether there is one. */
export function takeSecret(): boolean {
  if (location.hash.length < 2 || location.hash === CONTENT) return false;
  secret = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  return true;
}

/** Log in with a secret that is pasted into the address of an open page, which the browser does not load again. */
export function watchSecret(entered: () => void): void {
  addEventListener("hashchange", () => {
    if (takeSecret()) void enter().then(entered, () => undefined);
  });
}

/** Log in if there is a secret, and ask who we are. Throws the Problem if the server refuses. */
export async function enter(): Promise<void> {
  try {
    if (secret) {
      const once = secret;
      secret = "";
      await login(once).catch((error: unknown) => {
        // A server that did not answer has not refused it: it is used again.
        if (error instanceof Problem && error.status === 0) secret = once;
        throw error;
      });
    }
    const known = get<WhoAmI>("whoami").then((found) => {
      whoami.value = found;
      session.value = { state: "in", why: "" };
    });
    // The picture is shown without waiting for who we are while the API server does not say so. Its refusal comes to light there, too.
    known.catch(() => undefined);
    await Promise.race([known, new Promise((done) => setTimeout(done, WHO_WITHIN_MS))]);
  } catch (error) {
    if (error instanceof Problem && error.status === 401) {
      const ended = session.value.state === "in";
      const refused = error.code === "wrong-secret" ? "This address is refused: its secret is not that of the running console." : "";
      session.value = { state: "out", why: ended ? "The session has ended." : refused };
      whoami.value = null;
    }
    throw error;
  }
}

/** Try a token that was pasted. Return why it is refused; empty if it opens. */
export async function enterWith(token: string): Promise<string> {
  useToken(token);
  try {
    await enter();
    return "";
  } catch (error) {
    useToken("");
    return error instanceof Problem && error.status === 401 ? "The token is refused: it is wrong or has expired." : String(error);
  }
}
