import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecord } from "../api/types";
import { barsOf, groupLanes, nodeLanes, plannedBars, rulesOf, visitOf, type Visit } from "./bars";

const at = (minute: number): string => new Date(Date.UTC(2026, 10, 14, 0, minute)).toISOString();
const ms = (minute: number): number => Date.UTC(2026, 10, 14, 0, minute);
const record = (status: LogRecord["status"]): LogRecord => ({
  metadata: { name: "packages-1" },
  spec: { node: { name: "n", uid: "" }, surface: "packages", owner: { kind: "Skyhook", name: "kernel" }, reason: "", requestedBy: { name: "", how: "unknown" }, begunAt: at(10) },
  status,
});
const phase = (name: string, minute: number) => ({ name, at: at(minute), certainty: "exact" as const });
const parts = (status: LogRecord["status"], drains = false) =>
  barsOf(record(status), ms(60), drains).map((bar) => [bar.part, bar.from, bar.to, bar.look]);

test("a closed record has a bar for each part, the work in the color of its outcome", () => {
  const phases = [phase("requested", 0), phase("begun", 10), phase("drained", 19), phase("done", 28), phase("ended", 30)];
  assert.deepEqual(parts({ outcome: "Completed", endedAt: at(30), phases }), [
    ["waited", ms(0), ms(10), "wait"], ["drain", ms(10), ms(19), "drain"], ["work", ms(19), ms(28), "safe"], ["return", ms(28), ms(30), "safe"],
  ]);
});

test("a maintenance without a drain has none", () => {
  assert.deepEqual(parts({ outcome: "Failed", endedAt: at(30), phases: [phase("begun", 10), phase("ended", 30)] }), [["work", ms(10), ms(30), "stuck"]]);
});

test("an open record lasts until now, as drain while its node is drained", () => {
  assert.deepEqual(parts({ phases: [phase("begun", 10)] }), [["work", ms(10), ms(60), "work"]]);
  assert.deepEqual(parts({}, true), [["drain", ms(10), ms(60), "drain"]]);
  assert.deepEqual(parts({ phases: [phase("drained", 20)] }), [["drain", ms(10), ms(20), "drain"], ["work", ms(20), ms(60), "work"]]);
});

test("a record without a readable beginning has no bar", () => {
  assert.deepEqual(barsOf({ ...record({}), spec: { ...record({}).spec, begunAt: "soon" } }, 0), []);
});

test("what the table says is the outcome, not the state of a node", () => {
  const visit = visitOf(record({ outcome: "Completed", endedAt: at(30), waitedFor: [{ code: "window-closed", subject: "night", seconds: 60 }] }), ms(60), false);
  assert.deepEqual([visit?.outcome, visit?.cause, visit?.what], ["completed", "window closed: night", "kernel"]);
  assert.equal(visitOf(record({}), ms(60), true)?.outcome, "draining");
});

test("the rules of a record are its limits and what people did", () => {
  const acts = [{ act: "override", by: "jo", at: at(5), reason: "disk" }, { act: "pause", by: "", at: null, reason: "" }];
  assert.deepEqual(rulesOf(record({ limits: ["budget zone", "2 of profile os"], acts })), ["budget zone", "2 of profile os", "override by jo (disk)", "pause"]);
  assert.deepEqual(rulesOf(record({})), []);
});

test("the forecast begins now and leaves out the time in service", () => {
  const states = [
    { state: "in service", from: at(0), to: at(10) },
    { state: "waiting", from: at(10), to: at(12) },
    { state: "draining", from: at(12), to: at(20) },
    { state: "in maintenance", from: at(20), to: null },
  ];
  const bars = plannedBars({ name: "n", beginsAt: at(12), doneAt: null, states, waitsFor: "" }, ms(15));
  assert.deepEqual(bars.map((bar) => [bar.from, bar.part, bar.forecast]), [[ms(15), "drain", true], [ms(20), "work", true]]);
});

const visit = (node: string, from: number, to: number): Visit => ({
  node, what: "", from, to, look: "work", outcome: "", cause: "", by: "", reason: "", rules: [],
  bars: [{ from, to, look: "work", forecast: false, said: "", part: "work" }],
});

test("lanes of nodes begin with the earliest", () => {
  const lanes = nodeLanes([visit("b", 5, 6), visit("a", 5, 6), visit("c", 1, 2), visit("b", 0, 1)], (name) => `/${name}`);
  assert.deepEqual(lanes.map((lane) => [lane.label, lane.to, lane.bars.length]), [["b", "/b", 2], ["c", "/c", 1], ["a", "/a", 1]]);
});

test("maintenances of a group that overlap are drawn below each other", () => {
  const lanes = groupLanes([visit("a", 0, 10), visit("b", 5, 15), visit("c", 10, 20)], () => "zone-a");
  assert.deepEqual(lanes.map((lane) => [lane.label, lane.bars.map((bar) => bar.from)]), [["zone-a", [0, 10]], ["", [5]]]);
});
