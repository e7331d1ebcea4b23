/** The landing page: why nothing moves, and what frees most. */

import { FleetActs } from "../parts/act";
import { CauseCard } from "../parts/cause";
import { Filter } from "../parts/controls";
import { Empty, Loading, Unreadable } from "../parts/states";
import { ranked, sortOf } from "../store/causes";
import { causes, fleet } from "../store/live";
import { refined } from "../store/route";
import { count, counted } from "../store/times";

export function Blocked(): preact.JSX.Element {
  const { items, why } = causes.value;
  const words = refined("q").toLowerCase();
  const rows = [...fleet.value.rows.values()];
  const found = ranked(items ?? []).filter((cause) => `${cause.code} ${cause.text} ${cause.nodes.join(" ")}`.toLowerCase().includes(words));
  const kept = new Set((items ?? []).flatMap((cause) => cause.nodes));
  const planned = new Set((items ?? []).filter((cause) => sortOf(cause) === "plan").flatMap((cause) => cause.nodes));
  const moving = rows.filter((row) => row.holders.length > 0 && !kept.has(row.name)).length;
  return (
    <>
      <div class="head">
        <h1>Blocked</h1>
        {items && (
          <p class="lead">
            {items.length ? `${counted(items.length, "cause")} ${items.length === 1 ? "keeps" : "keep"} ${counted(kept.size, "node")}` : "nothing waits"}
          </p>
        )}
        {items && (
          <p class="sub">
            {count(moving)} moving · {count(planned.size)} wait by plan · {counted(rows.length, "node")}
          </p>
        )}
        <span class="right tools">
          {items && items.length > 4 && <Filter hint="Filter causes" />}
          <FleetActs />
        </span>
      </div>
      {!items && !why && <Loading what="the causes" />}
      {!items && why && <Unreadable what="The causes" why={why} />}
      {items?.length === 0 && (
        <Empty title="Nothing is blocked">
          {moving ? `${counted(moving, "node")} ${moving === 1 ? "is" : "are"} moving.` : "No node waits for anything."}
        </Empty>
      )}
      {items && items.length > 0 && found.length === 0 && <Empty title="No cause matches the filter" />}
      <ol class="stack causes">
        {found.map((cause) => (
          <CauseCard key={`${cause.code} ${cause.text}`} cause={cause} />
        ))}
      </ol>
    </>
  );
}
