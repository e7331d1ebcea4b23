import assert from "node:assert/strict";
import { test } from "node:test";
import { AXIS, axisOf, barAt, LANE, marks, place, timelineCommands, type Lane } from "./timeline";

const NOW = Date.UTC(2026, 9, 25, 1);
const HOUR = 3_600_000;
const AXIS_12H = axisOf({ from: NOW - 6 * HOUR, to: NOW + 6 * HOUR }, 1200);
const LANES: Lane[] = [
  { label: "a", to: "/nodes/a", bars: [{ from: NOW - 2 * HOUR, to: NOW - HOUR, look: "safe", forecast: false, said: "" }] },
  { label: "b", to: "/nodes/b", bars: [{ from: NOW + HOUR, to: NOW + 90 * HOUR, look: "work", forecast: true, said: "" }] },
];

test("marks stay on full hours of the clock in the night in which it moves", () => {
  const found = marks(AXIS_12H, "Europe/Berlin").map((at) => new Date(at).getUTCMinutes());
  assert.ok(found.length >= 6);
  assert.deepEqual([...new Set(found)], [0]);
});

test("past, present and forecast are in their order, and nothing leaves the axis", () => {
  const commands = timelineCommands(AXIS_12H, LANES, [{ from: 0, to: NOW + 99 * HOUR }], NOW, "UTC", 0, 400);
  const bars = commands.filter((each) => each.kind === "bar");
  assert.deepEqual(bars.map((bar) => bar.hatched), [false, true]);
  assert.ok(bars.every((bar) => bar.x >= AXIS_12H.x && bar.x + bar.w <= AXIS_12H.x + AXIS_12H.width));
  const now = commands.find((each) => each.kind === "line" && each.tone === "now");
  assert.equal(now && "x" in now && now.x, place(AXIS_12H, NOW));
});

test("a bar is found where it is drawn", () => {
  const x = place(AXIS_12H, NOW - 1.5 * HOUR);
  assert.equal(barAt(AXIS_12H, LANES, x, AXIS + 10)?.bar, LANES[0]!.bars[0]);
  assert.equal(barAt(AXIS_12H, LANES, x, AXIS + LANE + 10)?.bar, null);
  assert.equal(barAt(AXIS_12H, LANES, x, AXIS + 9 * LANE), null);
});
