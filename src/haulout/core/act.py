"""The acts that people may do to objects, declared by surfaces as data, and the writes that an act consists of.

An act is a pure function from an object and arguments to writes. `haulout.acts` sends them with the credential of the
person who acts; the command line and the console offer the same acts from the same declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class Verb(StrEnum):
    """The verb of a write, as rights name it."""

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"


class Endpoint(msgspec.Struct, frozen=True):
    """The kind that a write concerns, as the API server names it. `group`: empty for the core group."""

    kind: str
    group: str
    version: str
    resource: str
    is_namespaced: bool = False


class PersonalWrite(msgspec.Struct, frozen=True):
    """A write that a person sends.

    `body`: the new object, or a JSON merge patch; empty for a deletion.
    `uid`, `resource_version`: if they are set, the write is refused unless the object still has them.
    """

    verb: Verb
    endpoint: Endpoint
    name: str
    namespace: str = ""
    body: Mapping[str, Any] = {}
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""


class ActInput(msgspec.Struct, frozen=True):
    """Everything that an act may know.

    `target`: the object as the API server sent it, or an empty mapping for an act without an object, such as a pause of
    the whole fleet. `args`: the arguments by name, as the person wrote them. `by`: the user who acts; empty if unknown.
    """

    target: Mapping[str, Any]
    args: Mapping[str, str]
    reason: str
    by: str
    now: datetime


class ActPlan(msgspec.Struct, frozen=True):
    """The writes of an act, in their order. `undo`: the command that takes them back; empty if there is none.

    `warnings`: what the person should know before the writes are sent.
    """

    writes: tuple[PersonalWrite, ...]
    undo: str = ""
    warnings: tuple[str, ...] = ()


class NotPossible(msgspec.Struct, frozen=True):
    """The answer of an act that the object, in its present state, does not allow. `why`: one sentence for people."""

    why: str


class Argument(msgspec.Struct, frozen=True):
    """An argument of an act. `choices`: the values that it may have; empty: any text."""

    name: str
    help: str
    required: bool = False
    choices: tuple[str, ...] = ()


PlanAct = Callable[[ActInput], ActPlan | NotPossible]


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """An act of a surface, declared in `Surface.acts`.

    `name`: the verb that people type, such as `start`. Several surfaces may have an act of the same name; for a Node the
    argument `with` then chooses the surface.
    `kinds`: the kinds of objects that it is for, spelled as in manifests; empty: it needs no object.
    `plan`: path of its `PlanAct`. `disturbs`: it takes a node out of service, so that the pods that it would move are shown.
    `needs_reason`: a reason has to be given.
    """

    name: str
    help: str
    kinds: tuple[str, ...]
    plan: str
    arguments: tuple[Argument, ...] = ()
    disturbs: bool = False
    needs_reason: bool = False
