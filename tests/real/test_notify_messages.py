"""Messages of NotifyMaintenances: two replicas of which one ends in the middle, mail, and the scheduler's alert gate."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.rig.api import LEASES, Json
from tests.rig.fleet import node_object
from tests.rig.notices import CLIENT, NMS, READY, VALIDATION, Inbox, Pika, condition, define, notice, status_of
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

LEASE = "a316e27f.nvidia.com"
TERMINATED = "maintenance.ngn2.nvidia.com/terminated"
UNDELIVERED = "haulout.dev/undelivered"


class Scene:
    """Maintenances of one namespace, each with a node of its own name, and what people do to them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.api, self.namespace = plane.api(), namespace
        self._plane = plane
        define(self.api)

    def node(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    def create(self, *names: str) -> None:
        self._plane.load([node_object(self.node(name)) for name in names])
        for name in names:
            self.api.create(NMS, notice(name, self.node(name), "mid"), self.namespace)

    def claim(self, name: str) -> None:
        body = {"metadata": {"labels": {"maintenance/mid": ""}}, "spec": {"unschedulable": True}}
        self.api.patch("nodes", self.node(name), body)

    def uncordon(self, name: str) -> None:
        self.api.patch("nodes", self.node(name), {"spec": {"unschedulable": None}})

    def annotate(self, name: str, key: str, value: str) -> None:
        self.api.patch(NMS, name, {"metadata": {"annotations": {key: value}}}, self.namespace)

    def delete(self, name: str) -> None:
        self.api.delete(NMS, name, self.namespace)

    def get(self, name: str) -> Json:
        return self.api.get(NMS, name, self.namespace)

    def annotations(self, name: str) -> Json:
        return dict(self.get(name)["metadata"].get("annotations", {}))

    def becomes(self, name: str, status: str) -> None:
        eventually(lambda: status_of(self.get(name)) == status, f"{name} is {status}")

    def started(self, *names: str) -> None:
        for name in names:
            self.becomes(name, "MaintenanceScheduled")
            self.claim(name)
        for name in names:
            self.becomes(name, "MaintenanceStarted")

    def is_terminal(self, name: str) -> bool:
        return TERMINATED in self.annotations(name)

    def is_gone(self, name: str) -> bool:
        return self.api.find(NMS, name, self.namespace) is None

    def entered_at(self, name: str, status: str) -> datetime:
        moves = self.get(name)["status"]["transitionTimestamps"]
        at = next(each["transitionTimestamp"] for each in moves if each["maintenanceStatus"] == status)
        return datetime.fromisoformat(at)

    def end(self, name: str) -> None:
        """Delete a maintenance, and give its node back."""
        self.delete(name)
        eventually(lambda: self.is_terminal(name), f"the end of {name} is marked")
        self.uncordon(name)
        eventually(lambda: self.is_gone(name), f"{name} is gone")

    def holder(self) -> str:
        lease = self.api.find(LEASES, LEASE, self.namespace) or {}
        return str(lease.get("spec", {}).get("holderIdentity", ""))


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_another_replica_goes_on_where_the_leader_ended(
    plane: ControlPlane, namespace: str, tmp_path: Path, ending: signal.Signals
) -> None:
    """In the middle of three messages: before a transition, after one, and before an end is marked."""
    scene, inbox = Scene(plane, namespace), Inbox()
    names = ("counting", "before", "after", "ended")
    with inbox.open() as url:
        config = {"slaPeriod": "10s", "notifications": {"webhook": {"url": url}}}
        first, second = (
            Pika(plane, tmp_path / user, namespace, config, user=user, flags=["--leader-elect"])
            for user in ("operator", "operator-b")
        )
        scene.create(*names)
        with first:
            eventually(lambda: scene.holder() != "", "the first leads")
            leader = scene.holder()
            with second:
                scene.started("after")
                scene.annotate("after", READY, "true")
                scene.becomes("after", "ObjectsDrained")
                scene.started("counting", "ended")
                inbox.unanswered = {"before", "after", "ended"}
                scene.claim("before")
                scene.annotate("after", CLIENT, "complete")
                scene.delete("ended")
                on_their_way = {("before", "SLAStarted"), ("after", "Validating"), ("ended", "MaintenanceCancelled")}
                eventually(lambda: {each[:2] for each in inbox.messages} >= on_their_way, "all are on their way")
                assert scene.holder() == leader
                inbox.unanswered = set()
                first.process.send(ending)
                first.process.wait()

                eventually(lambda: scene.holder() not in ("", leader), "the second leads", 60)
                scene.becomes("before", "MaintenanceStarted")
                scene.becomes("counting", "SLAExpired")
                deadline = datetime.fromisoformat(scene.get("counting")["status"]["slaExpires"])
                assert deadline - scene.entered_at("counting", "MaintenanceStarted") == timedelta(seconds=10)
                eventually(lambda: UNDELIVERED not in scene.annotations("after"), "it is delivered")
                for name in names:
                    scene.end(name)
    assert inbox.events("counting") == ["SLAStarted", "SLAExpired", "MaintenanceCancelled", "MaintenanceComplete"]
    assert inbox.events("before") == ["SLAStarted", "MaintenanceCancelled", "MaintenanceComplete"]
    assert inbox.events("after") == ["SLAStarted", "ObjectsDrained", "Validating", "MaintenanceComplete"]
    assert inbox.events("ended") == ["SLAStarted", "MaintenanceCancelled", "MaintenanceComplete"]
    # Those that were not answered, and no others.
    assert sorted(inbox.repeated()) == sorted(on_their_way)


class Postbox:
    """A mail server that keeps what it receives. `refuses`: it takes no mail for now. `refused`: how many mails it did not take."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refuses = False
        self.refused = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.refuses:
            self.refused += 1
            return "451 try again later"
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content, policy=default))
        return "250 taken"


def test_mail_goes_through_a_whole_life(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    scene, postbox = Scene(plane, namespace), Postbox()
    server = Controller(postbox, hostname="127.0.0.1", port=free_port())
    server.start()
    block = {
        "address": f"127.0.0.1:{server.port}",
        "from": "haulout@example.com",
        "to": ["a@example.com", "b@example.com"],
    }
    config = {"slaPeriod": "1s", "notifications": {"mail": block}}
    try:
        with Pika(plane, tmp_path, namespace, config):
            scene.create("a")
            scene.started("a")
            scene.becomes("a", "SLAExpired")
            postbox.refuses = True
            scene.annotate("a", READY, "true")
            eventually(lambda: postbox.refused > 1, "it is tried again")
            assert status_of(scene.get("a")) == "SLAExpired"
            postbox.refuses = False
            scene.becomes("a", "ObjectsDrained")
            scene.annotate("a", CLIENT, "complete")
            scene.becomes("a", "Validating")
            scene.annotate("a", VALIDATION, "failed")
            scene.becomes("a", "MaintenanceIncomplete")
            scene.end("a")
    finally:
        server.stop()
    verbs = ("started", "SLA expired", "objects drained", "validating", "incomplete", "completed")
    node = scene.node("a")
    assert [mail["Subject"] for mail in postbox.mails] == [f"Maintenance mid {verb} on [{node}]" for verb in verbs]
    assert {(mail["From"], mail["To"]) for mail in postbox.mails} == {
        ("haulout@example.com", "a@example.com, b@example.com")
    }
    events = [json.loads(mail.get_content())["event"] for mail in postbox.mails]
    assert events[2:] == ["ObjectsDrained", "Validating", "MaintenanceIncomplete", "MaintenanceComplete"]
    assert len({mail["Message-ID"] for mail in postbox.mails}) == len(verbs)


class Alerts:
    """A Prometheus that answers one query. `rows`: how many it returns; `queries`: what it was asked."""

    def __init__(self) -> None:
        self.rows = 1
        self.queries: list[str] = []

    def answer(self, body: bytes) -> bytes:
        self.queries += parse_qs(body.decode())["query"]
        result = [{"metric": {"alertname": "Down"}, "value": [0, "1"]}] * self.rows
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    @contextmanager
    def open(self) -> Iterator[str]:
        """Serve, and give the address."""
        alerts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                answer = alerts.answer(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200 if self.path == "/prometheus/api/v1/query" else 404)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/prometheus"
        finally:
            server.shutdown()
            server.server_close()


def test_alerts_of_a_prometheus_keep_planned_maintenances_from_starting(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    scene, alerts = Scene(plane, namespace), Alerts()

    def reason(name: str) -> str:
        return str(condition(scene.get(name), "schedulerDecision").get("reason"))

    with alerts.open() as url:
        query = 'ALERTS{alertstate="firing"} > 0'
        budgets = [{"name": "all", "maxUnavailable": 100}]
        match = {"namespaces": [namespace]}
        scheduler = {"enabled": True, "match": match, "budgets": budgets, "alertGate": {"url": url, "query": query}}
        with Pika(plane, tmp_path, namespace, {"slaPeriod": "1h", "operators": {"scheduler": scheduler}}):
            scene.create("planned", "urgent")
            scene.api.patch(NMS, "urgent", {"spec": {"maintenanceType": "unplanned"}}, namespace)
            eventually(lambda: reason("planned") == "AlertsFiring", "the alert keeps it")
            scene.becomes("urgent", "MaintenanceStarted")
            assert status_of(scene.get("planned")) == "MaintenanceScheduled"
            alerts.rows = 0
            scene.becomes("planned", "MaintenanceStarted")
    assert set(alerts.queries) == {query}
    # A gate that does not answer is closed.
    with Pika(plane, tmp_path, namespace, {"slaPeriod": "1h", "operators": {"scheduler": scheduler}}):
        scene.create("later")
        eventually(lambda: reason("later") == "AlertsFiring", "no answer keeps it")
