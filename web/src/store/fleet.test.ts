import assert from "node:assert/strict";
import { test } from "node:test";
import { row } from "./build";
import { fleetOf, listing, unreadable, withRows } from "./fleet";

const FLEET = fleetOf({ epoch: "e", seq: 7, at: "", tables: { Node: "listed" }, nodes: [row("a"), row("b")] });

test("an event changes its rows and leaves the others the same objects", () => {
  const after = withRows(FLEET, { seq: 9, set: [row("a", { state: "draining" }), row("c")], gone: ["b"] });
  assert.deepEqual([...after.rows.keys()], ["a", "c"]);
  assert.equal(after.rows.get("a")?.state, "draining");
  assert.equal(after.seq, 9);
  assert.equal(withRows(after, { seq: 10, set: [] }).rows.get("c"), after.rows.get("c"));
});

test("old knowledge never replaces newer", () => {
  assert.equal(withRows(FLEET, { seq: 7, gone: ["a"] }), FLEET);
  assert.equal(withRows(FLEET, { seq: 3, set: [row("a", { state: "cordoned" })] }), FLEET);
});

test("the order of two events does not matter to what only the newer one says", () => {
  const newer = { seq: 9, set: [row("a", { state: "draining" })] };
  const older = { seq: 8, set: [row("a", { state: "waiting" })] };
  assert.equal(withRows(withRows(FLEET, older), newer).rows.get("a")?.state, "draining");
  assert.equal(withRows(withRows(FLEET, newer), older).rows.get("a")?.state, "draining");
});

test("a table is listed, not yet, or unreadable with the reason", () => {
  assert.deepEqual(listing({ Node: "listed" }, "Node"), { state: "listed", why: "" });
  assert.deepEqual(listing({}, "Node"), { state: "not-yet", why: "" });
  assert.deepEqual(listing({ Pod: "unreadable: needs list pods" }, "Pod"), { state: "unreadable", why: "needs list pods" });
  assert.deepEqual(unreadable({ Node: "listed", Pod: "unreadable: no" }), [["Pod", "no"]]);
});
