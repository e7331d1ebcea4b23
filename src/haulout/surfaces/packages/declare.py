"""The declaration of the packages surface: its names, metrics, rights and webhooks, without its decisions."""

from __future__ import annotations

import msgspec

from haulout.core.archive import CONDITION, METADATA, OWN_SELECTOR, SELECTOR, Archived, Each, Kept, values
from haulout.core.metric import GAUGE, Metric
from haulout.core.remains import CONFIG_MAPS, JOBS, PODS, MadeKind, Mark, MarkedKind, Place, Remains
from haulout.core.rights import (
    CLUSTER,
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
from haulout.core.steering import NODEWRIGHT_SWITCH, SKYHOOK_SWITCH, steering_acts
from haulout.core.surface import Explained, NodeSign, ObjectLint, Original, Registration, Surface, Variable
from haulout.surfaces.packages.acts import ACTS, NODEWRIGHT_OBJECTS, SKYHOOK_OBJECTS
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, VERSION, Group
from haulout.surfaces.packages.settings import PackagesSettings

NAME, LEASE = "packages", "3c22c1ae.nvidia.com"
GROUP, POLICIES = SKYHOOK.name, "deploymentpolicies"
SKYHOOKS, NODEWRIGHTS = SKYHOOK.plural, NODEWRIGHT.plural
NODEWRIGHT_POLICIES = f"nodewright-{POLICIES}"
# The chart of the original names its webhook configurations, and finds them by this label where it has other names.
_CONFIGURATIONS = {SKYHOOK: "skyhook-operator", NODEWRIGHT: "nodewright"}


def _webhook(verb: str, word: str, plural: str, *more: str, group: Group = SKYHOOK) -> Registration:
    """Return the registration of a webhook under the original's names, so that it replaces the original's."""
    return Registration(
        configuration=f"{_CONFIGURATIONS[group]}-{verb.removesuffix('e')}ing-webhook",
        name=f"{verb}-{word}.{'nvidia.com' if group is SKYHOOK else group.name}",
        path=f"/{verb}-{group.name.replace('.', '-')}-{VERSION}-{word}",
        rules=(
            {
                "apiGroups": [group.name],
                "apiVersions": [VERSION],
                "operations": ["CREATE", "UPDATE", *more],
                "resources": [plural],
            },
        ),
        mutating=verb == "mutate",
        timeout_seconds=10,
    )


MUTATE_SKYHOOK = _webhook("mutate", "skyhook", SKYHOOKS)
MUTATE_POLICY = _webhook("mutate", "deploymentpolicy", POLICIES)
VALIDATE_SKYHOOK = _webhook("validate", "skyhook", SKYHOOKS)
VALIDATE_POLICY = _webhook("validate", "deploymentpolicy", POLICIES, "DELETE")
MUTATE_NODEWRIGHT = _webhook("mutate", "nodewright", NODEWRIGHTS, group=NODEWRIGHT)
MUTATE_NODEWRIGHT_POLICY = _webhook("mutate", "deploymentpolicy", POLICIES, group=NODEWRIGHT)
VALIDATE_NODEWRIGHT = _webhook("validate", "nodewright", NODEWRIGHTS, group=NODEWRIGHT)
VALIDATE_NODEWRIGHT_POLICY = _webhook("validate", "deploymentpolicy", POLICIES, "DELETE", group=NODEWRIGHT)

_SKYHOOK = ("skyhook_name",)
_PACKAGE = ("package_name", "package_version", "skyhook_name")
_COMPARTMENT = ("compartment_name", "policy_name", "skyhook_name", "strategy")


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"skyhook_{name}", GAUGE, text, labels=tuple(sorted(labels)))


def _renamed(metric: Metric) -> Metric:
    """Return the gauge of the second family: the same values under the names that the original has now."""
    labels = tuple(sorted(name.replace("skyhook_", "nodewright_") for name in metric.labels))
    return Metric(metric.name.replace("skyhook_", "nodewright_"), metric.kind, metric.help, labels=labels)


_GAUGES = (
    _gauge("node_status_count", "Nodes of a Skyhook by their status.", *_SKYHOOK, "status"),
    _gauge("node_target_count", "Nodes that a Skyhook selects.", *_SKYHOOK),
    _gauge("package_restarts_count", "Restarts of a package's containers on all nodes.", *_PACKAGE),
    _gauge("package_stage_count", "Nodes by the stage that a package is at.", *_PACKAGE, "stage"),
    _gauge("package_state_count", "Nodes by the state of a package.", *_PACKAGE, "state"),
    _gauge("rollout_ceiling", "How many nodes of a compartment may change at once.", *_COMPARTMENT),
    _gauge("rollout_completed", "Nodes of a compartment that are complete.", *_COMPARTMENT),
    _gauge("rollout_consecutive_failures", "Batches of a compartment that failed in a row.", *_COMPARTMENT),
    _gauge("rollout_current_batch", "The number of a compartment's batch.", *_COMPARTMENT),
    _gauge(
        "rollout_halted",
        "1 if a wave failed the gate of the policy, and no new node starts.",
        "policy_name",
        *_SKYHOOK,
    ),
    _gauge("rollout_in_progress", "Nodes of a compartment that are being changed.", *_COMPARTMENT),
    _gauge("rollout_matched_nodes", "Nodes of a compartment.", *_COMPARTMENT),
    _gauge("rollout_progress_percent", "How much of a compartment is complete.", *_COMPARTMENT),
    _gauge("rollout_should_stop", "1 if a compartment's rollout has stopped after failures.", *_COMPARTMENT),
    _gauge("status", "1 for the status that a Skyhook has, 0 for the others.", *_SKYHOOK, "status"),
)
_METRICS = (*_GAUGES, *map(_renamed, _GAUGES))
# The original has no flags and no configuration file, only environment variables.
ORIGINAL = Original(
    name="skyhook-operator",
    lease=LEASE,
    starts="haulout.cli.as_skyhook_operator:main",
    variables=(
        Variable("ENABLE_WEBHOOKS", "true", "Serve admission webhooks on :9443."),
        Variable("KUBECONFIG", "", "Path of a kubeconfig; without one, the service account of the pod."),
        Variable("LEADER_ELECTION", "false", "Act only while holding a lease; needed with more than one replica."),
        Variable("LOG_ENCODER", "json", "How logs are written: json or console."),
        Variable("LOG_LEVEL", "debug", "From which level on: debug, info, warn or error."),
        Variable("LOG_TIME_ENCODER", "rfc3339", "How instants are written in logs, in zap's words."),
        Variable("METRICS_PORT", ":8080", "The address on which metrics are served."),
        Variable("PROBE_PORT", ":8081", "The address on which the probes are served."),
        Variable("WEBHOOK_SECRET_NAME", "webhook-cert", "The Secret of the webhooks' certificate."),
        Variable(
            "WEBHOOK_SERVICE_NAME",
            "skyhook-operator-webhook-service",
            "The Service by which API servers reach webhooks.",
        ),
    ),
)

_STRATEGY = values("initialBatch", "batchThreshold", "failureThreshold", "safetyLimit", "delta", "growthFactor")
_COMPARTMENT_FIELDS = {
    "budget": values("percent", "count"),
    "strategy": {"fixed": _STRATEGY, "linear": _STRATEGY, "exponential": _STRATEGY},
}
# A package's configuration, environment and container output may hold passwords, so that the archive leaves them out.
_SKYHOOKS, _POLICIES = (
    Archived(
        group=GROUP,
        versions=(VERSION,),
        plural=SKYHOOKS,
        kind="Skyhook",
        has_harmless_events=False,
        fields={
            "metadata": METADATA,
            "spec": values(
                *(
                    "serial",
                    "pause",
                    "deploymentPolicy",
                    "runtimeRequired",
                    "autoTaintNewNodes",
                    "priority",
                    "sequencing",
                ),
                podNonInterruptLabels=SELECTOR,
                nodeSelectors=OWN_SELECTOR,
                deploymentPolicyOptions=values("resetBatchStateOnCompletion"),
                interruptionBudget=values("percent", "count"),
                additionalTolerations=values("key", "operator", "effect", "tolerationSeconds"),
                drainConfig=values(
                    *(
                        "deleteEmptyDirData",
                        "force",
                        "ignoreDaemonSets",
                        "disableEviction",
                        "gracePeriodSeconds",
                        "gracePeriod",
                        "timeout",
                    ),
                ),
                packages=Each(
                    values(
                        *("name", "version", "gracefulShutdown", "stageTimeout"),
                        interrupt=values("type"),
                        configInterrupts=Each(values("type")),
                        configMap=Kept.SIZE,
                        env=Kept.SIZE,
                        dependsOn=Kept.LABELS,
                        resources=Kept.QUANTITIES,
                        uninstall=values("enabled", "apply"),
                    )
                ),
            ),
            "status": values(
                *("observedGeneration", "status", "nodeOrderOffset", "nodesInProgress", "completeNodes", "packageList"),
                nodeState=Each(Each(values("name", "version", "stage", "state", "restarts"))),
                nodeStatus=Kept.LABELS,
                nodePriority=Kept.LABELS,
                conditions=CONDITION,
                compartmentStatuses=Each(
                    values(
                        *("matched", "ceiling", "inProgress", "completed", "progressPercent"),
                        batchState=values(
                            *("currentBatch", "consecutiveFailures", "completedNodes", "failedNodes", "shouldStop"),
                        ),
                    )
                ),
            ),
        },
    ),
    Archived(
        group=GROUP,
        versions=(VERSION,),
        plural=POLICIES,
        kind="DeploymentPolicy",
        has_harmless_events=False,
        fields={
            "metadata": METADATA,
            "spec": values(
                "resetBatchStateOnCompletion",
                default=_COMPARTMENT_FIELDS,
                compartments=values("name", selector=OWN_SELECTOR, **_COMPARTMENT_FIELDS),
            ),
        },
    ),
)
_JOBS = Archived(
    group="batch",
    versions=("v1",),
    plural="jobs",
    kind="Job",
    only="haulout.surfaces.packages.groups:is_package_job",
    node="spec.template.spec.nodeName",
    fields={
        "metadata": METADATA,
        "spec": values(
            *("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "suspend"),
            *("ttlSecondsAfterFinished", "podReplacementPolicy"),
        ),
        "status": values(
            *("active", "ready", "succeeded", "failed", "terminating", "startTime", "completionTime"),
            conditions=CONDITION,
        ),
    },
)
_ARCHIVE = (
    _SKYHOOKS,
    _POLICIES,
    msgspec.structs.replace(_SKYHOOKS, group=NODEWRIGHT.name, plural=NODEWRIGHTS, kind=NODEWRIGHT.kind),
    msgspec.structs.replace(_POLICIES, group=NODEWRIGHT.name),
    _JOBS,
)

# Marks that say which packages a host has. Without them all packages would be applied to it again.
_RECORDS = ("nodeState_", "version_", "resourceId_", "copyDir_", "stageTime_", "keptConf_")


def _marks(group: Group) -> tuple[Mark, ...]:
    """Return the marks of a group on Nodes."""
    # An annotation with the key of the taint says that the operator has tainted the node.
    return (
        *(Mark(Place.ANNOTATION, f"{group.prefix}{name}", is_prefix=True, is_record=True) for name in _RECORDS),
        Mark(Place.ANNOTATION, group.prefix, is_prefix=True),
        Mark(Place.LABEL, f"{group.prefix}status_", is_prefix=True),
        Mark(Place.TAINT, "", is_prefix=True, beside=f"{group.prefix}autoTaint_{{}}"),
        Mark(Place.CONDITION, group.prefix, is_prefix=True),
    )


_REMAINS = Remains(
    nodes=(*(mark for group in GROUPS for mark in _marks(group)), Mark(Place.ANNOTATION, "haulout.dev/rerun")),
    marked=tuple(
        MarkedKind(endpoint, (group.finalizer,), (Mark(Place.ANNOTATION, f"{group.prefix}version"),))
        for endpoint, group in ((SKYHOOK_OBJECTS, SKYHOOK), (NODEWRIGHT_OBJECTS, NODEWRIGHT))
    ),
    made=(
        MadeKind(CONFIG_MAPS, selector="haulout.dev/applied", is_record=True),
        *(
            MadeKind(endpoint, selector=f"{group.prefix}{label}")
            for group in GROUPS
            for endpoint, label in (
                *((JOBS, "name"), (PODS, "name"), (CONFIG_MAPS, "name")),
                (CONFIG_MAPS, "skyhook-node-meta"),
            )
        ),
    ),
)

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="Skyhooks: roll packages over nodes, with an agent that runs on the hosts.",
    reporter="skyhook-controller",
    quoting_events=frozenset({"Failed"}),
    settings=PackagesSettings,
    decisions="haulout.surfaces.packages.surface:PACKAGES",
    reasons="haulout.surfaces.packages.reasons:REASONS",
    part="haulout.app.packages:Packages",
    acts=(
        *ACTS,
        *steering_acts(SKYHOOK_OBJECTS, switch=SKYHOOK_SWITCH),
        *steering_acts(NODEWRIGHT_OBJECTS, switch=NODEWRIGHT_SWITCH),
    ),
    object_lint=(
        ObjectLint(group=SKYHOOK.name, kind=SKYHOOK.kind, check=f"{__package__}.lint:lint_skyhook"),
        ObjectLint(group=NODEWRIGHT.name, kind=NODEWRIGHT.kind, check=f"{__package__}.lint:lint_nodewright"),
        *(
            ObjectLint(group=each.name, kind="DeploymentPolicy", check=f"{__package__}.lint:lint_policy")
            for each in GROUPS
        ),
    ),
    explains=tuple(
        Explained(kind=group.kind, words=(group.word, group.plural, f"{group.plural}.{group.name}")) for group in GROUPS
    ),
    original=ORIGINAL,
    waiting_labels=(f"{GROUP}/status_", frozenset({"waiting", "blocked", "erroring"})),
    remains=_REMAINS,
    # kubectl finds a plugin by the name of its program.
    programs={
        "skyhook": "haulout.cli.skyhook.command:main",
        "kubectl-skyhook": "haulout.cli.skyhook.command:main",
        "skyhook-agent": "haulout.agent.main:main",
        "nodewright-operator": "haulout.cli.as_nodewright_operator:main",
        "nodewright": "haulout.cli.skyhook.command:nodewright",
        "kubectl-nodewright": "haulout.cli.skyhook.command:nodewright",
    },
    crds=(SKYHOOKS, POLICIES, NODEWRIGHTS, NODEWRIGHT_POLICIES),
    metrics=_METRICS,
    archive=_ARCHIVE,
    signs=tuple(
        NodeSign(annotation=f"{group.prefix}cordon_", is_prefix=True, text=f"{group.kind} {{}} holds it")
        for group in GROUPS
    ),
    names=(Name("packages_namespace", "skyhook", "surfaces.packages.namespace", is_namespace=True),),
    options=(Option("failure_logs", "Allow what the setting keepFailureLogs needs.", setting="keepFailureLogs: true"),),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                *drain_rights(),
                Right("", ("nodes/status",), ("patch",), "conditions on nodes"),
                Right("policy", ("poddisruptionbudgets",), FOLLOW, "pace drains"),
                Right("apps", ("daemonsets",), FOLLOW, "know which pods come back by themselves"),
                Right(GROUP, (SKYHOOKS,), (*READ, "patch"), "follow Skyhooks, set their finalizer"),
                Right(GROUP, (SKYHOOKS,), ("delete",), "end expired ones"),
                Right(GROUP, (f"{SKYHOOKS}/status",), ("patch",), "write the status of Skyhooks"),
                Right(GROUP, (POLICIES,), READ, "follow DeploymentPolicies"),
                Right(NODEWRIGHT.name, (NODEWRIGHTS,), (*READ, "patch"), "follow NodeWrights, set their finalizer"),
                Right(NODEWRIGHT.name, (NODEWRIGHTS,), ("delete",), "end expired ones"),
                Right(NODEWRIGHT.name, (f"{NODEWRIGHTS}/status",), ("patch",), "write the status of NodeWrights"),
                Right(NODEWRIGHT.name, (POLICIES,), READ, "follow DeploymentPolicies of NodeWrights"),
                registration_right(MUTATE_SKYHOOK.configuration, MUTATE_NODEWRIGHT.configuration, mutating=True),
                registration_right(VALIDATE_SKYHOOK.configuration, VALIDATE_NODEWRIGHT.configuration),
            ),
        ),
        Role(
            NAME,
            "packages_namespace",
            (
                Right("", ("pods",), ("create", "patch", "delete"), "run packages on nodes"),
                Right("batch", ("jobs",), (*FOLLOW, "create", "patch", "delete"), "run packages on nodes in Jobs"),
                Right("", ("configmaps",), (*FOLLOW, "create", "patch", "delete"), "hand packages their configuration"),
            ),
        ),
        Role(
            NAME,
            "packages_namespace",
            (Right("", ("pods/log",), ("get",), "keep the end of a failing package's log"),),
            "logs",
            "failure_logs",
        ),
        Role(NAME, DEFAULT, (Right("", ("events",), TELL, "events about Skyhooks and their nodes"),), "events"),
        certificate_role(NAME),
        *people_roles(NAME, "skyhook", GROUP, SKYHOOKS),
        *people_roles(NAME, "nodewright", NODEWRIGHT.name, NODEWRIGHTS),
    ),
    webhooks=(
        *(MUTATE_SKYHOOK, MUTATE_POLICY, VALIDATE_SKYHOOK, VALIDATE_POLICY),
        *(MUTATE_NODEWRIGHT, MUTATE_NODEWRIGHT_POLICY, VALIDATE_NODEWRIGHT, VALIDATE_NODEWRIGHT_POLICY),
    ),
    # The surface runs privileged pods, so that it is installed only if it is named.
    is_installed_by_name=True,
)
