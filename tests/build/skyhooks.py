"""The packages surface on the embedded cluster, in virtual time, with hosts on which packages succeed or fail by rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self

import msgspec
import yaml

from haulout.cluster.key import Key
from haulout.cluster.kinds import Kinds
from haulout.core.action import Create, Delete, Evict
from haulout.core.decision import Source
from haulout.core.declaration import Enabled
from haulout.core.reason import Reason
from haulout.embedded import NODES, PODS, Json, PodBehaviour, Resource
from haulout.embedded import Change as WorldChange
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Answer, Body, Change, ListPods, Look, Refused, Telling
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from haulout.plan.virtual import VirtualDriver
from haulout.surfaces.packages.declare import GROUP
from haulout.surfaces.packages.declare import SURFACE as DECLARED
from haulout.surfaces.packages.groups import VERSION
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.surface import PACKAGES
from haulout.surfaces.packages.wire import API_VERSION, KIND, PLURAL
from haulout.surfaces.registry import definition
from tests.build.drains import QUICK
from tests.build.workloads import World

SKYHOOKS = Resource(GROUP, VERSION, PLURAL)
POLICIES = Resource(GROUP, VERSION, "deploymentpolicies")
CONFIG_MAPS = Resource("", "v1", "configmaps")
NAMESPACES = Resource("", "v1", "namespaces")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
P = "skyhook.nvidia.com/"
IMAGE = "reg.test/agentless"


def pkg(version: str = "1.0.0", **more: Any) -> Json:
    return {"version": version, "image": IMAGE, **more}


def is_at_work(pod: Json, node: Json) -> bool:
    """Whether a pod of packages works on its node.

    A pod that has finished may outlast its turn, because a killed operator could not remove it; but the turn lasts until
    the result is stored on the node.
    """
    ends = [each["state"].get("terminated", {}) for each in pod.get("status", {}).get("initContainerStatuses", [])]
    is_finished = bool(ends) and all(end.get("exitCode") == 0 for end in ends)
    return "deletionTimestamp" not in pod["metadata"] and not (
        is_finished and _is_stored(pod["metadata"]["labels"], node)
    )


def _is_stored(labels: Json, node: Json) -> bool:
    """Whether the node says that no stage of the package of a pod with these labels is under way."""
    entries = json.loads(node["metadata"].get("annotations", {}).get(f"{P}nodeState_{labels[f'{P}name']}", "{}"))
    package = labels.get(f"{P}package", "")
    return all(entry["state"] != "in_progress" for entry in entries.values() if package.startswith(entry["name"]))


def is_of_job(pod: Json) -> bool:
    return any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences", ()))


def _runs(pod: Json, behaviour: PodBehaviour) -> PodBehaviour:
    """The pods of Jobs end as `fate` says, not by themselves."""
    return msgspec.structs.replace(behaviour, init_runs_for=timedelta(days=365)) if is_of_job(pod) else behaviour


_ACTORS = msgspec.structs.replace(QUICK, kubelet=msgspec.structs.replace(QUICK.kubelet, behave=_runs))


class About:
    """What the labels and annotations of a package pod say about it."""

    def __init__(self, pod: Json) -> None:
        said = json.loads(pod["metadata"]["annotations"][f"{P}package"])
        self.pod = pod
        self.package, self.version, self.stage = said["name"], said["version"], said["stage"]
        self.skyhook, self.node = said["skyhook"], pod["spec"]["nodeName"]

    @property
    def name(self) -> str:
        return f"{self.package}/{self.stage}"


# The fate of a pod: it succeeds, fails, or hangs.
Fate = Callable[[About], str]
# Called with a write on its way to the API server. It carries the write out, answers by itself, or raises.
Way = Callable[[Body, Callable[[], Answer]], Answer]
# Returns how long the answer to a request takes.
Latency = Callable[[Body], timedelta]
AT_ONCE = timedelta()


class Counting(VirtualDriver):
    """A driver that counts the writes by verb and kind, and reports each one just before it is carried out."""

    writes: list[tuple[str, str]]
    before: Callable[[Body], None]
    way: Callable[[], Way]
    latency: Callable[[], Latency]

    def _pass_on(self, request: int, body: Body) -> None:
        answered_at = self._time.now() + self.latency()(body)
        answer = self._carried_out(body)
        if answered_at == self._time.now():
            self._kernel.on_answer(request, answer, answered_at)
        else:
            self._time.at(answered_at, lambda: self._kernel.on_answer(request, answer, self._time.now()))

    def _carried_out(self, body: Body) -> Answer:
        assert isinstance(body, Change | Create | Evict | Delete | Look | ListPods)
        self.before(body)
        if isinstance(body, Look | ListPods):
            return super()._carried_out(body)
        return self.way()(body, lambda: self._written(body))

    def _written(self, body: Change | Create | Evict | Delete) -> Answer:
        # Without the namespace of a kind that is watched in one alone.
        kind = body.target.kind.partition("/")[0]
        place = f"{kind}/{body.subresource}" if isinstance(body, Change) and body.subresource else kind
        self.writes.append((type(body).__name__, place))
        return super()._carried_out(body)


class Skyhooks(Reports):
    """A small world with the packages operator in it. Every package succeeds after a second unless `fate` says otherwise."""

    driver_type: type[Counting] = Counting
    actors = _ACTORS

    def __init__(
        self, options: Options | None = None, *beside: Enabled, nodes: int = 1, together: bool = False
    ) -> None:
        self.world = World(self.actors, nodes=nodes)
        self.beside, self.together = beside, together or bool(beside)
        self.options = options or Options()
        self.fate: Fate = lambda about: "ok"
        self.takes = timedelta(seconds=1)
        self.made: list[About] = []
        self.told: list[str] = []
        self.refusals: list[tuple[int, str]] = []
        self.failures: list[str] = []
        self.slowed: list[Key] = []
        self.writes: list[tuple[str, str]] = []
        self.before: Callable[[Body], None] = lambda body: None
        self.way: Way = lambda body, carry_out: carry_out()
        self.latency: Latency = lambda body: AT_ONCE
        # Kinds that a newly started operator lists later than all others, by how much.
        self.late: dict[str, timedelta] = {}
        objects = self.world.objects
        others = ("nodedisruptionbudgets", "nodemaintenances") if self.together else ()
        for crd in (*DECLARED.crds, *others):
            objects.create(DEFINITIONS, yaml.safe_load(definition(crd)))
        objects.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.options.namespace}}
        )
        objects.subscribe(PODS, self._pod_changed)
        self.world.run(10)
        self.begin()

    def begin(self) -> Self:
        """Start the operator, or after it another one that knows only what is stored."""
        assembly = assemble(
            [Enabled(PACKAGES, self.options), *self.beside],
            together=self.together,
            keeps_ledger=not self.options.alone,
            reports=self,
            on_failure=lambda subject, error: self.failures.append(f"{subject}: {error!r}"),
        )
        self.kernel = assembly.kernel
        driver = self.driver_type(self.kernel, self.world.objects, self.world.time, self._stated, Kinds(assembly.kinds))
        driver.writes, driver.before, driver.way = self.writes, self._sent, lambda: self.way
        driver.latency = lambda: self.latency
        self.driver = driver
        for source in sorted(assembly.sources(), key=repr):
            self._watch(source)
        return self

    def _watch(self, source: Source) -> None:
        driver, late_for = self.driver, self.late.get(source.kind, AT_ONCE)
        if late_for:
            self.world.time.at(self.world.time.now() + late_for, lambda: driver.watch(source.kind, source.keep))
        else:
            driver.watch(source.kind, source.keep)

    def on_refusal(self, subject: Subject, body: Body, answer: Refused) -> None:
        self.refusals.append((answer.code, answer.message))

    def on_restless(self, subject: Subject, target: Key) -> None:
        self.slowed.append(target)

    def _sent(self, body: Body) -> None:
        self.before(body)

    def _stated(self, statement: object) -> None:
        if isinstance(statement, Telling):
            self.told.append(statement.tell.note)

    # The hosts

    def _pod_changed(self, change: WorldChange) -> None:
        pod = change.object
        if change.type != "ADDED" or f"{P}package" not in (pod["metadata"].get("annotations") or {}):
            return
        about = About(pod)
        self.made.append(about)
        self.world.time.at(self.world.time.now() + self.takes, lambda: self._end(about))

    def _end(self, about: About) -> None:
        fate = self.fate(about)
        if fate == "ok":
            self.finish(about)
        elif fate == "fail":
            self.finish(about, code=1, restarts=1)

    def finish(self, about: About, code: int = 0, restarts: int = 0, message: str = "") -> None:
        meta = about.pod["metadata"]
        found = self.world.objects.get(PODS, meta["namespace"], meta["name"])
        if found is None or found["metadata"]["uid"] != meta["uid"]:
            return
        restarts = 0 if found["spec"]["restartPolicy"] == "Never" else restarts
        state = {"terminated": {"exitCode": code, "message": message}}
        statuses = [
            {"name": each["name"], "image": "", "imageID": "", "ready": True, "restartCount": restarts, "state": state}
            for each in about.pod["spec"]["initContainers"]
        ]
        body: Json = {"status": {"initContainerStatuses": statuses}}
        if found["spec"]["restartPolicy"] == "Never" or (is_of_job(found) and not code):
            body["status"]["phase"] = "Failed" if code else "Succeeded"
        self.world.objects.patch(PODS, meta["namespace"], meta["name"], body, subresource="status")

    # The user

    def make(
        self, name: str, packages: dict[str, Json], annotations: dict[str, str] | None = None, **spec: Any
    ) -> Self:
        metadata = {"name": name, "annotations": annotations or {}}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"packages": packages, **spec}}
        self.world.objects.create(SKYHOOKS, body)
        return self

    def policy(self, name: str, **spec: Any) -> Self:
        body = {"apiVersion": API_VERSION, "kind": "DeploymentPolicy", "metadata": {"name": name}, "spec": spec}
        self.world.objects.create(POLICIES, body)
        return self

    def edit(self, name: str, body: Json) -> Self:
        self.world.objects.patch(SKYHOOKS, "", name, body)
        return self

    def packages(self, name: str, packages: dict[str, Json | None]) -> Self:
        return self.edit(name, {"spec": {"packages": packages}})

    def delete(self, name: str) -> Self:
        self.world.objects.delete(SKYHOOKS, "", name)
        return self

    def change_node(self, name: str, body: Json) -> Self:
        self.world.objects.patch(NODES, "", name, body)
        return self

    def run(self, seconds: float = 60) -> Self:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    # Looking

    def get(self, name: str) -> Json:
        found = self.world.objects.get(SKYHOOKS, "", name)
        assert found is not None
        return found

    def explain(self, decision: str, key: Key) -> tuple[Reason, ...]:
        return self.kernel.loop.explain(Subject(decision, key), self.world.time.now()).reasons

    def status(self, name: str) -> Json:
        status: Json = self.get(name).get("status", {})
        return status

    def phase(self, name: str) -> str:
        return str(self.status(name).get("status"))

    def node(self, name: str) -> Json:
        return self.world.get(NODES, name)

    def annotation(self, node: str, name: str) -> str | None:
        found: str | None = self.node(node)["metadata"].get("annotations", {}).get(f"{P}{name}")
        return found

    def state(self, node: str, skyhook: str) -> dict[str, str]:
        found = json.loads(self.annotation(node, f"nodeState_{skyhook}") or "{}")
        return {key: f"{entry['stage']}/{entry['state']}" for key, entry in found.items()}

    def shows(self, skyhook: str, *nodes: str) -> list[str | None]:
        return [self.annotation(node, f"status_{skyhook}") for node in nodes]

    def trail(self, **only: str) -> list[str]:
        return [each.name for each in self.made if all(getattr(each, key) == value for key, value in only.items())]

    def pods(self) -> list[About]:
        """Return the package pods, but for those that have ended and are kept for their logs."""
        found = self.world.objects.list(PODS, self.options.namespace)
        live = [pod for pod in found if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
        return [About(pod) for pod in live if f"{P}package" in (pod["metadata"].get("annotations") or {})]

    def condition(self, skyhook: str, kind: str) -> tuple[str, str, str] | None:
        for each in self.status(skyhook).get("conditions", []):
            if each["type"] in (kind, f"{P}{kind}"):
                return each["status"], each["reason"], each["message"]
        return None
