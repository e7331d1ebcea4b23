"""All simulated controllers of an embedded cluster, wired together, and the failures that a caller can inject."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, get_args

from msgspec import Struct

from haulout.embedded.controllers.behaviour import KubeletOptions
from haulout.embedded.controllers.daemonset import DaemonSets
from haulout.embedded.controllers.deployment import Deployments
from haulout.embedded.controllers.disruption_budgets import DisruptionBudgets
from haulout.embedded.controllers.garbage_collector import GarbageCollector
from haulout.embedded.controllers.generated_names import Names
from haulout.embedded.controllers.job import Jobs
from haulout.embedded.controllers.kubelet import Kubelets
from haulout.embedded.controllers.nodelifecycle import LifecycleOptions, NodeLifecycle
from haulout.embedded.controllers.pod_collector import PodCollector
from haulout.embedded.controllers.replicaset import ReplicaSets
from haulout.embedded.controllers.scheduler import Scheduler
from haulout.embedded.controllers.statefulset import StatefulSets
from haulout.embedded.controllers.tables import Owned, Pods, Table
from haulout.embedded.controllers.tainteviction import TaintEviction
from haulout.embedded.interfaces import Objects, Resource, Timers
from haulout.embedded.resources import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    LEASES,
    NODES,
    REPLICA_SETS,
    STATEFUL_SETS,
)

Actor = Literal[
    "scheduler",
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "job",
    "pdb",
    "gc",
    "podgc",
    "nodelifecycle",
    "tainteviction",
    "kubelet",
]
ALL: tuple[Actor, ...] = get_args(Actor)


class ActorOptions(Struct, frozen=True, kw_only=True):
    """Which controllers an embedded cluster simulates, and how they behave.

    `actors`: the controllers that run.
    `seed`: generated names and UIDs follow from it.
    `heartbeats`: whether kubelets renew leases; without them `NodeLifecycle` is told when a node falls silent.
    `brief`: controllers leave out what only a client would see: the statuses of Deployments and ReplicaSets, the
    last status of a pod that its kubelet removes at the same instant, a node with one of two taints that come at the
    same instant. With a brief `Server` as well, 7 of the 18 writes for a pod that moves are left.
    A rollout waits for these statuses, so that in a brief world the templates of Deployments must not be changed.
    """

    actors: tuple[Actor, ...] = ALL
    seed: int = 0
    heartbeats: bool = True
    brief: bool = False
    kubelet: KubeletOptions = KubeletOptions()
    lifecycle: LifecycleOptions = LifecycleOptions()


class Actors:
    """All simulated controllers, the scheduler and the kubelets of an embedded cluster.

    They do nothing before `start`. After it they react to changes of objects and to timers.
    """

    def __init__(self, objects: Objects, timers: Timers, options: ActorOptions | None = None) -> None:
        options = options or ActorOptions()
        self._objects = objects
        self._timers = timers
        self._options = options
        self._names = Names(options.seed)
        self._pods = Pods(objects)
        self._nodes = Table(objects, NODES)
        self._tables: list[Table] = [self._nodes]
        self._collector: GarbageCollector | None = None
        self._kubelets: Kubelets | None = None
        self._wire(frozenset(options.actors))

    def start(self) -> None:
        """Read all existing objects, owners before the objects that they own, and begin to react to changes."""
        for table in (*self._tables, self._pods):
            table.start()
        if self._collector:
            self._collector.start()

    def kill_kubelet(self, node: str) -> None:
        self._kubelet().kill(node)

    def revive_kubelet(self, node: str) -> None:
        self._kubelet().revive(node)

    def reboot(
        self, node: str, down_for: timedelta, *, announced: bool = True, kubelet_version: str | None = None
    ) -> None:
        self._kubelet().reboot(node, down_for, announced=announced, kubelet_version=kubelet_version)

    def _kubelet(self) -> Kubelets:
        if self._kubelets is None:
            raise RuntimeError("no kubelets are simulated")
        return self._kubelets

    def _wire(self, chosen: frozenset[str]) -> None:
        objects, timers, pods, nodes = self._objects, self._timers, self._pods, self._nodes
        sets, revisions = self._owned(REPLICA_SETS), self._owned(CONTROLLER_REVISIONS)
        deployments, stateful, daemons = (self._table(one) for one in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS))
        jobs, budgets = self._table(JOBS), self._table(DISRUPTION_BUDGETS)
        brief = self._options.brief
        lifecycle = self._lifecycle() if "nodelifecycle" in chosen else None
        if "kubelet" in chosen:
            options, beat = self._options.kubelet, self._options.heartbeats
            self._kubelets = Kubelets(
                objects, timers, self._names, pods, nodes, options, heartbeats=beat, hearing=lifecycle, brief=brief
            )
        if "tainteviction" in chosen:
            TaintEviction(objects, timers, pods, nodes)
        if "podgc" in chosen:
            PodCollector(objects, timers, pods, nodes)
        if "scheduler" in chosen:
            Scheduler(objects, timers, pods, nodes)
        if "deployment" in chosen:
            Deployments(objects, timers, deployments, sets, pods, brief=brief)
        if "replicaset" in chosen:
            ReplicaSets(objects, timers, self._names, pods, sets, brief=brief)
        if "statefulset" in chosen:
            StatefulSets(objects, timers, self._names, pods, stateful, revisions)
        if "daemonset" in chosen:
            DaemonSets(objects, timers, self._names, pods, nodes, daemons, revisions)
        if "job" in chosen:
            Jobs(objects, timers, self._names, pods, jobs)
        if "pdb" in chosen:
            scalable = {("apps", "ReplicaSet"): sets, ("apps", "StatefulSet"): stateful}
            DisruptionBudgets(objects, timers, pods, budgets, {**scalable, ("apps", "Deployment"): deployments})
        if "gc" in chosen:
            self._collector = GarbageCollector(objects, timers)

    def _lifecycle(self) -> NodeLifecycle:
        leases = self._table(LEASES) if self._options.heartbeats else None
        options, brief = self._options.lifecycle, self._options.brief
        return NodeLifecycle(self._objects, self._timers, self._pods, self._nodes, leases, options, brief=brief)

    def _table(self, resource: Resource) -> Table:
        table = Table(self._objects, resource)
        self._tables.append(table)
        return table

    def _owned(self, resource: Resource) -> Owned:
        table = Owned(self._objects, resource)
        self._tables.append(table)
        return table
