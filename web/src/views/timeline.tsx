/** What happened and what will happen, on one axis: records, the present, the forecast. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { LogRecord, Plan } from "../api/types";
import { AXIS, axisOf, barAt, LANE, timelineCommands, type Bar, type Lane, type Span } from "../draw/timeline";
import { Drawing } from "../parts/canvas";
import { Choice, Filter, Switch } from "../parts/controls";
import { Empty, Loading, Unreadable } from "../parts/states";
import { Shape, Tag } from "../parts/tag";
import { VirtualTable, type Column } from "../parts/table";
import { Relative } from "../parts/time";
import { actsSeq } from "../store/acts";
import { useAsked } from "../store/asked";
import { extentOf, groupLanes, nodeLanes, plannedVisit, visitOf, type Visit } from "../store/bars";
import { now, zone } from "../store/clock";
import { useForecast, type Forecasting } from "../store/forecast";
import { ZONE } from "../store/groups";
import { fleet } from "../store/live";
import { go, nodeAddress, refine, refined } from "../store/route";
import { absolute, count, counted, dayAndClock, instant, span, startOfDay } from "../store/times";

const HOUR = 3_600_000;
const MINUTE = 60_000;
const SPANS: Record<string, [text: string, past: number, next: number]> = {
  "": ["6 h back, 6 h ahead", 6, 6],
  "1h": ["1 h back, 1 h ahead", 1, 1],
  night: ["last night", 0, 0],
  "24h": ["24 h back, 24 h ahead", 24, 24],
  "7d": ["7 d back, 7 d ahead", 168, 168],
  "30d": ["30 d back", 720, 0],
  next: ["3 d ahead", 0, 72],
};
const ROWS = [["", "node"], ["group", "zone"], ["cause", "cause"]] as const;

export function Timeline(): preact.JSX.Element {
  const chosen = SPANS[refined("span")] ? refined("span") : "";
  const minute = Math.floor(now.value / MINUTE) * MINUTE;
  const asked = rangeOf(chosen, minute);
  const dates = `from=${new Date(asked.from).toISOString()}&to=${new Date(asked.to).toISOString()}`;
  // New records come with new maintenances, and with those that end.
  const moved = [...fleet.value.rows.values()].filter((row) => row.holders.length > 0).length;
  const { answer, error } = useAsked<{ records: LogRecord[]; continue?: string }>(`records?${dates}&limit=500`, `${actsSeq.value} ${minute} ${moved}`);
  const forecasting = useForecast();
  const { plan } = forecasting;
  const words = refined("q").toLowerCase().split(/\s+/).filter(Boolean);
  const rows = refined("rows");
  const visits = useMemo(() => visitsOf(answer?.records ?? [], plan, asked), [answer, plan, asked.from, asked.to]);
  const found = visits.filter((visit) => {
    const text = [visit.node, visit.what, visit.outcome, visit.cause, visit.by, visit.reason, ...visit.rules, zoneOf(visit.node)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const range = chosen ? asked : fitted(asked, found, now.value);
  const lanes =
    rows === "group" ? groupLanes(found, (visit) => zoneOf(visit.node) || "no zone")
    : rows === "cause" ? groupLanes(found, (visit) => visit.cause || "waited for nothing")
    : nodeLanes(found, nodeAddress);
  const windows = plan?.windows ?? [];
  const shaded = windows.find((each) => each.name === refined("window")) ?? (refined("window") ? undefined : windows[0]);
  const asTable = refined("as") === "table";
  return (
    <>
      <div class="head">
        <h1>Timeline</h1>
        <Foreseen found={forecasting} />
      </div>
      <div class="controls">
        <Choice label="Rows" value={rows} options={ROWS} onChange={(value) => refine({ rows: value })} />
        <Choice label="Time" value={chosen} options={Object.entries(SPANS).map(([name, [text]]) => [name, text])} onChange={(value) => refine({ span: value })} />
        {windows.length > 1 && (
          <Choice
            label="Window"
            value={shaded?.name ?? "none"}
            options={[...windows.map((each) => [each.name, each.name] as const), ["none", "none"]]}
            onChange={(value) => refine({ window: value === windows[0]?.name ? "" : value })}
          />
        )}
        <Filter hint="node, object, person, outcome" />
        <span class="right">
          <Switch label="View as" value={asTable ? "table" : ""} options={[["", "Chart"], ["table", "Table"]]} onChange={(as) => refine({ as })} />
        </span>
      </div>
      {error && <Unreadable what="The logbook" why={error.message} />}
      {!answer && !error && <Loading what="the logbook" />}
      {(answer || error) && found.length === 0 && (
        <Empty title="Nothing in this time">{words.length ? "No maintenance matches the filter." : "The logbook has no maintenance in this time, and the forecast has none."}</Empty>
      )}
      {found.length > 0 && (asTable ? <VisitTable visits={found} /> : <Chart lanes={lanes} range={range} window={shaded?.name ?? ""} open={extents(shaded?.open ?? [], range)} />)}
      {answer?.continue && <p class="sub note">The logbook has more than 500 maintenances in this time. The newest 500 are shown; choose a shorter time to see the others.</p>}
    </>
  );
}

function zoneOf(node: string): string {
  return fleet.peek().rows.get(node)?.labels[ZONE] ?? "";
}

function visitsOf(records: readonly LogRecord[], plan: Plan | null, range: Span): Visit[] {
  const at = now.peek();
  const rows = fleet.peek().rows;
  const past = records.map((record) => visitOf(record, at, rows.get(record.spec.node.name)?.state === "draining"));
  const next = (plan?.nodes ?? []).map((node) => plannedVisit(node, at));
  return [...past, ...next].filter((visit): visit is Visit => visit !== null && visit.to > range.from && visit.from < range.to);
}

function extents(open: readonly { from: string; to: string | null }[], range: Span): Span[] {
  return open.map((each) => ({ from: instant(each.from) ?? 0, to: instant(each.to) ?? range.to }));
}

function rangeOf(chosen: string, at: number): Span {
  if (chosen === "night") {
    const midnight = startOfDay(at, zone.value);
    return { from: midnight - 4 * HOUR, to: midnight + 8 * HOUR };
  }
  const [, past, next] = SPANS[chosen]!;
  return { from: at - past * HOUR, to: at + Math.max(next * HOUR, 0.04 * past * HOUR) };
}

/** Return a range that is no longer than what happens in it: a roll of a minute is not lost on an axis of a day. */
function fitted(range: Span, visits: readonly Visit[], at: number): Span {
  if (!visits.length) return range;
  const { from, to } = extentOf(visits, at);
  const past = Math.max(at - from, 2 * MINUTE);
  // What lasts beyond the known ends is seen to go on.
  const next = Math.max(to - at, MINUTE, past * 0.1);
  const spare = (past + next) * 0.03;
  return { from: Math.max(range.from, at - past - spare), to: Math.min(range.to, at + next + spare) };
}

/** How good the forecast is: when it ends, how old it is, and what it leaves out. */
function Foreseen({ found }: { found: Forecasting }): preact.JSX.Element {
  const { plan, asOf, state, progress, why } = found;
  if (!plan) {
    if (state === "failed") return <p class="sub">no forecast: {why}</p>;
    return <p class="sub">{state === "running" ? `making the forecast${progress ? `, ${Math.round(progress * 100)} %` : ""}…` : ""}</p>;
  }
  const stuck = plan.nodes.filter((node) => node.waitsFor && !node.doneAt).length;
  const ends = instant(plan.finishedAt);
  const left = [...plan.incomplete, ...plan.guesses.map((text) => `measured times of ${text}`)];
  return (
    <p class="sub">
      {ends !== null ? <b>ends {dayAndClock(ends, zone.value)}</b> : stuck ? <b>{counted(stuck, "node")} will not return</b> : "no maintenance ahead"} · forecast made <Relative at={asOf} />
      {left.length > 0 && <span title={left.join("\n")}> · without {left.length > 2 ? `${left.slice(0, 2).join(", ")} and ${left.length - 2} more` : left.join(", ")}</span>}
    </p>
  );
}

interface ChartProps {
  readonly lanes: readonly Lane[];
  readonly range: Span;
  /** The name of the window whose times are shaded. */
  readonly window: string;
  readonly open: readonly Span[];
}

function Chart({ lanes, range, window: shaded, open }: ChartProps): preact.JSX.Element {
  const [tip, setTip] = useState<{ x: number; y: number; lane: Lane; bar: Bar } | null>(null);
  const width = useRef(0);
  const isShaded = open.some((each) => each.to > range.from && each.from < range.to);
  return (
    <section class="card timeline">
      <div class="map">
        <Drawing
          heightFor={() => AXIS + lanes.length * LANE + 20}
          commands={(wide, from, to) => {
            width.current = wide;
            return timelineCommands(axisOf(range, wide), lanes, open, now.peek(), zone.value, from, to);
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
            <b class="name">{tip.lane.group ?? tip.lane.label}</b>
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
            <Shape look={look} /> {{ drain: "draining", work: "in maintenance", safe: "completed", stuck: "failed", off: "cancelled or node gone" }[look]}
          </li>
        ))}
        <li class="tag"><i class="swatch hatched" /> forecast</li>
        {isShaded && <li class="tag"><i class="swatch shaded" /> window {shaded} open</li>}
      </ul>
      <p class="hidden">{count(lanes.length)} rows. The table shows the same.</p>
    </section>
  );
}

function VisitTable({ visits }: { visits: readonly Visit[] }): preact.JSX.Element {
  const rows = [...visits].sort((a, b) => a.from - b.from);
  const by = (text: (visit: Visit) => string) => (a: Visit, b: Visit) => (text(a) < text(b) ? -1 : text(a) > text(b) ? 1 : 0);
  const columns: Column<Visit>[] = [
    { name: "From", width: "124px", isFixed: true, cell: (visit) => <time title={absolute(visit.from, zone.value)}>{dayAndClock(visit.from, zone.value)}</time>, sort: (a, b) => a.from - b.from },
    { name: "Took", width: "72px", isNumber: true, isSpare: true, cell: (visit) => span((visit.to - visit.from) / 1000), sort: (a, b) => a.to - a.from - (b.to - b.from) },
    { name: "Node", width: "minmax(110px, 1.2fr)", cell: (visit) => <a class="link mono" href={nodeAddress(visit.node)} title={visit.node}>{visit.node}</a>, sort: by((visit) => visit.node) },
    { name: "Outcome", width: "minmax(124px, .8fr)", isFixed: true, cell: (visit) => <Tag look={visit.look} text={visit.outcome} />, sort: by((visit) => visit.outcome) },
    { name: "Object", width: "minmax(90px, 1fr)", isLong: true, cell: (visit) => <span title={visit.what}>{visit.what}</span>, sort: by((visit) => visit.what) },
    { name: "Zone", width: "minmax(70px, .6fr)", isSpare: true, cell: (visit) => zoneOf(visit.node) },
    { name: "Waited for", width: "minmax(100px, 1.2fr)", isSpare: true, cell: (visit) => <span title={visit.cause}>{visit.cause}</span>, sort: by((visit) => visit.cause) },
    { name: "Under", width: "minmax(100px, 1fr)", isSpare: true, cell: (visit) => <span title={visit.rules.join("\n")}>{visit.rules.join(", ")}</span>, sort: by((visit) => visit.rules.join(", ")) },
    { name: "Asked by", width: "minmax(80px, .8fr)", isSpare: true, cell: (visit) => <span title={visit.by}>{visit.by}</span>, sort: by((visit) => visit.by) },
    { name: "Reason", width: "minmax(90px, 1.2fr)", isSpare: true, cell: (visit) => <span title={visit.reason}>{visit.reason}</span> },
  ];
  return <VirtualTable label="Timeline" rows={rows} columns={columns} keyOf={(visit) => `${visit.node} ${visit.from} ${visit.what}`} />;
}
