/** Answers that are asked for while a view shows them. */

import { useEffect, useState } from "preact/hooks";
import { get, Problem } from "../api/client";
import { session } from "./session";

/** `error`: why the last question failed; `answer` is then the last one that was given, if any. */
export interface Asked<T> {
  readonly answer: T | null;
  readonly error: Problem | null;
}

const NOTHING: Asked<never> = { answer: null, error: null };

/** Ask for a path, and again whenever `again` changes. A new path forgets the old answer; null asks nothing. */
export function useAsked<T>(path: string | null, again: unknown = 0): Asked<T> {
  const [found, keep] = useState<Asked<T> & { path: string | null }>({ ...NOTHING, path });
  // Before the session is known, every question would be refused.
  const isKnown = session.value.state === "in";
  useEffect(() => {
    if (path === null || !isKnown) return undefined;
    const gone = new AbortController();
    get<T>(path, gone.signal).then(
      (answer) => keep({ path, answer, error: null }),
      (error: unknown) => {
        if (gone.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
        keep((last) => ({ path, answer: last.path === path ? last.answer : null, error: problem }));
      },
    );
    return () => gone.abort();
  }, [path, again, isKnown]);
  return found.path === path ? found : NOTHING;
}
