"""The notify surface on the embedded cluster, in virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from haulout.base import yaml
from haulout.cluster.kinds import Kinds
from haulout.core.action import Create, Delete, Evict, Measure, Send
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.core.declaration import Enabled
from haulout.embedded import NODES, Json, Resource
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Answer, Body, Change, Done, ListPods, Look, Refused, Telling
from haulout.kernel.wakes import Reports
from haulout.kube.errors import NotFound
from haulout.plan.virtual import VirtualDriver
from haulout.surfaces.notify.load import load
from haulout.surfaces.notify.notice.deliver import Announcement
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.recipes.hooks import HookAnswer, HookCall
from haulout.surfaces.notify.scheduler.recording import StoredHistory
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.notify.wire import API_VERSION, CLIENT, GROUP, KIND, PLURAL, READY, VALIDATION, VERSION
from haulout.surfaces.registry import definition
from tests.build.drains import QUICK
from tests.build.workloads import World

NOTICES = Resource(GROUP, VERSION, PLURAL)
NAMESPACES = Resource("", "v1", "namespaces")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
HOME = "fleet"
OWN = "pika-system"


def options(text: str = "slaPeriod: 1h", **fields: Any) -> Options:
    read = load(text)
    assert isinstance(read, Options), read
    return msgspec.structs.replace(read, **{"namespace": OWN, **fields})


class Killed(Exception):
    """The operator was killed just before it sent a message, or at a write."""


class Driver(VirtualDriver):
    """A driver that answers in the place of the server and of the notifiers, as the test wants it."""

    notices: Notices

    def _carried_out(self, body: Body) -> Answer:
        assert isinstance(body, Change | Create | Evict | Delete | Look | ListPods)
        if not isinstance(body, Look | ListPods):
            place = f"{body.target.kind}/{body.subresource}" if isinstance(body, Change) and body.subresource else None
            what = type(body), place or body.target.kind
            self.notices.writes.append(what)
            number, (fatal, is_after) = len(self.notices.writes), self.notices.dies_at_write
            if number == fatal and not is_after:
                raise Killed
            if what in self.notices.refuses:
                return self.notices.refuses[what]
            answer = super()._carried_out(body)
            self.notices.answered.append((body, answer))
            if number == fatal:
                raise Killed
            return answer
        return super()._carried_out(body)

    def _sent(self, send: Send) -> Answer:
        content = send.payload
        if isinstance(content, HookCall):
            self.notices.calls.append(content)
            return self.notices.answers.pop(0) if self.notices.answers else Done(content=HookAnswer("accepted"))
        if isinstance(content, StoredHistory):
            self.notices.stored.append(content.text)
            return Done()
        if isinstance(content, tuple):
            self.notices.handed_over += [each.event for each in content]
            return Done()
        assert isinstance(content, Announcement)
        self.notices.tried.append(content.event)
        if content.event == self.notices.dies_at:
            raise Killed
        if content.notifier in self.notices.dead:
            return Refused(0, "the transport is dead")
        self.notices.sent.append(content)
        return Done()


class Notices(Reports):
    """A world with one operator of the notify surface.

    `sent`: delivered messages. `told`: the reasons of events, with their objects.
    `handed_over`: events whose object was about to go, which the channel is to try for a day.
    `stored`: the histories of run times that were to be stored. `dies_at`: the message before which it is killed.
    `dies_at_write`: the number of the write at which it is killed, before (False) or after it (True).
    `answered`: all writes. `calls`: the calls of web servers that carry out steps.
    `answers`: the answers of these servers, in turn; when none is left, they accept.
    """

    def __init__(self, options: Options, nodes: int = 3, world: World | None = None) -> None:
        self.world = world or World(QUICK, nodes=nodes)
        self.options = options
        self.sent: list[Announcement] = []
        self.tried: list[str] = []
        self.handed_over: list[str] = []
        self.stored: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.measured: list[Measure] = []
        self.writes: list[tuple[type, str]] = []
        self.refuses: dict[tuple[type, str], Refused] = {}
        self.dead: set[str] = set()
        self.dies_at = ""
        self.dies_at_write = (0, False)
        self.answered: list[tuple[Body, Answer]] = []
        self.calls: list[HookCall] = []
        self.answers: list[Answer] = []
        objects = self.world.objects
        if objects.get(DEFINITIONS, "", f"{PLURAL}.{GROUP}") is None:
            objects.create(DEFINITIONS, yaml.load(definition(PLURAL)))
            objects.create(DEFINITIONS, yaml.load(SHARED.definition("nodedisruptionbudgets")))
            for name in (HOME, OWN):
                objects.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.begin()

    def begin(self, late: str = "") -> Notices:
        """Start the operator, or after it another one that knows only what is stored.

        `late`: a kind that is not listed yet.
        """
        assembly = assemble([Enabled(NOTIFY, self.options)], together=not self.options.alone, reports=self)
        self.assembly, self.kernel = assembly, assembly.kernel
        self.driver = Driver(self.kernel, self.world.objects, self.world.time, self._stated, Kinds(assembly.kinds))
        self.driver.notices = self
        for source in sorted(assembly.sources(), key=repr):
            if source.kind != late:
                self.driver.watch(source.kind, source.keep)
        return self

    def list_late(self, kind: str) -> Notices:
        """List a kind that was late."""
        for source in self.assembly.sources():
            if source.kind == kind:
                self.driver.watch(source.kind, source.keep)
        return self

    def _stated(self, statement: object) -> None:
        if isinstance(statement, Telling):
            self.told.append((statement.tell.reason, statement.tell.regarding.name))
        elif isinstance(statement, Measure):
            self.measured.append(statement)

    # What people do

    def make(
        self, name: str, node: str = "n0", mid: str = "mid", annotations: Json | None = None, **spec: Any
    ) -> Notices:
        labels = spec.pop("labels", {})
        meta = {"name": name, "namespace": HOME, "annotations": annotations or {}, "labels": labels}
        body = {"nodeObject": node, "maintenanceID": mid, "maintenanceType": "planned", **spec}
        self.world.objects.create(NOTICES, {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": body})
        return self

    def annotate(self, name: str, **values: str | None) -> Notices:
        keys = {"ready": READY, "client": CLIENT, "validation": VALIDATION}
        return self.patch(name, {"metadata": {"annotations": {keys[key]: value for key, value in values.items()}}})

    def patch(self, name: str, body: Json, subresource: str = "") -> Notices:
        self.world.objects.patch(NOTICES, HOME, name, body, subresource=subresource)
        return self

    def delete(self, name: str) -> Notices:
        self.world.objects.delete(NOTICES, HOME, name)
        return self

    def label(self, node: str, *ids: str) -> Notices:
        self.world.change(NODES, node, {"metadata": {"labels": {f"maintenance/{mid}": "" for mid in ids}}})
        return self

    def cordon(self, node: str, cordoned: bool = True) -> Notices:
        self.world.change(NODES, node, {"spec": {"unschedulable": cordoned or None}})
        return self

    def uncordon(self, node: str) -> Notices:
        return self.cordon(node, cordoned=False)

    def claim(self, node: str, *ids: str) -> Notices:
        return self.label(node, *ids).cordon(node)

    def run(self, seconds: float = 1) -> Notices:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    def started(self, name: str, node: str = "n0", mid: str = "mid", **more: Any) -> Notices:
        return self.make(name, node, mid, **more).run().claim(node, mid).run()

    def drained(self, name: str, node: str = "n0", mid: str = "mid", **more: Any) -> Notices:
        return self.started(name, node, mid, **more).annotate(name, ready="true").run()

    # What is seen

    @property
    def now(self) -> datetime:
        return self.world.time.now()

    def found(self, name: str) -> Json | None:
        with contextlib.suppress(NotFound):
            return self.world.objects.get(NOTICES, HOME, name)
        return None

    def get(self, name: str) -> Json:
        found = self.found(name)
        assert found is not None, f"{name} is gone"
        return found

    def status(self, name: str) -> str:
        return str(self.get(name).get("status", {}).get("maintenanceStatus", ""))

    def path(self, name: str) -> list[str]:
        stamps = self.get(name).get("status", {}).get("transitionTimestamps", [])
        return [stamp["maintenanceStatus"] for stamp in stamps]

    def conditions(self, name: str) -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.get(name).get("status", {}).get("conditions", [])}

    def message(self, name: str, condition: str) -> str:
        found = self.get(name).get("status", {}).get("conditions", [])
        return next(str(each.get("message", "")) for each in found if each["type"] == condition)

    def annotations(self, name: str) -> dict[str, str]:
        return dict(self.get(name)["metadata"].get("annotations") or {})

    def finalizers(self, name: str) -> list[str]:
        return list(self.get(name)["metadata"].get("finalizers") or [])

    def expires(self, name: str) -> datetime:
        return datetime.fromisoformat(self.get(name)["status"]["slaExpires"]).astimezone(UTC)

    def entered(self, name: str, status: str) -> datetime:
        stamps = self.get(name)["status"]["transitionTimestamps"]
        found = [each["transitionTimestamp"] for each in stamps if each["maintenanceStatus"] == status]
        return datetime.fromisoformat(found[-1]).astimezone(UTC)

    def node(self, name: str) -> Json:
        return self.world.get(NODES, name)

    def claims(self, node: str) -> list[str]:
        return sorted(key for key in self.node(node)["metadata"].get("labels", {}) if key.startswith("maintenance/"))

    def cordoned(self, node: str) -> bool:
        return bool(self.node(node)["spec"].get("unschedulable"))

    def events(self, name: str) -> list[str]:
        return [each.event for each in self.sent if each.place == f"{HOME}/{name}"]

    def reasons(self, name: str) -> list[str]:
        return [reason for reason, subject in self.told if subject == name]


def statuses(ops: Notices, names: Iterable[str]) -> list[str]:
    return [ops.status(name) for name in names]
