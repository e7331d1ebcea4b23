"""`haulout pause`: stops everything that disrupts a node, the nodes of an object, some nodes, or all."""

from haulout.cli.pausing import pausing_act

command = pausing_act(
    "pause",
    "Stop all work that disrupts nodes.",
    "Stops everything that disrupts nodes (cordons, evictions, reboots, Jobs) for every surface, including work that has "
    "begun. Nodes still return to service. The pause lasts until `haulout resume`.",
    has_reason=True,
)
