"""The simulated DaemonSet controller: one pod on each matching node, cordoned or not."""

from __future__ import annotations

from datetime import timedelta

from haulout.embedded.controllers.claims import Claims
from haulout.embedded.controllers.daemonpods import Known, Share, Wish, pin_to_node, wish_of, with_tolerations
from haulout.embedded.controllers.generated_names import Names
from haulout.embedded.controllers.object_fields import (
    Key,
    available_at,
    has_ended,
    is_ready,
    is_terminating,
    labels_of,
    node_of,
    phase_of,
    scale_int_or_percent,
)
from haulout.embedded.controllers.revisions import HASH, Revision, Revisions
from haulout.embedded.controllers.tables import Owned, Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import DAEMON_SETS

# A failed pod is replaced after this delay, which doubles up to the last.
_FIRST_BACKOFF, _LAST_BACKOFF = timedelta(seconds=1), timedelta(minutes=15)


class DaemonSets:
    """The simulated controller of DaemonSets: it keeps one pod of a set on each node that suits it.

    A change of a node or pod makes only that node doubtful, and only for the sets whose wish for the node has changed.
    """

    def __init__(
        self,
        objects: Objects,
        timers: Timers,
        names: Names,
        pods: Pods,
        nodes: Table,
        sets: Table,
        revisions: Owned,
    ) -> None:
        self._objects = objects
        self._timers = timers
        self._nodes = nodes
        self._pods = pods
        self._sets = sets
        self._revisions = Revisions(objects, revisions)
        self._known: dict[Key, Known] = {}
        self._work: WorkQueue[Key] = WorkQueue(timers, self._sync)
        sets.listen(self._on_set)
        self._claims = Claims(objects, names, pods, sets, "apps/v1", "DaemonSet", self._work.add, self._on_pod)
        nodes.listen(self._on_node)

    def _on_set(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._known.pop(key, None)
            return
        if old is None:
            known = self._known[key] = Known()
            for pod in self._pods.owned(new["metadata"]["uid"]):
                known.put(pod, there=True)
        if old is None or old["spec"] != new["spec"]:
            known = self._known[key]
            known.wishes = {name: wish_of(new, node) for (_, name), node in self._nodes.rows.items()}
            known.doubtful.update(dict.fromkeys((*known.wishes, *known.pods)))

    def _on_pod(self, key: Key, old: Json | None, new: Json | None) -> None:
        pod = new or old
        if pod and (known := self._known.get(key)):
            known.put(pod, there=new is not None)

    def _on_node(self, node_key: Key, old: Json | None, new: Json | None) -> None:
        if not self._known or (old and new and _suit_alike(old, new)):
            return
        name = node_key[1]
        for key, known in self._known.items():
            before = known.wishes.pop(name, None)
            if new:
                known.wishes[name] = wish_of(self._sets.rows[key], new)
            if before != known.wishes.get(name):
                self._doubt(key, name)

    def _doubt(self, key: Key, name: str) -> None:
        if known := self._known.get(key):
            known.doubtful[name] = None
            self._work.add(key)

    def _sync(self, key: Key) -> None:
        owner = self._sets.get(key)
        if owner is None:
            self._work.forget(key)
            return
        self._claims.settle(owner)
        known, revision = self._known[key], self._revisions.current(owner, "DaemonSet")
        doubtful, known.doubtful = sorted(known.doubtful), {}
        if not is_terminating(owner):
            for name in doubtful:
                self._manage(key, owner, revision, name)
        for name in doubtful:
            known.share(name, self._share_of(key, owner, revision, name))
        if not is_terminating(owner) and known.total.updated < known.total.current:
            self._update(owner, revision, known)
        self._write_status(key, owner, known.total)
        self._revisions.clean_up(owner, lambda: {revision.name, *(_hash(pod) for pod in self._claims.pods(owner))})

    def _manage(self, key: Key, owner: Json, revision: Revision, name: str) -> None:
        known = self._known[key]
        wish, there = known.wishes.get(name, Wish()), list(known.pods.get(name, {}).values())
        staying = [pod for pod in there if not is_terminating(pod)]
        if not wish.stay:
            self._claims.delete(staying)
        elif wish.run and not there:
            self._create(owner, revision, name)
        else:
            ended = [pod for pod in staying if has_ended(pod)]
            self._claims.delete([pod for pod in ended if self._may_replace(key, name, pod)])
            running = sorted((pod for pod in staying if not has_ended(pod)), key=_age)
            if not _surge(owner, 1):
                self._claims.delete(running[1:])
            elif wish.run and not running:
                self._create(owner, revision, name)

    def _may_replace(self, key: Key, name: str, pod: Json) -> bool:
        if phase_of(pod) != "Failed":
            return True
        known, now = self._known[key], self._timers.now()
        count, since = known.failures.get(name, (0, now))
        due_at = since + min(_FIRST_BACKOFF * 2 ** (count - 1), _LAST_BACKOFF) if count else now
        if now < due_at:
            self._timers.at(due_at, lambda: self._doubt(key, name))
            return False
        known.failures[name] = (min(count + 1, 20), now)
        return True

    def _update(self, owner: Json, revision: Revision, known: Known) -> None:
        """Delete old pods as far as maxUnavailable allows; with maxSurge, once a new pod on the node is available."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        old, new = _split(known, revision)
        if surge := _surge(owner, known.total.desired):
            self._update_surging(owner, revision, (old, new), surge)
            return
        unavailable = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        most = max(scale_int_or_percent(unavailable, known.total.desired, up=True), 1)
        broken = [pod for _, pod in sorted(old.items()) if not self._is_available(owner, pod)]
        working = [pod for _, pod in sorted(old.items()) if self._is_available(owner, pod)]
        there = known.pods.keys() - old.keys()
        waiting = sum(not self._is_available(owner, new.get(name)) for name in there)
        self._claims.delete(broken)
        self._claims.delete(working[: max(most - waiting - len(broken), 0)])

    def _update_surging(
        self, owner: Json, revision: Revision, pods: tuple[dict[str, Json], dict[str, Json]], surge: int
    ) -> None:
        old, new = pods
        surging = sum(name in new and not self._is_available(owner, new[name]) for name in old)
        for name, pod in sorted(old.items()):
            if name in new:
                if self._is_available(owner, new[name]):
                    self._claims.delete([pod])
            elif not self._is_available(owner, pod):
                self._create(owner, revision, name)
            elif surging < surge:
                surging += 1
                self._create(owner, revision, name)

    def _create(self, owner: Json, revision: Revision, node: str) -> None:
        template = revision.template
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: revision.hash}
        if generation := owner["metadata"].get("generation"):
            labels["pod-template-generation"] = str(generation)
        spec = {**template["spec"], "affinity": pin_to_node(template["spec"].get("affinity"), node)}
        spec["tolerations"] = with_tolerations(template["spec"])
        self._claims.create(owner, {**template, "spec": spec}, base=f"{owner['metadata']['name']}-", labels=labels)

    def _is_available(self, owner: Json, pod: Json | None) -> bool:
        at = available_at(pod, int(owner["spec"].get("minReadySeconds") or 0)) if pod else None
        return at is not None and at <= self._timers.now()

    def _share_of(self, key: Key, owner: Json, revision: Revision, name: str) -> Share:
        known = self._known[key]
        there = known.pods.get(name)
        if not known.wishes.get(name, Wish()).run:
            return Share(misscheduled=int(bool(there) and name in known.wishes))
        if not there:
            return Share(desired=1)
        pod = min(there.values(), key=_age)
        ready, available = is_ready(pod), self._is_available(owner, pod)
        if ready and not available:
            at = available_at(pod, int(owner["spec"].get("minReadySeconds") or 0))
            self._timers.at(at or self._timers.now(), lambda: self._doubt(key, name))
        return Share(1, 1, 0, int(ready), int(_hash(pod) == revision.hash), int(available))

    def _write_status(self, key: Key, owner: Json, total: Share) -> None:
        status = {
            "currentNumberScheduled": total.current,
            "numberMisscheduled": total.misscheduled,
            "desiredNumberScheduled": total.desired,
            "numberReady": total.ready,
            "observedGeneration": owner["metadata"].get("generation", 0),
            "updatedNumberScheduled": total.updated,
            "numberAvailable": total.available,
            "numberUnavailable": total.desired - total.available,
        }
        old = owner.get("status") or {}
        if any(old.get(name, 0) != value for name, value in status.items()):
            self._sets.put(self._objects.patch(DAEMON_SETS, *key, {"status": status}, subresource="status"))


def _split(known: Known, revision: Revision) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return the pods that stay, by node: those of older templates, and those of the newest."""
    old: dict[str, Json] = {}
    new: dict[str, Json] = {}
    for name, pods in known.pods.items():
        for pod in pods.values():
            if not is_terminating(pod):
                (new if _hash(pod) == revision.hash else old)[name] = pod
    return old, new


def _hash(pod: Json) -> str:
    return labels_of(pod).get(HASH, "")


def _suit_alike(old: Json, new: Json) -> bool:
    """Whether two states of a node are equal in all that decides which sets have a pod there."""
    if labels_of(old) != labels_of(new):
        return False
    return bool((old.get("spec") or {}).get("taints") == (new.get("spec") or {}).get("taints"))


def _surge(owner: Json, size: int) -> int:
    strategy = owner["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return 0
    return scale_int_or_percent((strategy.get("rollingUpdate") or {}).get("maxSurge", 0), size, up=True)


def _age(pod: Json) -> tuple[bool, str, str]:
    return not node_of(pod), pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]
