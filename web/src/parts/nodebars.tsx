/** The past and the forecast of one node on one line. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { LogRecord, PlannedNode } from "../api/types";
import { now, zone } from "../store/clock";
import { WORDS, type Look } from "../store/looks";
import { barsOf, plannedBars } from "../store/bars";
import { clock, dayAndClock } from "../store/times";
import type { Bar } from "../draw/timeline";

const LEAST_MS = 30 * 60_000;

export function NodeBars({ records, planned }: { records: readonly LogRecord[]; planned: PlannedNode | null }): preact.JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.max(200, Math.floor(entry!.contentRect.width))));
    sizes.observe(frame.current!);
    return () => sizes.disconnect();
  }, []);
  const at = now.value;
  const recent = records.filter((record) => !record.status?.endedAt || Date.parse(record.status.endedAt) > at - 12 * 3_600_000);
  const bars = [...recent.flatMap((record) => barsOf(record, at)), ...(planned ? plannedBars(planned, at) : [])];
  const from = Math.min(at - LEAST_MS, ...bars.map((bar) => bar.from));
  const to = Math.max(at + LEAST_MS, ...bars.map((bar) => Math.min(bar.to, at + 24 * 3_600_000)));
  const x = (instant: number): number => ((Math.min(Math.max(instant, from), to) - from) / (to - from)) * width;
  const text = to - from > 20 * 3_600_000 ? dayAndClock : clock;
  return (
    <div ref={frame} class="nodebars">
      <svg width={width} height={66} aria-hidden="true">
        <defs>
          <pattern id="hatch" width="6" height="6" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">
            <rect width="2" height="6" class="fill-work" />
          </pattern>
        </defs>
        <rect x={0} y={18} width={width} height={22} rx={3} class="track" />
        {bars.map((bar, i) => (
          <rect
            key={i}
            x={x(bar.from)}
            y={18}
            width={Math.max(2, x(bar.to) - x(bar.from) - 1)}
            height={22}
            rx={3}
            class={bar.forecast ? "" : `fill-${bar.look}`}
            {...(bar.forecast ? { fill: "url(#hatch)" } : {})}
          />
        ))}
        <line x1={x(at)} x2={x(at)} y1={8} y2={46} class="nowline" />
        <text x={Math.min(width - 24, Math.max(12, x(at)))} y={60} text-anchor="middle" class="nowtext">
          now
        </text>
        <text x={0} y={60} class="axistext">{x(at) > 70 ? text(from, zone.value) : ""}</text>
        <text x={width} y={60} text-anchor="end" class="axistext">
          {x(at) < width - 70 ? text(to, zone.value) : ""}
        </text>
      </svg>
      <ul class="plainlist">
        {bars.length === 0 && <li class="sub">Nothing happens to it, and nothing is foreseen.</li>}
        {bars.slice(0, 8).map((bar, i) => (
          <li key={i}>{sentence(bar, zone.value)}</li>
        ))}
      </ul>
    </div>
  );
}

function sentence(bar: Bar, zoneName: string): string {
  const word = bar.said || WORDS[bar.look as Look] || bar.look;
  return `${clock(bar.from, zoneName)}–${clock(bar.to, zoneName)} ${word}${bar.forecast ? " (forecast)" : ""}`;
}
