/** Answers that are asked for while a view shows them. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get, Problem } from "../api/client";
import { session } from "./session";

/** `error`: why the last question failed; `answer` is then the last one that was given, if any. */
export interface Asked<T> {
  readonly answer: T | null;
  readonly error: Problem | null;
}

const NOTHING: Asked<never> = { answer: null, error: null };

interface Question {
  readonly gone: AbortController;
  /** `ask`: nothing is under way. `wait`: an answer is awaited. `again`: it is awaited, and then the question is repeated. */
  turn: "ask" | "wait" | "again";
}

/** Ask for a path, and again whenever `again` changes. A new path forgets the old answer; null asks nothing. */
export function useAsked<T>(path: string | null, again: unknown = 0): Asked<T> {
  const [found, keep] = useState<Asked<T> & { path: string | null }>({ ...NOTHING, path });
  const question = useRef<Question | null>(null);
  // Before the session is known, every question would be refused.
  const isKnown = session.value.state === "in";
  useEffect(() => {
    if (path === null || !isKnown) return undefined;
    const mine: Question = { gone: new AbortController(), turn: "ask" };
    question.current = mine;
    return () => {
      mine.gone.abort();
      question.current = null;
    };
  }, [path, isKnown]);
  useEffect(() => {
    // `again` may change faster than answers come: an answer that is under way is awaited, or there would never be one.
    if (path !== null && question.current) void answerTo(path, question.current);
  }, [path, again, isKnown]);

  async function answerTo(wanted: string, mine: Question): Promise<void> {
    if (mine.turn !== "ask") {
      mine.turn = "again";
      return;
    }
    do {
      mine.turn = "wait";
      try {
        const answer = await get<T>(wanted, mine.gone.signal);
        if (!mine.gone.signal.aborted) keep({ path: wanted, answer, error: null });
      } catch (error) {
        if (mine.gone.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, "unexpected", String(error));
        keep((last) => ({ path: wanted, answer: last.path === wanted ? last.answer : null, error: problem }));
      }
    } while ((mine.turn as string) === "again");
    mine.turn = "ask";
  }
  return found.path === path ? found : NOTHING;
}
