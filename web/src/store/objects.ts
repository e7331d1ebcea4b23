/** Names of objects: from `kind/[namespace/]name` as decisions print it to the kind as manifests spell it. Pure. */

import type { Target } from "../api/types";

const KINDS = [
  "Node", "NodeMaintenance", "NotifyMaintenance", "NodeMaintenanceSet", "Machine", "MachineDeployment", "MachineSet", "Skyhook", "NodeWright", "DeploymentPolicy",
  "NodeDisruptionBudget", "MaintenanceRecord", "Pod", "PodDisruptionBudget",
];
const BY_WORD = new Map(KINDS.map((kind) => [kind.toLowerCase(), kind]));

export function targetOf(object: string): Target {
  const [word = "", ...rest] = object.split("/");
  const name = rest.pop() ?? "";
  const kind = BY_WORD.get(word.toLowerCase()) ?? word.charAt(0).toUpperCase() + word.slice(1);
  return { kind, namespace: rest.join("/"), name };
}
