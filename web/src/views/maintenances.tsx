/** Every maintenance of every surface in one table. Several can be chosen for one act. */

import { useMemo, useState } from "preact/hooks";
import { objectPath } from "../api/path";
import type { Act, LogRecord, Work } from "../api/types";
import { Filter } from "../parts/controls";
import { Empty, Loading, Unreadable } from "../parts/states";
import { Tag } from "../parts/tag";
import { VirtualTable, type Column } from "../parts/table";
import { Clock, Lasting } from "../parts/time";
import { actsSeq, dialog, titleOf } from "../store/acts";
import { useAsked } from "../store/asked";
import { forecast, useForecast } from "../store/forecast";
import { works } from "../store/live";
import { lookOfState, WORDS, type Look } from "../store/looks";
import { targetOf } from "../store/objects";
import { nodeAddress, refined } from "../store/route";
import { count, counted } from "../store/times";

const keyOf = (work: Work): string => `${work.surface} ${work.object} on ${work.node}`;

export function Maintenances(): preact.JSX.Element {
  const { items, why } = works.value;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useForecast();
  // Only the logbook knows who asked for a maintenance, from its beginning on.
  const { answer: log } = useAsked<{ records: LogRecord[] }>("records?outcome=open&limit=500", `${actsSeq.value} ${items?.length ?? 0}`);
  const askers = useMemo(() => askersOf(log?.records ?? []), [log]);
  const askedBy = (work: Work): string => askers.get(`${work.object} ${work.node}`) ?? "";
  const words = refined("q").toLowerCase().split(/\s+/).filter(Boolean);
  const found = (items ?? []).filter((work) => {
    const text = [work.surface, work.object, work.node, WORDS[lookOfWork(work)], askedBy(work), ...work.waitsFor].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const picked = found.filter((work) => chosen.has(keyOf(work)));
  const toggle = (keys: readonly string[], on: boolean): void => {
    const next = new Set(chosen);
    for (const key of keys) {
      if (on) next.add(key);
      else next.delete(key);
    }
    setChosen(next);
  };
  return (
    <>
      <div class="head">
        <h1>Maintenances</h1>
        {items && <p class="sub">{summary(items)}</p>}
      </div>
      {items && items.length > 0 && (
        <div class="controls">
          <Filter hint="node, object, surface, state" />
          <Chosen works={picked} clear={() => setChosen(new Set())} />
        </div>
      )}
      {!items && !why && <Loading what="the maintenances" />}
      {!items && why && <Unreadable what="The maintenances" why={why} />}
      {items?.length === 0 && <Empty title="No maintenance">Nothing is in maintenance, and nothing waits for it. On the page of a node, Start begins one.</Empty>}
      {items && items.length > 0 && found.length === 0 && <Empty title="No maintenance matches the filter" />}
      {found.length > 0 && <VirtualTable label="Maintenances" rows={found} columns={columns(askedBy)} keyOf={keyOf} selection={{ chosen, toggle }} />}
    </>
  );
}

/** Return who asked for each maintenance, by object and node. */
function askersOf(records: readonly LogRecord[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const { spec } of records) {
    const object = [spec.owner.kind?.toLowerCase(), spec.owner.namespace, spec.owner.name].filter(Boolean).join("/");
    if (spec.requestedBy?.name) found.set(`${object} ${spec.node.name}`, spec.requestedBy.name);
  }
  return found;
}

function lookOfWork(work: Work): Look {
  return work.state === "draining" && work.waitsFor.length ? "stuck" : lookOfState(work.state);
}

function summary(items: readonly Work[]): string {
  const of = (state: string): number => items.filter((work) => work.state === state).length;
  const blocked = items.filter((work) => lookOfWork(work) === "stuck").length;
  const draining = `${count(of("draining"))} draining${blocked ? ` (${count(blocked)} blocked)` : ""}`;
  return `${counted(items.length, "maintenance")} · ${count(of("in maintenance"))} in maintenance · ${draining} · ${count(of("waiting"))} waiting`;
}

function columns(askedBy: (work: Work) => string): Column<Work>[] {
  const ends = new Map(forecast().plan?.nodes.map((node) => [node.name, node.doneAt]) ?? []);
  const compare = (pick: (work: Work) => string) => (a: Work, b: Work) => (pick(a) < pick(b) ? -1 : pick(a) > pick(b) ? 1 : 0);
  return [
    {
      name: "Node", width: "minmax(120px, 1.4fr)", sort: compare((work) => work.node),
      cell: (work) => <a class="link mono" href={nodeAddress(work.node)} title={work.node}>{work.node}</a>,
    },
    { name: "State", width: "138px", isFixed: true, cell: (work) => <Tag look={lookOfWork(work)} />, sort: compare((work) => work.state) },
    {
      name: "Object", width: "minmax(110px, 2fr)", isSpare: true, sort: compare((work) => work.object),
      cell: (work) => <span title={`${work.object} (${work.surface})`}>{targetOf(work.object).name} <span class="faint">{targetOf(work.object).kind}</span></span>,
    },
    { name: "Waits for", width: "minmax(110px, 3fr)", isLong: true, cell: (work) => <span title={work.waitsFor.join("\n")}>{work.waitsFor.join("; ")}</span> },
    { name: "Asked by", width: "minmax(64px, .7fr)", isSpare: true, cell: (work) => <span title={askedBy(work)}>{askedBy(work)}</span>, sort: compare(askedBy) },
    { name: "Pods left", width: "62px", isNumber: true, isSpare: true, cell: (work) => work.podsLeft || "", sort: (a, b) => a.podsLeft - b.podsLeft },
    { name: "For", width: "62px", isNumber: true, isSpare: true, cell: (work) => <Lasting since={work.since} />, sort: compare((work) => work.since ?? "") },
    { name: "Expected end", width: "92px", isNumber: true, isSpare: true, cell: (work) => <Clock at={ends.get(work.node) ?? work.endsAt} />, sort: compare((work) => ends.get(work.node) ?? "") },
  ];
}

/** The acts for the chosen maintenances. They are for objects of one kind: those of the first one. */
function Chosen({ works: picked, clear }: { works: readonly Work[]; clear: () => void }): preact.JSX.Element | null {
  const first = picked[0] ? targetOf(picked[0].object) : null;
  const { answer } = useAsked<{ acts: Act[] }>(first && `acts/${objectPath(first.kind, first.namespace, first.name)}`, actsSeq.value);
  if (!first) return null;
  const byName = new Map(picked.map((work) => [work.object, targetOf(work.object)]));
  const targets = [...byName.values()].filter((target) => target.kind === first.kind);
  return (
    <span class="act" role="group" aria-label="Acts for the chosen">
      <b>{count(picked.length)} chosen</b>
      {(answer?.acts ?? []).filter((act) => !act.why).map((act) => (
        <button key={`${act.act} ${act.with ?? ""}`} type="button" class="btn" onClick={() => (dialog.value = { offers: [act], targets })}>
          {titleOf(act.act)}…
        </button>
      ))}
      {targets.length < byName.size && <span class="faint">for the {targets.length} of kind {first.kind}</span>}
      <button type="button" class="btn quiet" onClick={clear}>
        Clear
      </button>
    </span>
  );
}
