"""What all surfaces share, declared like a surface: NodeDisruptionBudgets, the logbook, leader election, events about the operator."""

from __future__ import annotations

from haulout.core.archive import LABELLED_METADATA, OWN_CONDITION, OWN_SELECTOR, Archived, Kept, values
from haulout.core.budgets.override_registration import CONFIGURATION, OVERRIDES, POLICY
from haulout.core.kernel_acts import KERNEL_ACTS
from haulout.core.metric import KERNEL_METRICS
from haulout.core.remains import OWN_PREFIX, Mark, Place, Remains
from haulout.core.rights import (
    CLUSTER,
    COORDINATION,
    DEFAULT,
    EVENTS,
    HOME,
    READ,
    TELL,
    Name,
    Option,
    Right,
    Role,
    people_roles,
    registration_right,
)
from haulout.core.steering import NODE_ACTS
from haulout.core.surface import Explained, ObjectLint, Registration, Surface

NAME, GROUP = "kernel", "haulout.dev"
# The option and the object name of the certificate that Haulout makes for its webhooks.
OWN_CERTIFICATES, WEBHOOK_SECRET = "own_certificates", "webhook_secret"

# The annotations that only the webhook writes, and the labels of Nodes that ask for a maintenance.
_NOTES = '["haulout.dev/requested-by", "haulout.dev/requested-by-proof"]'
_ASKING = '["cloud.sap/maintenance-profile", "cloud.sap/esx-reboot-ok", "cloud.sap/delete-node"]'


def _changes(names: str, field: str) -> str:
    """Return the CEL expression for a write that changes one of these annotations or labels."""
    values = [
        f'(has({each}.metadata.{field}) && n in {each}.metadata.{field} ? {each}.metadata.{field}[n] : "")'
        for each in ("object", "oldObject")
    ]
    return f"{names}.exists(n, {values[0]} != {values[1]})"


def _noting(word: str, operations: list[str], condition: str, *kinds: tuple[str, str, str]) -> Registration:
    return Registration(
        configuration="haulout-requested-by",
        name=f"{word}.requested-by.haulout.dev",
        path=f"/mutate-requested-by-{word}",
        rules=tuple(
            {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": [plural]}
            for group, version, plural in kinds
        ),
        mutating=True,
        timeout_seconds=3,
        # A maintenance must not depend on the logbook.
        fails_open=True,
        conditions=({"name": "asks", "expression": condition},),
    )


# They note who asks for a maintenance. Only writes that ask, or that change the note, are reviewed.
REQUESTED_BY_WEBHOOKS = (
    _noting(
        "objects",
        ["CREATE", "UPDATE"],
        f"oldObject == null || {_changes(_NOTES, 'annotations')}",
        ("nodemaintenance.medik8s.io", "v1beta1", "nodemaintenances"),
        ("ngn2.nvidia.com", "v1alpha1", "notifymaintenances"),
        ("skyhook.nvidia.com", "v1alpha1", "skyhooks"),
        ("nodewright.nvidia.com", "v1alpha1", "nodewrights"),
        (GROUP, "v1alpha1", "nodemaintenancesets"),
    ),
    _noting(
        "nodes",
        ["UPDATE"],
        f"{_changes(_ASKING, 'labels')} || {_changes(_NOTES, 'annotations')}",
        ("", "v1", "nodes"),
    ),
)

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="What all surfaces share: budgets of nodes, the logbook, leader election, events about the operator itself.",
    crds=("nodedisruptionbudgets", "maintenancerecords", "nodemaintenancesets"),
    names=(
        Name("leader_lease", "haulout", "leader.lease"),
        Name(WEBHOOK_SECRET, "haulout-webhook-cert", "webhooks.secret"),
    ),
    options=(
        Option("delete_pods", "Allow deleting pods, for drains that bypass disruption budgets on request."),
        Option(OWN_CERTIFICATES, "Allow keeping and registering the certificate of the webhooks.", default=True),
        Option("original_lease", "Allow the Leases of the originals in this namespace.", "NAMESPACE"),
    ),
    acts=(*KERNEL_ACTS, *NODE_ACTS),
    remains=Remains(
        nodes=tuple(Mark(place, OWN_PREFIX, is_prefix=True) for place in (Place.LABEL, Place.ANNOTATION, Place.TAINT))
    ),
    webhooks=(*REQUESTED_BY_WEBHOOKS, OVERRIDES),
    reasons="haulout.core.reason_codes:REASONS",
    metrics=KERNEL_METRICS,
    object_lint=(ObjectLint(group=GROUP, kind="NodeDisruptionBudget", check="haulout.core.budgets.lint:lint_budget"),),
    explains=(
        Explained(
            kind="NodeDisruptionBudget",
            words=("nodedisruptionbudget", "nodedisruptionbudgets", "ndb", f"nodedisruptionbudgets.{GROUP}"),
            command="haulout.explain.budgets:explain_budget",
            document="haulout.explain.documents:BudgetExplanation",
        ),
    ),
    archive=(
        Archived(
            group=GROUP,
            versions=("v1alpha1",),
            plural="nodedisruptionbudgets",
            kind="NodeDisruptionBudget",
            fields={
                "metadata": LABELLED_METADATA,
                "spec": values(
                    *("maxUnavailable", "topologyKey", "maxDomains", "surfaces"),
                    selector=OWN_SELECTOR,
                    windows=values("type", "schedule", "duration", "days", "from", "to", "timeZone"),
                ),
                "status": values(
                    *("observedGeneration", "allowed", "used", "nextOpening"),
                    holders=values("node", "surface", "reason"),
                    waiting=values("count", first=values("node", "surface", "reason")),
                    conditions=OWN_CONDITION,
                ),
            },
        ),
        Archived(
            group=GROUP,
            versions=("v1alpha1",),
            plural="maintenancerecords",
            kind="MaintenanceRecord",
            node="spec.node.name",
            fields={
                "metadata": LABELLED_METADATA,
                # Reasons are texts of users, and names of users do not belong in an archive.
                "spec": values(
                    *("surface", "begunAt"),
                    node=values("name", "uid"),
                    owner=values("kind", "namespace", "name", "uid"),
                    requestedBy=values("how"),
                ),
                "status": values(
                    *("outcome", "endedAt", "limits"),
                    phases=values("name", "at", "certainty"),
                    waitedFor=values("code", "subject", "seconds", "since"),
                    drain=values("evicted", "deleted", "ignored"),
                    acts=values("act", "at"),
                ),
            },
        ),
        Archived(
            group=GROUP,
            versions=("v1alpha1",),
            plural="nodemaintenancesets",
            kind="NodeMaintenanceSet",
            fields={
                "metadata": LABELLED_METADATA,
                "spec": values(
                    *("nodes", "maxConcurrent", "paused", "startAt", "ttl", "setAsideAfter"), reason=Kept.SIZE
                ),
                "status": values(
                    *("phase", "total", "waiting", "inMaintenance", "done", "setAside", "finishedAt"),
                    nodes=Kept.LABELS,
                    setAsideNodes=values("name", "at"),
                ),
            },
        ),
    ),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                Right("", ("nodes",), READ, "record maintenances of nodes, follow pauses"),
                Right(GROUP, ("nodedisruptionbudgets",), READ, "follow budgets"),
                Right(GROUP, ("nodedisruptionbudgets/status",), ("patch",), "write the status of budgets"),
                registration_right("haulout-requested-by", mutating=True),
                Right(
                    GROUP,
                    ("maintenancerecords",),
                    (*READ, "create", "patch", "delete"),
                    "record maintenances, and remove old records",
                ),
                Right(GROUP, ("nodemaintenancesets",), (*READ, "delete"), "follow NodeMaintenanceSets, end old ones"),
                Right(GROUP, ("nodemaintenancesets/status",), ("patch",), "write the status of NodeMaintenanceSets"),
            ),
        ),
        Role(
            NAME,
            HOME,
            (
                Right(COORDINATION, ("leases",), ("create",), "elect a leader"),
                Right(COORDINATION, ("leases",), ("get", "update"), "elect a leader", ("{leader_lease}",)),
                Right("", ("events",), TELL, "events about itself, without profiles"),
                Right(EVENTS, ("events",), TELL, "events about itself, with profiles"),
            ),
        ),
        Role(
            NAME,
            CLUSTER,
            (
                registration_right(CONFIGURATION),
                Right(
                    "admissionregistration.k8s.io",
                    ("validatingwebhookconfigurations",),
                    ("get",),
                    "see whether overrides of budgets are guarded",
                    (CONFIGURATION,),
                ),
                Right(
                    "admissionregistration.k8s.io",
                    ("validatingadmissionpolicybindings",),
                    ("get",),
                    "see whether overrides of budgets are guarded",
                    (POLICY,),
                ),
                Right(
                    "authorization.k8s.io",
                    ("subjectaccessreviews",),
                    ("create",),
                    "ask who may override a budget",
                ),
            ),
            "overrides",
        ),
        # The API server stores events about cluster-scoped objects in the namespace `default`.
        Role(NAME, DEFAULT, (Right(EVENTS, ("events",), ("create",), "events about budgets"),), "events"),
        Role(
            NAME, CLUSTER, (Right("", (), ("get",), urls=("/metrics",)),), title="haulout-metrics-reader", bound=False
        ),
        *people_roles(NAME, "nodedisruptionbudget", GROUP, "nodedisruptionbudgets"),
        *people_roles(NAME, "nodemaintenanceset", GROUP, "nodemaintenancesets"),
        *people_roles(NAME, "maintenancerecord", GROUP, "maintenancerecords", has_status=False),
    ),
)
