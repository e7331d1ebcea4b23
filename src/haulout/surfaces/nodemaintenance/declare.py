"""The declaration of the nodemaintenance surface: its names, flags, rights and webhook, without its decisions."""

from __future__ import annotations

from haulout.core.archive import LABELLED_METADATA, OWN_CONDITION, Archived, Kept, values
from haulout.core.metric import COUNTER, GAUGE, HISTOGRAM, LONG_BUCKETS, Metric
from haulout.core.remains import LEASES, MadeKind, Mark, MarkedKind, Place, Remains
from haulout.core.rights import (
    CLUSTER,
    COORDINATION,
    DEFAULT,
    FOLLOW,
    READ,
    TELL,
    Name,
    Option,
    Right,
    Role,
    certificate_role,
    drain_rights,
    people_roles,
    registration_right,
)
from haulout.core.steering import steering_acts
from haulout.core.surface import Explained, Flag, NodeSign, ObjectLint, Original, Registration, Surface
from haulout.surfaces.nodemaintenance.acts import ACTS, DRAIN_TAINT_KEY, MAINTENANCES, SETS
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings

NAME, GROUP, PLURAL = "nodemaintenance", "nodemaintenance.medik8s.io", "nodemaintenances"
ORIGINAL = Original(
    name="node-maintenance-operator",
    program="manager",
    lease="135b1886.medik8s.io",
    pods="node-maintenance-operator",
    flags=(
        Flag(
            "metrics-bind-address",
            ":8443",
            "The address on which metrics are served over HTTPS; 0 for none.",
            sets="http",
        ),
        Flag(
            "health-probe-bind-address",
            ":8081",
            "The address on which the probes are served; 0 for none.",
            sets="health",
        ),
        Flag("leader-elect", False, "Act only while holding a lease; needed with more than one replica.", sets="elect"),
        Flag("enable-http2", False, "Accepted for the original's sake: HTTP/1.1 is what is served."),
        Flag(
            "kubeconfig",
            "",
            "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod.",
            sets="kubeconfig",
        ),
        Flag(
            "listen-webhooks",
            ":9443",
            "The address on which webhooks are served over HTTPS; 0 for none.",
            sets="webhooks.address",
        ),
    ),
    log_times="rfc3339nano",
    environment={"LEASE_NAMESPACE": "surface.lease_namespace"},
    fixed={
        "guarded": True,
        "ready_at_once": True,
        # Like the original, the Lease is not released at the end, so the next leader waits until it expires.
        "lease.release": False,
        "webhooks.certificates": "original",
        "webhooks.service": "node-maintenance-operator-webhook-service",
    },
    settings={"restore_node_state": False},
)
# Names and paths are the original's, so that this registration replaces it.
WEBHOOK = Registration(
    configuration="node-maintenance-operator-validating-webhook-configuration",
    name="vnodemaintenance.kb.io",
    path="/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance",
    rules=(
        {
            "apiGroups": [GROUP],
            "apiVersions": ["v1beta1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [PLURAL],
        },
    ),
)

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="NodeMaintenances: cordon and drain a node for as long as the object is there.",
    reporter="NodeMaintenance",
    settings=NodeMaintenanceSettings,
    object_lint=(ObjectLint(group=SETS.group, kind=SETS.kind, check=f"{__package__}.sets.lint:lint_set"),),
    explains=(
        Explained(kind="NodeMaintenance", words=("nodemaintenance", "nodemaintenances", "nm", f"{PLURAL}.{GROUP}")),
        Explained(kind=SETS.kind, words=("nodemaintenanceset", SETS.resource, "nms", SETS.named)),
    ),
    decisions="haulout.surfaces.nodemaintenance.surface:NODEMAINTENANCE",
    reasons="haulout.surfaces.nodemaintenance.reasons:REASONS",
    part="haulout.app.nodemaintenance:NodeMaintenances",
    original=ORIGINAL,
    crds=(PLURAL,),
    webhooks=(WEBHOOK,),
    quorum_setting="quorum_on_kubernetes",
    names=(Name("lease_namespace", "medik8s-leases", "surfaces.nodemaintenance.leaseNamespace", is_namespace=True),),
    options=(
        Option("node_conditions", "Allow what the setting nodeConditions needs.", setting="nodeConditions: true"),
        Option(
            "eviction_requests",
            "Allow what evictionBackend: evictionrequest needs.",
            setting="evictionBackend: evictionrequest",
        ),
    ),
    metrics=(
        Metric(
            "nodemaintenance_drain_duration_seconds",
            HISTOGRAM,
            "How long maintenances took from their lease to the last pod.",
            buckets=LONG_BUCKETS,
        ),
        Metric(
            "nodemaintenance_drain_progress_ratio",
            GAUGE,
            "How much of a maintenance's drain is done.",
            labels=("name", "node"),
        ),
        Metric("nodemaintenance_evictions_total", COUNTER, "Evictions for maintenances by result.", labels=("result",)),
        Metric(
            "nodemaintenance_info",
            GAUGE,
            "1 for each maintenance, with its node and phase.",
            labels=("name", "node", "phase"),
        ),
        Metric("nodemaintenance_lease_errors_total", COUNTER, "Node leases that could not be acquired or renewed."),
        Metric(
            "nodemaintenance_pending_pods", GAUGE, "Pods that a maintenance still waits for.", labels=("name", "node")
        ),
    ),
    signs=(
        NodeSign(
            taint=DRAIN_TAINT_KEY,
            text="a NodeMaintenance holds it",
            orphan="haulout.surfaces.nodemaintenance.tainted_nodes:left_behind",
        ),
    ),
    remains=Remains(
        nodes=(
            Mark(Place.TAINT, DRAIN_TAINT_KEY),
            Mark(Place.LABEL, "remediation.medik8s.io/exclude-from-remediation", value="true", beside=DRAIN_TAINT_KEY),
            *(Mark(Place.CONDITION, name) for name in ("DrainInProgress", "Drained", "MaintenanceInProgress")),
        ),
        marked=(MarkedKind(MAINTENANCES, finalizers=("foregroundDeleteNodeMaintenance",)),),
        made=(MadeKind(LEASES, holder="node-maintenance"),),
    ),
    acts=(*ACTS, *steering_acts(MAINTENANCES)),
    archive=(
        Archived(
            group=GROUP,
            versions=("v1beta1",),
            plural=PLURAL,
            kind="NodeMaintenance",
            node="spec.nodeName",
            fields={
                "metadata": LABELLED_METADATA,
                "spec": values(
                    "nodeName",
                    reason=Kept.SIZE,
                    drain=values(
                        *("force", "deleteEmptyDirData", "ignoreDaemonSets", "gracePeriodSeconds", "timeoutSeconds"),
                        *("podSelector", "disableEviction", "skipWaitForDeleteTimeoutSeconds", "retryIntervalSeconds"),
                        *("deadlineSeconds", "deadlineAction", "dryRun", "restoreNodeState"),
                    ),
                ),
                "status": values(
                    *("phase", "drainProgress", "lastUpdate", "lastError", "pendingPods", "totalpods", "evictionPods"),
                    "errorOnLeaseCount",
                    pendingPodsRefs=values("namespace", "name"),
                    blockedPods=values("namespace", "name", "reason", "message", "since"),
                    conditions=OWN_CONDITION,
                ),
            },
        ),
    ),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                *drain_rights(),
                Right("", ("nodes/status",), ("patch",), "conditions on nodes", option="node_conditions"),
                Right("policy", ("poddisruptionbudgets",), READ, "pace drains; the guard of etcd on OpenShift"),
                Right("apps", ("daemonsets",), FOLLOW, "know which pods come back by themselves"),
                Right(GROUP, (PLURAL,), (*READ, "patch"), "follow NodeMaintenances, set their finalizer"),
                Right(GROUP, (PLURAL,), ("create", "delete"), "make those of NodeMaintenanceSets, end expired ones"),
                Right(GROUP, (f"{PLURAL}/status",), ("patch",), "write the status of NodeMaintenances"),
                Right(
                    "", ("namespaces",), ("get",), "see that the namespace of leases is there", ("{lease_namespace}",)
                ),
                Right(
                    "lifecycle.k8s.io",
                    ("evictionrequests",),
                    (*READ, *TELL),
                    "drain by EvictionRequests",
                    option="eviction_requests",
                ),
                registration_right(WEBHOOK.configuration),
            ),
        ),
        Role(
            NAME,
            "lease_namespace",
            (Right(COORDINATION, ("leases",), (*READ, *TELL, "delete"), "the Leases of nodes in maintenance"),),
        ),
        Role(
            NAME,
            DEFAULT,
            (Right("", ("events",), TELL, "events about NodeMaintenances and their nodes"),),
            "events",
        ),
        certificate_role(NAME),
        *people_roles(NAME, "nodemaintenance", GROUP, PLURAL),
    ),
)
