/** The changes of a what-if: from a form to the objects that a forecast takes instead of those of the cluster. Pure. */

import type { Plain } from "./yaml";

export interface ChangeForm {
  readonly change: string;
  readonly budget: string;
  readonly limit: string;
  readonly from: string;
  readonly to: string;
  readonly days: string;
  /** The object of the packages: `kind` as in manifests. */
  readonly rollout: { readonly kind: string; readonly name: string };
  readonly package: string;
  readonly version: string;
  readonly nodes: string;
  readonly workFor: string;
  readonly isWhole: boolean;
}

export const CHANGES = [
  ["limit", "another limit of a budget"],
  ["window", "another window of a budget"],
  ["version", "another version of a package"],
  ["nodes", "more nodes to maintain"],
] as const;

const API_VERSIONS: Readonly<Record<string, string>> = {
  Skyhook: "skyhook.nvidia.com/v1alpha1",
  NodeWright: "nodewright.nvidia.com/v1alpha1",
};

/** Whether a kind has packages, so that a forecast can be made with another version of one. */
export function hasPackages(kind: string): boolean {
  return kind in API_VERSIONS;
}

export function changesOf(form: ChangeForm): Record<string, Plain> {
  if (!form.isWhole) return {};
  switch (form.change) {
    case "limit":
      return { objects: [budget(form.budget, { maxUnavailable: /^\d+$/.test(form.limit) ? Number(form.limit) : form.limit })] };
    case "window": {
      const days = form.days.split(/[\s,]+/).filter(Boolean);
      return { objects: [budget(form.budget, { windows: [{ from: form.from, to: form.to, ...(days.length ? { days } : {}) }] })] };
    }
    case "version":
      return {
        objects: [
          {
            apiVersion: API_VERSIONS[form.rollout.kind] ?? "",
            kind: form.rollout.kind,
            metadata: { name: form.rollout.name },
            spec: { packages: { [form.package]: { version: form.version } } },
          },
        ],
      };
    default:
      return { maintain: form.nodes, ...(form.workFor ? { workFor: form.workFor } : {}) };
  }
}

function budget(name: string, spec: Record<string, Plain>): Plain {
  return { apiVersion: "haulout.dev/v1alpha1", kind: "NodeDisruptionBudget", metadata: { name }, spec };
}
