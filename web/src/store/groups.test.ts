import assert from "node:assert/strict";
import { test } from "node:test";
import { row } from "./build";
import { grouped, groupLabels, usualLabels, ZONE } from "./groups";

const ROWS = [
  row("n-10", { labels: { [ZONE]: "b", rack: "r1" } }),
  row("n-9", { labels: { [ZONE]: "b", rack: "r2" } }),
  row("n-2", { labels: { [ZONE]: "a", rack: "r1" } }),
  row("n-1", {}),
];

test("every node is in one group, and groups without a value come last", () => {
  const groups = grouped(ROWS, [ZONE, "rack"]);
  assert.deepEqual(groups.map((group) => group.path[0]), ["a", "b", ""]);
  assert.deepEqual(groups.flatMap((group) => group.groups.flatMap((inner) => inner.rows)).length, ROWS.length);
  assert.deepEqual(groups[1]!.groups.map((inner) => inner.path), [["b", "r1"], ["b", "r2"]]);
});

test("without labels there is one group, sorted as people count", () => {
  assert.deepEqual(grouped(ROWS, [])[0]!.rows.map((each) => each.name), ["n-1", "n-2", "n-9", "n-10"]);
});

test("the zone is offered first, and racks inside of it", () => {
  assert.deepEqual(groupLabels(ROWS), [ZONE, "rack"]);
  assert.deepEqual(usualLabels([ZONE, "example.com/rack", "pool"]), [ZONE, "example.com/rack"]);
  assert.deepEqual(usualLabels(["pool"]), []);
});
