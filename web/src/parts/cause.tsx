/** One root cause: how many nodes it holds up, why, since when, and the one act that helps. */

import type { Cause } from "../api/types";
import { budgetOf, sortOf, titleOf } from "../store/causes";
import { fleetAddress, nodeAddress } from "../store/route";
import { count } from "../store/times";
import { Help } from "./command";
import { Lasting, Relative } from "./time";

const MOST_NODES = 3;

/** `since`: since when the first of its nodes waits. */
export function CauseCard({ cause, since }: { cause: Cause; since: string | null }): preact.JSX.Element {
  const [title, rest] = titleOf(cause.text || cause.code);
  const sort = sortOf(cause);
  const here = cause.at.length ? cause.at : cause.nodes;
  const behind = cause.nodes.length - here.length;
  const budget = sort === "plan" ? budgetOf(cause.text) : "";
  return (
    <li class={`card cause sort-${sort}`}>
      <h2>{title}</h2>
      <div class="n">
        {count(cause.nodes.length)} <small>{cause.nodes.length === 1 ? "node" : "nodes"}</small>
      </div>
      <div class="when">
        {sort === "plan" ? "no fault" : sort === "unknown" ? "not known" : ""}
        {sort !== "bad" && (cause.until || since) ? " · " : ""}
        {cause.until ? <Relative at={cause.until} /> : <Lasting since={since} />}
      </div>
      {(rest || behind > 0) && (
        <p class="why">
          {rest}
          {rest && behind > 0 ? ". " : ""}
          {behind > 0 && `${count(here.length)} wait for it directly, ${count(behind)} wait for their places.`}
        </p>
      )}
      <div class="act">
        {cause.act && <Help act={cause.act} />}
        {here.slice(0, MOST_NODES).map((node) => (
          <a key={node} class="btn node" href={nodeAddress(node)}>
            {node}
          </a>
        ))}
        {cause.nodes.length > 1 && (
          <a class="btn quiet" href={fleetAddress({ because: cause.text || cause.code })}>
            Show {cause.nodes.length > MOST_NODES ? `all ${count(cause.nodes.length)} ` : ""}on the map
          </a>
        )}
        {budget && (
          <a class="btn quiet" href={`/what-if?${new URLSearchParams({ change: cause.code.includes("window") ? "window" : "limit", budget })}`}>
            Try other limits
          </a>
        )}
      </div>
    </li>
  );
}
