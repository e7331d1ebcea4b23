"""Notifications through the whole process: what they cost, and peers that are slow or refuse."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from haulout.base.clock import SystemClock
from haulout.clients.slack import Threads
from haulout.kube.config import load as load_endpoint
from haulout.kube.http import HttpTransport
from haulout.kube.writer import Writer
from haulout.plugins.messages import Thread
from tests.build.clock import ManualClock
from tests.real.profiles import DATA, GO, PROFILE, STATE, entries_of, label_of, states
from tests.rig.api import LEASES, Api, Json
from tests.rig.fleet import node_object
from tests.rig.loops import abort_connections
from tests.rig.operator import MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.receiver import Receiver
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

MESSAGE = "{{ .Node.Name }} {{ .State }} {{ .Node.Labels.who }}"


def config(url: str, profile: str, chain: str, *, requeue: str = "1s") -> str:
    names = ("good", "bad", "slow")
    notify = "".join(
        f'\n  - {{type: slack, name: {name}, config: {{hook: "{url}/{name}", channel: c, message: "{MESSAGE}"}},'
        f" schedule: {{type: periodic, config: {{interval: 1h}}}}}}"
        for name in names
    )
    return f"""
intervals: {{requeue: {requeue}}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}, value: "true"}}}}
  notify:{notify}
  trigger:
  - {{type: alterLabel, name: done, config: {{key: {GO}, remove: true}}}}
  - {{type: alterLabel, name: sign, config: {{key: who, value: us}}}}
profiles:
- name: {profile}
  operational: {{notify: "{chain}", transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{notify: "{chain}", enter: sign, transitions: [{{check: go, next: in-maintenance}}]}}
  in-maintenance: {{notify: "{chain}", transitions: [{{check: go, trigger: done, next: operational}}]}}
"""


def test_a_maintenance_with_notifications_costs_one_get_and_one_patch_more_each(
    plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    hook, node, api = Receiver(), f"{prefix}-n", plane.api()
    with hook.open() as url, MaintenanceController(plane, tmp_path, config(url, prefix, "good")).process:
        plane.load([node_object(node, labels={PROFILE: prefix})])
        eventually(lambda: states(api, node) == {node: "operational"}, "attached")
        since = plane.audit.mark()
        api.patch("nodes", node, {"metadata": {"labels": {GO: "true"}}})
        eventually(lambda: len(hook.texts("/good")) == 3, "told of three changes")
        eventually(lambda: entries_of(api.get("nodes", node))[prefix]["Previous"] == "operational", "stored")
        asked = Counter(
            entry.act
            for entry in plane.audit.entries(since=since, user="operator")
            if entry.what == "nodes" and entry.of == node
        )
    # The message shows what is done on entering, although that is stored only with its delivery.
    assert hook.texts("/good") == [
        f"{node} maintenance-required us",
        f"{node} in-maintenance us",
        f"{node} operational us",
    ]
    # A delivery is stored with the transition that follows at once; the way into maintenance has to be granted first.
    assert asked == {"patch nodes": 5, "get nodes": 3}
    plane.wipe(prefix)


def delivered(api: Api, node: str) -> Json:
    """Return the notifications that are stored as delivered, with their times."""
    found: Json = json.loads(api.get("nodes", node)["metadata"]["annotations"].get(DATA, "{}")).get("Notifications", {})
    return found


def test_a_slow_peer_and_one_that_refuses_keep_nobody_else(plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    hook, api = Receiver(), plane.api()
    hook.refuses, hook.slow = {"/bad"}, {"/slow": 3600}
    node, other, third = f"{prefix}-bad", f"{prefix}-slow", f"{prefix}-good"
    with hook.open() as url:
        text = config(url, f"{prefix}-b", "good && bad")
        for profile, chain in ((f"{prefix}-s", "slow"), (f"{prefix}-g", "good")):
            text += config(url, profile, chain).partition("profiles:\n")[2]
        with MaintenanceController(plane, tmp_path, text).process:
            labels = {node: f"{prefix}-b", other: f"{prefix}-s", third: f"{prefix}-g"}
            plane.load([node_object(name, labels={PROFILE: profile, GO: "true"}) for name, profile in labels.items()])
            eventually(lambda: label_of(api.get("nodes", third), GO) is None, "the others go on")
            eventually(lambda: len(hook.texts("/bad", node)) >= 4, "tried again")
            # What was delivered before the one that is refused goes out once.
            assert len(hook.texts("/good", node)) == 1
            eventually(lambda: len(hook.texts("/slow", other)) == 1, "the slow one is asked")
            eventually(
                lambda: {label_of(api.get("nodes", name), STATE) for name in (node, other)} == {"maintenance-required"},
                "both wait",
            )
            eventually(lambda: delivered(api, node).get("good", "") > "2020", "the delivery is stored")
            hook.refuses = set()
            eventually(lambda: label_of(api.get("nodes", node), GO) is None, "once it is taken, it goes on")
    plane.wipe(prefix)


async def test_threads_share_a_lease_of_the_real_server(plane: ControlPlane, prefix: str) -> None:
    hook, clock = Receiver(), ManualClock(SystemClock().now())
    transport = HttpTransport(load_endpoint(path=str(plane.kubeconfig("operator"))), SystemClock())
    thread = Thread("t", "c", "title", "reply", f"{prefix}-thread", "default", timedelta(minutes=1))
    try:
        with hook.open() as url:
            threads = Threads(Writer(transport), clock, f"{url}/api/")
            await threads.reply(thread)
            await threads.reply(thread)
            clock.move_to(clock.now() + timedelta(minutes=2))
            await threads.reply(thread)
    finally:
        await transport.close()
        await abort_connections()
    under = [b"thread_ts" in form for form in hook.forms]
    assert under == [False, True, True, False, True]
    lease = plane.api().get(LEASES, f"{prefix}-thread", "default")
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("4.0", 60)
    plane.wipe(prefix)
