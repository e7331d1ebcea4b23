"""The declaration of the profiles surface: its names, flags, rights and metrics, without its decisions."""

from __future__ import annotations

from haulout.core.metric import COUNTER, GAUGE, Metric
from haulout.core.remains import Mark, Place, Remains
from haulout.core.rights import CLUSTER, COORDINATION, EACH, FOLLOW, READ, Option, Right, Role, drain_rights
from haulout.core.surface import ConfigFile, Flag, Lint, NodeLabel, NodeSign, Original, Surface
from haulout.surfaces.profiles.acts import ACTS, PROFILE_LABEL, STATE_LABEL
from haulout.surfaces.profiles.settings import ProfilesSettings

NAME = "profiles"
ORIGINAL = Original(
    name="maintenance-controller",
    lease="maintenance-controller-leader-election.cloud.sap",
    flags=(
        Flag("metrics-addr", ":8080", "The address on which metrics are served.", sets="http"),
        Flag("health-addr", ":8081", "The address on which the probes are served.", sets="health"),
        Flag("pprof-addr", "", "Accepted and without effect: there is nothing of Go to profile."),
        Flag("kubecontext", "", "The context of the kubeconfig to use (or KUBECONTEXT).", sets="context"),
        Flag(
            "kubeconfig",
            "",
            "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod.",
            sets="kubeconfig",
        ),
        Flag(
            "enable-leader-election",
            False,
            "Act only while holding a lease; needed with more than one replica.",
            sets="elect",
        ),
        Flag(
            "honor-cluster-api-label",
            False,
            "On nodes of Cluster API, heed the label cluster.x-k8s.io/drain of pods.",
            sets="pod_rules.cluster_api_label",
        ),
    ),
    environment={"KUBECONTEXT": "context"},
    # Like the original, the Lease is not released at the end, so the next leader waits until it expires.
    fixed={
        "ready_at_once": True,
        "lease.retry": 5.0,
        "lease.release": False,
        # The original does not read PodDisruptionBudgets, and its role does not allow it. It tries evictions, and the
        # API server refuses them.
        "optional_kinds": ("PodDisruptionBudget",),
    },
    settings={"config": "./config/maintenance.yaml"},
    commands={"validate-config": "haulout.cli.validate_config:validate_config"},
)

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="Maintenance profiles on Nodes: states, checks, triggers and notifications from maintenance.yaml.",
    reporter="maintenance",
    settings=ProfilesSettings,
    kept_annotations=("cloud.sap/maintenance-data",),
    kept_settings=(
        "channel",
        "check",
        "config",
        "days",
        "end",
        "enter",
        "exclude",
        "exit",
        "expr",
        "groupLabels",
        "key",
        "kind",
        "labelFilter",
        "leaseName",
        "name",
        "next",
        "notify",
        "operator",
        "profile",
        "query",
        "schedule",
        "start",
        "status",
        "timeZone",
        "timezone",
        "trigger",
        "type",
        "url",
        "value",
        "values",
        "weekdays",
    ),
    signs=(
        NodeSign(
            label=STATE_LABEL,
            value="in-maintenance",
            text="a maintenance profile is at work on it",
        ),
    ),
    node_label=NodeLabel(
        option="profile",
        help="Attach this profile to every node.",
        label=PROFILE_LABEL,
        names="haulout.surfaces.profiles.wire:attached_profiles",
        known="haulout.surfaces.profiles.load:profile_names",
        waiting=(STATE_LABEL, "maintenance-required"),
    ),
    lint=(
        Lint(
            stem="maintenance",
            keys=("instances", "profiles"),
            check="haulout.surfaces.profiles.lint:lint_file",
            schema="haulout.surfaces.profiles.reference:file_schema",
            takes_rest=True,
        ),
    ),
    remains=Remains(
        nodes=(
            Mark(Place.LABEL, STATE_LABEL),
            Mark(Place.ANNOTATION, "cloud.sap/maintenance-data"),
            Mark(Place.ANNOTATION, "haulout.dev/drain-started-at"),
        ),
    ),
    acts=ACTS,
    plugins="haulout.surfaces.profiles.reference:plugins_page",
    decisions="haulout.surfaces.profiles.surface:PROFILES",
    reasons="haulout.surfaces.profiles.reasons:REASONS",
    part="haulout.app.profiles:Profiles",
    original=ORIGINAL,
    tells_in_group=True,
    config_file=ConfigFile(name="maintenance.yaml"),
    options=(
        Option("hypervisors", "Allow what the Hypervisor checks and triggers of profiles need."),
        Option("stagger", "Allow a Lease of a stagger check, by its whole name.", "NAMESPACE/LEASE"),
        Option("slack_thread", "Allow the Lease of a slackThread notifier.", "NAMESPACE/LEASE"),
        Option("cloud_secret", "Allow to read this cloudProviderSecret of Kubernikus.", "NAMESPACE/SECRET"),
    ),
    metrics=(
        Metric("maintenance_controller_config_valid", GAUGE, "Whether the configuration in maintenance.yaml is valid."),
        Metric(
            "maintenance_controller_pod_shuffle_count",
            COUNTER,
            "Pods on nodes that entered maintenance, by owner and profile.",
            labels=("owner", "profile"),
        ),
        Metric(
            "maintenance_controller_pod_shuffles_per_replica",
            COUNTER,
            "The same, each as its share of the owner's replicas.",
            labels=("owner", "profile"),
        ),
        Metric(
            "maintenance_controller_profile_state",
            GAUGE,
            "1 for the state that a profile of a node is in.",
            labels=("node", "profile", "state"),
        ),
        Metric(
            "maintenance_controller_profile_state_seconds",
            GAUGE,
            "Seconds since a profile of a node entered its state.",
            labels=("node", "profile"),
        ),
        Metric(
            "maintenance_controller_transition_failure_count",
            COUNTER,
            "Failures of profiles to enter or leave a state.",
            labels=("profile",),
        ),
    ),
    roles=(
        Role(
            NAME,
            CLUSTER,
            (
                *drain_rights(),
                Right("policy", ("poddisruptionbudgets",), FOLLOW, "pace drains by disruption budgets"),
                Right(
                    "apps",
                    ("daemonsets", "deployments", "replicasets", "statefulsets"),
                    FOLLOW,
                    "count the pods that maintenance moves, by their owners",
                ),
                Right(
                    "kvm.cloud.sap",
                    ("hypervisors",),
                    (*READ, "patch"),
                    "checks and triggers for Hypervisors",
                    option="hypervisors",
                ),
            ),
        ),
        Role(
            NAME,
            "stagger",
            (
                Right(COORDINATION, ("leases",), (*FOLLOW, "create"), "stagger checks"),
                Right(COORDINATION, ("leases",), ("get", "patch"), "stagger checks", (EACH,)),
            ),
            "stagger",
            "stagger",
        ),
        Role(
            NAME,
            "slack_thread",
            (
                Right(COORDINATION, ("leases",), ("create",), "remember a thread in Slack"),
                Right(COORDINATION, ("leases",), ("get", "patch"), "remember a thread in Slack", (EACH,)),
            ),
            "slack-thread",
            "slack_thread",
        ),
        Role(
            NAME,
            "cloud_secret",
            (Right("", ("secrets",), ("get",), "credentials of Kubernikus", (EACH,)),),
            "cloud-secret",
            "cloud_secret",
        ),
    ),
)
