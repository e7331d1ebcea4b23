"""The declaration of the notify surface: its names, flags, rights and webhook, without its decisions."""

from __future__ import annotations

from datetime import timedelta

from haulout.core.archive import METADATA, Archived, Kept, values
from haulout.core.remains import JOBS, MadeKind, Mark, MarkedKind, Place, Remains
from haulout.core.rights import (
    CLUSTER,
    EACH,
    FOLLOW,
    HOME,
    READ,
    TELL,
    Option,
    Right,
    Role,
    certificate_role,
    people_roles,
    registration_right,
)
from haulout.core.steering import steering_acts
from haulout.core.surface import (
    ConfigFile,
    Explained,
    Flag,
    Lint,
    NodeSign,
    ObjectLint,
    Original,
    Registration,
    Surface,
)
from haulout.surfaces.notify.acts import ACTS, NOTICES
from haulout.surfaces.notify.declared_metrics import METRICS
from haulout.surfaces.notify.settings import NotifySettings

NAME, GROUP, PLURAL = "notify", "ngn2.nvidia.com", "notifymaintenances"
ORIGINAL = Original(
    name="pika",
    lease="a316e27f.nvidia.com",
    flags=(
        Flag("metrics-port", 8383, "The port on which metrics are served over HTTPS.", "int", sets="http", form=":{}"),
        Flag("metrics-bind-address", "", "Accepted and ignored: --metrics-port is what counts."),
        Flag(
            "health-probe-bind-address",
            ":8081",
            "The address on which the probes are served; 0 for none.",
            sets="health",
        ),
        Flag(
            "listen-webhooks",
            ":9443",
            "The address on which the webhook is served; with 0 there is none, and no certificate for metrics.",
            sets="webhooks.address",
        ),
        Flag(
            "cert-dir",
            "/certs",
            "The directory with tls.crt and tls.key for webhook and metrics.",
            sets="webhooks.certificates",
        ),
        Flag("leader-elect", False, "Act only while holding a lease; needed with more than one replica.", sets="elect"),
        Flag(
            "sync-period",
            timedelta(hours=10),
            "Accepted without effect: no change is missed, and no resync is needed.",
            "duration",
        ),
        Flag(
            "kubeconfig",
            "",
            "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod.",
            sets="kubeconfig",
        ),
    ),
    environment={"NAMESPACE": "namespace"},
    fixed={
        "metrics_over_tls": True,
        "lease.outside": "pika-system",
        "lease.release": False,
        "webhooks.published": True,
        "webhooks.service": "pika-controller-manager-webhook-service",
        "webhooks.services": ("pika-controller-manager-metrics-service",),
        "webhooks.secret": "pika-server-cert",
        "webhooks.outside": "pika-system",
    },
)
# Names and paths are the original's, so that this registration replaces it.
WEBHOOK = Registration(
    configuration="pika-validating-webhook-configuration",
    name="vnotifymaintenance.kb.io",
    path="/validate-ngn2-nvidia-com-v1alpha1-notifymaintenance",
    rules=(
        {
            "apiGroups": [GROUP],
            "apiVersions": ["v1alpha1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": [PLURAL],
        },
    ),
)

# The ConfigMap with the run times of pods (`scheduler/history.py`).
HISTORY = "nm-drain-history"

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="NotifyMaintenances: track a node's maintenance step by step, announce each, and run them hands-free.",
    reporter="notifymaintenance",
    settings=NotifySettings,
    decisions="haulout.surfaces.notify.surface:NOTIFY",
    reasons="haulout.surfaces.notify.reasons:REASONS",
    part="haulout.app.notify:Notices",
    original=ORIGINAL,
    crds=(PLURAL, "platforminfos"),
    webhooks=(WEBHOOK,),
    metrics=METRICS,
    signs=(
        NodeSign(
            annotation="haulout.dev/cordoned-by",
            text="a NotifyMaintenance holds it",
            orphan="haulout.core.cordon_remains:left_behind",
        ),
    ),
    archive=(
        Archived(
            group=GROUP,
            versions=("v1alpha1",),
            plural=PLURAL,
            kind="NotifyMaintenance",
            node="spec.nodeObject",
            # Clients and hooks write conditions, and events quote them. Such text must not be in the archive.
            has_harmless_events=False,
            fields={
                "metadata": METADATA,
                "spec": values(
                    *("nodeObject", "maintenanceID", "maintenanceType", "metadataConfigmap"),
                    additionalMessageChannels=Kept.SIZE,
                    owner=Kept.SIZE,
                ),
                "status": values(
                    *("maintenanceStatus", "slaExpires"),
                    conditions=values(
                        "type", "lastTransitionTime", status=Kept.SIZE, reason=Kept.SIZE, message=Kept.SIZE
                    ),
                    transitionTimestamps=values("maintenanceStatus", "transitionTimestamp"),
                ),
            },
        ),
    ),
    remains=Remains(
        nodes=(
            # Other programs may have labels of this prefix. The cordon ledger shows that a maintenance is under way.
            Mark(Place.LABEL, "maintenance/", is_prefix=True, beside="haulout.dev/cordon"),
            Mark(Place.ANNOTATION, "haulout.dev/cordoned-by"),
            Mark(Place.ANNOTATION, "haulout.dev/force-return"),
        ),
        marked=(MarkedKind(NOTICES, finalizers=("ngn2.nvidia.com/finalNotice",)),),
        made=(MadeKind(JOBS, selector="haulout.dev/role"),),
        names=(HISTORY,),
    ),
    acts=(*ACTS, *steering_acts(NOTICES)),
    object_lint=(ObjectLint(group=GROUP, kind="NotifyMaintenance", check=f"{__package__}.lint:lint_notice"),),
    explains=(
        Explained(
            kind="NotifyMaintenance",
            words=("notifymaintenance", PLURAL, f"{PLURAL}.{GROUP}"),
            is_namespaced=True,
            command="haulout.explain.notices:explain_notice",
            document="haulout.explain.notices:NoticeDocument",
            picture="haulout.explain.notices:notice_document",
        ),
    ),
    lint=(
        Lint(
            stem="notifyMaintenanceConfig",
            keys=("slaPeriod", "operators"),
            check="haulout.surfaces.notify.lint:lint",
            schema="haulout.surfaces.notify.config_file.schema:schema",
        ),
    ),
    config_file=ConfigFile(name="notifyMaintenanceConfig.yaml"),
    is_installed_by_name=True,
    options=(
        Option("notify_scheduler", "Allow what the scheduler or the returner of notify needs."),
        Option("notify_drainer", "Allow what the drainer of notify needs."),
        Option(
            "notify_jobs", "Allow the runner and the validator of notify their Jobs in this namespace.", "NAMESPACE"
        ),
        Option(
            "notify_configmaps",
            "Allow notify to read ConfigMaps in this namespace of NotifyMaintenances, to refuse names of missing ones.",
            "NAMESPACE",
        ),
        Option("notify_secret", "Allow notify to read this Secret, for messages and webhooks.", "NAMESPACE/SECRET"),
    ),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                Right("", ("nodes",), (*READ, "patch"), "follow nodes, remove labels of maintenances, cordon"),
                Right(GROUP, (PLURAL,), (*READ, "patch"), "follow NotifyMaintenances, set finalizer and marks"),
                Right(GROUP, (PLURAL,), ("delete",), "end expired ones, and validated ones"),
                Right(GROUP, (f"{PLURAL}/status",), ("patch",), "write the status of NotifyMaintenances"),
                Right("", ("events",), TELL, "events about NotifyMaintenances, in their namespaces"),
                Right("", ("pods",), READ, "estimate drains", option="notify_scheduler"),
                Right("", ("pods",), (*READ, "delete"), "drain, after the SLA past budgets", option="notify_drainer"),
                Right("", ("pods/eviction",), ("create",), "drain: evict pods", option="notify_drainer"),
                Right("policy", ("poddisruptionbudgets",), FOLLOW, "estimate drains", option="notify_scheduler"),
                Right("policy", ("poddisruptionbudgets",), FOLLOW, "pace drains", option="notify_drainer"),
                Right("apps", ("daemonsets",), FOLLOW, "know which pods come back", option="notify_drainer"),
                Right(
                    "storage.k8s.io",
                    ("volumeattachments",),
                    FOLLOW,
                    "wait until volumes are detached",
                    option="notify_drainer",
                ),
                Right("batch", ("jobs",), FOLLOW, "follow the Jobs of maintenances", option="notify_jobs"),
                Right("", ("pods",), FOLLOW, "see whether pods of DaemonSets are ready", option="notify_jobs"),
                registration_right(WEBHOOK.configuration),
            ),
        ),
        Role(
            NAME,
            "notify_jobs",
            (Right("batch", ("jobs",), ("get", "create", "delete"), "run maintenances and validations"),),
            "jobs",
            "notify_jobs",
        ),
        Role(
            NAME,
            "notify_configmaps",
            (Right("", ("configmaps",), ("get",), "see that a ConfigMap that a NotifyMaintenance names is there"),),
            "configmaps",
            "notify_configmaps",
        ),
        Role(
            NAME,
            "notify_secret",
            (Right("", ("secrets",), ("get",), "credentials for messages and webhooks", (EACH,)),),
            "secrets",
            "notify_secret",
        ),
        Role(
            NAME,
            HOME,
            (
                Right("", ("configmaps",), ("create",), "begin to remember how long pods ran"),
                Right("", ("configmaps",), ("get", "patch"), "remember how long pods ran", (HISTORY,)),
            ),
            "history",
            "notify_scheduler",
        ),
        certificate_role(NAME),
        *people_roles(NAME, "notifymaintenance", GROUP, PLURAL),
        *people_roles(NAME, "platforminfo", GROUP, "platforminfos"),
    ),
)
