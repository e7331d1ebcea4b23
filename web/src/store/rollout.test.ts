import assert from "node:assert/strict";
import { test } from "node:test";
import { nodesOf } from "./rollout";

const reason = (code: string, text: string) => ({ code, text });

test("nodes that fail come first, and reasons of the whole rollout stay reasons", () => {
  const halted = reason("rollout-halted", "wave 2 has failed its gate");
  const because = [
    halted,
    reason("node-incomplete", "node a is in_progress: kernel at config/in_progress"),
    reason("node-incomplete", "node b is erroring: kernel at post-interrupt/erroring"),
    reason("more-nodes", "and 14 more nodes"),
  ];
  const { nodes, others } = nodesOf([{ ...reason("object", "Skyhook tuning"), because }], { a: "its pod has not ended" });
  assert.deepEqual(nodes.map((node) => [node.name, node.stage, node.waitsFor, node.fails]), [
    ["b", "kernel: post-interrupt, erroring", "", true],
    ["a", "kernel: config, in progress", "its pod has not ended", false],
  ]);
  assert.deepEqual(others, [halted]);
});
