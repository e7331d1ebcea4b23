"""`haulout pause`: stops everything that disrupts a node, the nodes of an object, some nodes, or all."""

from haulout.cli.pausing import pausing_act

command = pausing_act(
    "pause",
    "Stop all work that disrupts nodes.",
    "Stops everything that disrupts nodes, of every surface, also where work has begun: cordons, evictions, reboots, "
    "Jobs. What gives nodes back goes on. The pause lasts until `haulout resume`.",
    has_reason=True,
)
