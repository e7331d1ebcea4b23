"""Each drop-in under exactly the role that its original publishes: fresh, restarted, its certificate lost and renewed."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.profiles import GO, PROFILE, STATE, label_of, roll_config
from tests.real.test_packages_fleet import SKYHOOKS, P
from tests.real.test_packages_fleet import define as define_packages
from tests.rig.api import ApiError, Json
from tests.rig.fleet import pod_object
from tests.rig.kwok import Kwok
from tests.rig.maintenances import LEASE_NAMESPACE, NMS, ends, maintenance, succeeds
from tests.rig.maintenances import define as define_maintenances
from tests.rig.notices import NMS as NOTICES
from tests.rig.notices import define as define_notices
from tests.rig.notices import notice, status_of
from tests.rig.operator import HAULOUT, JSON_LOG, Operator, environment
from tests.rig.original_roles import (
    MAINTENANCE_CONTROLLER,
    NODE_MAINTENANCE,
    PIKA,
    SKYHOOK,
    OriginalRole,
    grant_original,
)
from tests.rig.plane import ControlPlane
from tests.rig.process import Process, free_port
from tests.rig.rights import printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

HOOKS = {
    kind: f"admissionregistration.k8s.io/v1/{kind.lower()}s"
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
}


class DropIn(Operator):
    """A drop-in as a process of its own. `words`: its name and flags. `hooks`: the port of its webhooks."""

    def __init__(
        self, plane: ControlPlane, folder: Path, role: OriginalRole, ns: str, *words: str, **variables: str
    ) -> None:
        super().__init__(folder, "")
        self.plane, self.api, self.ns, self.user = plane, plane.api(), ns, grant_original(plane, role, ns)
        self._words, self._folder, self._starts = words, folder, 0
        self._variables = {"KUBECONFIG": str(plane.kubeconfig(self.user)), **variables}
        self._since = plane.audit.mark()
        self.hooks: list[Json] = []

    def begin(self, *, listens: Callable[[], object] = lambda: None) -> None:
        """Start it, for the first time or anew, and wait until it is ready."""
        listens()
        self._starts += 1
        words = [word.format(http=self.port, health=self.health_port) for word in self._words]
        variables = {
            name: each.format(http=self.port, health=self.health_port) for name, each in self._variables.items()
        }
        argv = [str(HAULOUT), "as", *words]
        self.process = Process(
            f"start-{self._starts}", argv, self._folder, env=environment(**variables), cwd=self._folder
        )
        self.start()
        eventually(lambda: self.readiness()[0] == 200, "it is ready")

    def restart(self) -> None:
        self.process.stop()
        self.begin()

    def register(self, surface: str, url: str) -> None:
        """Register its webhooks as the chart or the manifests of the original do, by an address in place of a Service."""
        # The original of a Skyhook knows nothing of NodeWrights, and its role nothing of their webhooks.
        documents = printed("webhooks", surface, "--url", url)
        self.hooks = [each for each in documents if not each["metadata"]["name"].startswith("nodewright-")]
        for each in self.hooks:
            self.api.create(HOOKS[each["kind"]], each)

    def bundles(self) -> set[bytes]:
        found = (self.api.get(HOOKS[each["kind"]], each["metadata"]["name"]) for each in self.hooks)
        return {
            base64.b64decode(hook["clientConfig"].get("caBundle", "")) for each in found for hook in each["webhooks"]
        }

    def registers_anew(self, change: Callable[[], object]) -> None:
        """Make a change, and wait until other authorities are registered and it is ready."""
        before = self.bundles()
        change()
        eventually(lambda: not self.bundles() & before, "other authorities are registered")
        eventually(lambda: self.readiness()[0] == 200, "it is ready again")

    def refusals(self) -> set[str]:
        """Return the requests that the API server has refused to this user."""
        entries = self.plane.audit.entries(since=self._since, user=self.user)
        return {entry.act for entry in entries if entry.code == 403}

    def repetitions(self) -> list[str]:
        """Return what one start has logged more than once about a right that it lacks: the message and the kind."""
        logs = self._folder.glob("start-*")
        counts = (Counter(map(_subject, filter(_is_about_rights, log.read_text().splitlines()))) for log in logs)
        return [subject for count in counts for subject, number in count.items() if number > 1]

    def end(self) -> None:
        self.process.stop()
        for each in self.hooks:
            self.api.delete(HOOKS[each["kind"]], each["metadata"]["name"])


def _is_about_rights(line: str) -> bool:
    return "forbidden" in line


def _subject(line: str) -> str:
    """Return the message of a log line and the kind that it is about."""
    fields = json.loads(line)
    about = fields.get("kind") or fields.get("about") or fields.get("object") or ""
    return f"{fields['msg']}: {re.split('[ /]', about)[0]}"


def admitted(make: Callable[[], object]) -> None:
    eventually(make, "it is admitted", refused=(ApiError,), within=30)


def waits_for_port(port: int) -> Callable[[], object]:
    """Return a function that waits until a fixed port of an original is free on this machine."""

    def is_free() -> bool:
        with socket.socket() as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                own.bind(("", port))
            except OSError:
                return False
        return True

    return lambda: eventually(is_free, f"port {port} is free")


@pytest.fixture
def node(managed_plane: ControlPlane, managed_kwok: Kwok, prefix: str) -> Iterator[str]:
    [name] = managed_kwok.nodes(prefix, 1, labels={"original": prefix})
    yield name
    managed_plane.wipe(prefix)


@pytest.fixture
def home(managed_plane: ControlPlane, prefix: str) -> str:
    managed_plane.api().create("namespaces", {"metadata": {"name": prefix}})
    return prefix


def test_skyhook_operator(managed_plane: ControlPlane, node: str, home: str, tmp_path: Path) -> None:
    api = managed_plane.api()
    define_packages(api)
    variables = {
        "METRICS_PORT": ":{http}",
        "PROBE_PORT": ":{health}",
        "LEADER_ELECTION": "true",
        "LOG_LEVEL": "info",
        "ENABLE_WEBHOOKS": "true",
        "NAMESPACE": home,
    }
    operator = DropIn(managed_plane, tmp_path, SKYHOOK, home, "skyhook-operator", **variables)
    operator.register("packages", "https://127.0.0.1:9443")

    def body(name: str, **more: object) -> Json:
        spec: Json = {"nodeSelectors": {"matchLabels": {"original": home}}, "packages": {}, **more}
        return {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}

    def rolls(name: str) -> None:
        packages = {"base": {"version": "1.0.0", "image": "reg.test/base", "interrupt": {"type": "noop"}}}
        admitted(lambda: api.create(SKYHOOKS, body(name, packages=packages)))
        eventually(lambda: api.get(SKYHOOKS, name).get("status", {}).get("status") == "complete", f"{name} is complete")
        with pytest.raises(ApiError, match="not found"):
            api.create(SKYHOOKS, body(f"{name}-x", deploymentPolicy="none"))

    operator.begin(listens=waits_for_port(9443))
    rolls(f"{home}-1")
    operator.restart()
    rolls(f"{home}-2")
    operator.registers_anew(lambda: api.delete("secrets", "webhook-cert", home))
    rolls(f"{home}-3")
    soon = {"metadata": {"annotations": {f"{P}expiration": "2020-01-01T00:00:00Z"}}}
    operator.registers_anew(lambda: api.patch("secrets", "webhook-cert", soon, home))
    rolls(f"{home}-4")
    for number in range(1, 5):
        api.delete(SKYHOOKS, f"{home}-{number}")
    eventually(lambda: not [each for each in api.items(SKYHOOKS) if home in each["metadata"]["name"]], "all are gone")
    operator.end()
    # Only Haulout reads budgets and DaemonSets. Without them it tries evictions, as the original does.
    unread = {f"{verb} {kind}" for verb in ("list", "watch") for kind in ("daemonsets", "poddisruptionbudgets")}
    # The original's role knows nothing of NodeWrights, their policies and Jobs, nor of the registrations of their webhooks.
    later = {f"{verb} {kind}" for verb in ("list", "watch") for kind in ("nodewrights", "deploymentpolicies", "jobs")}
    registrations = {f"get {kind}webhookconfigurations" for kind in ("mutating", "validating")}
    assert (operator.refusals(), operator.repetitions()) == (unread | later | registrations, [])


def test_node_maintenance_operator(managed_plane: ControlPlane, node: str, home: str, tmp_path: Path) -> None:
    api = managed_plane.api()
    define_maintenances(api)
    words = (
        *("node-maintenance-operator", "--health-probe-bind-address=:{health}"),
        *("--metrics-bind-address=0", "--listen-webhooks=0", *JSON_LOG),
    )
    operator = DropIn(managed_plane, tmp_path, NODE_MAINTENANCE, home, *words, LEASE_NAMESPACE=LEASE_NAMESPACE)
    api.create("pods", pod_object("web", home, node=node), home)
    operator.begin()
    for name in (f"{home}-1", f"{home}-2"):
        api.create(NMS, maintenance(name, node))
        succeeds(api, name)
        operator.restart()
        ends(api, name)
    operator.end()
    # The role does not allow to delete the Lease of a node. It is emptied instead, once that is known.
    assert operator.refusals() == {"create events", "delete leases"}
    assert operator.repetitions() == []


def test_maintenance_controller(managed_plane: ControlPlane, node: str, home: str, tmp_path: Path) -> None:
    api = managed_plane.api()
    words = ("maintenance-controller", "--metrics-addr=:{http}", "--health-addr=:{health}", *JSON_LOG)
    operator = DropIn(managed_plane, tmp_path, MAINTENANCE_CONTROLLER, home, *words)
    operator.write(roll_config(1, profile=home))
    operator.begin()
    for _ in range(2):
        api.patch("nodes", node, {"metadata": {"labels": {PROFILE: home, GO: "true"}}})
        eventually(lambda: label_of(api.get("nodes", node), GO) is None, "the node has been maintained")
        eventually(lambda: label_of(api.get("nodes", node), STATE) == "operational", "it is operational")
        operator.restart()
    operator.end()
    assert (operator.refusals(), operator.repetitions()) == (set(), [])


def test_pika(managed_plane: ControlPlane, node: str, home: str, tmp_path: Path) -> None:
    api, port = managed_plane.api(), free_port()
    define_notices(api)
    # The original does not create its Secret.
    api.create("secrets", {"metadata": {"name": "pika-server-cert"}}, home)
    (tmp_path / "notify.yaml").write_text("slaPeriod: 8h\n")
    words = (
        *("pika", "--leader-elect", f"--config={tmp_path}/notify.yaml", f"--cert-dir={tmp_path}/certs"),
        *("--health-probe-bind-address=:{health}", "--metrics-port={http}", f"--listen-webhooks=:{port}", *JSON_LOG),
    )
    operator = DropIn(managed_plane, tmp_path, PIKA, home, *words, NAMESPACE=home)
    operator.register("notify", f"https://127.0.0.1:{port}")

    def scheduled(name: str) -> None:
        admitted(lambda: api.create(NOTICES, notice(name, node, name), home))
        eventually(lambda: status_of(api.get(NOTICES, name, home)), f"{name} has a status")
        with pytest.raises(ApiError, match="ghost"):
            api.create(NOTICES, notice("x", "ghost", "x"), home)
        api.delete(NOTICES, name, home)
        eventually(lambda: api.find(NOTICES, name, home) is None, f"{name} is gone")

    operator.begin()
    scheduled("a")
    operator.restart()
    scheduled("b")
    lost: Json = {"data": {"ca.crt": None, "ca.key": None, "tls.crt": None, "tls.key": None}}
    operator.registers_anew(lambda: api.patch("secrets", "pika-server-cert", lost, home))
    scheduled("c")
    operator.end()
    # Only Haulout makes events about NotifyMaintenances and their nodes.
    assert (operator.refusals(), operator.repetitions()) == ({"create events"}, [])
