/** Requests to the console's server, with the caller's session. */

/** A refusal of the server (RFC 9457), or `unreachable` if it does not answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly facts: Readonly<Record<string, unknown>> = {},
  ) {
    super(detail || code);
  }
}

const ANSWER_WITHIN_MS = 20_000;
const BASE = "/api/v1/";
// A pasted token is kept in the memory of this tab alone.
let token = "";

export function useToken(text: string): void {
  token = text;
}

export function sessionHeaders(): Record<string, string> {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send("GET", path, undefined, {}, signal)) as T;
}

export async function post<T>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<T> {
  return (await send("POST", path, body, headers)) as T;
}

/** Trade the secret of the printed address for a session cookie. */
export async function login(secret: string): Promise<void> {
  await post("login", { secret });
}

async function send(
  method: string,
  path: string,
  body: unknown,
  headers: Record<string, string>,
  signal?: AbortSignal,
): Promise<unknown> {
  const deadline = AbortSignal.timeout(ANSWER_WITHIN_MS);
  let reply: Response;
  try {
    reply = await fetch(BASE + path, {
      method,
      headers: {
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...sessionHeaders(),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      credentials: "same-origin",
      cache: "no-store",
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "unreachable", "The console does not answer.");
  }
  const text = await reply.text();
  const found: unknown = text ? parsed(text) : null;
  if (reply.ok) return found;
  const facts = typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
  throw new Problem(
    reply.status,
    typeof facts.code === "string" ? facts.code : `http-${reply.status}`,
    typeof facts.detail === "string" ? facts.detail : reply.statusText,
    facts,
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
