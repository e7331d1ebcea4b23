"""The JSON documents that `status -o json` and `explain -o json` print, as structs, and their JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from haulout.base.json_schema import schema_of
from haulout.core.budgets.status import Status
from haulout.core.reason import Reason
from haulout.explain.fleet import Fleet
from haulout.explain.installation import Installation
from haulout.explain.node import Explanation, Holding
from haulout.explain.operators import UNKNOWN, OperatorState
from haulout.surfaces.registry import all_declarations, load


class StatusDocument(msgspec.Struct, frozen=True):
    """The document that `haulout status -o json` prints: the fleet, and the installation of Haulout in the cluster."""

    fleet: Fleet
    installation: Installation


class ReasonNode(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One reason, with the reasons behind it.

    `code`: one of the reason codes in the reference. `text`: the reason in words. `until`: before this instant time
    alone does not change it. `because`: the reasons behind it. `act`: what a person could do about it.
    """

    code: str
    text: str
    until: datetime | None = None
    because: tuple[ReasonNode, ...] = ()
    act: str = ""


class ObjectName(msgspec.Struct, frozen=True):
    """The object that is explained. `kind`: the word for its kind, such as `machine`. `name`: NAMESPACE/NAME, or NAME."""

    kind: str
    name: str


class ExplanationDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The document that `haulout explain -o json` prints about a node, or about an object without a document of its own.

    `object`: the explained object; left out if it is the node itself. `node`: empty if the object has no node.
    `cordon`: in words, which surface or client cordoned the node. `holds`: the claims on the node.
    `reasons`: one tree for each thing that waits. `settings`: where the operator's settings were found.
    `incomplete`: what could not be read. `last_grace_ends_at`: when the last grace period of terminating pods ends.
    `queue`: what other nodes that block this one wait for themselves, by node. `act`: the one act that would help.
    `operator`: whether an operator leads; left out if nothing is known about that.
    """

    node: str
    flags: tuple[str, ...]
    cordon: str
    holds: tuple[Holding, ...]
    reasons: tuple[ReasonNode, ...]
    settings: str
    incomplete: tuple[str, ...]
    object: ObjectName | None = None
    last_grace_ends_at: datetime | None = None
    queue: Mapping[str, str] = {}
    act: str = ""
    operator: OperatorState | None = None


class BudgetExplanation(msgspec.Struct, frozen=True):
    """The document that `haulout explain ndb NAME -o json` prints: a NodeDisruptionBudget as the decisions see it now.

    `status`: the status that the operator would write; see the reference of custom resources.
    `settings`: where the operator's settings were found. `incomplete`: what could not be read.
    `operator`: whether an operator leads. `spec`: that of the budget as it is stored.
    """

    name: str
    status: Status
    settings: str = ""
    incomplete: tuple[str, ...] = ()
    operator: OperatorState = OperatorState()
    spec: Any = None


def explanation_document(found: Explanation) -> ExplanationDocument:
    """Return an explanation as the document that is printed as JSON."""
    return ExplanationDocument(
        node=found.node,
        flags=found.flags,
        cordon=found.cordon,
        holds=found.holds,
        reasons=tuple(map(_reason, found.reasons)),
        settings=found.settings,
        incomplete=found.incomplete,
        object=ObjectName(*found.about) if found.about[0] else None,
        last_grace_ends_at=found.last_grace_ends_at,
        queue=found.queue,
        act=found.act,
        operator=None if found.operator == UNKNOWN else found.operator,
    )


def as_json(document: msgspec.Struct) -> str:
    """Return a document as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def status_schema() -> dict[str, Any]:
    return schema_of(StatusDocument)


def explain_schema() -> dict[str, Any]:
    """Return the JSON schema of all documents that `explain -o json` may print."""
    return schema_of(ExplanationDocument, *own_documents(False), *own_documents(True))


def own_documents(is_namespaced: bool) -> tuple[type[msgspec.Struct], ...]:
    """Return the structs by which kinds with, or without, a namespace are explained, where they have one of their own."""
    kinds = [kind for surface in all_declarations() for kind in surface.explains]
    return tuple(load(kind.document) for kind in kinds if kind.document and kind.is_namespaced is is_namespaced)


def _reason(reason: Reason) -> ReasonNode:
    return ReasonNode(reason.code, reason.text, reason.until, tuple(map(_reason, reason.because)), reason.act)
