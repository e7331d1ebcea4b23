import assert from "node:assert/strict";
import { test } from "node:test";
import { row } from "./build";
import { matches, termsOf } from "./filter";

const NODE = row("zone-b-09", {
  state: "draining", holders: ["packages"], cause: "Budget night: window closed",
  labels: { "topology.kubernetes.io/zone": "zone-b", pool: "gpu", "example.com/rack": "r07" },
});

const CASES: [text: string, found: boolean][] = [
  ["", true],
  ["b-09", true],
  ["B-09", true],
  ["zone-c", false],
  ["state:draining", true],
  ["state:waiting", false],
  ["state:blocked", true],
  ["surface:pack", true],
  ["pool=gpu", true],
  ["pool=cpu", false],
  ["zone=zone-b rack=r07", true],
  ["pool=", true],
  ["owner=", false],
  ["-pool=gpu", false],
  ["-state:waiting zone-b", true],
  ['cause:"window closed"', true],
  ['cause:"budget day"', false],
  ["gpu", true],
  ["\"", true],
  ["-", true],
  ["=", false],
];

for (const [text, found] of CASES) {
  test(`the filter ${JSON.stringify(text)} ${found ? "finds" : "leaves out"} the node`, () => {
    assert.equal(matches(NODE, termsOf(text)), found);
  });
}
