"""What `status -o json` and `explain -o json` print, as data, and the JSON schemas of it."""

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
from haulout.surfaces.registry import declared, load


class StatusDocument(msgspec.Struct, frozen=True):
    """What `haulout status -o json` prints: the fleet, and the installation of Haulout in the cluster."""

    fleet: Fleet
    installation: Installation


class ReasonNode(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One reason, with the reasons behind it.

    `code`: one of the codes in the reference. `text`: the same for people. `until`: when time alone may change it.
    `act`: what a person could do about it.
    """

    code: str
    text: str
    until: datetime | None = None
    because: tuple[ReasonNode, ...] = ()
    act: str = ""


class ObjectName(msgspec.Struct, frozen=True):
    """The object that was asked about. `kind`: the word for it, as `machine`. `name`: with its namespace before a slash."""

    kind: str
    name: str


class ExplanationDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What `haulout explain -o json` prints about a node, or about an object that has no document of its own.

    `object`: left out where the node itself was asked about. `node`: empty where the object has none. `cordon`: who
    has cordoned the node. `holds`: the claims on the node. `reasons`: one tree for each thing that waits.
    `settings`: where the operator's settings were found. `incomplete`: what could not be read.
    `last_grace_ends_at`: when the last grace period of the pods that leave ends. `queue`: by the names of other nodes that keep
    it, what each of them waits for. `act`: the one act that would help.
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


class BudgetExplanation(msgspec.Struct, frozen=True):
    """What `haulout explain ndb NAME -o json` prints: a NodeDisruptionBudget as the decisions see it now.

    `status`: as they would write it; see the reference of custom resources. `settings`: where the operator's settings
    were found. `incomplete`: what could not be read.
    """

    name: str
    status: Status
    settings: str = ""
    incomplete: tuple[str, ...] = ()


def explanation_document(found: Explanation) -> ExplanationDocument:
    """Return the document of an explanation."""
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
    )


def as_json(document: msgspec.Struct) -> str:
    """Return a document as JSON that people can read, too."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def status_schema() -> dict[str, Any]:
    return schema_of(StatusDocument)


def explain_schema() -> dict[str, Any]:
    """Return the schema of what `explain` prints about any kind of object."""
    paths = [kind.document for surface in declared() for kind in surface.explains if kind.document]
    return schema_of(ExplanationDocument, *map(load, paths))


def _reason(reason: Reason) -> ReasonNode:
    return ReasonNode(reason.code, reason.text, reason.until, tuple(map(_reason, reason.because)), reason.act)
