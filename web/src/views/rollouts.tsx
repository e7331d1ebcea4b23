/** Objects that change many nodes: how far they are, what fails, and the acts that halt or undo them. */

import { objectPath } from "../api/path";
import type { Act, Explanation, Rollout, Work } from "../api/types";
import { ActButtons } from "../parts/act";
import { Filter } from "../parts/controls";
import { Help } from "../parts/command";
import { FailureList } from "../parts/failure";
import { ReasonTree } from "../parts/reasons";
import { Empty, Loading, Unreadable } from "../parts/states";
import { Tag } from "../parts/tag";
import { Lasting } from "../parts/time";
import { actsSeq } from "../store/acts";
import { useAsked } from "../store/asked";
import { failures, rollouts, works } from "../store/live";
import { lookOfState, type Look } from "../store/looks";
import { targetOf } from "../store/objects";
import { nodesOf, type RolloutNode } from "../store/rollout";
import { fleetAddress, nodeAddress, refined } from "../store/route";
import { count, counted } from "../store/times";

const MOST_NODES = 12;

export function Rollouts(): preact.JSX.Element {
  const { items, why } = rollouts.value;
  const words = refined("q").toLowerCase();
  const found = [...(items ?? [])].filter((each) => `${each.object} ${each.state}`.toLowerCase().includes(words)).sort(byConcern);
  return (
    <>
      <div class="head">
        <h1>Rollouts</h1>
        {items && items.length > 0 && <p class="sub">{summary(items)}</p>}
        <span class="right">{items && items.length > 4 && <Filter hint="Filter rollouts" />}</span>
      </div>
      {!items && !why && <Loading what="the rollouts" />}
      {!items && why && <Unreadable what="The rollouts" why={why} />}
      {items?.length === 0 && <Empty title="No rollouts">No object of this cluster changes many nodes, such as a Skyhook with packages.</Empty>}
      {items && items.length > 0 && found.length === 0 && <Empty title="No rollout matches the filter" />}
      <div class="stack">
        {found.map((rollout) => (
          <Progress key={rollout.object} rollout={rollout} />
        ))}
      </div>
    </>
  );
}

function hasFailed(object: string): boolean {
  return (failures.value.items ?? []).some((failure) => failure.object === object);
}

function lookOfRollout({ object, state, done, total }: Rollout): Look {
  if (/err|fail|block|halt/i.test(state) || hasFailed(object)) return "stuck";
  if (/complete|done/i.test(state) || (total > 0 && done === total)) return "safe";
  return /pause|wait|disabled/i.test(state) ? "wait" : "work";
}

const CONCERN: Look[] = ["stuck", "work", "wait", "safe"];

function byConcern(a: Rollout, b: Rollout): number {
  return CONCERN.indexOf(lookOfRollout(a)) - CONCERN.indexOf(lookOfRollout(b)) || (a.object < b.object ? -1 : 1);
}

function summary(items: readonly Rollout[]): string {
  const of = (look: Look): number => items.filter((each) => lookOfRollout(each) === look).length;
  return `${counted(items.length, "rollout")} · ${count(of("stuck"))} failing · ${count(of("work"))} in progress · ${count(of("safe"))} complete`;
}

function Progress({ rollout }: { rollout: Rollout }): preact.JSX.Element {
  const { object, state, total, done, atWork, surface } = rollout;
  const target = targetOf(object);
  const path = objectPath(target.kind, target.namespace, target.name);
  const again = `${actsSeq.value} ${state} ${done} ${atWork} ${failures.value.items?.length ?? 0}`;
  const { answer } = useAsked<Explanation>(`explain/${path}`, again);
  const { answer: offered } = useAsked<{ acts: Act[] }>(`acts/${path}`, actsSeq.value);
  const mine = (works.value.items ?? []).filter((work) => work.object === object);
  const failed = (failures.value.items ?? []).filter((failure) => failure.object === object || mine.some((work) => work.node === failure.node));
  const known = new Set(failed.map((failure) => failure.text));
  const { nodes, others } = nodesOf(answer?.reasons ?? [], answer?.queue ?? {});
  const gates = others.filter((reason) => !known.has(reason.text));
  const share = (part: number): string => `${total ? (part / total) * 100 : 0}%`;
  return (
    <section class="card">
      <div class="head">
        <h2 class="name">{target.name}</h2>
        <Tag look={lookOfRollout(rollout)} text={(state || "not begun").replaceAll("_", " ")} />
        <span class="faint">
          {target.kind} · {surface}
        </span>
        <span class="right">{offered && <ActButtons acts={offered.acts} target={target} />}</span>
      </div>
      <p>
        <b class="big">{count(done)}</b> of {counted(total, "node")} done
        {done < total && (
          <span class="sub">
            {" "}
            · {count(atWork)} in progress · {count(Math.max(0, total - done - atWork))} to go
          </span>
        )}
      </p>
      <div class="bar" role="img" aria-label={`${done} of ${total} done, ${atWork} in progress`}>
        <i class="done" style={{ width: share(done) }} />
        <i class="atwork" style={{ width: share(atWork) }} />
      </div>
      {failed.length > 0 && <FailureList failures={failed} />}
      {gates.length > 0 && <ReasonTree reasons={gates} />}
      {answer?.act && !failed.length && gates.length > 0 && (
        <p class="act">
          <span class="sub">What helps:</span> <Help act={answer.act} />
        </p>
      )}
      <Nodes nodes={nodes} works={mine} />
    </section>
  );
}

/** The nodes of a rollout that are not done, those that fail first. */
function Nodes({ nodes, works: mine }: { nodes: readonly RolloutNode[]; works: readonly Work[] }): preact.JSX.Element | null {
  const byNode = new Map(mine.map((work) => [work.node, work]));
  const named = new Set(nodes.map((node) => node.name));
  const blocked = mine.filter((work) => !named.has(work.node)).map((work): RolloutNode => ({ name: work.node, state: work.state, stage: "", waitsFor: "", fails: false }));
  // A node that is done with an earlier version waits for this one.
  const current = nodes.map((node) => (node.state === "complete" ? { ...node, state: byNode.get(node.name)?.state ?? "waiting" } : node));
  const rows = [...current, ...blocked];
  if (!rows.length) return null;
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label="Nodes that are not done">
        <table class="folds">
          <thead>
            <tr>
              <th>Node</th>
              <th>State</th>
              <th>Package and stage</th>
              <th>Waits for</th>
              <th class="num">For</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MOST_NODES).map((node) => (
              <tr key={node.name}>
                <td>
                  <a class="link mono name" href={nodeAddress(node.name)}>{node.name}</a>
                </td>
                <td>
                  <Tag look={node.fails ? "stuck" : lookOfNode(node, byNode.get(node.name))} text={node.state.replaceAll("_", " ")} />
                </td>
                <td class="line">{node.stage}</td>
                <td class="sub">{byNode.get(node.name)?.waitsFor.join("; ") || node.waitsFor}</td>
                <td class="num faint">
                  <Lasting since={byNode.get(node.name)?.since} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > MOST_NODES && (
        <p class="note sub">
          {count(rows.length - MOST_NODES)} more. <a class="link" href={fleetAddress({ q: "state:maintenance" })}><u>Show the map</u></a>
        </p>
      )}
    </>
  );
}

function lookOfNode(node: RolloutNode, work: Work | undefined): Look {
  if (work?.waitsFor.length && work.state === "draining") return "stuck";
  if (/progress/.test(node.state)) return "work";
  return /wait|unknown/.test(node.state) ? "wait" : lookOfState(work?.state ?? node.state);
}

