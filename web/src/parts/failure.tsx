/** Something that has failed: what, where, and the command that helps. */

import type { Failure } from "../api/types";
import { titleOf } from "../store/causes";
import { nodeAddress } from "../store/route";
import { Help } from "./command";
import { Shape } from "./tag";

export function FailureCard({ failure }: { failure: Failure }): preact.JSX.Element {
  const [title, rest] = titleOf(failure.text || failure.code);
  return (
    <li class="card cause sort-bad failure">
      <h2>{title}</h2>
      <div class="n">
        <Shape look="stuck" size={20} /> <small>failed</small>
      </div>
      <div class="when">{failure.node || failure.object}</div>
      {rest && <p class="why">{rest}</p>}
      <div class="act">
        {failure.act && <Help act={failure.act} />}
        {failure.node ? (
          <a class="btn node" href={nodeAddress(failure.node)}>
            {failure.node}
          </a>
        ) : (
          <a class="btn quiet" href="/rollouts">
            Show the rollouts
          </a>
        )}
      </div>
    </li>
  );
}

/** Failures in a card of another object: one line each, with the command below it. */
export function FailureList({ failures }: { failures: readonly Failure[] }): preact.JSX.Element {
  return (
    <ul class="failures">
      {failures.map((failure) => (
        <li key={`${failure.object} ${failure.node}`}>
          <p class="warning">
            <Shape look="stuck" />{" "}
            {failure.node && (
              <a class="link mono" href={nodeAddress(failure.node)}>
                {failure.node}
              </a>
            )}{" "}
            {failure.text}
          </p>
          {failure.act && (
            <p class="act">
              <Help act={failure.act} />
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}
