import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf } from "./changes";
import { yaml, type Plain } from "./yaml";

const FORM = { change: "window", budget: "night", limit: "", from: "22:00", to: "06:00", days: "Sat, Sun", rollout: { kind: "", name: "" }, package: "", version: "", nodes: "", workFor: "", isWhole: true };

test("a changed window is a manifest that YAML reads back as written", () => {
  const [object] = changesOf(FORM).objects as Plain[];
  assert.equal(
    yaml(object!),
    `apiVersion: haulout.dev/v1alpha1
kind: NodeDisruptionBudget
metadata:
  name: night
spec:
  windows:
    - from: "22:00"
      to: "06:00"
      days:
        - Sat
        - Sun`,
  );
});

test("a text that YAML would read as something else is quoted", () => {
  assert.equal(yaml({ a: "yes", b: "10%", c: "", d: 'x"\n- y', e: 5, f: null, g: [], "h i": {} }), 'a: "yes"\nb: "10%"\nc: ""\nd: "x\\"\\n- y"\ne: 5\nf: null\ng: []\n"h i": {}');
});
