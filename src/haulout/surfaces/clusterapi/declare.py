"""The clusterapi surface, declared."""

from __future__ import annotations

from haulout.core.rights import CLUSTER, FOLLOW, READ, TELL, Option, Right, Role
from haulout.core.surface import Original, Surface

NAME, GROUP = "clusterapi", "cluster.x-k8s.io"
ORIGINAL = Original(name="runtime-extension-maintenance-controller", lease="runtime-extension-maintenance-controller")

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="Machines of Cluster API: carry maintenance signals between Machines and the Nodes of workload clusters.",
    decisions="haulout.surfaces.clusterapi.surface:CLUSTERAPI",
    part="haulout.app.clusterapi:ClusterApis",
    original=ORIGINAL,
    # It is of use in a management cluster alone, where it reads every Secret.
    is_installed_by_name=True,
    options=(
        Option("metal3", "Allow what enableMetal3Maintenance needs.", setting="enableMetal3Maintenance: true"),
        Option("kubeconfigs", "Read kubeconfigs in this namespace, and not in all of them.", "NAMESPACE"),
    ),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                # Kubeconfigs lie in the namespaces of the machines, whichever those are.
                Right("", ("secrets",), FOLLOW, "kubeconfigs of workload clusters", unless="kubeconfigs"),
                Right("", ("events",), TELL, "events about Machines, in their namespaces"),
                Right(GROUP, ("machines",), (*READ, "patch"), "follow Machines, set hooks and approvals"),
                Right(GROUP, ("clusters",), FOLLOW, "see which clusters are paused"),
                Right(
                    "metal3.io",
                    ("baremetalhosts",),
                    (*READ, "patch"),
                    "switch hosts off and on",
                    option="metal3",
                ),
            ),
        ),
        Role(
            NAME,
            "kubeconfigs",
            (Right("", ("secrets",), FOLLOW, "kubeconfigs of workload clusters"),),
            "kubeconfigs",
            "kubeconfigs",
        ),
    ),
    workload_roles=(
        Role(
            NAME,
            CLUSTER,
            (
                Right(
                    "",
                    ("nodes",),
                    (*READ, "patch"),
                    "tell nodes of a workload cluster what is asked, read their approval",
                ),
            ),
            "workload",
        ),
    ),
)
