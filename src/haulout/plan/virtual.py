"""Runs the kernel against an embedded cluster in virtual time. The clock jumps from event to event (decision 0013)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.base import selector
from haulout.base.selector import Selector
from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Keep, Projector, field_equals, version_number
from haulout.core.action import Create, Delete, Evict, Measure, Say, Send
from haulout.core.decision import earliest
from haulout.embedded import Change as WorldChange
from haulout.embedded import Json, Objects, VirtualTimers
from haulout.embedded import Resource as WorldResource
from haulout.kernel.kernel import Kernel
from haulout.kernel.requests import Answer, Body, Change, Done, Listed, ListPods, Look, Refused, Telling
from haulout.kube.errors import ApiError, NotFound
from haulout.model.meta import FIELD_MANAGER

Statement = Telling | Measure | Say


class VirtualDriver:
    """Connects a kernel with an embedded cluster, `world`: brings it changes, and carries out its requests at once."""

    def __init__(
        self,
        kernel: Kernel,
        world: Objects,
        time: VirtualTimers,
        on_statement: Callable[[Statement], None] = lambda _: None,
        kinds: Kinds | None = None,
    ) -> None:
        self._kernel = kernel
        self._world = world
        self._time = time
        self._on_statement = on_statement
        self._kinds = kinds or Kinds()
        self._places: dict[str, WorldResource] = {}
        # The last change of each object since the kernel last ran. Earlier ones at the same instant do not matter to it.
        self._news: dict[Key, tuple[Projector, WorldChange]] = {}

    def watch(self, kind: str, keep: Keep) -> None:
        """List the objects of a kind into the store, and bring it all later changes."""
        projector = self._kinds.keep("", kind, keep)
        resource = projector.resource
        labels = selector.parse(resource.labels)
        self._kernel.store.begin_list("", kind)
        try:
            found = self._world.list(self._place(kind), resource.namespace, labels=resource.labels)
        except NotFound:
            # A kind that the embedded cluster does not serve has no objects.
            self._kernel.store.end_list("", kind, 0)
            return
        self._world.subscribe(self._place(kind), lambda change: self._hear(projector, labels, change))
        rows = [self._row(projector, obj) for obj in found]
        for row in rows:
            self._kernel.store.put(row)
        self._kernel.store.end_list("", kind, max((row.version for row in rows), default=0))

    def run(self, until: datetime, done: Callable[[], bool] = lambda: False) -> None:
        """Run until the given instant, or until `done` returns True. `done` is called after each instant has settled."""
        while True:
            self._settle()
            if done():
                return
            upcoming = earliest(self._kernel.next_instant(), self._time.next_at())
            if upcoming is None or upcoming > until:
                self._time.run_until(until)
                self._settle()
                return
            self._time.run_until(max(upcoming, self._time.now() + timedelta(microseconds=1)))

    def _settle(self) -> None:
        """Run everything that is due at this instant, in the embedded cluster and in the kernel."""
        while True:
            self._time.run_due()
            self._take_in()
            self._kernel.run(self._time.now())
            requests = self._kernel.take_requests()
            if not requests:
                return
            for request in requests:
                match request.body:
                    case Telling() | Measure() | Say() as statement:
                        self._on_statement(statement)
                    case Send() as send:
                        self._kernel.on_answer(request.id, self._sent(send), self._time.now())
                    case _ as body:
                        self._pass_on(request.id, body)

    def _pass_on(self, request: int, body: Body) -> None:
        """Carry out a request, and give the answer to the kernel."""
        self._kernel.on_answer(request, self._carried_out(body), self._time.now())

    def _hear(self, projector: Projector, labels: Selector, change: WorldChange) -> None:
        meta, resource = change.object["metadata"], projector.resource
        namespace = meta.get("namespace", "")
        if resource.namespace not in ("", namespace):
            return
        if resource.labels and not labels.matches(meta.get("labels") or {}):
            # To a watch with a label selector, an object that no longer matches is deleted.
            change = change._replace(type="DELETED")
        self._news[Key("", resource.kind, namespace, meta["name"])] = projector, change

    def _take_in(self) -> None:
        if not self._news:
            return
        news, self._news = self._news, {}
        for key, (projector, change) in news.items():
            self._take(key, projector, change)

    def _take(self, key: Key, projector: Projector, change: WorldChange) -> None:
        store, version = self._kernel.store, version_number(change.object["metadata"]["resourceVersion"])
        if change.type == "DELETED":
            store.remove(key, version)
            return
        known = store.row(key)
        # The answer to our own write has put this version into the store already.
        if known is None or known.version != version:
            store.put(self._row(projector, change.object))

    def _row(self, projector: Projector, obj: Json) -> Any:
        return projector.row(msgspec.convert(obj, projector.resource.model, strict=False))

    def _sent(self, send: Send) -> Answer:
        """Answer that a message was delivered. A plan sends no messages."""
        return Done()

    def _carried_out(self, body: Body) -> Answer:
        try:
            return self._answer(body)
        except ApiError as error:
            return Refused(error.status.code, str(error), error.retry_after, error.cause)

    def _answer(self, body: Body) -> Answer:
        if isinstance(body, Evict):
            self._world.evict(body.target.namespace, body.target.name, uid=body.uid, grace=body.grace_for)
            return Done()
        if isinstance(body, ListPods):
            return self._listed(body.target)
        assert isinstance(body, Change | Create | Delete | Look)
        target = body.target
        resource = self._place(target.kind)
        match body:
            case Look():
                found = self._world.get(resource, target.namespace, target.name)
                return Done(row=self._row_of(target, found)) if found else Refused(404, "not found")
            case Change():
                patch = dict(body.body)
                if body.version:
                    patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": str(body.version)}
                changed = self._world.patch(
                    resource,
                    target.namespace,
                    target.name,
                    patch,
                    subresource=body.subresource,
                    strategic=body.strategic,
                    manager=FIELD_MANAGER,
                )
                return Done(row=self._row_of(target, changed))
            case Create():
                return Done(row=self._row_of(target, self._world.create(resource, dict(body.body))))
            case Delete():
                how: dict[str, Any] = {
                    "uid": body.uid,
                    "grace": body.grace_for,
                    "propagation": "Foreground" if body.with_owned else "Background",
                }
                self._world.delete(resource, target.namespace, target.name, **how)
        return Done()

    def _listed(self, node: Key) -> Listed:
        found = self._world.list(self._place("Pod"), fields=field_equals("spec.nodeName", node.name))
        rows = tuple(self._row_of(Key("", "Pod", "", ""), obj) for obj in found)
        known = self._kernel.store.bucket(PODS_OF_NODE, "", node.name)
        # The list is at least as new as every row in the kernel, because changes happen in the embedded cluster first.
        return Listed(rows, max((row.version for row in (*rows, *known)), default=0))

    def _place(self, kind: str) -> WorldResource:
        found = self._places.get(kind)
        if found is None:
            resource = self._kinds.resource(kind)
            group, _, version = resource.api_version.rpartition("/")
            found = self._places[kind] = WorldResource(group, version, resource.plural)
        return found

    def _row_of(self, target: Key, obj: Json) -> Any:
        return self._row(self._kinds.projector("", target.kind), obj)
