"""The acts of people on nodes with packages: run a package again."""

from __future__ import annotations

from haulout.core.act import NODES, Act, Argument, Endpoint, Need

_ARGUMENTS = (
    Argument("skyhook", "Name of the Skyhook; it may be left out where one package fails."),
    Argument("package", "Name of the package; it may be left out where one package fails."),
)
WAY = "package"
SKYHOOK_OBJECTS = Endpoint("Skyhook", "skyhook.nvidia.com", "v1alpha1", "skyhooks")
NODEWRIGHT_OBJECTS = Endpoint("NodeWright", "nodewright.nvidia.com", "v1alpha1", "nodewrights")
ACTS = (
    Act(
        name="retry",
        way=WAY,
        help="run a package on the node again from its first stage",
        targets=(NODES,),
        plan="haulout.surfaces.packages.retry:retry",
        arguments=_ARGUMENTS,
        needs=(Need("patch", NODES),),
    ),
    Act(
        name="rerun",
        way=WAY,
        help="run a package on the node again, with the steps that the agent has recorded as done",
        targets=(NODES,),
        plan="haulout.surfaces.packages.retry:rerun",
        arguments=_ARGUMENTS,
        needs=(Need("patch", NODES),),
    ),
)
