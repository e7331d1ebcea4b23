"""The acts that people may do to objects, declared by surfaces as data, and the writes that an act consists of.

An act is a pure function from an object and arguments to writes. `haulout.acts` sends them with the credential of the
person who acts; the command line and the console offer the same acts from the same declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from shlex import join
from typing import Any

import msgspec

# The longest reason, and the longest value of an argument. They end in annotations and in fields of objects.
LONGEST_TEXT = 1024


class Verb(StrEnum):
    """The verb of a write, as rights name it."""

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"


class Endpoint(msgspec.Struct, frozen=True):
    """A kind of objects, as the API server names it.

    `group`: empty for the core group. `older`: versions that are used where the cluster does not serve `version`.
    """

    kind: str
    group: str
    version: str
    resource: str
    is_namespaced: bool = False
    older: tuple[str, ...] = ()

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the path of an object, or without `name` that of the collection."""
        place = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"{place}/namespaces/{namespace}" if self.is_namespaced and namespace else place
        return "/".join(filter(None, (within, self.resource, name)))

    def manifest(self, name: str, spec: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
        """Return a new object of the kind."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        return {"apiVersion": version, "kind": self.kind, "metadata": metadata, "spec": dict(spec)}

    @property
    def named(self) -> str:
        """The resource as kubectl names it: `nodes`, or `nodemaintenances.nodemaintenance.medik8s.io`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


NODES = Endpoint("Node", "", "v1", "nodes")


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


class Need(msgspec.Struct, frozen=True):
    """A right that a person needs for an act. `verb`: any word that RBAC may have, such as `override`."""

    verb: str
    endpoint: Endpoint
    namespace: str = ""
    name: str = ""
    subresource: str = ""


# Objects as the API server sent them. None: they cannot be read, which never means that there are none.
Objects = tuple[Mapping[str, Any], ...] | None


class ActInput(msgspec.Struct, frozen=True):
    """Everything that an act may know.

    `target`: the object as the API server sent it, or an empty mapping for an act without an object, such as a pause of
    the whole fleet. `args`: the arguments by name, as the person wrote them. `by`: the user who acts; empty if unknown.
    `endpoint`: the kind of the target; None for an act without an object.
    `related`: all objects of the kinds that `Act.reads` names, by kind. The key is absent for a kind that is not served.
    """

    target: Mapping[str, Any]
    args: Mapping[str, str]
    reason: str
    by: str
    now: datetime
    related: Mapping[str, Objects] = {}
    endpoint: Endpoint | None = None

    @property
    def metadata(self) -> Mapping[str, Any]:
        found = self.target.get("metadata")
        return found if isinstance(found, Mapping) else {}

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace", ""))

    @property
    def uid(self) -> str:
        return str(self.metadata.get("uid", ""))

    @property
    def version(self) -> str:
        return str(self.metadata.get("resourceVersion", ""))

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.get("annotations") or {}

    def patch(self, endpoint: Endpoint, body: Mapping[str, Any]) -> PersonalWrite:
        """Return the patch of the target that is refused if the object has changed since it was read."""
        return PersonalWrite(
            Verb.PATCH,
            endpoint,
            self.name,
            self.namespace,
            body,
            uid=self.uid,
            resource_version=self.version,
        )

    def patch_metadata(
        self,
        endpoint: Endpoint,
        *,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
    ) -> PersonalWrite:
        """Return the patch that sets labels and annotations of the target; None removes one."""
        changes = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
        return self.patch(endpoint, {"metadata": {name: each for name, each in changes.items() if each}})

    def restore(self, what: str, endpoint: Endpoint, key: str) -> str:
        """Return the command that gives a label or an annotation of the target its present value again.

        `what`: "label" or "annotate", as kubectl has it.
        """
        old = (self.labels if what == "label" else self.annotations).get(key)
        where = ("-n", self.namespace) if self.namespace else ()
        value = f"{key}-" if old is None else f"{key}={old}"
        return join(
            ("kubectl", *where, what, endpoint.named, self.name, value, *(("--overwrite",) if old is not None else ()))
        )

    def delete(self, endpoint: Endpoint) -> PersonalWrite:
        """Return the deletion of the target, which is refused if another object has its name by then."""
        return PersonalWrite(Verb.DELETE, endpoint, self.name, self.namespace, uid=self.uid)


class ActPlan(msgspec.Struct, frozen=True):
    """The writes of an act, in their order. `undo`: the command that takes them back; empty if there is none.

    `warnings`: what the person should know before the writes are sent.
    `needs`: rights that the act asks for beside those of its writes.
    """

    writes: tuple[PersonalWrite, ...]
    undo: str = ""
    warnings: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()


class NotPossible(msgspec.Struct, frozen=True):
    """The answer of an act that the object, in its present state, does not allow. `why`: one sentence for people."""

    why: str


class WrongArgument(NotPossible, frozen=True):
    """The answer of an act to an argument that is not what the act takes, whatever the object. `why`: which, and what is."""


class Argument(msgspec.Struct, frozen=True):
    """An argument of an act.

    `choices`: the values that it may have; empty: any text. `example`: stands for the value of a required argument while
    the person has not given it yet, to show what the act would do. `longest`: the most characters of its value.
    `picks`: without a value, the act itself picks an object of this kind, one that `Act.reads` lists, to show that.
    """

    name: str
    help: str
    required: bool = False
    choices: tuple[str, ...] = ()
    example: str = ""
    longest: int = LONGEST_TEXT
    picks: str = ""


PlanAct = Callable[[ActInput], ActPlan | NotPossible]


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """An act of a surface, declared in `Surface.acts`.

    `name`: the verb that people type, such as `start`.
    `targets`: the kinds of objects that it is for; empty: it needs no object.
    `plan`: path of its `PlanAct`.
    `way`: the value of the argument `with` that chooses this act where several have its name for a kind. Without that
    argument the first is done whose kinds the cluster serves and that needs no argument.
    `needs`: the rights that it usually needs, without names, to tell people in advance what they may do.
    `reads`: kinds of which it has to know all objects. `reads_claimants`: it has to know all objects of surfaces that
    are about one node each.
    `disturbs`: it takes the node that is its target out of service, so that the pods that it would move are shown.
    `needs_reason`: a reason has to be given.
    """

    name: str
    help: str
    targets: tuple[Endpoint, ...]
    plan: str
    arguments: tuple[Argument, ...] = ()
    way: str = ""
    needs: tuple[Need, ...] = ()
    reads: tuple[Endpoint, ...] = ()
    reads_claimants: bool = False
    disturbs: bool = False
    needs_reason: bool = False

    @property
    def needs_arguments(self) -> bool:
        """Whether it cannot be done without an argument."""
        return any(argument.required for argument in self.arguments)
