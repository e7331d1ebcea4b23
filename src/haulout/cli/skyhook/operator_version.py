"""Finds out which version of the Skyhook operator runs in a cluster, and whether it supports a command."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from haulout.base.duration import quote
from haulout.cli.skyhook.cluster import Cluster
from haulout.cli.skyhook.output import Failed
from haulout.kube.errors import KubeError
from haulout.kube.listing import read_list
from haulout.model.meta import ObjectMeta
from haulout.surfaces.packages.specs.skyhook_problems import image_tag
from haulout.surfaces.packages.specs.versions import is_lower, is_version
from haulout.surfaces.packages.wire import STAMP, Skyhook

# The first version in which pause and disable are annotations.
OLDEST = "v0.8.0"
OPERATOR = ("skyhook", "nodewright")
# Where `nodewright` looks for the operator unless it is told.
NAMESPACE, FORMER_NAMESPACE = "nodewright", "skyhook"
VERSION_LABEL = "app.kubernetes.io/version"


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Spec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class Deployment(msgspec.Struct, frozen=True):
    """A Deployment (apps/v1), in part: the fields that tell the operator's version."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()

    @property
    def images(self) -> list[str]:
        return [container.image for container in self.spec.template.spec.containers]

    @property
    def is_operator(self) -> bool:
        labels = [text for pair in self.metadata.labels.items() for text in pair]
        return any(word in text.lower() for text in (*self.images, *labels) for word in OPERATOR)

    @property
    def version(self) -> str:
        tags = (image_tag(image) for image in self.images)
        label = self.metadata.labels.get(VERSION_LABEL, "").strip()
        return label or next((tag for tag in tags if tag not in ("", "latest")), "")


async def namespace_of(cluster: Cluster, flags: dict[str, Any]) -> str:
    """Return the namespace of the flags; without one, that in which the operator is."""
    if flags["namespace"]:
        return str(flags["namespace"])
    for namespace in (NAMESPACE, FORMER_NAMESPACE):
        if await _operators(cluster, f"/apis/apps/v1/namespaces/{namespace}/deployments"):
            if namespace != NAMESPACE:
                click.echo(f"Note: the operator is in namespace {quote(namespace)}", err=True)
            return namespace
    found = await _operators(cluster, "/apis/apps/v1/deployments")
    return found[0].metadata.namespace if found else NAMESPACE


async def _operators(cluster: Cluster, path: str) -> list[Deployment]:
    """Return the Deployments of operators; none if they cannot be read."""
    try:
        return [each for each in await read_list(cluster.transport, path, Deployment) if each.is_operator]
    except KubeError:
        return []


async def discover(cluster: Cluster, namespace: str) -> str:
    """Return the version of the operator in a namespace. Raises Failed if it cannot be found."""
    try:
        found = await read_list(cluster.transport, f"/apis/apps/v1/namespaces/{namespace}/deployments", Deployment)
    except KubeError as error:
        raise Failed(f"listing deployments in namespace {quote(namespace)}: {error}") from None
    version = next((each.version for each in found if each.is_operator and each.version), "")
    if not version:
        raise Failed(
            "unable to determine operator version; no skyhook operator deployment found in namespace"
            f" {quote(namespace)}"
        )
    return version


async def check(cluster: Cluster, skyhook: Skyhook, flags: dict[str, Any]) -> None:
    """Raise Failed if the operator is too old for annotations. If its version is unknown, print a warning instead."""
    version = skyhook.metadata.annotations.get(STAMP, "")
    if not is_version(version):
        try:
            version = await discover(cluster, await namespace_of(cluster, flags))
        except Failed:
            version = ""
    if not is_version(version):
        text = f"Warning: unable to determine operator version; cannot verify compatibility (requires {OLDEST}+)"
        click.echo(text, err=True)
    elif is_lower(version, OLDEST):
        raise Failed(f"operator version {version} does not support this command; minimum supported version is {OLDEST}")
