"""Unattended maintenances of a fleet, from creation to schedulable nodes: sampled at every event, with real Jobs."""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.real.profiles import Sampled, sampled
from tests.rig.api import Api, Json
from tests.rig.kwok import ENDS_AFTER, ENDS_AS, STOPS_AFTER, Kwok
from tests.rig.notices import JOBS, NMS, NotifyOperator, Workshop, condition, define, notice, status_of
from tests.rig.plane import ControlPlane
from tests.rig.recorded import Recorded, recorded
from tests.rig.rights import grant
from tests.rig.wait import PATIENCE, eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

# HAULOUT_CAMPAIGN=50/30 is the campaign that figures are about: so many maintenances over so many nodes.
COUNT, NODES = (int(each) for each in os.environ.get("HAULOUT_CAMPAIGN", "9/6").split("/"))
MANAGED, POOL, RACK = "haulout.test/managed", "haulout.test/pool", "haulout.test/rack"
MOST = {"gpu": max(2, NODES // 6), "cpu": max(2, NODES // 6)}
RACKS = 3
HMAC = b"signed"
LATE_BY = timedelta(seconds=30)
WAIT_FOR = PATIENCE + 5 * NODES


class Out(Sampled):
    """The nodes that are cordoned at every event, by pool and by rack. `first`: when each was cordoned first."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, tuple[str, str]] = {}
        self.first: dict[str, datetime] = {}
        self.most_of: Counter[str] = Counter()

    def take(self, event: dict[str, Any]) -> None:
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        meta, name = event["object"]["metadata"], event["object"]["metadata"]["name"]
        pool = meta["labels"][POOL]
        self._places[name] = (pool, f"{pool}/{meta['labels'][RACK]}")
        if event["object"]["spec"].get("unschedulable") and event["type"] != "DELETED":
            self.first.setdefault(name, datetime.now(UTC))
            self.inside.add(name)
        else:
            self.inside.discard(name)
        for place, count in Counter(place for each in self.inside for place in self._places[each]).items():
            self.most_of[place] = max(self.most_of[place], count)


class Unfinished(Exception):
    """Maintenances that are not done yet, each with what it waits for."""


class Campaign:
    """A fleet of two pools under load, and maintenances for each of its nodes."""

    def __init__(self, plane: ControlPlane, kwok: Kwok, prefix: str) -> None:
        self.plane, self.api, self.prefix, self.own = plane, plane.api(), prefix, f"{prefix}-own"
        self.names = [f"{prefix}-{number}" for number in range(NODES)]
        self.late = self.names[1]
        self.closed = self.names[2]
        self.halted = [self.names[number] for number in (3, 5)]
        self.late_until = datetime.now(UTC)
        define(self.api)
        self.api.create("namespaces", {"metadata": {"name": self.own}})
        kwok.nodes(prefix, NODES, labels={MANAGED: prefix})
        for number, name in enumerate(self.names):
            labels = {POOL: "gpu" if number % 2 == 0 else "cpu", RACK: f"r{number // 2 % RACKS}", "node": name}
            self.api.patch("nodes", name, {"metadata": {"labels": labels}})
        self._load()

    def _load(self) -> None:
        """Services under a PodDisruptionBudget on all nodes, and on those with GPUs runs that end by announced times."""
        labels, where = {"app": "web"}, {MANAGED: self.prefix}
        container = {"name": "c", "image": "x"}
        spec = {"nodeSelector": where, "containers": [container], "terminationGracePeriodSeconds": 5}
        template = {"metadata": {"labels": labels, "annotations": {STOPS_AFTER: "300ms"}}, "spec": spec}
        replicas = {"replicas": 2 * NODES, "selector": {"matchLabels": labels}, "template": template}
        self.api.create("apps/v1/deployments", {"metadata": {"name": "web"}, "spec": replicas}, self.prefix)
        budget = {"maxUnavailable": 2, "selector": {"matchLabels": labels}}
        self.api.create("policy/v1/poddisruptionbudgets", {"metadata": {"name": "web"}, "spec": budget}, self.prefix)
        for number, name in enumerate(self.names):
            if number % 2 == 0:
                self._train(f"train-{number}", name, 2 + number % 4)
        eventually(lambda: len(self._running()) >= 2 * NODES, "the fleet is under load")

    def _train(self, name: str, node: str, seconds: int) -> None:
        # A pod that a busy machine starts late is still running at the end that would be announced for it.
        ends_at = datetime.now(UTC) + timedelta(seconds=seconds) + LATE_BY
        notes = {"haulout.dev/expected-end": ends_at.strftime("%Y-%m-%dT%H:%M:%SZ"), ENDS_AFTER: f"{seconds}s"}
        container = {"name": "c", "image": "x"}
        spec = {"restartPolicy": "Never", "nodeName": node, "containers": [container]}
        template = {"metadata": {"labels": {"app": "train"}, "annotations": notes}, "spec": spec}
        self.api.create(JOBS, {"metadata": {"name": name}, "spec": {"template": template}}, self.prefix)

    def _running(self) -> list[Json]:
        return self.api.items("pods", self.prefix, fieldSelector="status.phase=Running")

    def config(self, url: str, *, is_open: bool) -> Json:
        """Return the configuration. The window of one node is closed, and a blackout holds for another for a while."""
        mine = f"{MANAGED}={self.prefix}"
        budgets = [
            {"name": pool, "nodeSelector": f"{mine},{POOL}={pool}", "maxUnavailable": most}
            for pool, most in MOST.items()
        ]
        budgets[0]["perTopology"] = {"key": RACK, "max": 1}
        days = [(datetime.now(UTC) + timedelta(days=number)).strftime("%a") for number in (3, 4)]
        closed = {"days": days, "start": "10:00", "end": "11:00", "nodeSelector": f"node={self.closed}"}
        until = self.late_until.strftime("%Y-%m-%dT%H:%M:%SZ")
        blackout = {"from": "2026-01-01T00:00:00Z", "to": until, "nodeSelector": f"node={self.late}"}
        match = {"namespaces": [self.prefix]}
        operators: dict[str, Json] = {
            "scheduler": {
                "budgets": budgets,
                "windows": [] if is_open else [closed],
                "blackouts": [blackout],
                "failureThreshold": 1,
            },
            "drainer": {"settle": "500ms"},
            "runner": {"defaultClient": "work", "recipes": [job("work"), hook(url)]},
            "validator": {"default": "works", "recipes": [job("works"), job("fails", "Failed")]},
            "returner": {},
        }
        blocks = {name: {"enabled": True, "match": match, **block} for name, block in operators.items()}
        return {"slaPeriod": "1h", "operators": blocks}

    def create(self) -> None:
        """Create all maintenances but those of a campaign that is to be halted: the first of them fails."""
        for number in range(COUNT):
            name, node, mid = f"m{number}", self.names[number % NODES], f"round{number // NODES}"
            if node in self.halted and number < NODES:
                continue
            labels = {"maintenance/maintenance-client": "hook"} if number % NODES % 4 == 0 else {}
            self.api.create(NMS, notice(name, node, mid, labels=labels), self.prefix)
        labels = {"haulout.dev/validation-client": "fails"}
        self.api.create(NMS, notice("bad0", self.halted[0], "bad", labels=labels), self.prefix)

    def halt(self) -> None:
        """See a failed validation halt its campaign: what is created then does not start."""
        eventually(lambda: self.state("bad0") == "MaintenanceIncomplete", "its validation fails", WAIT_FOR)
        self.api.create(NMS, notice("bad1", self.halted[1], "bad"), self.prefix)
        eventually(lambda: self.decision("bad1") == "FailureThreshold", "its campaign is halted", WAIT_FOR)

    def resume(self) -> None:
        """Give the failed maintenance up, and its node back: the campaign goes on. Meanwhile another run begins and ends."""
        self._train("late-1", self.names[0], 2)
        self.api.delete(NMS, "bad0", self.prefix)
        note = {"metadata": {"annotations": {"haulout.dev/force-return": "true"}}}
        self.api.patch("nodes", self.halted[0], note)

    def state(self, name: str) -> str:
        return status_of(self.api.get(NMS, name, self.prefix))

    def decision(self, name: str) -> str:
        return str(condition(self.api.get(NMS, name, self.prefix), "schedulerDecision").get("reason", ""))

    def left(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.api.items(NMS, self.prefix)]

    def is_down_to(self, names: set[str]) -> bool:
        """Whether only these maintenances are left; what becomes of the others is in the error of a test that waits for it."""
        found = {each["metadata"]["name"]: each for each in self.api.items(NMS, self.prefix)}
        more = {
            name: (
                status_of(body),
                condition(body, "schedulerDecision").get("reason"),
                condition(body, "drainProgress").get("message"),
            )
            for name, body in found.items()
            if name not in names
        }
        if more:
            raise Unfinished(more)
        return set(found) == names

    def waiting(self) -> set[str]:
        """Return the maintenances that do not start: of the node whose window is closed, and of the one whose work failed."""
        kept = (self.closed, self.halted[0])
        rest = {f"m{number}" for number in range(COUNT) if self.names[number % NODES] in kept}
        return {"bad0", "bad1", *rest} - {f"m{self.names.index(self.halted[0])}"}

    def marked(self) -> list[Json]:
        """Return the nodes that are not as they were before."""
        return [
            each
            for each in self.api.items("nodes", labelSelector=f"{MANAGED}={self.prefix}")
            if each["spec"].get("unschedulable")
            or any(key.startswith("maintenance/") for key in each["metadata"]["labels"])
            or any(key.startswith("haulout.dev/") for key in each["metadata"].get("annotations", {}))
        ]


def job(name: str, ends_as: str = "Succeeded") -> Json:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    meta = {"annotations": {ENDS_AFTER: "300ms", ENDS_AS: ends_as}}
    checks = {"checks": {"readyFor": "0s"}} if name != "work" else {}
    return {"name": name, "type": "job", "template": {"spec": {"template": {"metadata": meta, "spec": spec}}}, **checks}


def hook(url: str) -> Json:
    secret = {"name": "hook", "key": "hmac"}
    return {"name": "hook", "type": "webhook", "url": f"{url}/jobs", "hmacSecret": secret, "pollInterval": "1s"}


@pytest.fixture
def campaign(managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str) -> Campaign:
    return Campaign(managed_plane, managed_kwok, managed_namespace)


def most_on_a_node(seen: Recorded, namespace: str) -> int:
    """Return how many Jobs of recipes have run on one node at a time."""
    most = 0
    for objects in seen.replayed():
        running = [
            each["spec"]["template"]["spec"]["nodeName"]
            for (_, where, _), each in objects.items()
            if where == namespace and not each.get("status", {}).get("conditions")
        ]
        most = max(most, *Counter(running).values(), 0)
    return most


def secret(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "hook"}, "data": {"hmac": base64.b64encode(HMAC).decode()}}
    api.create("secrets", body, namespace)


@pytest.mark.timeout(900)
def test_a_fleet_is_maintained_without_hands(campaign: Campaign, tmp_path: Path) -> None:
    plane, own = campaign.plane, campaign.own
    secret(campaign.api, own)
    words = ("--notify-scheduler", "--notify-drainer", f"--notify-jobs={own}", f"--notify-secret={own}/hook")
    user = grant(plane, campaign.prefix, "kernel", "notify", "-n", own, *words).user
    workshop, out = Workshop(HMAC), Out()
    since = plane.audit.mark()
    everything = sampled(plane, f"{MANAGED}={campaign.prefix}", out), recorded(plane, [("Job", JOBS)])
    with workshop.open() as url, everything[0], everything[1] as seen:
        campaign.late_until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5)
        operator = NotifyOperator(plane, tmp_path, own, campaign.config(url, is_open=False), user=user)
        with operator:
            campaign.create()
            campaign.halt()
            operator.process.kill()
            operator.start()
            eventually(
                lambda: campaign.is_down_to(campaign.waiting()), "all others are done", WAIT_FOR, refused=(Unfinished,)
            )
            eventually(lambda: campaign.decision("m2") == "OutsideWindow", "one waits for its window")
            operator.write(json.dumps(campaign.config(url, is_open=True)))
            campaign.resume()
            eventually(lambda: not campaign.left(), "all are done", WAIT_FOR)
            eventually(lambda: not campaign.marked(), "all nodes are back")
            eventually(lambda: not campaign.api.items(JOBS, own), "no Job is left")
            evicted = operator.metric('nm_drain_pods_total{action="evict",result="evicted"}')
            assert evicted > 0
            operator.process.stop()
    entries = plane.audit.entries(since=since, user=user)
    done = [entry for entry in entries if entry.code < 300]
    evictions = Counter(entry.of for entry in done if entry.act == "create pods/eviction")
    jobs = Counter(entry.of for entry in done if entry.act == "create jobs")
    assert {pool: out.most_of[pool] <= most for pool, most in MOST.items()} == {"gpu": True, "cpu": True}
    assert max(out.most_of[f"gpu/r{number}"] for number in range(RACKS)) == 1
    assert out.first[campaign.late] >= campaign.late_until
    assert evictions.most_common(1)[0][1] == 1
    assert not [each for each in evictions if "/train-" in each]
    assert jobs.most_common(1)[0][1] == 1
    assert most_on_a_node(seen, own) == 1
    hooked = len(workshop.done)
    # Each step has been carried out once: every maintenance was worked on and validated.
    assert len(jobs) + hooked == 2 * COUNT
    assert (workshop.wrong, all(count >= 2 for count in workshop.calls.values())) == ([], True)
    assert not [entry for entry in entries if entry.code == 403]
    stored = campaign.api.get("configmaps", "nm-drain-history", own)["data"]["history.json"]
    assert f"{campaign.prefix}/Job/late" in stored
