"""The containers of all simulated nodes: they start, become ready, crash, exit, stop and restart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from haulout.base.bounds import span
from haulout.embedded.controllers import podstatus
from haulout.embedded.controllers.behaviour import InitRun, KubeletOptions, init_run
from haulout.embedded.controllers.object_fields import (
    Key,
    has_ended,
    instant,
    is_ready,
    is_terminating,
    key_of,
    node_of,
    phase_of,
    timestamp,
)
from haulout.embedded.controllers.tables import Pods
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import PODS
from haulout.kube.errors import Conflict, NotFound

_FIRST_BACKOFF, _LAST_BACKOFF = timedelta(seconds=10), timedelta(minutes=5)
_KILLED, _LOST = 137, 255


class _Run:
    """The run of one pod on its node. `stops_at` is set once the kubelet has asked the pod to stop."""

    __slots__ = ("cancels", "crashes", "stops_at", "uid")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.cancels: list[Callable[[], None]] = []
        self.stops_at: datetime | None = None
        self.crashes = 0


class Containers:
    """The simulated container runtime of all nodes: it starts, stops and ends their pods.

    `is_up` says whether the kubelet of a node, by name, is running, and `reboot` reboots it. The runtime follows pods by
    the pod table.
    """

    def __init__(
        self,
        objects: Objects,
        timers: Timers,
        pods: Pods,
        options: KubeletOptions,
        is_up: Callable[[str], bool],
        *,
        reboot: Callable[[str, timedelta], None] = lambda node, down_for: None,
        brief: bool = False,
    ) -> None:
        self._objects = objects
        self._timers = timers
        self._pods = pods
        self._options = options
        self._is_up = is_up
        self._reboot = reboot
        self._brief = brief
        # The pods that have rebooted their node, with their arguments. One that is created again does not reboot again.
        self._rebooted: set[tuple[Key, str]] = set()
        self._runs: dict[Key, _Run] = {}
        # When each image has been pulled, by node and name.
        self._images: dict[tuple[str, str], datetime] = {}
        self._addresses = 0
        pods.listen(self._on_pod)

    def _on_pod(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._forget(key)
            return
        run = self._runs.get(key)
        if run and not is_terminating(new):
            return
        node = node_of(new)
        if node and self._is_up(node):
            self._take(key, new, run)

    def _take(self, key: Key, pod: Json, run: _Run | None) -> None:
        if run is None:
            run = self._runs[key] = _Run(pod["metadata"]["uid"])
            if not is_terminating(pod):
                self._begin(key, pod, run)
        if is_terminating(pod):
            self._stop(key, pod, run)

    def _begin(self, key: Key, pod: Json, run: _Run) -> None:
        behaviour = self._options.of_pod(pod)
        if (limit := pod["spec"].get("activeDeadlineSeconds")) is not None and not has_ended(pod):
            self._later(run, span(int(limit)), lambda: self._overrun(key))
        match phase_of(pod):
            case "Pending" if pod["spec"].get("initContainers") and behaviour.init_runs_for is not None:
                self._later(run, behaviour.starts_after + self._pull(pod), lambda: self._initialize(key))
            case "Pending":
                self._later(run, behaviour.starts_after + self._pull(pod), lambda: self._start(key, restarted=False))
            case "Running" if behaviour.exits_after is not None:
                started = (pod.get("status") or {}).get("startTime")
                exits_at = (instant(started) if started else self._timers.now()) + behaviour.exits_after
                self._later(run, exits_at - self._timers.now(), lambda: self._exit(key, behaviour.exit_code))

    def _overrun(self, key: Key) -> None:
        """End a pod that was active for longer than its deadline."""
        pod, run = self._current(key)
        if pod is None or run is None or has_ended(pod):
            return
        self._cancel(run)
        text = "Pod was active on the node longer than the specified deadline"
        self._write(key, {"phase": "Failed", "reason": "DeadlineExceeded", "message": text})

    def _pull(self, pod: Json) -> timedelta:
        """Return how long a node takes until it has the images of a pod."""
        pulls_for, node = self._options.pulls_for, node_of(pod)
        if not pulls_for:
            return timedelta()
        now = ready_at = self._timers.now()
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            place = node, container.get("image") or ""
            ready_at = max(ready_at, self._images.setdefault(place, ready_at + pulls_for))
        return ready_at - now

    def _initialize(self, key: Key) -> None:
        """Run the init containers of a pod from the first one. A brief world only shows their end, if they succeed."""
        pod, run = self._current(key)
        if pod is None or run is None or has_ended(pod):
            return
        behaviour, containers = self._options.of_pod(pod), pod["spec"]["initContainers"]
        if behaviour.reboots_for is not None and self._reboots(key, containers[0]):
            self._show_running(key, pod, 0, restarted=False)
            self._later(run, timedelta(), lambda: self._reboot(node_of(pod), behaviour.reboots_for or timedelta()))
            return
        runs = [init_run(pod, place, behaviour) for place in range(len(containers))]
        if self._brief and not any(each.exit_code for each in runs):
            whole = sum((each.runs_for for each in runs), timedelta())
            self._later(run, whole, lambda: self._start(key, restarted=False, initialized_for=whole / len(runs)))
            return
        self._initialize_at(key, 0, restarted=podstatus.is_initializing(pod))

    def _reboots(self, key: Key, container: Json) -> bool:
        """Whether a pod reboots its node now. A pod that is created again for the same work does not reboot twice."""
        done = (key, repr(container.get("args")))
        if done in self._rebooted:
            return False
        self._rebooted.add(done)
        return True

    def _initialize_at(self, key: Key, place: int, *, restarted: bool) -> None:
        pod, run = self._current(key)
        if pod is None or run is None:
            return
        container, now = pod["spec"]["initContainers"][place], self._timers.now()
        self._show_running(key, pod, place, restarted=restarted)
        known = init_run(pod, place, self._options.of_pod(pod))
        wait = timedelta() if container.get("restartPolicy") == "Always" else known.runs_for
        self._later(run, wait, lambda: self._init_ended(key, place, known, now))

    def _show_running(self, key: Key, pod: Json, place: int, *, restarted: bool) -> None:
        running = {"running": {"startedAt": timestamp(self._timers.now())}}
        self._write(key, podstatus.initializing(pod, self._timers.now(), place, running, restarted=restarted))

    def _init_ended(self, key: Key, place: int, known: InitRun, began_at: datetime) -> None:
        pod, run = self._current(key)
        if pod is None or run is None:
            return
        now, containers = self._timers.now(), pod["spec"]["initContainers"]
        if containers[place].get("restartPolicy") != "Always":
            end = podstatus.ended_state(began_at, now, known.exit_code, known.message)
            status = podstatus.initializing(pod, now, place, {"terminated": end})
            if known.exit_code:
                self._init_failed(key, place, run, status, end)
                return
            self._write(key, status)
        if place + 1 < len(containers):
            self._initialize_at(key, place + 1, restarted=False)
        else:
            self._start(key, restarted=False)

    def _init_failed(self, key: Key, place: int, run: _Run, status: Json, end: Json) -> None:
        pod = self._objects.get(PODS, *key)
        assert pod is not None
        if pod["spec"].get("restartPolicy") == "Never":
            self._write(key, {**status, "phase": "Failed"})
            return
        run.crashes += 1
        wait = min(_FIRST_BACKOFF * 2 ** min(run.crashes - 1, 10), _LAST_BACKOFF)
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        self._write(key, podstatus.initializing(pod, self._timers.now(), place, waiting, last=end))
        self._later(run, wait, lambda: self._initialize_at(key, place, restarted=True))

    def _start(self, key: Key, *, restarted: bool, initialized_for: timedelta | None = None) -> None:
        pod, run = self._current(key)
        if pod is None or run is None or has_ended(pod):
            return
        behaviour, now = self._options.of_pod(pod), self._timers.now()
        ready = not behaviour.ready_after
        if "podIP" not in (pod.get("status") or {}):
            self._addresses += 1
        address = f"10.{self._addresses >> 16 & 255}.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        status = podstatus.running(pod, now, ready=ready, restarted=restarted, ip=address)
        if initialized_for is not None:
            status["initContainerStatuses"] = podstatus.init_statuses(pod, now, initialized_for)
        self._write(key, status)
        if not ready:
            self._later(run, behaviour.ready_after, lambda: self._make_ready(key))
        if behaviour.exits_after is not None:
            self._later(run, behaviour.exits_after, lambda: self._exit(key, behaviour.exit_code))

    def _make_ready(self, key: Key) -> None:
        pod, _ = self._current(key)
        if pod and phase_of(pod) == "Running":
            self._write(key, podstatus.running(pod, self._timers.now(), ready=True))

    def _exit(self, key: Key, code: int) -> None:
        """Apply the restart policy to containers that have ended by themselves."""
        pod, run = self._current(key)
        if pod is None or run is None or has_ended(pod):
            return
        self._cancel(run)
        policy, now = pod["spec"].get("restartPolicy") or "Always", self._timers.now()
        if policy == "Never" or (policy == "OnFailure" and not code):
            self._write(key, podstatus.final_status(pod, now, code))
            return
        run.crashes += 1
        wait = min(_FIRST_BACKOFF * 2 ** min(run.crashes - 1, 10), _LAST_BACKOFF)
        self._write(key, podstatus.waiting(pod, now, "CrashLoopBackOff", code))
        self._later(run, wait, lambda: self._start(key, restarted=True))

    def _stop(self, key: Key, pod: Json, run: _Run) -> None:
        """Stop a pod that is being deleted. A pod that has never run, or has ended, is removed at once."""
        metadata = pod["metadata"]
        grace = span(int(metadata.get("deletionGracePeriodSeconds") or 0))
        lasts = self._options.of_pod(pod).stops_after
        if lasts is None and _only_pauses(pod):
            lasts = timedelta()
        stops_at = instant(metadata["deletionTimestamp"]) - grace + (grace if lasts is None else min(lasts, grace))
        if phase_of(pod) != "Running" and not podstatus.is_initializing(pod):
            stops_at = self._timers.now()
        if run.stops_at is not None and run.stops_at <= stops_at:
            return
        run.stops_at = stops_at
        self._cancel(run)
        # A pod whose init containers have not ended has failed, however gently they end.
        is_killed = lasts is None or lasts > grace or podstatus.is_initializing(pod)
        code = _KILLED if is_killed else 0
        self._later(run, stops_at - self._timers.now(), lambda: self._finish(key, code))

    def _finish(self, key: Key, code: int) -> None:
        pod, _ = self._current(key)
        if pod is None:
            return
        # A pod with a finalizer stays, so that its status can be read.
        if not has_ended(pod) and not (self._brief and not pod["metadata"].get("finalizers")):
            self._write(key, podstatus.final_status(pod, self._timers.now(), code))
        with suppress(NotFound, Conflict):
            self._objects.delete(PODS, *key, uid=pod["metadata"]["uid"], grace=0)
        self._pods.refresh(key)

    def node_down(self, name: str, *, announced: bool) -> None:
        """Stop managing the node's pods. If the shutdown is `announced`, ready pods are first reported as not ready."""
        for pod in self._pods.on_node(name):
            key = key_of(pod)
            if announced and phase_of(pod) == "Running" and is_ready(pod):
                self._write(key, podstatus.unready(pod, self._timers.now()))
            self._forget(key)

    def node_up(self, name: str, *, rebooted: bool) -> None:
        for pod in self._pods.on_node(name):
            key = key_of(pod)
            self._forget(key)
            run = self._runs[key] = _Run(pod["metadata"]["uid"])
            if is_terminating(pod) and rebooted:
                self._later(run, timedelta(), lambda key=key: self._finish(key, _KILLED))  # type: ignore[misc]
            elif is_terminating(pod):
                self._stop(key, pod, run)
            elif phase_of(pod) == "Running" and rebooted:
                self._restart(key, pod, run)
            else:
                self._begin(key, pod, run)
                if phase_of(pod) == "Running":
                    self._make_ready(key)

    def _restart(self, key: Key, pod: Json, run: _Run) -> None:
        if (pod["spec"].get("restartPolicy") or "Always") == "Never":
            self._write(key, podstatus.final_status(pod, self._timers.now(), _LOST))
            return
        if is_ready(pod):
            self._write(key, podstatus.unready(pod, self._timers.now()))
        starts_after = self._options.of_pod(pod).starts_after
        self._later(run, starts_after, lambda: self._start(key, restarted=True))

    def _current(self, key: Key) -> tuple[Json | None, _Run | None]:
        run, pod = self._runs.get(key), self._objects.get(PODS, *key)
        if run is None or pod is None or pod["metadata"]["uid"] != run.uid:
            return None, None
        return pod, run

    def _write(self, key: Key, status: Json) -> None:
        try:
            self._pods.put(self._objects.patch(PODS, *key, {"status": status}, subresource="status"))
        except NotFound:
            self._forget(key)

    def _later(self, run: _Run, wait: timedelta, act: Callable[[], None]) -> None:
        run.cancels.append(self._timers.at(self._timers.now() + wait, act))

    def _cancel(self, run: _Run) -> None:
        for cancel in run.cancels:
            cancel()
        run.cancels.clear()

    def _forget(self, key: Key) -> None:
        if run := self._runs.pop(key, None):
            self._cancel(run)


def _only_pauses(pod: Json) -> bool:
    """Whether all containers of a pod are the pause container of Kubernetes, which ends at once when it is asked to."""
    images = [str(each.get("image") or "") for each in pod["spec"].get("containers") or ()]
    return all(image.rpartition("/")[2].partition(":")[0] == "pause" for image in images)
