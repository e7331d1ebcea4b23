/** The past and the forecast of one node on one line, with the name of each part above it. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { LogRecord, PlannedNode, Row } from "../api/types";
import { now, zone } from "../store/clock";
import { barsOf, plannedBars, type Part, type PartBar } from "../store/bars";
import { absolute, clock, dayAndClock, instant, span } from "../store/times";

const LEAST_MS = 60_000;
const HOUR = 3_600_000;
// What ended longer ago stands in the list of earlier maintenances.
const RECENT_MS = 3 * HOUR;
const NAMES: Record<Part, string> = { waited: "waited", drain: "drain", work: "work", return: "return" };
// Narrower than this, a name does not fit above its bar.
const LEAST_NAMED_PX = 44;

export function NodeBars({ row, records, planned }: { row: Row | undefined; records: readonly LogRecord[]; planned: PlannedNode | null }): preact.JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(480);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.max(200, Math.floor(entry!.contentRect.width))));
    sizes.observe(frame.current!);
    return () => sizes.disconnect();
  }, []);
  const at = now.value;
  const bars = shownBars(row, records, planned, at);
  if (!bars.length) {
    return (
      <div ref={frame} class="nodebars">
        <p class="sub">No maintenance in the last {RECENT_MS / HOUR} h, and none in the forecast.</p>
      </div>
    );
  }
  const from = Math.min(at - LEAST_MS, ...bars.map((bar) => bar.from));
  const to = Math.max(at + LEAST_MS, ...bars.map((bar) => Math.min(bar.to, at + 24 * HOUR)));
  const x = (instant: number): number => ((Math.min(Math.max(instant, from), to) - from) / (to - from)) * width;
  const text = to - from > 20 * HOUR ? dayAndClock : clock;
  const labels = placed([from, ...bars.flatMap((bar) => [bar.from, bar.to])], at, x, width);
  const back = bars.at(-1)!.forecast ? bars.at(-1)!.to : null;
  return (
    <div ref={frame} class="nodebars">
      <svg width={width} height={74} aria-hidden="true">
        <defs>
          {(["wait", "drain", "work"] as const).map((look) => (
            <pattern key={look} id={`hatch-${look}`} width="6" height="6" patternTransform="rotate(45)" patternUnits="userSpaceOnUse">
              <rect width="6" height="6" class="track" />
              <rect width="2.5" height="6" class={`fill-${look}`} />
            </pattern>
          ))}
        </defs>
        <rect x={0} y={20} width={width} height={22} rx={3} class="track" />
        {bars.map((bar, i) => (
          <g key={i}>
            <title>{sentence(bar, zone.value)}</title>
            <rect
              x={x(bar.from)}
              y={20}
              width={Math.max(2, x(bar.to) - x(bar.from) - 1)}
              height={22}
              rx={2}
              class={bar.forecast ? "" : `fill-${bar.look}`}
              {...(bar.forecast ? { fill: `url(#hatch-${bar.look})` } : {})}
            />
            {x(bar.to) - x(bar.from) > LEAST_NAMED_PX && bars[i - 1]?.part !== bar.part && (
              <text x={x(bar.from) + 2} y={13} class="axistext">
                {NAMES[bar.part]}
                {bar.forecast && x(bar.to) - x(bar.from) > 2.2 * LEAST_NAMED_PX ? " (forecast)" : ""}
              </text>
            )}
          </g>
        ))}
        <line x1={x(at)} x2={x(at)} y1={14} y2={50} class="nowline" />
        <text x={Math.min(width - 12, Math.max(12, x(at)))} y={64} text-anchor="middle" class="nowtext">
          now
        </text>
        {labels.map((label) => (
          <text key={label} x={x(label)} y={64} text-anchor={x(label) > width - 36 ? "end" : x(label) < 4 ? "start" : "middle"} class="axistext">
            {label === back ? "≈ " : ""}
            {text(label, zone.value)}
          </text>
        ))}
      </svg>
      <ul class="plainlist">
        {bars.map((bar, i) => (
          <li key={i} title={`${absolute(bar.from, zone.value)} to ${absolute(bar.to, zone.value)}`}>
            {sentence(bar, zone.value)}
          </li>
        ))}
        {back !== null && <li class="sub">Back in service about {dayAndClock(back, zone.value)}, in {span((back - at) / 1000)}.</li>}
      </ul>
    </div>
  );
}

/** Return the bars of the maintenance under way, or else of the last one, and what the forecast adds. */
function shownBars(row: Row | undefined, records: readonly LogRecord[], planned: PlannedNode | null, at: number): PartBar[] {
  const drains = row?.state === "draining";
  const open = records.filter((record) => !record.status?.endedAt);
  const recent = records.filter((record) => (instant(record.status?.endedAt) ?? 0) > at - RECENT_MS).slice(0, 1);
  const past = (open.length ? open : recent).flatMap((record) => barsOf(record, at, drains));
  // A node that waits is in no record yet: the row says since when.
  const since = row?.state === "waiting" && !open.length ? instant(row.since) : null;
  const waits: PartBar[] = since !== null && since < at ? [{ from: since, to: at, look: "wait", forecast: false, part: "waited", said: "waits" }] : [];
  return [...past, ...waits, ...(planned ? plannedBars(planned, at) : [])].sort((a, b) => a.from - b.from);
}

/** Return the instants that get a label below the line, left out where they would touch another one or *now*. */
function placed(instants: readonly number[], at: number, x: (instant: number) => number, width: number): number[] {
  const kept: number[] = [];
  for (const each of [...new Set(instants)].sort((a, b) => a - b)) {
    const place = Math.min(x(each), width - 20);
    if (Math.abs(place - x(at)) > 40 && kept.every((other) => Math.abs(x(other) - place) > 48)) kept.push(each);
  }
  return kept;
}

function sentence(bar: PartBar, zoneName: string): string {
  return `${clock(bar.from, zoneName)}–${clock(bar.to, zoneName)}  ${bar.said}${bar.forecast ? " (forecast)" : ""}, ${span((bar.to - bar.from) / 1000)}`;
}
