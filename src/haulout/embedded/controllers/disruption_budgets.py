"""The simulated disruption controller: the status of PodDisruptionBudgets, by which evictions are judged."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.base.selector import EVERYTHING, Selector, SelectorError, from_object
from haulout.embedded.controllers.object_fields import (
    Key,
    controller_of,
    instant,
    is_ready,
    is_terminating,
    labels_of,
    scale_int_or_percent,
    timestamp,
)
from haulout.embedded.controllers.owner_kinds import group_kind
from haulout.embedded.controllers.replicaset import wanted_replicas
from haulout.embedded.controllers.selector_index import Selectors
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import DISRUPTION_BUDGETS

# For so long after an allowed eviction, its pod counts as disrupted even if it is not being deleted yet.
DELETION_TIMEOUT = timedelta(minutes=2)


class _SyncFailed(Exception):
    """The expected number of pods of a budget cannot be computed. The message goes into the budget's condition."""


class _Members:
    """The pods that one budget selects, with counts that are kept up to date."""

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.healthy = 0
        # The names of the pods by the UID of their controller. Pods without one are left out.
        self.owned: dict[str, dict[str, None]] = {}

    def put(self, name: str, pod: Json) -> None:
        self.drop(name)
        self.pods[name] = pod
        self.healthy += _is_healthy(pod)
        if controller := controller_of(pod):
            self.owned.setdefault(controller["uid"], {})[name] = None

    def drop(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is None:
            return
        self.healthy -= _is_healthy(pod)
        if controller := controller_of(pod):
            names = self.owned[controller["uid"]]
            del names[name]
            if not names:
                del self.owned[controller["uid"]]


class DisruptionBudgets:
    """The simulated disruption controller: it keeps the status of PodDisruptionBudgets.

    `scalable`: the tables of kinds with a scale, by group and kind. Deployments are found through their ReplicaSets.
    """

    def __init__(
        self, objects: Objects, timers: Timers, pods: Pods, budgets: Table, scalable: dict[tuple[str, str], Table]
    ) -> None:
        self._objects = objects
        self._timers = timers
        self._pods = pods
        self._budgets = budgets
        self._scalable = scalable
        self._selectors = Selectors()
        self._members: dict[Key, _Members] = {}
        self._is_writing = False
        self._work: WorkQueue[Key] = WorkQueue(timers, self._sync)
        budgets.listen(self._on_budget)
        pods.listen(self._on_pod)

    def _on_budget(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._selectors.remove(key)
            self._members.pop(key, None)
        elif old is None or old["spec"].get("selector") != new["spec"].get("selector"):
            self._select(key, new)
        if not self._is_writing:
            self._work.add(key)

    def _select(self, key: Key, budget: Json) -> None:
        members = self._members[key] = _Members()
        selector = _selector(budget)
        if selector is None:
            self._selectors.remove(key)
            return
        self._selectors.set(key, selector)
        for (_, name), pod in self._pods.by_namespace.get(key[0], {}).items():
            if selector.matches(labels_of(pod)):
                members.put(name, pod)

    def _on_pod(self, pod_key: Key, old: Json | None, new: Json | None) -> None:
        # Budgets read no more of a pod than what is compared here, so that they may keep its older state.
        if old and new and _count_alike(old, new):
            return
        namespace, name = pod_key
        after: list[Key] = []
        if new:
            after = self._selectors.matching(namespace, labels_of(new))
            for key in after:
                self._members[key].put(name, new)
                self._work.add(key)
        if old and (new is None or labels_of(old) != labels_of(new)):
            for key in sorted(self._selectors.matching(namespace, labels_of(old))):
                if key not in after:
                    self._drop(key, name, old)

    def _drop(self, key: Key, name: str, pod: Json) -> None:
        members, controller = self._members[key], controller_of(pod)
        members.drop(name)
        # A pod that is being deleted is not counted any more. Its removal changes the status only if the budget expects
        # the pods that exist, or if no other pod has the same controller.
        if is_terminating(pod) and controller and controller["uid"] in members.owned:
            budget = self._budgets.get(key)
            if budget and _expects_scale(budget["spec"]):
                return
        self._work.add(key)

    def _sync(self, key: Key) -> None:
        budget = self._objects.get(DISRUPTION_BUDGETS, *key)
        if budget is None or key not in self._members:
            self._work.forget(key)
            return
        members, now = self._members[key], self._timers.now()
        try:
            expected, desired = self._expected(budget["spec"], members)
        except _SyncFailed as failure:
            self._write(budget, _failed(budget, str(failure), now))
            return
        disrupted = self._disrupted(key, budget, members, now)
        counted_out = [name for name in disrupted if _is_healthy(members.pods[name])]
        healthy = members.healthy - len(counted_out)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        status = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        reason = "SufficientPods" if allowed else "InsufficientPods"
        status["conditions"] = _conditions(budget, allowed > 0, reason, "", status["observedGeneration"], now)
        self._write(budget, status)

    def _write(self, budget: Json, status: Json) -> None:
        if (budget.get("status") or {}) != status:
            written = self._objects.update(DISRUPTION_BUDGETS, {**budget, "status": status}, subresource="status")
            # A sync after this write would compute the same status again.
            self._is_writing = True
            self._budgets.put(written)
            self._is_writing = False

    def _disrupted(self, key: Key, budget: Json, members: _Members, now: datetime) -> dict[str, str]:
        """Return the evicted pods that still count as disrupted: not deleted yet, and evicted a short time ago."""
        found = {}
        for name, at in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
            pod, until = members.pods.get(name), instant(at) + DELETION_TIMEOUT
            if pod is None or is_terminating(pod) or until <= now:
                continue
            found[name] = at
            self._work.add_at(key, until)
        return found

    def _expected(self, spec: Json, members: _Members) -> tuple[int, int]:
        """Return how many pods a budget expects, and how many of them must be healthy. Percentages are rounded up."""
        most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
        if not _expects_scale(spec):
            return (len(members.pods), int(least)) if least is not None else (0, 0)
        expected = self._scale(members)
        if most is not None:
            return expected, max(expected - scale_int_or_percent(most, expected, up=True), 0)
        return expected, scale_int_or_percent(least, expected, up=True)

    def _scale(self, members: _Members) -> int:
        """Return the sum of the wanted sizes of the pods' controllers. Pods without a controller do not count."""
        scales: dict[str, int] = {}
        for names in members.owned.values():
            uid, size = self._scale_of(members.pods[next(iter(names))])
            scales[uid] = size
        return sum(scales.values())

    def _scale_of(self, pod: Json) -> tuple[str, int]:
        """Return the UID and the wanted size of the workload that a pod with a controller belongs to."""
        reference = controller_of(pod)
        assert reference is not None
        table = self._scalable.get(group_kind(reference))
        if table is None:
            raise _SyncFailed(_no_scale(reference))
        owner = table.get((pod["metadata"]["namespace"], reference["name"]))
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            raise _SyncFailed(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        above = controller_of(owner)
        if above and group_kind(above) == ("apps", "Deployment"):
            deployment = self._scalable["apps", "Deployment"].get((pod["metadata"]["namespace"], above["name"]))
            if deployment and deployment["metadata"]["uid"] == above["uid"]:
                return above["uid"], wanted_replicas(deployment)
        return reference["uid"], wanted_replicas(owner)


def _selector(budget: Json) -> Selector | None:
    """Return the selector of a budget. None selects no pod; an empty selector selects every pod of the namespace."""
    labels = budget["spec"].get("selector")
    if labels is None:
        return None
    try:
        return from_object(labels) if labels else EVERYTHING
    except SelectorError:
        return None


def _expects_scale(spec: Json) -> bool:
    """Whether a budget expects as many pods as their controllers want. Otherwise it expects those that exist."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def _is_healthy(pod: Json) -> bool:
    return not is_terminating(pod) and is_ready(pod)


def _count_alike(old: Json, new: Json) -> bool:
    """Whether two states of a pod are equal in all that selects and counts it.

    Of the seven changes of a pod that moves, three change none of it.
    """
    if is_terminating(old) != is_terminating(new) or is_ready(old) != is_ready(new):
        return False
    return labels_of(old) == labels_of(new) and controller_of(old) == controller_of(new)


def _failed(budget: Json, message: str, now: datetime) -> Json:
    old = budget.get("status") or {}
    conditions = _conditions(budget, False, "SyncFailed", message, old.get("observedGeneration", 0), now)
    return {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
        **old,
        "disruptionsAllowed": 0,
        "conditions": conditions,
    }


def _conditions(budget: Json, allowed: bool, reason: str, message: str, generation: int, now: datetime) -> list[Json]:
    new = {
        "type": "DisruptionAllowed",
        "status": str(allowed),
        "observedGeneration": generation,
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }
    if not generation:
        del new["observedGeneration"]
    result: list[Json] = list((budget.get("status") or {}).get("conditions") or ())
    for place, found in enumerate(result):
        if found["type"] == new["type"]:
            if found["status"] == new["status"]:
                new["lastTransitionTime"] = found["lastTransitionTime"]
            result[place] = new
            return result
    return [*result, new]


def _no_scale(reference: Json) -> str:
    group, kind = group_kind(reference)
    plural = f"{kind.lower()}s"
    return (
        f"{plural}.{group} does not implement the scale subresource"
        if group
        else f"{plural} does not implement the scale subresource"
    )
