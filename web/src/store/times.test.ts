import assert from "node:assert/strict";
import { test } from "node:test";
import { absolute, clock, counted, offset, relative, span, startOfDay } from "./times";

test("a span has its two greatest units", () => {
  const found = [0, 1, 59, 60, 2460, 3600, 4320, 36_000, 86_400, 237_600, 86_400 * 12, -5].map(span);
  assert.deepEqual(found, ["0 s", "1 s", "59 s", "1 min", "41 min", "1 h", "1 h 12 min", "10 h", "1 d", "2 d 18 h", "12 d", "0 s"]);
});

test("an instant is before or after now", () => {
  assert.deepEqual([relative(0, 240_000), relative(240_000, 0), relative(0, 300)], ["4 min ago", "in 4 min", "now"]);
});

const BERLIN = "Europe/Berlin";

test("a day begins at its own midnight also where clocks move", () => {
  const noon = Date.UTC(2026, 9, 25, 11); // The clocks of Berlin move back in this night.
  assert.equal(new Date(startOfDay(noon, BERLIN)).toISOString(), "2026-10-24T22:00:00.000Z");
  const spring = Date.UTC(2026, 2, 29, 11);
  assert.equal(new Date(startOfDay(spring, BERLIN)).toISOString(), "2026-03-28T23:00:00.000Z");
  assert.deepEqual([offset(noon, BERLIN), offset(noon - 86_400_000, BERLIN), offset(noon, "Asia/Kolkata")], [1, 2, 5.5]);
});

test("times are shown in the chosen zone", () => {
  const at = Date.UTC(2026, 10, 14, 2, 58, 7);
  assert.equal(clock(at, "UTC"), "02:58");
  assert.equal(clock(at, "Asia/Tokyo"), "11:58");
  assert.equal(absolute(at, "UTC"), "Sat 14 Nov 2026 02:58:07 UTC");
});

test("numbers carry their word", () => {
  assert.deepEqual([counted(0, "node"), counted(1, "node"), counted(4812, "node")], ["0 nodes", "1 node", "4,812 nodes"]);
});
