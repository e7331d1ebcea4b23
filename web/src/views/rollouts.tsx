/** Objects that change many nodes: how far they are, what fails, and the acts that halt or undo them. */

import { objectPath } from "../api/path";
import type { Act, Explanation, Rollout } from "../api/types";
import { ActButtons } from "../parts/act";
import { Filter } from "../parts/controls";
import { Help } from "../parts/command";
import { ReasonTree } from "../parts/reasons";
import { Empty, Loading, Unreadable } from "../parts/states";
import { Tag } from "../parts/tag";
import { actsSeq } from "../store/acts";
import { useAsked } from "../store/asked";
import { works } from "../store/live";
import type { Look } from "../store/looks";
import { rollouts } from "../store/live";
import { targetOf } from "../store/objects";
import { nodeAddress, refined } from "../store/route";
import { count, counted } from "../store/times";
import type { Work } from "../api/types";

const MOST_NODES = 12;

export function Rollouts(): preact.JSX.Element {
  const { items, why } = rollouts.value;
  const words = refined("q").toLowerCase();
  const found = [...(items ?? [])].filter((each) => `${each.object} ${each.state}`.toLowerCase().includes(words)).sort(byConcern);
  return (
    <>
      <div class="head">
        <h1>Rollouts</h1>
        {items && <p class="sub">{summary(items)}</p>}
        <span class="right">{items && items.length > 4 && <Filter hint="Filter rollouts" />}</span>
      </div>
      {!items && !why && <Loading what="the rollouts" />}
      {!items && why && <Unreadable what="The rollouts" why={why} />}
      {items?.length === 0 && <Empty title="No rollouts">No object of this cluster changes many nodes, such as a Skyhook with packages.</Empty>}
      <div class="stack">
        {found.map((rollout) => (
          <Progress key={rollout.object} rollout={rollout} />
        ))}
      </div>
    </>
  );
}

function lookOfRollout({ state, done, total }: Rollout): Look {
  if (/err|fail|block|halt/i.test(state)) return "stuck";
  if (/complete|done/i.test(state) || (total > 0 && done === total)) return "safe";
  return /pause|wait|disabled/i.test(state) ? "wait" : "work";
}

const CONCERN: Look[] = ["stuck", "work", "wait", "safe"];

function byConcern(a: Rollout, b: Rollout): number {
  return CONCERN.indexOf(lookOfRollout(a)) - CONCERN.indexOf(lookOfRollout(b)) || (a.object < b.object ? -1 : 1);
}

function summary(items: readonly Rollout[]): string {
  const failing = items.filter((each) => lookOfRollout(each) === "stuck").length;
  const open = items.filter((each) => lookOfRollout(each) === "work").length;
  return `${counted(items.length, "rollout")} · ${count(open)} at work · ${count(failing)} failing`;
}

function Progress({ rollout }: { rollout: Rollout }): preact.JSX.Element {
  const { object, state, total, done, atWork, surface } = rollout;
  const target = targetOf(object);
  const path = objectPath(target.kind, target.namespace, target.name);
  const again = `${actsSeq.value} ${state} ${done} ${atWork}`;
  const { answer } = useAsked<Explanation>(`explain/${path}`, again);
  const { answer: offered } = useAsked<{ acts: Act[] }>(`acts/${path}`, actsSeq.value);
  const mine = (works.value.items ?? []).filter((work) => work.object === object);
  const share = (part: number): string => `${total ? (part / total) * 100 : 0}%`;
  return (
    <section class="card">
      <div class="head">
        <h2 class="name">{object}</h2>
        <Tag look={lookOfRollout(rollout)} text={state || "not begun"} />
        <span class="faint">{surface}</span>
        <span class="right">{offered && <ActButtons acts={offered.acts} target={target} />}</span>
      </div>
      <p>
        <b class="big">{count(done)}</b> of {counted(total, "node")} done{atWork > 0 && <span class="sub"> · {count(atWork)} at work</span>}
      </p>
      <div class="bar" role="img" aria-label={`${done} of ${total} done, ${atWork} at work`}>
        <i class="done" style={{ width: share(done) }} />
        <i class="atwork" style={{ width: share(atWork) }} />
      </div>
      {(answer?.reasons ?? []).length > 0 && (
        <>
          <h3>Why it waits</h3>
          <ReasonTree reasons={answer?.reasons ?? []} />
        </>
      )}
      {answer?.act && (
        <p class="act">
          <span class="sub">What helps:</span> <Help act={answer.act} />
        </p>
      )}
      <AtWork works={mine} />
    </section>
  );
}

/** The nodes of a rollout that are in work, those that fail first. */
function AtWork({ works: mine }: { works: readonly Work[] }): preact.JSX.Element | null {
  const sorted = [...mine].sort((a, b) => b.waitsFor.length - a.waitsFor.length || (a.node < b.node ? -1 : 1));
  if (!sorted.length) return null;
  return (
    <>
      <h3>Nodes, blocked ones first</h3>
      <ul class="plainlist">
        {sorted.slice(0, MOST_NODES).map((work) => (
          <li key={work.node}>
            <a class="link mono" href={nodeAddress(work.node)}>{work.node}</a> {work.state}
            {work.waitsFor.length > 0 && <span class="warning">: {work.waitsFor.join("; ")}</span>}
          </li>
        ))}
        {sorted.length > MOST_NODES && <li class="faint">and {count(sorted.length - MOST_NODES)} more</li>}
      </ul>
    </>
  );
}
