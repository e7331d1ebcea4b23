/** One node: its state, whether it is safe to work on, why it waits, its pods, who holds it, and its acts. */

import type { Act, LogRecord, NodeDocument, Pod, Row } from "../api/types";
import { objectPath } from "../api/path";
import { ActButtons, sentence } from "../parts/act";
import { Help } from "../parts/command";
import { NodeBars } from "../parts/nodebars";
import { ReasonTree } from "../parts/reasons";
import { Loading, Unreadable } from "../parts/states";
import { Shape, Tag } from "../parts/tag";
import { Clock, Lasting, Relative } from "../parts/time";
import { actsSeq } from "../store/acts";
import { useAsked } from "../store/asked";
import { rulesOf, subjectOf } from "../store/bars";
import { now } from "../store/clock";
import { forecast, useForecast } from "../store/forecast";
import { fleet, liveness } from "../store/live";
import { lookOf, lookOfOutcome, lookOfState, type Look } from "../store/looks";
import { targetOf } from "../store/objects";
import { count, counted, instant, span } from "../store/times";

// Pods and reasons of a node may change without a change of its row.
const ASK_EVERY_MS = 5000;

export function NodePage({ name }: { name: string }): preact.JSX.Element {
  const row = fleet.value.rows.get(name);
  const turn = `${liveness.value.state} ${Math.floor(now.value / ASK_EVERY_MS)} ${actsSeq.value} ${row ? `${row.state} ${row.podsLeft}` : ""}`;
  const { answer, error } = useAsked<NodeDocument>(`nodes/${objectPath("", "", name)}`, turn);
  const { answer: past } = useAsked<{ records: LogRecord[] }>(`records?node=${encodeURIComponent(name)}&limit=50`, actsSeq.value);
  useForecast();
  const shown = row ?? answer?.row;
  const records = past?.records ?? [];
  return (
    <>
      <div class="head">
        <h1 class="name">{name}</h1>
        {shown && <Tag look={lookOf(shown)} text={stateText(shown)} />}
        {shown && <Verdict row={shown} />}
        <span class="right">{answer && <ActButtons acts={answer.acts} target={{ kind: "Node", namespace: "", name }} />}</span>
      </div>
      {error?.status === 404 && <Unreadable what="This node" why={`There is no node named ${name}.`} />}
      {error && error.status !== 404 && !answer && <Unreadable what="This node" why={error.message} />}
      {!answer && !error && <Loading what={`node ${name}`} lines={6} />}
      {answer && error?.status !== 404 && (
        <div class="columns">
          <div class="stack">
            <Why found={answer} />
            <Pods pods={answer.pods} />
          </div>
          <div class="stack">
            <Holders found={answer} />
            <Time name={name} row={shown} records={records} />
            <Before records={records} />
          </div>
        </div>
      )}
    </>
  );
}

function stateText(row: Row): string {
  if (row.podsLeft && row.podsTotal) return `${row.state}, ${row.podsTotal - row.podsLeft} of ${row.podsTotal} pods done`;
  return row.podsLeft ? `${row.state}, ${counted(row.podsLeft, "pod")} left` : row.state;
}

/** Whether a person may touch the machine. Only what is proven is called safe. */
function Verdict({ row }: { row: Row }): preact.JSX.Element {
  if (row.safeToWork === true && liveness.value.state === "live") {
    return (
      <span class="verdict safe">
        <Shape look="safe" size={13} /> SAFE TO WORK
      </span>
    );
  }
  if (row.safeToWork === null && liveness.value.state === "live") {
    return (
      <span class="verdict unsure">
        <Shape look="unknown" size={13} /> NOT KNOWN TO BE SAFE<span class="because">: it is not proven to be empty</span>
      </span>
    );
  }
  return (
    <span class="verdict unsafe">
      <Shape look="stuck" size={13} /> NOT SAFE TO WORK<span class="because">: {unsafe(row)}</span>
    </span>
  );
}

function unsafe(row: Row): string {
  if (liveness.value.state !== "live") return "what is shown may be old";
  if (row.podsLeft) return `${counted(row.podsLeft, "pod")} left`;
  if (row.state === "draining") return "it is draining";
  if (row.holders.length === 0) return "it is not in maintenance";
  return row.state === "in maintenance" ? "pods may still be there" : `it is ${row.state}`;
}

function Why({ found }: { found: NodeDocument }): preact.JSX.Element {
  const { explain, works } = found;
  // That no surface concerns it is no reason to wait for.
  const reasons = (explain.reasons ?? []).filter((reason) => reason.code !== "no-surface" && reason.code !== "not-wanted");
  return (
    <section class="card">
      <h2>Why it waits</h2>
      {reasons.length ? <ReasonTree reasons={reasons} act={explain.act ?? ""} /> : <p class="sub">{works.length ? "It waits for nothing: its maintenance goes on." : "It waits for nothing."}</p>}
      {explain.act && (
        <div class="act">
          <span class="sub">What helps:</span>
          <Help act={explain.act} />
        </div>
      )}
      {explain.lastGraceEndsAt && (
        <p class="sub">
          The last grace period ends <Relative at={explain.lastGraceEndsAt} />.
        </p>
      )}
      {Object.keys(explain.queue ?? {}).length > 0 && (
        <>
          <h3>Nodes before it</h3>
          <dl class="facts">
            {Object.entries(explain.queue ?? {}).map(([node, text]) => (
              <div key={node}>
                <dt class="mono">{node}</dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
      {(explain.incomplete ?? []).map((text) => (
        <p key={text} class="sub warning">
          Not everything could be read: {text}
        </p>
      ))}
    </section>
  );
}

const POD_LOOKS: Record<string, Look> = {
  blocked: "stuck", failed: "stuck", terminating: "drain", evicting: "drain", running: "ok", ignored: "ok",
};
// Words for why a pod is still on its node, where the word of the API is not one of people.
const POD_WORDS: Record<string, string> = {
  disruptionbudget: "blocked", multipledisruptionbudgets: "blocked", error: "failed", namespaceterminating: "terminating",
};

function PodTag({ state }: { state: string }): preact.JSX.Element {
  const word = POD_WORDS[state.toLowerCase()] ?? state.toLowerCase();
  return <Tag look={POD_LOOKS[word] ?? "wait"} text={word} />;
}

function Pods({ pods }: { pods: Pod[] | null }): preact.JSX.Element {
  return (
    <section class="card">
      <h2>Pods {pods && pods.length > 0 && <span class="faint">{count(pods.length)}</span>}</h2>
      {pods === null && <p class="sub">The pods of this node cannot be read.</p>}
      {pods?.length === 0 && <p class="sub">No pod is on this node.</p>}
      {pods && pods.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Pods">
          <table class="folds">
            <thead>
              <tr>
                <th>Pod</th>
                <th>State</th>
                <th>What happens</th>
                <th class="num">For</th>
              </tr>
            </thead>
            <tbody>
              {pods.map((pod) => (
                <tr key={`${pod.namespace}/${pod.name}`}>
                  <td class="mono name">{pod.namespace ? `${pod.namespace}/${pod.name}` : pod.name}</td>
                  <td>
                    <PodTag state={pod.state} />
                  </td>
                  <td>
                    {pod.text}
                    {pod.until && (
                      <span class="faint">
                        {" "}
                        <Relative at={pod.until} />
                      </span>
                    )}
                  </td>
                  <td class="num faint">
                    <Lasting since={pod.since} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Holders({ found }: { found: NodeDocument }): preact.JSX.Element {
  const { works, explain } = found;
  return (
    <section class="card">
      <h2>Who holds it</h2>
      {works.length === 0 && <p class="sub">No maintenance wants this node.</p>}
      {works.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Object</th>
              <th>State</th>
              <th class="num">Since</th>
            </tr>
          </thead>
          <tbody>
            {works.map((work) => (
              <tr key={`${work.surface} ${work.object}`}>
                <td>
                  <span class="name">{work.object}</span>
                  <div class="faint">{work.surface}</div>
                  <HolderActs object={work.object} />
                </td>
                <td>
                  <Tag look={lookOfState(work.state)} />
                </td>
                <td class="num">
                  <Clock at={work.since} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {explain.cordon && <p class="sub note">{sentence(explain.cordon)}</p>}
      {(explain.holds ?? []).length > 0 && (
        <details>
          <summary>Claims and turns</summary>
          <ul class="plainlist">
            {(explain.holds ?? []).map((hold, i) => (
              <li key={i}>
                {[hold.surface, hold.slot].filter(Boolean).join(" ")}: wants to {hold.wants.join(", ")};{" "}
                {hold.begun ? "has begun" : hold.granted ? "is granted" : "waits for its turn"}
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

/** The acts of the object that holds the node, such as to cancel it. Those of the node itself are at the top of the page. */
function HolderActs({ object }: { object: string }): preact.JSX.Element | null {
  const target = targetOf(object);
  const path = target.kind === "Node" ? null : `acts/${objectPath(target.kind, target.namespace, target.name)}`;
  const { answer } = useAsked<{ acts: Act[] }>(path, actsSeq.value);
  return answer ? <ActButtons acts={answer.acts} target={target} /> : null;
}

function Time({ name, row, records }: { name: string; row: Row | undefined; records: readonly LogRecord[] }): preact.JSX.Element {
  const { plan, asOf, state, why } = forecast();
  const planned = plan?.nodes.find((node) => node.name === name) ?? null;
  return (
    <section class="card">
      <h2>
        Time{" "}
        <span class="faint">
          {state === "running" && !plan && "making the forecast…"}
          {state === "failed" && `no forecast: ${why}`}
          {asOf && (
            <>
              forecast made <Relative at={asOf} />
            </>
          )}
        </span>
      </h2>
      <NodeBars row={row} records={records} planned={planned} />
    </section>
  );
}

function Before({ records }: { records: readonly LogRecord[] }): preact.JSX.Element {
  const ended = records.filter((record) => record.status?.outcome).slice(0, 8);
  return (
    <section class="card">
      <h2>Earlier maintenances</h2>
      {ended.length === 0 && <p class="sub">The logbook has no earlier maintenance of this node.</p>}
      {ended.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>When</th>
              <th>What</th>
              <th>Outcome</th>
              <th class="num">Took</th>
            </tr>
          </thead>
          <tbody>
            {ended.map((record, i) => (
              <tr key={i}>
                <td>
                  <Clock at={record.spec.begunAt} />
                </td>
                <td>
                  <span class="name" title={record.spec.reason ?? ""}>{subjectOf(record)}</span>
                  {record.spec.requestedBy?.name && <span class="faint"> ({record.spec.requestedBy.name})</span>}
                  {rulesOf(record).length > 0 && <div class="faint name" title={rulesOf(record).join("\n")}>under {rulesOf(record).join(", ")}</div>}
                </td>
                <td>
                  <Tag look={lookOfOutcome(record.status?.outcome)} text={(record.status?.outcome ?? "").replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()} />
                </td>
                <td class="num">{took(record)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function took(record: LogRecord): string {
  const from = instant(record.spec.begunAt);
  const to = instant(record.status?.endedAt);
  return from !== null && to !== null ? span((to - from) / 1000) : "";
}

