import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecord } from "../api/types";
import { barsOf, lanesOf, plannedBars } from "./bars";

const at = (minute: number): string => new Date(Date.UTC(2026, 10, 14, 0, minute)).toISOString();
const ms = (minute: number): number => Date.UTC(2026, 10, 14, 0, minute);
const record = (status: LogRecord["status"]): LogRecord => ({
  spec: { node: { name: "n" }, surface: "packages", owner: { kind: "Skyhook", name: "kernel" }, begunAt: at(0) },
  ...(status ? { status } : {}),
});

test("a closed record has a bar for each phase, the last in the colour of its outcome", () => {
  const phases = [{ name: "Draining", at: at(0), certainty: "exact" }, { name: "InMaintenance", at: at(9), certainty: "exact" }];
  const bars = barsOf(record({ outcome: "Failed", endedAt: at(30), phases }), ms(60));
  assert.deepEqual(bars.map((bar) => [bar.from, bar.to, bar.look]), [[ms(0), ms(9), "drain"], [ms(9), ms(30), "stuck"]]);
  assert.equal(bars[1]!.said, "kernel, in maintenance, failed");
});

test("an open record lasts until now, and one without a status too", () => {
  assert.deepEqual(barsOf(record({ phases: [] }), ms(5)).map((bar) => [bar.to, bar.look]), [[ms(5), "work"]]);
  assert.deepEqual(barsOf(record(undefined), ms(5)).length, 1);
});

test("a record without a readable beginning has no bar", () => {
  assert.deepEqual(barsOf({ spec: { node: { name: "n" }, surface: "x", begunAt: "soon" } }, 0), []);
});

test("the forecast begins now and leaves out the time in service", () => {
  const states = [
    { state: "in service", from: at(0), to: at(10) },
    { state: "draining", from: at(10), to: at(20) },
    { state: "in maintenance", from: at(20), to: null },
  ];
  const bars = plannedBars({ name: "n", beginsAt: at(10), doneAt: null, states, waitsFor: "" }, ms(15));
  assert.deepEqual(bars.map((bar) => [bar.from, bar.look, bar.forecast]), [[ms(15), "drain", true], [ms(20), "work", true]]);
});

test("lanes begin with the earliest", () => {
  const bar = (node: string, from: number) => ({ from, to: from + 1, look: "work", forecast: false, said: "", node, cause: "", by: "" });
  const lanes = lanesOf([bar("b", 5), bar("a", 5), bar("c", 1), bar("b", 0)], (each) => each.node, (name) => `/${name}`);
  assert.deepEqual(lanes.map((lane) => [lane.label, lane.to, lane.bars.length]), [["b", "/b", 2], ["c", "/c", 1], ["a", "/a", 1]]);
});
