"""Errors and warnings about `kubernikus.yaml`, with their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from haulout.base.yaml import Node
from haulout.plugins.file_lint import Oddity, Problem, has_keys, lint_block
from haulout.surfaces.kubernikus.options import Kubernikus

_TOP, _INTERVALS = frozenset({"cloudProviderSecret"}), frozenset({"podDeletion", "podEviction"})


def is_kubernikus(document: Node | None) -> bool:
    """Whether the document may be a `kubernikus.yaml`.

    An `esx.yaml` has intervals of drains, too, so check for that first.
    """
    return has_keys(document, _TOP, _INTERVALS)


def lint(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    """Return all errors and warnings, from top to bottom."""
    return lint_block(Kubernikus, data, _oddities, source=source, environment=environment)


def _oddities(read: Kubernikus) -> Iterator[Oddity]:
    secret = read.cloud_provider_secret
    if bool(secret.name) != bool(secret.namespace):
        what = "is ignored, and the file with the credentials is read"
        yield ("cloudProviderSecret",), what, "name and namespace are both needed"
