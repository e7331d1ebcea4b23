"""Webhooks through the real API server: registered as printed, served with certificates of our own."""

from __future__ import annotations

import base64
import contextlib
import gc
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.app.webhooks import Certificates
from haulout.manifests.webhooks import certificate_secret
from haulout.serve import certificates
from haulout.serve.certificate_process import in_this_process
from haulout.serve.certificates import make_bundle
from haulout.serve.managed_certificate import SelfManagedCertificate
from haulout.serve.tls import Pair
from haulout.surfaces.nodemaintenance.admit import Quorum, webhook
from haulout.surfaces.nodemaintenance.declare import WEBHOOK
from haulout.surfaces.nodemaintenance.wire import API_VERSION, KIND
from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.hooks import Hooks
from tests.rig.operator import HAULOUT, Operator, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Process, Scratch, free_port
from tests.rig.rights import grant, printed
from tests.rig.wait import PATIENCE, eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

NMS = "nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
REGISTRATIONS = "admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
SECRET = "haulout-webhook-cert"


@pytest.fixture
def home(namespace: str) -> str:
    """The namespace that the operator runs in."""
    return namespace


@pytest.fixture
def operator(plane: ControlPlane, home: str) -> str:
    """A user with the rights of the printed roles."""
    return grant(plane, home, "kernel", "nodemaintenance", "-n", home, f"--lease-namespace={home}-leases").user


@pytest.fixture(scope="module")
def definition(plane: ControlPlane) -> Json:
    api, definitions = plane.api(), printed("crds", "kernel", "nodemaintenance")
    for each in definitions:
        if api.find(CRDS, each["metadata"]["name"]) is None:
            api.create(CRDS, each)
    [crd] = (each for each in definitions if each["spec"]["names"]["kind"] == KIND)
    eventually(lambda: plane.api().items(NMS) is not None, "NodeMaintenances are served", refused=(ApiError,))
    return crd


def hooks_of(plane: ControlPlane, operator: str, home: str, files: tuple[tuple[str, str], ...] = ()) -> Hooks:
    given = Certificates(files=files, own=not files, namespace=home, service="haulout-webhook", secret=SECRET)
    return Hooks(plane.kubeconfig(operator), (webhook(Quorum.NONE),), given)


@contextlib.contextmanager
def registered(api: Api, hooks: Hooks | Replica, bundle: bytes = b"") -> Iterator[str]:
    """Register the webhook as printed, and yield when the API server calls us."""
    [registration] = printed("webhooks", "nodemaintenance", "--url", hooks.url)
    if bundle:
        registration["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
    name = registration["metadata"]["name"]
    api.create(REGISTRATIONS, registration)
    try:
        eventually(lambda: "ghost found" in refusal(api, "ghost", "ghost"), "the webhook is asked")
        yield name
    finally:
        api.delete(REGISTRATIONS, name)


@pytest.fixture
def hooks(plane: ControlPlane, home: str, operator: str, definition: Json) -> Iterator[Hooks]:
    with hooks_of(plane, operator, home) as made, registered(plane.api(), made):
        yield made


def maintenance(name: str, node: str | None, **meta: Any) -> Json:
    body: Json = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name, **meta}}
    return body if node is None else {**body, "spec": {"nodeName": node}}


def refusal(api: Api, name: str, node: str | None, *, dry_run: bool = True) -> str:
    """Return the API server's refusal of a new NodeMaintenance; empty if it is accepted."""
    query = {"dryRun": "All"} if dry_run else {}
    try:
        api.request("POST", f"/apis/{NMS}", maintenance(name, node), query=query)
    except ApiError as error:
        return f"{error.code} {error.message}"
    return ""


def denied(message: str, code: int = 403) -> str:
    return f'{code} admission webhook "{WEBHOOK.name}" denied the request: {message}'


def bundle_of(api: Api, name: str) -> bytes:
    client = api.get(REGISTRATIONS, name)["webhooks"][0]["clientConfig"]
    return base64.b64decode(client.get("caBundle", ""))


def registration_name() -> str:
    [registration] = printed("webhooks", "nodemaintenance", "--url", "https://x")
    return str(registration["metadata"]["name"])


def test_rules_in_the_originals_words(plane: ControlPlane, hooks: Hooks, prefix: str) -> None:
    api = plane.api()
    node, other = f"{prefix}-a", f"{prefix}-b"
    for name in (node, other):
        api.create("nodes", {"metadata": {"name": name}})
    for nobody in ("", None):
        assert refusal(api, f"{prefix}-x", nobody) == denied("invalid nodeName, no node with name  found")
    assert refusal(api, f"{prefix}-x", "../secrets") == denied("invalid nodeName, no node with name ../secrets found")

    first = api.create(NMS, maintenance(f"{prefix}-1", node, finalizers=["foregroundDeleteNodeMaintenance"]))
    exists = denied(f"invalid nodeName, a NodeMaintenance for node {node} already exists")
    eventually(lambda: refusal(api, f"{prefix}-2", node) == exists, "a second one is refused")
    api.delete(NMS, f"{prefix}-1")
    assert refusal(api, f"{prefix}-2", node) == exists
    assert refusal(api, f"{prefix}-2", other) == ""

    with pytest.raises(ApiError, match=r"updating spec\.NodeName isn't allowed") as refused:
        api.patch(NMS, first["metadata"]["name"], {"spec": {"nodeName": other}})
    assert refused.value.code == 422
    assert api.patch(NMS, f"{prefix}-1", {"spec": {"reason": "why not"}})["spec"]["reason"] == "why not"
    # The one write that ends a maintenance is an update as well.
    api.patch(NMS, f"{prefix}-1", {"metadata": {"finalizers": None}})
    assert api.find(NMS, f"{prefix}-1") is None


def test_nobody_is_refused_for_what_was_true_a_moment_ago(plane: ControlPlane, hooks: Hooks, prefix: str) -> None:
    api = plane.api()
    for number in range(30):
        name = f"{prefix}-{number}"
        api.create("nodes", {"metadata": {"name": name}})
        assert refusal(api, name, name, dry_run=False) == ""
        api.delete(NMS, name)
        assert refusal(api, name, name, dry_run=False) == ""


def test_taking_the_last_schedulable_node_is_accepted_with_a_warning(
    plane: ControlPlane, hooks: Hooks, prefix: str
) -> None:
    plane.api().create("nodes", {"metadata": {"name": prefix}})
    manifest = yaml.safe_dump(maintenance(prefix, prefix))
    taint = {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}
    for node in plane.api().items("nodes"):
        if node["metadata"]["name"] != prefix:
            plane.api().patch("nodes", node["metadata"]["name"], taint)

    def warned() -> bool:
        done = plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=manifest)
        return f"Warning: no schedulable node is left beside {prefix}" in done.stderr

    eventually(warned, "kubectl shows the warning")


def test_without_the_webhook_the_definition_keeps_the_node_and_shows_it(
    plane: ControlPlane, definition: Json, namespace: str
) -> None:
    api = plane.api()
    api.create(NMS, maintenance(f"{namespace}-1", "somewhere"))
    api.create(NMS, maintenance(f"{namespace}-2", None))
    for name, spec in ((f"{namespace}-1", {"nodeName": "else"}), (f"{namespace}-2", {"nodeName": "else"})):
        with pytest.raises(ApiError, match=r"updating spec\.NodeName isn't allowed"):
            api.patch(NMS, name, {"spec": spec})
    with pytest.raises(ApiError, match=r"updating spec\.NodeName isn't allowed"):
        api.patch(NMS, f"{namespace}-1", {"spec": None})
    api.patch(NMS, f"{namespace}-2", {"spec": {"nodeName": ""}})
    with pytest.raises(ApiError, match=r"spec.nodeName: Required value"):
        api.create(NMS, {**maintenance(f"{namespace}-3", None), "spec": {}})
    status = {"phase": "Running", "drainProgress": 50, "evictionPods": 2, "pendingPods": ["db-0"]}
    api.patch(NMS, f"{namespace}-1", {"status": status}, sub="status")
    lines = plane.kubectl("get", "nm", f"{namespace}-1").stdout.splitlines()
    assert lines[0].split() == ["NAME", "NODE", "PHASE", "PROGRESS", "PODS", "REASON", "AGE"]
    assert lines[1].split()[:5] == [f"{namespace}-1", "somewhere", "Running", "50", "2"]


def test_what_is_undone_is_put_right(plane: ControlPlane, hooks: Hooks, home: str) -> None:
    api, name = plane.api(), registration_name()
    first = bundle_of(api, name)
    removal = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    api.patch(REGISTRATIONS, name, removal, kind="json")
    eventually(lambda: bundle_of(api, name) == first, "the authority is registered again")
    api.delete("secrets", SECRET, home)
    api.create("secrets", certificate_secret(home, SECRET), home)
    eventually(lambda: bundle_of(api, name) not in (b"", first), "a new authority is registered")
    eventually(lambda: refusal(api, "x", "ghost") == denied("invalid nodeName, no node with name ghost found"), "asked")


def test_replicas_share_one_certificate(plane: ControlPlane, home: str, operator: str, definition: Json) -> None:
    replicas = [hooks_of(plane, operator, home) for _ in range(3)]
    with contextlib.ExitStack() as stack:
        for replica in replicas:
            stack.enter_context(replica)
        stored = plane.api().get("secrets", SECRET, home)
        authority = base64.b64decode(stored["data"]["ca.crt"])
        served = set()
        for replica in replicas:
            with registered(plane.api(), replica):
                served.add(replica.handshake(authority))
    assert stored["type"] == "Opaque"
    assert len(served) == 1


def test_the_webhook_server_of_the_tests_ends_while_the_api_server_is_busy(
    plane: ControlPlane, home: str, operator: str, definition: Json
) -> None:
    """And leaves no socket open, which would be held against whatever test is next."""
    with contextlib.ExitStack() as ending, hooks_of(plane, operator, home):
        plane.apiserver.freeze()
        ending.callback(plane.apiserver.thaw)
    gc.collect()


def test_certificates_and_authorities_change_without_an_unanswered_review(
    plane: ControlPlane, home: str, operator: str, definition: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New ones every few seconds; every new connection and every review in between is answered.

    Nothing ends meanwhile: a machine that is busy for a while is late, and must not find an old certificate expired.
    """
    hour = timedelta(hours=1)
    for name, span in (
        ("AUTHORITY_FOR", hour),
        ("RENEW_AUTHORITY_BEFORE", hour - timedelta(seconds=10)),
        ("SERVING_FOR", hour),
        ("RENEW_SERVING_BEFORE", hour - timedelta(seconds=1)),
        # Within it the API server has to learn of the new authority.
        ("AUTHORITY_KNOWN_AFTER", timedelta(seconds=8)),
    ):
        monkeypatch.setattr(certificates, name, span)
    # Another process would not have these spans.
    defaults = SelfManagedCertificate.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "libraries", in_this_process)
    api, answers, seen = plane.api(), Counter[str](), set[bytes]()
    authorities = set[bytes]()
    with hooks_of(plane, operator, home) as hooks, registered(api, hooks) as name:
        ends = time.monotonic() + PATIENCE
        while len(seen) < 4 or len(authorities) < 4:
            assert time.monotonic() < ends, (len(seen), len(authorities))
            answers[refusal(api, "x", "ghost")] += 1
            bundle = bundle_of(api, name)
            authorities.add(bundle)
            seen.add(hooks.handshake(bundle))
            time.sleep(0.05)
    assert list(answers) == [denied("invalid nodeName, no node with name ghost found")]


REVIEW: Json = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u", "operation": "CREATE", "object": {"spec": {"nodeName": "ghost"}}},
}


def test_hostile_reviews_are_refused_and_change_nothing(plane: ControlPlane, hooks: Hooks) -> None:
    def post(body: Any, **headers: str) -> int:
        return hooks.post(WEBHOOK.path, body, **headers)[0]

    assert post(b"") == post(b"{") == post({}) == post(b"[" * 100_000) == 400
    assert post({**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}) == post({**REVIEW, "request": None}) == 400
    assert post(REVIEW, **{"Content-Type": "text/plain"}) == 400
    assert post(b'{"request":' * 100_000) == 400
    assert post(b" " * (8 * 2**20)) == 413
    assert hooks.post(WEBHOOK.path, b"", method="GET")[0] == 405
    assert hooks.post("/", REVIEW)[0] == 404
    code, said = hooks.post(WEBHOOK.path, {**REVIEW, "request": {**REVIEW["request"], "object": {"spec": []}}})
    assert (code, said["response"]["allowed"], said["response"]["status"]["code"]) == (200, False, 400)

    code, said = hooks.post(WEBHOOK.path, REVIEW)
    assert (code, said["response"]["uid"]) == (200, "u")
    assert said["response"]["status"]["message"] == "invalid nodeName, no node with name ghost found"


def test_mounted_certificates_are_used_and_followed_and_the_registration_left_alone(
    plane: ControlPlane, home: str, operator: str, definition: Json, tmp_path: Path
) -> None:
    api, now = plane.api(), datetime.now(UTC)
    first, second = make_bundle(["127.0.0.1"], now), make_bundle(["127.0.0.1"], now)
    files = (str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    write(files, first.serving)
    trusted = first.authorities + second.authorities
    with hooks_of(plane, operator, home, (files,)) as hooks, registered(api, hooks, trusted) as name:
        before = hooks.handshake(trusted)
        write(files, second.serving)
        eventually(lambda: hooks.handshake(trusted) != before, "the new certificate is served")
        assert refusal(api, "x", "ghost") == denied("invalid nodeName, no node with name ghost found")
        assert bundle_of(api, name) == trusted
    assert "data" not in api.get("secrets", SECRET, home)


def write(files: tuple[str, str], pair: Pair) -> None:
    Path(files[0]).write_bytes(pair.certificate)
    Path(files[1]).write_bytes(pair.key)


def test_metrics_are_for_those_who_may_get_them(plane: ControlPlane, home: str, definition: Json) -> None:
    """Only the drop-in reviews tokens, by rights that the original's role has."""
    reader = plane.limited_user([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
    other = plane.limited_user([])
    with hooks_of(plane, "operator", home) as hooks, registered(plane.api(), hooks):
        eventually(lambda: hooks.scrape(plane.token(reader))[0] != 403, "the role binds")
        code, text = hooks.scrape(plane.token(reader))
        assert (code, "controller_runtime_webhook_requests_total" in text) == (200, True)
        assert [hooks.scrape(token)[0] for token in ("", "nonsense", plane.token(other))] == [401, 401, 403]


class Replica(Operator):
    """`haulout run` with NodeMaintenances, or the drop-in; webhooks on a port of their own."""

    def __init__(self, directory: Path, name: str, argv: list[str], kubeconfig: Path, **more: str) -> None:
        super().__init__(directory, "")
        self.webhook_port = free_port()
        self.url = f"https://127.0.0.1:{self.webhook_port}"
        ports = {
            "PORT": str(self.port),
            "HEALTH": str(self.health_port),
            "WEBHOOKS": str(self.webhook_port),
        }
        words = [word.format(**ports) for word in argv]
        # TMPDIR: what others have mounted on this machine is not ours.
        env = environment(KUBECONFIG=str(kubeconfig), TMPDIR=str(directory), **more)
        self.process = Process(name, [str(HAULOUT), *words], directory, env=env, cwd=directory)


PLATFORM = [
    "run",
    "--surfaces=nodemaintenance",
    "--listen-http=127.0.0.1:{PORT}",
    "--listen-health=127.0.0.1:{HEALTH}",
    "--listen-webhooks=127.0.0.1:{WEBHOOKS}",
]
DROP_IN = [
    "as",
    "node-maintenance-operator",
    "--zap-devel=false",
    "--metrics-bind-address=127.0.0.1:{PORT}",
    "--health-probe-bind-address=127.0.0.1:{HEALTH}",
    "--listen-webhooks=127.0.0.1:{WEBHOOKS}",
]


def test_every_replica_serves_and_the_printed_roles_are_enough_for_a_maintenance(
    plane: ControlPlane, home: str, operator: str, definition: Json, scratch: Scratch
) -> None:
    api, kubeconfig = plane.api(), plane.kubeconfig(operator)
    argv = [*PLATFORM, f"--namespace={home}"]
    leases = {"HAULOUT_SURFACES__NODEMAINTENANCE__LEASE_NAMESPACE": f"{home}-leases"}
    replicas = [Replica(scratch.directory(f"{home}-{name}"), name, argv, kubeconfig, **leases) for name in ("a", "b")]
    with replicas[0], replicas[1]:
        for replica in replicas:
            eventually(lambda at=replica: ready(at), "ready")  # type: ignore[misc]
            with registered(api, replica):
                assert refusal(api, "x", None) == denied("invalid nodeName, no node with name  found")
        with registered(api, replicas[0]):
            api.create("nodes", {"metadata": {"name": home}})
            api.create(NMS, maintenance(home, home))
            eventually(lambda: phase(api, home) == "Succeeded", "the maintenance succeeds")
            api.delete(NMS, home)
            eventually(lambda: api.find(NMS, home) is None, "the maintenance ends")
    assert not [line for replica in replicas for line in forbidden(replica)]


def test_the_drop_in_makes_its_own_certificate_where_none_is_mounted(
    plane: ControlPlane, definition: Json, scratch: Scratch, prefix: str
) -> None:
    api = plane.api()
    # Outside of a pod its namespace is that of the kubeconfig.
    api.delete("secrets", SECRET, "default")
    directory = scratch.directory(f"{prefix}-drop-in")
    try:
        with Replica(directory, "drop-in", DROP_IN, plane.kubeconfig("operator")) as replica, registered(api, replica):
            assert refusal(api, "x", "ghost") == denied("invalid nodeName, no node with name ghost found")
    finally:
        api.delete("secrets", SECRET, "default")


def ready(replica: Replica) -> bool:
    return replica._get(replica.health_port, "/readyz") == (200, "ok")


def phase(api: Api, name: str) -> str:
    return str(api.get(NMS, name).get("status", {}).get("phase", ""))


def forbidden(replica: Replica) -> list[str]:
    return [line for line in replica.process.text().splitlines() if "forbidden" in line.lower()]
