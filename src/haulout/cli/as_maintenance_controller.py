"""`haulout as maintenance-controller`: the original's flags, defaults, files and exit codes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from haulout.cli.goflags import Flag, with_flags
from haulout.cli.zap import log_settings, zap_flags
from haulout.settings.settings import Esx, Kubernikus, Lease, PodRules, Settings

PROGRAM = "maintenance-controller"
CONFIG_FILE = "./config/maintenance.yaml"
LEASE = "maintenance-controller-leader-election.cloud.sap"

FLAGS = (
    Flag("metrics-addr", ":8080", "The address on which metrics are served."),
    Flag("health-addr", ":8081", "The address on which the probes are served."),
    Flag("pprof-addr", "", "Accepted and without effect: there is nothing of Go to profile."),
    Flag("kubecontext", "", "The context of the kubeconfig to use (or KUBECONTEXT)."),
    Flag("kubeconfig", "", "Path of a kubeconfig (or KUBECONFIG); without one, the service account of the pod."),
    Flag("enable-leader-election", False, "Act only while holding a lease; needed with more than one replica."),
    Flag("enable-esx-maintenance", False, "Take machines down and up again around the maintenance of their ESX hosts."),
    Flag("enable-kubernikus-maintenance", False, "Label outdated kubelets, and delete the servers of nodes to go."),
    Flag("metrics-timeout", timedelta(seconds=65), "At the end, wait so long for one more scrape.", "duration"),
    *zap_flags("iso8601"),
    Flag("honor-cluster-api-label", False, "On nodes of Cluster API, heed the label cluster.x-k8s.io/drain of pods."),
)


def main(words: Sequence[str]) -> int | Settings:
    if words and words[0] == "validate-config":
        return validate_config(words[1] if len(words) > 1 else CONFIG_FILE)
    return with_flags(PROGRAM, FLAGS, words, settings)


def settings(values: Mapping[str, Any]) -> Settings:
    logs = log_settings(values)
    # Not released at the end: the next leader waits until it has run out, as the original has it.
    lease = Lease(LEASE, retry=5.0, release=False)
    return Settings(
        kubeconfig=values["kubeconfig"],
        context=values["kubecontext"] or os.environ.get("KUBECONTEXT", ""),
        http=values["metrics-addr"],
        health=values["health-addr"],
        lease=lease if values["enable-leader-election"] else None,
        turns=False,
        alone=True,
        ready_at_once=True,
        scrape_within=values["metrics-timeout"].total_seconds(),
        **logs,
        profiles_config=CONFIG_FILE,
        esx=Esx(enabled=values["enable-esx-maintenance"]),
        kubernikus=Kubernikus(enabled=values["enable-kubernikus-maintenance"]),
        pod_rules=PodRules(cluster_api_label=values["honor-cluster-api-label"]),
    )


def validate_config(path: str) -> int:
    """0 if the file loads, with a line for everything odd in it; else the first error in the original's words."""
    from haulout.plugins.config import ConfigProblem
    from haulout.plugins.load import PluginProblem
    from haulout.surfaces.profiles.load import examined
    from haulout.surfaces.profiles.surface import known_plugins

    source = path.removeprefix("./")
    try:
        config, lines = examined(Path(path).read_bytes(), known_plugins(), source=source, environment=os.environ)
    except OSError as error:
        click.echo(f"{path}: {error.strerror}", err=True)
        return 1
    except PluginProblem as error:
        click.echo(str(error), err=True)
        return 1
    if isinstance(config, ConfigProblem):
        place = f"{source}:{config.place.line}:{config.place.column}: " if config.place else f"{source}: "
        right = f" ({config.right})" if config.right else ""
        click.echo(f"{place}{config.text}{right}", err=True)
        return 1
    for line in lines:
        click.echo(str(line), err=True)
    return 0
