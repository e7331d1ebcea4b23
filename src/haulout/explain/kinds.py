"""The kinds of objects that can be explained, under every name that kubectl has for them."""

from __future__ import annotations

NODE, MAINTENANCE, MACHINE = "node", "nodemaintenance", "machine"
KINDS = {
    **dict.fromkeys(("node", "nodes", "no"), NODE),
    **dict.fromkeys(("nodemaintenance", "nodemaintenances", "nm"), MAINTENANCE),
    "nodemaintenances.nodemaintenance.medik8s.io": MAINTENANCE,
    **dict.fromkeys(("machine", "machines", "ma", "machines.cluster.x-k8s.io"), MACHINE),
}
