"""Finds the cluster that a command talks to: the one that flags name, or the one of the operator's settings.

See decision 0094.
"""

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
    """Return the cluster that the shared options name, found as kubectl finds it."""
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
    """Return the operator's cluster, found as by `haulout run`: from flags, the environment or haulout.yaml.

    `config`: the settings file that a flag names. Without it, haulout.yaml in this folder is read if it exists.
    """
    found = home_options(cluster, config)
    kubeconfig, elsewhere = found["kubeconfig"], os.environ.get("KUBECONFIG", "")
    if not cluster["kubeconfig"] and kubeconfig and elsewhere and kubeconfig != elsewhere:
        click.echo(f"note: {kubeconfig}, which the settings name, is used instead of KUBECONFIG", err=True)
    return endpoint_of(found)


def home_options(cluster: Mapping[str, Any], config: str = "") -> Mapping[str, Any]:
    """Return the options of a command. Kubeconfig and context come from the settings unless a flag names them."""
    if cluster["kubeconfig"]:
        # The context in the settings belongs to the kubeconfig in the settings, not to that of the flag.
        return cluster
    path = Path(config or "haulout.yaml")
    kubeconfig, context = (_setting(path, name) for name in ("kubeconfig", "context"))
    return {**cluster, "kubeconfig": kubeconfig, "context": cluster["context"] or context}


def _setting(path: Path, name: str) -> str:
    """Return a setting from the environment or the file; empty if there is none.

    An invalid file is not reported here: the command reads it again, and reports it then.
    """
    if text := os.environ.get(f"HAULOUT_{name.upper()}", ""):
        return text
    try:
        settings = yaml.load(path.read_bytes())
    except (OSError, yaml.YamlError):
        return ""
    found = settings.get(name) if isinstance(settings, dict) else None
    return found if isinstance(found, str) else ""
