"""The profiles surface, declared."""

from __future__ import annotations

from haulout.core.rights import CLUSTER, COORDINATION, EACH, FOLLOW, READ, Option, Right, Role, drain_rights
from haulout.core.surface import ConfigFile, Original, Surface

NAME = "profiles"
ORIGINAL = Original(name="maintenance-controller", lease="maintenance-controller-leader-election.cloud.sap")

SURFACE = Surface(
    name=NAME,
    package=__package__ or "",
    summary="Maintenance profiles on Nodes: states, checks, triggers and notifications from maintenance.yaml.",
    decisions="haulout.surfaces.profiles.surface:PROFILES",
    part="haulout.app.profiles:Profiles",
    original=ORIGINAL,
    config_file=ConfigFile(name="maintenance.yaml"),
    options=(
        Option("hypervisors", "Allow what the Hypervisor checks and triggers of profiles need."),
        Option("stagger", "Allow a Lease of a stagger check, by its whole name.", "NAMESPACE/LEASE"),
        Option("slack_thread", "Allow the Lease of a slackThread notifier.", "NAMESPACE/LEASE"),
        Option("cloud_secret", "Allow to read this cloudProviderSecret of Kubernikus.", "NAMESPACE/SECRET"),
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
