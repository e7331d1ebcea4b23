/** What the explanation of a rollout says of its nodes. Pure. */

import type { ReasonNode } from "../api/types";

/** A node on which a rollout is not done. `stage`: package and stage. `fails`: a package fails on it. */
export interface RolloutNode {
  readonly name: string;
  readonly state: string;
  readonly stage: string;
  readonly waitsFor: string;
  readonly fails: boolean;
}

const NODE = /^node (\S+) is ([\w -]+?)(?:: (.*))?$/s;

/** Return the nodes that the reasons name, those that fail first, and the other reasons: gates, halts, limits. */
export function nodesOf(reasons: readonly ReasonNode[], queue: Readonly<Record<string, string>>): { nodes: RolloutNode[]; others: ReasonNode[] } {
  const nodes: RolloutNode[] = [];
  const others: ReasonNode[] = [];
  const top = reasons.flatMap((reason) => (reason.code === "object" ? (reason.because ?? []) : [reason]));
  for (const reason of top) {
    const [, name = "", state = "", stage = ""] = NODE.exec(reason.text) ?? [];
    // That the object waits for nothing is no reason to wait for.
    if (reason.code === "more-nodes" || reason.code === "at-rest") continue;
    if (!name) others.push(reason);
    else nodes.push({ name, state, stage: stages(stage), waitsFor: queue[name] ?? "", fails: /err|fail/.test(`${state} ${stage}`) });
  }
  // Those of equal concern keep the order of the rollout.
  return { nodes: [...nodes.filter((node) => node.fails), ...nodes.filter((node) => !node.fails)], others };
}

/** `kernel at config/in_progress` as `kernel: config, in progress`. */
function stages(text: string): string {
  return text.replace(/(\S+) at ([\w-]+)\/([\w-]+)/g, (_, name: string, stage: string, state: string) => `${name}: ${stage}, ${state.replaceAll("_", " ")}`);
}
