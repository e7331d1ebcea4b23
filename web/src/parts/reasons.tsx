/** The tree of reasons. It is always open down to the root causes: they are what a person looks for. */

import type { ReasonNode } from "../api/types";
import { sortOf } from "../store/causes";
import { Clock } from "./time";

/** `act`: what helps most, if it is shown elsewhere. It is not repeated here. */
export function ReasonTree({ reasons, act = "" }: { reasons: readonly ReasonNode[]; act?: string }): preact.JSX.Element {
  return (
    <ul class="tree">
      {reasons.map((reason, i) => (
        <Branch key={i} reason={reason} act={act} />
      ))}
    </ul>
  );
}

function Branch({ reason, act }: { reason: ReasonNode; act: string }): preact.JSX.Element {
  const because = reason.because ?? [];
  return (
    <li>
      <div class={because.length ? "reason" : `reason root ${sortOf(reason)}`} title={reason.code}>
        <span>{reason.text || reason.code}</span>
        {reason.until && (
          <span class="sub">
            {" "}
            until <Clock at={reason.until} />
          </span>
        )}
        {reason.act && reason.act !== act && !because.length && !reason.act.startsWith("haulout explain") && <span class="helps"> → {reason.act}</span>}
      </div>
      {because.length > 0 && (
        <ul>
          {because.map((each, i) => (
            <Branch key={i} reason={each} act={act} />
          ))}
        </ul>
      )}
    </li>
  );
}
