"""The declaration of the clusterapi surface: its names, flags, rights and metrics, without its decisions."""

from __future__ import annotations

from haulout.core.act import Endpoint
from haulout.core.archive import CONDITION, METADATA, REFERENCE, Archived, values
from haulout.core.metric import COUNTER, GAUGE, HISTOGRAM, LONG_BUCKETS, Metric
from haulout.core.remains import Mark, MarkedKind, Place, Remains
from haulout.core.rights import CLUSTER, FOLLOW, READ, TELL, Option, Right, Role
from haulout.core.steering import steering_acts
from haulout.core.surface import Explained, Flag, Original, Surface
from haulout.surfaces.clusterapi.acts import ACTS, MACHINES, PREFIX
from haulout.surfaces.clusterapi.settings import ClusterApiSettings

NAME, GROUP = "clusterapi", "cluster.x-k8s.io"
ORIGINAL = Original(
    name="runtime-extension-maintenance-controller",
    lease="runtime-extension-maintenance-controller",
    pods="app=runtime-extension-maintenance-controller",
    flags=(
        Flag(
            "kubecontext",
            "",
            "The context of the kubeconfig to use (or KUBECONTEXT); in a pod it does not matter.",
            sets="context",
        ),
        Flag(
            "kubeconfig",
            "",
            "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod.",
            sets="kubeconfig",
        ),
        Flag("leader-elect", True, "Act only while holding a lease; needed with more than one replica.", sets="elect"),
        Flag(
            "leader-election-namespace",
            "",
            "The namespace of the lease; without one, the pod's own.",
            sets="lease.namespace",
        ),
        Flag("metrics-bind-address", ":8080", "The address on which metrics are served; 0 for none.", sets="http"),
        Flag(
            "health-probe-bind-address",
            "0",
            "The address on which the probes are served, such as :8081; 0 for none.",
            sets="health",
        ),
    ),
    environment={"KUBECONTEXT": "context"},
    # The original lets its Lease expire. Haulout releases it, so that the next leader, either of ours or of the
    # original, gets it at once.
    fixed={"pod_first": True},
)

_SKIP_OWNED = f"{PREFIX}skip-remediation-owned"

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="Machines of Cluster API: carry maintenance signals between Machines and the Nodes of workload clusters.",
    reporter="runtime-extension-maintenance-controller",
    settings=ClusterApiSettings,
    acts=(*ACTS, *steering_acts(MACHINES, overrides=False)),
    explains=(
        Explained(
            kind="Machine",
            words=("machine", "machines", "ma", f"machines.{GROUP}"),
            is_namespaced=True,
            command="haulout.explain.machines:explain_machine",
        ),
    ),
    decisions="haulout.surfaces.clusterapi.surface:CLUSTERAPI",
    reasons="haulout.surfaces.clusterapi.reasons:REASONS",
    part="haulout.app.clusterapi:ClusterApis",
    original=ORIGINAL,
    # The surface is useful only in a management cluster, and it reads every Secret there.
    is_installed_by_name=True,
    options=(
        Option("metal3", "Allow what enableMetal3Maintenance needs.", setting="enableMetal3Maintenance: true"),
        Option("kubeconfigs", "Read kubeconfigs in this namespace, and not in all of them.", "NAMESPACE"),
    ),
    metrics=(
        Metric(
            "maintenance_capi_approval_seconds",
            HISTOGRAM,
            "How long Machines waited for their Nodes' approval.",
            labels=("flow",),
            buckets=LONG_BUCKETS,
        ),
        Metric(
            "maintenance_capi_cluster_connected",
            GAUGE,
            "Whether the Nodes of a workload cluster are being watched.",
            labels=("cluster", "namespace"),
        ),
        Metric(
            "maintenance_capi_machines",
            GAUGE,
            "Enabled Machines by what they wait for.",
            labels=("cluster", "namespace", "state"),
        ),
        Metric(
            "maintenance_capi_reconnects_total",
            COUNTER,
            "How often a workload cluster was connected again, by reason.",
            labels=("cluster", "namespace", "reason"),
        ),
    ),
    archive=(
        Archived(
            group=GROUP,
            versions=("v1beta2", "v1beta1"),
            plural="machines",
            kind="Machine",
            only="haulout.surfaces.clusterapi.wire:is_labelled_machine",
            fields={
                "metadata": METADATA,
                "spec": values(
                    *(
                        "clusterName",
                        "providerID",
                        "nodeDrainTimeout",
                        "nodeDrainTimeoutSeconds",
                        "nodeDeletionTimeout",
                    ),
                    infrastructureRef=REFERENCE,
                ),
                "status": values("phase", nodeRef=REFERENCE, conditions=CONDITION),
            },
        ),
    ),
    kept_annotations=(
        "cluster.x-k8s.io/cluster-name",
        "cluster.x-k8s.io/cluster-namespace",
        "cluster.x-k8s.io/machine",
    ),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                # Kubeconfigs are in the namespaces of the Machines, which are not known here.
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
    remains=Remains(
        # On Nodes of a workload cluster; in a management cluster there are none of them.
        nodes=(Mark(Place.LABEL, f"{PREFIX}machine-deleted"), Mark(Place.LABEL, f"{PREFIX}machine-maintenance")),
        marked=(
            MarkedKind(
                MACHINES,
                marks=(
                    Mark(Place.LABEL, f"{PREFIX}maintenance", value="approved"),
                    Mark(Place.ANNOTATION, f"pre-drain.delete.hook.machine.{GROUP}/maintenance-controller"),
                    Mark(Place.ANNOTATION, f"{GROUP}/skip-remediation", value="", beside=_SKIP_OWNED),
                    Mark(Place.ANNOTATION, _SKIP_OWNED),
                    Mark(Place.ANNOTATION, f"{PREFIX}requested-by"),
                ),
            ),
            MarkedKind(
                Endpoint("BareMetalHost", "metal3.io", "v1alpha1", "baremetalhosts", is_namespaced=True),
                marks=(Mark(Place.ANNOTATION, f"reboot.metal3.io/{ORIGINAL.name}"),),
            ),
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
