import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, hasPackages, type ChangeForm } from "./changes";

const form = (fields: Partial<ChangeForm>): ChangeForm => ({
  change: "version", budget: "", limit: "", from: "", to: "", days: "", rollout: { kind: "", name: "" }, package: "kernel", version: "2.0.0", nodes: "", workFor: "", isWhole: true, ...fields,
});
const spec = { packages: { kernel: { version: "2.0.0" } } };

for (const [kind, apiVersion] of [["Skyhook", "skyhook.nvidia.com/v1alpha1"], ["NodeWright", "nodewright.nvidia.com/v1alpha1"]] as const) {
  test(`another version of a package changes the ${kind} that has it`, () => {
    assert.ok(hasPackages(kind));
    assert.deepEqual(changesOf(form({ rollout: { kind, name: "gpu" } })), { objects: [{ apiVersion, kind, metadata: { name: "gpu" }, spec }] });
  });
}

test("a set of maintenances has no packages", () => assert.equal(hasPackages("NodeMaintenanceSet"), false));

test("a limit is a number or a share of the nodes", () => {
  const limit = (text: string): unknown => changesOf(form({ change: "limit", budget: "zone", limit: text }));
  const budget = (maxUnavailable: unknown) => ({ objects: [{ apiVersion: "haulout.dev/v1alpha1", kind: "NodeDisruptionBudget", metadata: { name: "zone" }, spec: { maxUnavailable } }] });
  assert.deepEqual(limit("5"), budget(5));
  assert.deepEqual(limit("10%"), budget("10%"));
});

test("a form that is not whole changes nothing", () => assert.deepEqual(changesOf(form({ isWhole: false })), {}));

test("more nodes are named, or chosen by a label", () => {
  assert.deepEqual(changesOf(form({ change: "nodes", nodes: "pool=blue" })), { maintain: "pool=blue" });
  assert.deepEqual(changesOf(form({ change: "nodes", nodes: "a,b", workFor: "1h" })), { maintain: "a,b", workFor: "1h" });
});
