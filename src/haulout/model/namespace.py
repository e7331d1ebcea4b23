"""Structs of Namespaces."""

from __future__ import annotations

from msgspec import Struct

from haulout.model.meta import ObjectMeta


class NamespaceStatus(Struct, frozen=True, gc=False):
    """The status of a Namespace, in part. `phase` is Active or Terminating."""

    phase: str = ""


class Namespace(Struct, frozen=True, gc=False):
    """A Namespace (core v1), in part: its metadata and whether it is being deleted."""

    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()
