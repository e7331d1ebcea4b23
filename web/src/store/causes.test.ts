import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cause } from "../api/types";
import { budgetOf, ranked, sinceOf, sortOf, titleOf } from "./causes";

const cause = (code: string, nodes: number, until: string | null = null): Cause => ({ code, text: code, nodes: Array(nodes).fill("n"), act: "", until, at: [] });

test("what somebody has to act on comes before what ends by itself", () => {
  const found = ranked([cause("window-closed", 90, "2026-01-01T00:00:00Z"), cause("pdb-blocks", 3), cause("unreadable", 4), cause("gate-failed", 7)], new Map());
  assert.deepEqual(found.map((each) => each.code), ["gate-failed", "pdb-blocks", "window-closed", "unreadable"]);
  assert.equal(sortOf(cause("paused", 1)), "plan");
});

test("of causes that keep as many nodes, the oldest comes first", () => {
  const keeping = (code: string, node: string): Cause => ({ ...cause(code, 0), nodes: [node] });
  const rows = new Map([["a", { since: "2026-11-14T02:00:00Z" }], ["b", { since: "2026-11-14T01:00:00Z" }], ["c", { since: null }]]);
  const found = ranked([keeping("pdb-blocks", "c"), keeping("gate-failed", "a"), keeping("unavailable", "b")], rows);
  assert.deepEqual(found.map((each) => each.code), ["unavailable", "gate-failed", "pdb-blocks"]);
  assert.equal(sinceOf({ ...cause("pdb-blocks", 0), nodes: ["a", "b"], at: ["a"] }, rows), "2026-11-14T02:00:00Z");
});

test("a title is the first part of a text, and names stay as they are", () => {
  assert.deepEqual(titleOf("budget night: window closed, opens Sat"), ["Budget night: window closed, opens Sat", ""]);
  assert.deepEqual(titleOf("node-1 is not ready"), ["node-1 is not ready", ""]);
  assert.deepEqual(titleOf("PodDisruptionBudget shop/api allows 0; 2 of 3 healthy"), ["PodDisruptionBudget shop/api allows 0", "2 of 3 healthy"]);
  assert.deepEqual(titleOf(""), ["", ""]);
});

test("a cause that is a budget names it", () => {
  assert.equal(budgetOf("budget night: window closed"), "night");
  assert.equal(budgetOf("package kernel failed"), "");
});
