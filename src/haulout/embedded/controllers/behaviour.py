"""The behaviour of simulated nodes and pods: defaults, annotations on one object, or a function of the caller."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct, field, structs

from haulout.base import duration
from haulout.embedded.controllers.object_fields import annotations_of, controller_of
from haulout.embedded.interfaces import Json

PREFIX = "simulate.haulout.dev/"
# An annotation of nodes: the kubelet of such a node is not simulated.
UNMANAGED = f"{PREFIX}unmanaged"
_CAPACITY = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "500Gi"}
_READ: Mapping[str, Callable[[str], timedelta | int]] = {
    "starts-after": duration.parse,
    "ready-after": duration.parse,
    "stops-after": duration.parse,
    "exits-after": duration.parse,
    "exit-code": int,
    "init-runs-for": duration.parse,
    "reboots-for": duration.parse,
}
# Environment variables of an init container that make it fail or take longer. They are for pods that the user does not
# create, such as those of packages.
RUNS_FOR, EXIT_CODE, MESSAGE = "SIMULATE_RUNS_FOR", "SIMULATE_EXIT_CODE", "SIMULATE_MESSAGE"


class PodBehaviour(Struct, frozen=True, kw_only=True):
    """How long a simulated pod takes to start, become ready and stop, and how it ends."""

    # The time from being bound to Running, and from Running to Ready.
    starts_after: timedelta = timedelta(seconds=2)
    ready_after: timedelta = timedelta()
    # The time from SIGTERM to the end; None: the pod takes its whole grace period and is killed.
    stops_after: timedelta | None = None
    # The time from Running to an exit by itself; None: it never exits.
    exits_after: timedelta | None = None
    exit_code: int = 0
    # How long each init container runs; None: they are not simulated, and the pod starts without them.
    init_runs_for: timedelta | None = timedelta(seconds=1)
    # The exit code of the last init container, and its termination message.
    init_exit_code: int = 0
    init_message: str = ""
    # How long the node is unreachable because the first init container reboots it; None: there is no reboot.
    reboots_for: timedelta | None = None

    def of_work(self, pod: Json, runs_for: timedelta, *, reboots: bool = False) -> PodBehaviour:
        """Return the behaviour of a pod whose init containers do its work and take `runs_for` together.

        `reboots`: the work is a reboot of the node, which is unreachable for that time. The other containers of the pod
        start and stop at once.
        """
        count = len(pod["spec"].get("initContainers") or ()) or 1
        return structs.replace(
            self,
            starts_after=timedelta(),
            stops_after=timedelta(),
            init_runs_for=timedelta() if reboots else runs_for / count,
            reboots_for=runs_for if reboots else None,
            # The pod of a Job ends with its work.
            exits_after=timedelta() if _of_job(pod) else self.exits_after,
        )


class InitRun(Struct, frozen=True):
    """How an init container runs: how long, its exit code and its termination message."""

    runs_for: timedelta
    exit_code: int = 0
    message: str = ""


class KubeletOptions(Struct, frozen=True, kw_only=True):
    """How the simulated kubelets behave: how pods run, when nodes become Ready, how often heartbeats come."""

    pod: PodBehaviour = PodBehaviour()
    # The behaviour of pods of Jobs that have no annotation of their own.
    job_pods_run_for: timedelta = timedelta(minutes=1)
    # How long a node takes to pull an image that it does not have. It pulls one after the other.
    pulls_for: timedelta = timedelta()
    node_ready_after: timedelta = timedelta(seconds=1)
    # The time from the end of a reboot until the kubelet reports the node as Ready.
    boot_ready_after: timedelta = timedelta()
    lease_every: timedelta = timedelta(seconds=10)
    status_every: timedelta = timedelta(minutes=5)
    kubelet_version: str = "v1.36.3"
    capacity: Mapping[str, str] = field(default_factory=lambda: dict(_CAPACITY))
    # Called with a pod and its behaviour by options and annotations. Returns the behaviour to use instead.
    behave: Callable[[Json, PodBehaviour], PodBehaviour] | None = None

    def of_pod(self, pod: Json) -> PodBehaviour:
        """Return the behaviour that a pod's annotations ask for.

        An example is `simulate.haulout.dev/stops-after: 5s`. An annotation that cannot be parsed is ignored, so that a
        bad pod does not stop the simulation.
        """
        behaviour = self.pod
        notes = annotations_of(pod)
        changes: dict[str, timedelta | int] = {}
        for name, read in _READ.items() if notes else ():
            if text := notes.get(PREFIX + name):
                with contextlib.suppress(ValueError):
                    changes[name.replace("-", "_")] = read(text)
        if "exits_after" not in changes and behaviour.exits_after is None and _of_job(pod):
            changes["exits_after"] = self.job_pods_run_for
        if changes:
            behaviour = structs.replace(behaviour, **changes)
        return self.behave(pod, behaviour) if self.behave else behaviour


def init_run(pod: Json, place: int, behaviour: PodBehaviour) -> InitRun:
    """Return how an init container runs: by the pod's behaviour, unless the container's own variables change it."""
    container, runs_for = pod["spec"]["initContainers"][place], behaviour.init_runs_for or timedelta()
    is_last = place + 1 == len(pod["spec"]["initContainers"])
    variables = {each.get("name"): str(each.get("value") or "") for each in container.get("env") or ()}
    code, message = (behaviour.init_exit_code, behaviour.init_message) if is_last else (0, "")
    with contextlib.suppress(ValueError):
        runs_for = duration.parse(variables[RUNS_FOR]) if variables.get(RUNS_FOR) else runs_for
    with contextlib.suppress(ValueError):
        code = int(variables[EXIT_CODE]) if variables.get(EXIT_CODE) else code
    return InitRun(runs_for, code, variables.get(MESSAGE) or message)


def is_managed(node: Json) -> bool:
    return UNMANAGED not in annotations_of(node)


def _of_job(pod: Json) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.get("kind") == "Job"
