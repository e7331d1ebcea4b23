/** One root cause: how many nodes it keeps, why, and the one act that helps. */

import type { Cause } from "../api/types";
import { sortOf, titleOf } from "../store/causes";
import { fleetAddress, nodeAddress } from "../store/route";
import { count } from "../store/times";
import { Help } from "./command";
import { Relative } from "./time";

const MOST_NODES = 3;

export function CauseCard({ cause }: { cause: Cause }): preact.JSX.Element {
  const [title, rest] = titleOf(cause.text || cause.code);
  const sort = sortOf(cause);
  const here = cause.at.length ? cause.at : cause.nodes;
  const behind = cause.nodes.length - here.length;
  return (
    <li class={`card cause sort-${sort}`}>
      <h2>{title}</h2>
      <div class="n">
        {count(cause.nodes.length)} <small>{cause.nodes.length === 1 ? "node" : "nodes"}</small>
      </div>
      <div class="when">
        {sort === "plan" ? "no fault · " : ""}
        {cause.until ? <Relative at={cause.until} /> : sort === "unknown" ? "not known" : "until somebody acts"}
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
      </div>
    </li>
  );
}
