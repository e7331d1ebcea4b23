"""Namespace."""

from __future__ import annotations

from msgspec import Struct

from haulout.model.meta import ObjectMeta


class NamespaceStatus(Struct, frozen=True, gc=False):
    phase: str = ""


class Namespace(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()
