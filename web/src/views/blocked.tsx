/** The landing page: why nothing moves, and what frees most. */

import type { Cause } from "../api/types";
import { FleetActs } from "../parts/act";
import { CauseCard } from "../parts/cause";
import { Filter } from "../parts/controls";
import { FailureCard } from "../parts/failure";
import { Empty, Loading, Unreadable } from "../parts/states";
import { ranked, sinceOf, sortOf } from "../store/causes";
import { causes, failures, fleet } from "../store/live";
import { refined } from "../store/route";
import { count, counted } from "../store/times";

const FEW = 4;

export function Blocked(): preact.JSX.Element {
  const { items, why } = causes.value;
  const failed = failures.value.items ?? [];
  const words = refined("q").toLowerCase();
  const byNode = fleet.value.rows;
  const rows = [...byNode.values()];
  const matching = (...texts: string[]): boolean => texts.join(" ").toLowerCase().includes(words);
  const found = ranked(items ?? [], byNode).filter((cause) => matching(cause.code, cause.text, ...cause.nodes));
  const broken = failed.filter((each) => matching(each.code, each.object, each.node, each.text));
  const kept = new Set((items ?? []).flatMap((cause) => cause.nodes));
  const planned = new Set((items ?? []).filter((cause) => sortOf(cause) === "plan").flatMap((cause) => cause.nodes));
  const moving = rows.filter((row) => row.holders.length > 0 && !kept.has(row.name)).length;
  const cards = (wanted: (cause: Cause) => boolean): preact.JSX.Element[] =>
    found.filter(wanted).map((cause) => <CauseCard key={`${cause.code} ${cause.text}`} cause={cause} since={sinceOf(cause, byNode)} />);
  const isEmpty = items?.length === 0 && failed.length === 0;
  return (
    <>
      <div class="head">
        <h1>Blocked</h1>
        {items && (
          <p class="lead">
            {items.length ? `${counted(items.length, "cause")} ${items.length === 1 ? "holds" : "hold"} up ${counted(kept.size, "node")}` : "nothing waits"}
          </p>
        )}
        {items && (
          <p class="sub">
            {count(moving)} moving
            {failed.length > 0 && <b class="warning"> · {count(failed.length)} failed</b>} · {count(planned.size)} wait as planned · {counted(rows.length, "node")}
          </p>
        )}
        <span class="right tools">
          {items && items.length + failed.length > FEW && <Filter hint="Filter causes" />}
          <FleetActs />
        </span>
      </div>
      {!items && !why && <Loading what="the causes" />}
      {!items && why && <Unreadable what="The causes" why={why} />}
      {isEmpty && (
        <Empty title="Nothing is blocked">
          {moving ? `${counted(moving, "node")} ${moving === 1 ? "is" : "are"} moving.` : "No node waits for anything."}
        </Empty>
      )}
      {items && !isEmpty && found.length + broken.length === 0 && <Empty title="No cause matches the filter" />}
      <ol class="stack causes">
        {cards((cause) => sortOf(cause) === "bad")}
        {broken.map((each) => (
          <FailureCard key={`${each.object} ${each.node}`} failure={each} />
        ))}
        {cards((cause) => sortOf(cause) !== "bad")}
      </ol>
    </>
  );
}
