/** A week of windows as a calendar: a line of seven days for each budget or schedule. */

import type { Windows } from "../api/types";
import { now, zone } from "../store/clock";
import { clock, day, dayAndClock, instant, offset } from "../store/times";

const DAY_MS = 86_400_000;

export function Week({ windows, from }: { windows: readonly Windows[]; from: number }): preact.JSX.Element {
  const to = from + 7 * DAY_MS;
  const share = (at: number): number => ((Math.min(to, Math.max(from, at)) - from) / (to - from)) * 100;
  const days = Array.from({ length: 7 }, (_, i) => from + i * DAY_MS);
  const shift = offset(to - 1, zone.value) - offset(from, zone.value);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Windows of the week">
      <div class="week">
        <div class="weekline days">
          <span />
          <div>
            {days.map((at) => (
              <b key={at}>{day(at, zone.value)}</b>
            ))}
          </div>
        </div>
        {windows.map((each) => (
          <div key={each.name} class="weekline">
            <span class="name" title={each.timeZone ? `${each.name}, in ${each.timeZone}` : each.name}>
              {each.name}
              {each.timeZone && <small class="faint"> {each.timeZone}</small>}
            </span>
            <div class="lane">
              {days.slice(1).map((at) => (
                <i key={at} class="midnight" style={{ left: `${share(at)}%` }} />
              ))}
              {each.open.map((extent) => {
                const begins = instant(extent.from) ?? from;
                const ends = instant(extent.to) ?? to;
                if (ends <= from || begins >= to) return null;
                const text = `${dayAndClock(begins, zone.value)} to ${extent.to ? dayAndClock(ends, zone.value) : "no end"}`;
                return (
                  <span key={extent.from} class="open" title={text} style={{ left: `${share(begins)}%`, width: `${share(ends) - share(begins)}%` }}>
                    <span>{clock(begins, zone.value)}–{extent.to ? clock(ends, zone.value) : ""}</span>
                  </span>
                );
              })}
              {each.open.length === 0 && <span class="faint never">does not open this week</span>}
              <i class="nowmark" style={{ left: `${share(now.value)}%` }} />
            </div>
          </div>
        ))}
        {shift !== 0 && <p class="sub">Clocks go {shift > 0 ? "forward" : "back"} by {Math.abs(shift)} h this week.</p>}
      </div>
    </div>
  );
}
