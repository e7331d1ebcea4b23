/** What happened and what will happen, on one axis: records, the present, the forecast. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { LogRecord } from "../api/types";
import { AXIS, axisOf, barAt, LANE, timelineCommands, type Bar, type Lane, type Span } from "../draw/timeline";
import { Drawing } from "../parts/canvas";
import { Choice, Filter, Switch } from "../parts/controls";
import { Empty, Loading, Unreadable } from "../parts/states";
import { Shape, Tag } from "../parts/tag";
import { VirtualTable, type Column } from "../parts/table";
import { Relative } from "../parts/time";
import { actsSeq } from "../store/acts";
import { useAsked } from "../store/asked";
import { barsOf, lanesOf, plannedBars, type NamedBar } from "../store/bars";
import { now, zone } from "../store/clock";
import { useForecast, type Forecasting } from "../store/forecast";
import { fleet } from "../store/live";
import { go, nodeAddress, refine, refined } from "../store/route";
import { absolute, count, counted, dayAndClock, instant, span, startOfDay } from "../store/times";
import { WORDS, type Look } from "../store/looks";

const HOUR = 3_600_000;
const SPANS: Record<string, [text: string, past: number, next: number]> = {
  "6h": ["6 h and next 6 h", 6, 6],
  night: ["last night", 0, 0],
  "24h": ["24 h and next 24 h", 24, 24],
  "7d": ["7 d and next 7 d", 168, 168],
  "30d": ["30 d", 720, 0],
  next: ["next 3 d", 0, 72],
};
const ROWS = [["node", "node"], ["group", "zone"], ["cause", "cause"]] as const;

export function Timeline(): preact.JSX.Element {
  const chosen = SPANS[refined("span")] ? refined("span") : "6h";
  const minute = Math.floor(now.value / 60_000) * 60_000;
  const range = rangeOf(chosen, minute);
  const dates = `from=${new Date(range.from).toISOString()}&to=${new Date(range.to).toISOString()}`;
  const { answer, error } = useAsked<{ records: LogRecord[]; continue?: string }>(`records?${dates}&limit=500`, `${actsSeq.value} ${minute}`);
  const forecasting = useForecast();
  const { plan } = forecasting;
  const words = refined("q").toLowerCase().split(/\s+/).filter(Boolean);
  const rows = refined("rows") || "node";
  const zoneOf = (node: string): string => fleet.value.rows.get(node)?.labels["topology.kubernetes.io/zone"] ?? "";
  const bars = useMemo(() => {
    const past = (answer?.records ?? []).flatMap((record) => {
      const cause = record.status?.waitedFor?.[0]?.code ?? record.spec.surface;
      return barsOf(record, minute).map((bar): NamedBar => ({ ...bar, node: record.spec.node.name, cause, by: record.spec.requestedBy?.name ?? "" }));
    });
    const next = (plan?.nodes ?? []).flatMap((node) =>
      plannedBars(node, minute).map((bar): NamedBar => ({ ...bar, node: node.name, cause: node.waitsFor || "forecast", by: "" })),
    );
    return [...past, ...next].filter((bar) => bar.to > range.from && bar.from < range.to);
  }, [answer, plan, minute, range.from, range.to]);
  const found = bars.filter((bar) => words.every((word) => `${bar.node} ${bar.said} ${bar.cause} ${bar.by} ${zoneOf(bar.node)}`.toLowerCase().includes(word)));
  const lanes = lanesOf(found, rows === "group" ? (bar) => zoneOf(bar.node) || "no zone" : rows === "cause" ? (bar) => bar.cause : (bar) => bar.node, rows === "node" ? nodeAddress : () => "");
  const windows = (plan?.windows ?? []).flatMap((each) => each.open).map((each) => ({ from: instant(each.from) ?? 0, to: instant(each.to) ?? range.to }));
  const asTable = refined("as") === "table";
  return (
    <>
      <div class="head">
        <h1>Timeline</h1>
        <Foreseen found={forecasting} />
      </div>
      <div class="controls">
        <Choice label="Rows" value={rows} options={ROWS} onChange={(value) => refine({ rows: value === "node" ? "" : value })} />
        <Choice label="Time" value={chosen} options={Object.entries(SPANS).map(([name, [text]]) => [name, text])} onChange={(value) => refine({ span: value })} />
        <Filter hint="node, object, person, outcome" />
        <span class="right">
          <Switch label="Picture" value={asTable ? "table" : ""} options={[["", "Picture"], ["table", "Table"]]} onChange={(as) => refine({ as })} />
        </span>
      </div>
      {error && <Unreadable what="The logbook" why={error.message} />}
      {!answer && !error && <Loading what="the logbook" />}
      {(answer || error) && found.length === 0 && (
        <Empty title="Nothing in this time">{words.length ? "No maintenance matches the filter." : "The logbook has no maintenance in this time, and the forecast sees none."}</Empty>
      )}
      {found.length > 0 && (asTable ? <BarTable bars={found} /> : <Picture lanes={lanes} range={range} windows={windows} />)}
      {answer?.continue && <p class="sub note">The logbook has more than 500 maintenances in this time. The first ones are shown.</p>}
    </>
  );
}

function rangeOf(chosen: string, at: number): Span {
  if (chosen === "night") {
    const midnight = startOfDay(at, zone.value);
    return { from: midnight - 4 * HOUR, to: midnight + 8 * HOUR };
  }
  const [, past, next] = SPANS[chosen]!;
  return { from: at - past * HOUR, to: at + Math.max(next * HOUR, 0.04 * past * HOUR) };
}

/** How good the forecast is: when it ends, how old it is, and what it leaves out. */
function Foreseen({ found }: { found: Forecasting }): preact.JSX.Element {
  const { plan, asOf, state, progress, why } = found;
  if (!plan) {
    if (state === "failed") return <p class="sub">no forecast: {why}</p>;
    return <p class="sub">{state === "running" ? `the forecast is being made${progress ? `, ${Math.round(progress * 100)} %` : ""}…` : ""}</p>;
  }
  const stuck = plan.nodes.filter((node) => node.waitsFor && !node.doneAt).length;
  const ends = instant(plan.finishedAt);
  const left = [...plan.incomplete, ...plan.guesses.map((text) => `measured times of ${text}`)];
  return (
    <p class="sub">
      {ends !== null ? `ends ${dayAndClock(ends, zone.value)}` : stuck ? `${counted(stuck, "node")} will not return` : "nothing is foreseen"} · forecast of <Relative at={asOf} />
      {left.length > 0 && <span title={left.join("\n")}> · without {left.length > 2 ? `${left.slice(0, 2).join(", ")} and ${left.length - 2} more` : left.join(", ")}</span>}
    </p>
  );
}

function Picture({ lanes, range, windows }: { lanes: readonly Lane[]; range: Span; windows: readonly Span[] }): preact.JSX.Element {
  const [tip, setTip] = useState<{ x: number; y: number; lane: Lane; bar: Bar } | null>(null);
  const width = useRef(0);
  return (
    <section class="card timeline">
      <div class="map">
        <Drawing
          heightFor={() => AXIS + lanes.length * LANE + 20}
          commands={(wide, from, to) => {
            width.current = wide;
            return timelineCommands(axisOf(range, wide), lanes, windows, now.peek(), zone.value, from, to);
          }}
          onPoint={(point) => {
            const at = point && barAt(axisOf(range, width.current), lanes, point.x, point.y);
            setTip(at?.bar && point ? { ...point, lane: at.lane, bar: at.bar } : null);
          }}
          onPick={(point) => {
            const at = barAt(axisOf(range, width.current), lanes, point.x, point.y);
            if (at?.lane.to) go(at.lane.to);
          }}
        />
        {tip && (
          <div class="tip card" aria-hidden="true" style={{ transform: `translate(${Math.min(tip.x, Math.max(0, width.current - 340))}px, ${tip.y + 14}px)` }}>
            <b class="name">{tip.lane.label}</b>
            <div>{tip.bar.said}{tip.bar.forecast ? " (forecast)" : ""}</div>
            <div class="sub">
              {dayAndClock(tip.bar.from, zone.value)} to {dayAndClock(tip.bar.to, zone.value)}, {span((tip.bar.to - tip.bar.from) / 1000)}
            </div>
          </div>
        )}
      </div>
      <ul class="legend note" aria-label="Legend">
        {(["drain", "work", "safe", "stuck", "off"] as const).map((look) => (
          <li key={look} class="tag">
            <Shape look={look} /> {{ drain: "drained", work: "at work", safe: "completed", stuck: "failed", off: "cancelled or gone" }[look]}
          </li>
        ))}
        <li>hatched: forecast</li>
        {windows.length > 0 && <li>shaded: a window is open</li>}
      </ul>
      <p class="hidden">{count(lanes.length)} rows. The table shows the same.</p>
    </section>
  );
}

function BarTable({ bars }: { bars: readonly NamedBar[] }): preact.JSX.Element {
  const rows = [...bars].sort((a, b) => a.from - b.from);
  const columns: Column<NamedBar>[] = [
    { name: "From", width: "130px", cell: (bar) => <time title={absolute(bar.from, zone.value)}>{dayAndClock(bar.from, zone.value)}</time>, sort: (a, b) => a.from - b.from },
    { name: "Took", width: "80px", isNumber: true, cell: (bar) => span((bar.to - bar.from) / 1000), sort: (a, b) => a.to - a.from - (b.to - b.from) },
    { name: "Node", width: "minmax(120px, 1.4fr)", cell: (bar) => <a class="link mono" href={nodeAddress(bar.node)}>{bar.node}</a>, sort: (a, b) => (a.node < b.node ? -1 : 1) },
    { name: "What", width: "minmax(120px, 2fr)", cell: (bar) => <span title={bar.said}>{bar.said}</span> },
    { name: "State", width: "minmax(110px, 1fr)", isSpare: true, cell: (bar) => <Tag look={bar.look as Look} text={bar.forecast ? `${WORDS[bar.look as Look]}, forecast` : WORDS[bar.look as Look]} /> },
    { name: "Asked by", width: "minmax(80px, 1fr)", isSpare: true, cell: (bar) => bar.by },
  ];
  return <VirtualTable label="Timeline" rows={rows} columns={columns} keyOf={(bar) => `${bar.node} ${bar.from} ${bar.said}`} />;
}
