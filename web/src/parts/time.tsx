/** Instants and spans, relative, with the absolute time on hover. */

import { now, zone } from "../store/clock";
import { absolute, clock, dayAndClock, instant, relative, span } from "../store/times";

/** `4 min ago` or `in 2 d 18 h`. */
export function Relative({ at, none = "" }: { at: string | null | undefined; none?: string }): preact.JSX.Element {
  const found = instant(at);
  if (found === null) return <span class="faint">{none}</span>;
  return (
    <time dateTime={at ?? ""} title={absolute(found, zone.value)}>
      {relative(found, now.value)}
    </time>
  );
}

/** `41 min`: how long something lasts since an instant. */
export function Lasting({ since, none = "" }: { since: string | null | undefined; none?: string }): preact.JSX.Element {
  const found = instant(since);
  if (found === null) return <span class="faint">{none}</span>;
  return (
    <time dateTime={since ?? ""} title={`since ${absolute(found, zone.value)}`}>
      {span((now.value - found) / 1000)}
    </time>
  );
}

/** `02:51`, or `Sat 14 Nov 02:51` where it is another day. */
export function Clock({ at }: { at: string | null | undefined }): preact.JSX.Element {
  const found = instant(at);
  if (found === null) return <span />;
  const isFar = Math.abs(now.value - found) > 12 * 3_600_000;
  return (
    <time dateTime={at ?? ""} title={`${absolute(found, zone.value)}, ${relative(found, now.value)}`}>
      {(isFar ? dayAndClock : clock)(found, zone.value)}
    </time>
  );
}
