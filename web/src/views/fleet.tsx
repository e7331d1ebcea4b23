/** The fleet as a map of cells, and the same nodes as a table. */

import { computed } from "@preact/signals";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Row } from "../api/types";
import { cellAt, hit, layout, mapCommands, moved, type MapLayout, type Place } from "../draw/map";
import { Drawing, type Point } from "../parts/canvas";
import { Choice, Filter, Switch } from "../parts/controls";
import { NodeGrid } from "../parts/grid";
import { Empty, Loading, Unreadable } from "../parts/states";
import { Shape, Tag } from "../parts/tag";
import { VirtualTable, type Column } from "../parts/table";
import { Lasting } from "../parts/time";
import { byForecast, byState, byText, type Legend } from "../store/coloring";
import { matches, termsOf } from "../store/filter";
import { listing } from "../store/fleet";
import { forecast } from "../store/forecast";
import { byName, countLooks, grouped, groupLabels, shortLabel, usualLabels, type Group } from "../store/groups";
import { now } from "../store/clock";
import { causes, fleet } from "../store/live";
import { lookOf, LOOKS, WORDS } from "../store/looks";
import { go, nodeAddress, refine, refined } from "../store/route";
import { count, counted } from "../store/times";

const labels = computed(() => groupLabels(fleet.value.rows.values()));
const packages = computed(() => [...new Set([...fleet.value.rows.values()].flatMap((row) => Object.keys(row.versions)))].sort());

export function Fleet(): preact.JSX.Element {
  const { rows: all, tables } = fleet.value;
  const nodes = listing(tables, "Node");
  const rows = shownRows(all);
  const chosen = refined("group") ? refined("group").split(",").filter((name) => name !== "none") : usualLabels(labels.value);
  const legend = legendOf(rows, refined("color"));
  const asTable = refined("as") === "table";
  const groups = useMemo(() => grouped(rows, chosen), [rows, chosen.join()]);
  const outer = chosen[0] ? `${counted(groups.length, shortLabel(chosen[0]))}` : "";
  const choices = labels.value.map((name) => [name, shortLabel(name)] as const);
  const because = refined("because");
  return (
    <>
      <div class="head">
        <h1>Fleet</h1>
        <p class="sub">
          {rows.length === all.size ? counted(all.size, "node") : `${count(rows.length)} of ${counted(all.size, "node")}`}
          {outer && rows.length > 0 && ` in ${outer}`}
        </p>
        <Legends legend={legend} />
      </div>
      <div class="controls">
        <Choice label="Color" value={refined("color")} options={colors(choices, packages.value)} onChange={(color) => refine({ color })} />
        <Choice
          label="Group by"
          value={chosen[0] ?? "none"}
          options={[["none", "none"], ...choices]}
          onChange={(first) => refine({ group: [first, ...chosen.slice(1).filter((each) => each !== first)].join() })}
        />
        {chosen[0] && (
          <Choice
            label="then"
            value={chosen[1] ?? "none"}
            options={[["none", "none"], ...choices.filter(([name]) => name !== chosen[0])]}
            onChange={(second) => refine({ group: [chosen[0]!, second].join() })}
          />
        )}
        <Filter hint="name, state:waiting, pool=gpu, -zone=a" />
        {because && (
          <button type="button" class="btn chip" onClick={() => refine({ because: "" })} title={because}>
            Held up by <span class="cut">{because}</span> ✕
          </button>
        )}
        <span class="right">
          <Switch label="View as" value={asTable ? "table" : ""} options={[["", "Map"], ["table", "Table"]]} onChange={(as) => refine({ as })} />
        </span>
      </div>
      {nodes.state === "not-yet" && <Loading what="the nodes" lines={6} />}
      {nodes.state === "unreadable" && all.size === 0 && <Unreadable what="Nodes" why={nodes.why} />}
      {nodes.state === "listed" && all.size === 0 && <Empty title="This cluster has no nodes" />}
      {all.size > 0 && rows.length === 0 && <Empty title="No node matches the filter" />}
      {rows.length > 0 && (asTable ? <NodeTable rows={rows} inner={chosen} /> : <FleetMap groups={groups} legend={legend} />)}
    </>
  );
}

function shownRows(all: ReadonlyMap<string, Row>): Row[] {
  const terms = termsOf(refined("q"));
  const because = refined("because");
  const kept = because ? new Set(causes.value.items?.find((cause) => (cause.text || cause.code) === because)?.nodes ?? []) : null;
  const rows = [...all.values()].filter((row) => (!kept || kept.has(row.name)) && matches(row, terms));
  return rows.sort(byName);
}

function colors(choices: readonly (readonly [string, string])[], names: readonly string[]): [string, string][] {
  return [
    ["", "state"],
    ["surface", "surface"],
    ["cause", "root cause"],
    ["forecast", "forecast in 6 h"],
    ...names.map((name) => [`version:${name}`, `version of ${name}`] as [string, string]),
    ...choices.map(([name, short]) => [`label:${name}`, `label ${short}`] as [string, string]),
  ];
}

function legendOf(rows: readonly Row[], color: string): Legend {
  if (color === "surface") return byText(rows, (row) => row.holders.join(" + "), "not held");
  if (color === "cause") return byText(rows, (row) => row.cause ?? "", "waits for nothing");
  if (color.startsWith("version:")) return byText(rows, (row) => row.versions[color.slice(8)] ?? "", "not installed");
  if (color.startsWith("label:")) return byText(rows, (row) => row.labels[color.slice(6)] ?? "", "no label");
  const plan = color === "forecast" ? forecast().plan : null;
  if (plan) return byForecast(rows, plan, now.peek() + 6 * 3_600_000);
  return byState(rows);
}

function Legends({ legend }: { legend: Legend }): preact.JSX.Element {
  return (
    <ul class="legend right" aria-label="Legend">
      {legend.entries.map(({ look, word, count: number }) => (
        <li key={look} class="tag" title={word}>
          <Shape look={look} />
          <span class="cut">{word}</span> <span class="faint">{count(number)}</span>
        </li>
      ))}
    </ul>
  );
}

function FleetMap({ groups, legend }: { groups: readonly Group[]; legend: Legend }): preact.JSX.Element {
  const [focus, setFocus] = useState<Place | null>(null);
  const [hover, setHover] = useState<Place | null>(null);
  const made = useRef<{ groups: unknown; width: number; map: MapLayout } | null>(null);
  const mapFor = (width: number): MapLayout => {
    if (made.current?.groups !== groups || made.current.width !== width) {
      made.current = { groups, width, map: layout(groups, width, width < 560 ? brief : summary) };
    }
    return made.current.map;
  };
  const at = ({ x, y }: Point): Place | null => (made.current ? hit(made.current.map, x, y) : null);
  const map = made.current?.map ?? null;
  const pointed = hover ?? focus;
  const block = map && pointed ? map.blocks[pointed.block] : undefined;
  const row = block && pointed ? block.rows[pointed.index] : undefined;
  return (
    <div class="map">
      <Drawing
        heightFor={(width) => mapFor(width).height}
        commands={(width, from, to) => mapCommands(mapFor(width), from, to, legend.look, pointed)}
        onPoint={(point) => {
          const found = point && at(point);
          if (found?.block !== hover?.block || found?.index !== hover?.index) setHover(found);
        }}
        onPick={(point) => {
          const found = at(point);
          const picked = found && made.current?.map.blocks[found.block]?.rows[found.index];
          if (picked) go(nodeAddress(picked.name));
        }}
      />
      <NodeGrid
        map={map ?? layout(groups, 1200, summary)}
        focus={focus}
        onFocus={setFocus}
        onMove={(from, key) => moved(mapFor(made.current?.width ?? 1200), from, key)}
      />
      {map && block && row && pointed && <Tip row={row} map={map} place={cellAt(map, block, pointed.index)} path={block.path} />}
    </div>
  );
}

/** The summary of a group where there is no room for more: what is not in service. */
function brief(group: Group): string {
  const out = group.rows.filter((row) => lookOf(row) !== "ok").length;
  return [counted(group.rows.length, "node"), ...(out ? [`${count(out)} not in service`] : [])].join(" · ");
}

function summary(group: Group): string {
  const counts = countLooks(group.rows);
  const parts = LOOKS.filter((look) => counts.has(look)).map((look) => `${WORDS[look]} ${count(counts.get(look)!)}`);
  return [counted(group.rows.length, "node"), ...parts].join(" · ");
}

/** What is known of the node under the pointer or the focus. */
function Tip({ row, map, place, path }: { row: Row; map: MapLayout; place: { x: number; y: number }; path: readonly string[] }): preact.JSX.Element {
  const left = Math.min(place.x, Math.max(0, map.width - 340));
  return (
    <div class="tip card" aria-hidden="true" style={{ transform: `translate(${left}px, ${place.y + map.cellHeight + 6}px)` }}>
      <b class="name">{row.name}</b> <span class="faint">{path.filter(Boolean).join(" › ")}</span>
      <div>
        <Tag look={lookOf(row)} /> {row.since && <Lasting since={row.since} />}
      </div>
      {!!row.podsLeft && <div class="sub">{row.podsTotal ? `${row.podsLeft} of ${row.podsTotal} pods left` : `${counted(row.podsLeft, "pod")} left`}</div>}
      {row.holders.length > 0 && <div class="sub">held by {row.holders.join(", ")}</div>}
      {row.cause && <div class="sub">{row.cause}</div>}
    </div>
  );
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function NodeTable({ rows, inner }: { rows: readonly Row[]; inner: readonly string[] }): preact.JSX.Element {
  const columns: Column<Row>[] = [
    {
      name: "Node", width: "minmax(140px, 2fr)", sort: byName,
      cell: (row) => <a class="link mono" href={nodeAddress(row.name)} title={row.name}>{row.name}</a>,
    },
    { name: "State", width: "minmax(142px, 1fr)", isFixed: true, cell: (row) => <Tag look={lookOf(row)} />, sort: (a, b) => LOOKS.indexOf(lookOf(a)) - LOOKS.indexOf(lookOf(b)) },
    ...inner.map((label) => ({
      name: capital(shortLabel(label)), width: "minmax(70px, .7fr)", isSpare: true,
      cell: (row: Row) => row.labels[label] ?? "", sort: (a: Row, b: Row) => ((a.labels[label] ?? "") < (b.labels[label] ?? "") ? -1 : 1),
    })),
    { name: "Held by", width: "minmax(116px, .8fr)", isSpare: true, cell: (row) => row.holders.join(", ") },
    { name: "Pods left", width: "62px", isNumber: true, isSpare: true, cell: (row) => row.podsLeft || "", sort: (a, b) => (a.podsLeft ?? 0) - (b.podsLeft ?? 0) },
    { name: "For", width: "62px", isNumber: true, isSpare: true, cell: (row) => <Lasting since={row.since} />, sort: (a, b) => ((a.since ?? "") < (b.since ?? "") ? -1 : 1) },
    { name: "Waits for", width: "minmax(120px, 3fr)", isLong: true, cell: (row) => <span title={row.cause ?? ""}>{row.cause ?? ""}</span> },
  ];
  return <VirtualTable label="Nodes" rows={rows} columns={columns} keyOf={(row) => row.name} />;
}
