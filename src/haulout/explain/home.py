"""Which cluster a command talks to: the one that flags name, or the one of the operator's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from haulout.base import yaml
from haulout.kube.config import load
from haulout.kube.endpoint import Endpoint, impersonation
from haulout.kube.errors import KubeError


def endpoint_of(cluster: Mapping[str, Any]) -> Endpoint:
    """Return how to reach the cluster, from the options that commands share, as kubectl finds it."""
    try:
        return load(
            path=cluster["kubeconfig"],
            context=cluster["context"],
            namespace=cluster["namespace"],
            impersonate=impersonation(cluster["as_user"], cluster["as_groups"]),
        )
    except KubeError as error:
        raise click.ClickException(str(error)) from None


def home_endpoint(cluster: Mapping[str, Any], config: str = "") -> Endpoint:
    """Return how to reach the cluster of the operator, as `haulout run` finds it: flags, the environment, haulout.yaml.

    `config`: the settings file that a flag names. Without it, haulout.yaml in this folder counts if it is there.
    """
    found = home_options(cluster, config)
    kubeconfig, elsewhere = found["kubeconfig"], os.environ.get("KUBECONFIG", "")
    if not cluster["kubeconfig"] and kubeconfig and elsewhere and kubeconfig != elsewhere:
        click.echo(f"note: {kubeconfig}, which the settings name, is used instead of KUBECONFIG", err=True)
    return endpoint_of(found)


def home_options(cluster: Mapping[str, Any], config: str = "") -> Mapping[str, Any]:
    """Return the options of a command, with the kubeconfig and the context of the settings where no flag names them."""
    if cluster["kubeconfig"]:
        # A context of the settings is one of their own kubeconfig.
        return cluster
    path = Path(config or "haulout.yaml")
    kubeconfig, context = (_setting(path, name) for name in ("kubeconfig", "context"))
    return {**cluster, "kubeconfig": kubeconfig, "context": cluster["context"] or context}


def _setting(path: Path, name: str) -> str:
    """Return a setting from the environment or the file. A file that cannot be read says nothing: its reader complains."""
    if text := os.environ.get(f"HAULOUT_{name.upper()}", ""):
        return text
    try:
        settings = yaml.load(path.read_bytes())
    except (OSError, yaml.YamlError):
        return ""
    found = settings.get(name) if isinstance(settings, dict) else None
    return found if isinstance(found, str) else ""
