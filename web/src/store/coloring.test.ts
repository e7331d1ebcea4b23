import assert from "node:assert/strict";
import { test } from "node:test";
import { SHAPES } from "../draw/shapes";
import { row } from "./build";
import { byState, byText } from "./coloring";
import { LOOKS, lookOf, WORDS } from "./looks";

test("no two states have the same shape or word", () => {
  assert.equal(new Set(LOOKS.map((look) => SHAPES[look])).size, LOOKS.length);
  assert.equal(new Set(Object.values(WORDS)).size, LOOKS.length);
});

test("a node looks safe only where it is proven", () => {
  const found = [true, false, null].map((safeToWork) => lookOf(row("n", { state: "in maintenance", safeToWork })));
  assert.deepEqual(found, ["safe", "work", "work"]);
  assert.equal(lookOf(row("n", { state: "draining", cause: "pdb" })), "stuck");
  assert.equal(lookOf(row("n", { state: "draining", safeToWork: true })), "drain");
  assert.equal(lookOf(row("n", { state: "of a later version" })), "unknown");
});

test("a legend counts every node once", () => {
  const rows = Array.from({ length: 40 }, (_, i) => row(`n-${i}`, { labels: { v: `v${i % 12}` } }));
  for (const legend of [byState(rows), byText(rows, (each) => each.labels.v ?? "", "none"), byText(rows, () => "", "none")]) {
    assert.equal(legend.entries.reduce((sum, each) => sum + each.count, 0), 40);
    assert.ok(rows.every((each) => legend.entries.some((entry) => entry.look === legend.look(each))));
  }
});
