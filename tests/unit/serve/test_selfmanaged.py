"""The Secret that replicas share, and the authority where the webhooks are registered."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from msgspec import Struct

from haulout.core.admission import ALLOWED, Webhook
from haulout.embedded import InProcessTransport, Json, Resource
from haulout.kube.transport import JSON, Reply
from haulout.model.meta import wire_time
from haulout.serve.bundle import FormName
from haulout.serve.certificate_process import in_this_process
from haulout.serve.certificates import AUTHORITY_FOR, names_of, signed_by
from haulout.serve.managed_certificate import SelfManagedCertificate
from haulout.serve.registrations import CERTIFICATE_ENDS, Foreign, Registrations
from haulout.serve.tls import Pair, ServerIdentity
from tests.build.apiserver import World
from tests.build.clock import ManualClock
from tests.build.fakeapi import refusal
from tests.build.rows import START

NAMESPACE, SECRET = "haulout-system", "haulout-webhook-cert"
REGISTRATIONS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
SECRETS = Resource("", "v1", "secrets")
HOOK = "vnodemaintenance.kb.io"
# How the Secret is created: by server-side apply, and where a role or a server does not know that, by a POST.
APPLIED, POSTED = f"PATCH {SECRET}", "POST secrets"


OWN = FormName("haulout.serve.secret_form:OwnForm")


def skyhook(service: str) -> FormName:
    return FormName("haulout.serve.skyhook_secret:SkyhookForm", (service, 2048), strict=True)


class Wire(InProcessTransport):
    """A transport that counts requests, and refuses those that a role does not allow."""

    def __init__(self, world: World) -> None:
        super().__init__(world.api)
        self.asked: list[str] = []
        self.forbidden: set[str] = set()
        self.before: Callable[[str], Awaitable[None]] | None = None

    async def request(self, method: str, path: str, **more: Any) -> Reply:
        act = f"{method} {path.rsplit('/', 1)[-1]}"
        self.asked.append(act)
        if act in self.forbidden:
            raise refusal(403, "Forbidden")
        if self.before is not None:
            await self.before(act)
        return await super().request(method, path, **{"accept": JSON, **more})


def hook(registration: str, *, mutates: bool = False, rules: tuple[Json, ...] = ()) -> Webhook:
    return Webhook(HOOK, "/validate", lambda request, view: ALLOWED, Struct, registration, mutates, rules)


class Replica:
    def __init__(
        self,
        world: World,
        clock: ManualClock,
        *registrations: str,
        form: FormName | None = None,
        updates: bool = False,
        identity: ServerIdentity | None = None,
    ) -> None:
        self.identity = identity or ServerIdentity()
        self.wire = Wire(world)
        self.keeper = SelfManagedCertificate(
            self.identity,
            self.wire,
            clock,
            namespace=NAMESPACE,
            secret=SECRET,
            registrations=Registrations(
                self.wire, [hook(name) for name in registrations or ("ours",)], updates=updates
            ),
            names=["haulout-webhook.haulout-system.svc"],
            form=form or OWN,
            libraries=in_this_process,
            sleep=self._nap,
        )

    async def _nap(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)

    def writes(self) -> list[str]:
        return [act for act in self.wire.asked if not act.startswith("GET")]


@pytest.fixture
def world() -> World:
    made = World()
    made.server.create(Resource("", "v1", "namespaces"), {"metadata": {"name": NAMESPACE}})
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def registration(name: str, *hooks: str, annotations: dict[str, str] | None = None, url: str = "") -> Json:
    service = {"name": "nmo-webhook-service", "namespace": "nmo", "path": "/validate"}
    client = {"url": url} if url else {"service": service}
    webhooks = [
        {"name": hook, "clientConfig": dict(client), "sideEffects": "None", "admissionReviewVersions": ["v1"]}
        for hook in hooks
    ]
    return {"metadata": {"name": name, "annotations": annotations or {}}, "webhooks": webhooks}


def found(world: World, resource: Resource, namespace: str, name: str) -> Json:
    read = world.server.get(resource, namespace, name)
    assert read is not None
    return read


def registered(world: World, name: str, number: int = 0) -> bytes:
    webhooks = found(world, REGISTRATIONS, "", name)["webhooks"]
    return base64.b64decode(webhooks[number]["clientConfig"].get("caBundle", ""))


def stored(world: World, name: str) -> bytes:
    return base64.b64decode(found(world, SECRETS, NAMESPACE, SECRET)["data"][name])


@asynccontextmanager
async def running(replica: Replica) -> AsyncIterator[None]:
    task = asyncio.create_task(replica.keeper.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another's store
            await asyncio.sleep(0.01)


async def test_the_first_replica_makes_it_and_registers_its_authority(world: World, clock: ManualClock) -> None:
    world.server.create(REGISTRATIONS, registration("ours", "a.another.io", HOOK))
    world.server.create(REGISTRATIONS, registration("theirs", HOOK))
    replica = Replica(world, clock)
    await replica.keeper.look()
    assert replica.identity.ready
    assert registered(world, "ours", 1) == stored(world, "ca.crt")
    assert registered(world, "ours", 0) == registered(world, "theirs") == b""
    assert found(world, SECRETS, NAMESPACE, SECRET)["type"] == "Opaque"
    assert replica.writes() == [APPLIED, "PATCH ours"]


@pytest.mark.parametrize("annotations", [{}, {"a.io/b": "c"}], ids=["the first annotation", "beside another"])
async def test_a_registration_says_when_the_certificate_ends(
    world: World, clock: ManualClock, annotations: dict[str, str]
) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK, annotations=annotations))
    replica = Replica(world, clock)
    for _ in range(2):
        await replica.keeper.look()
        ends_at = x509.load_pem_x509_certificate(stored(world, "tls.crt")).not_valid_after_utc
        written = found(world, REGISTRATIONS, "", "ours")["metadata"]["annotations"]
        assert written == {**annotations, CERTIFICATE_ENDS: wire_time(ends_at)}
        clock.move_to(clock.now() + timedelta(days=80))
        # The look that renews the certificate is followed by the one that the changed Secret asks for.
        await replica.keeper.look()


async def test_a_second_look_writes_nothing(world: World, clock: ManualClock) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock)
    await replica.keeper.look()
    replica.wire.asked.clear()
    await replica.keeper.look()
    assert replica.wire.asked == ["GET ours", f"GET {SECRET}"]


async def test_the_secret_of_an_installation_is_filled(
    world: World, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.create(SECRETS, {"metadata": {"name": SECRET, "namespace": NAMESPACE}})
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock)
    await replica.keeper.look()
    assert replica.writes() == [f"PUT {SECRET}", "PATCH ours"]
    assert registered(world, "ours") == stored(world, "ca.crt")
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


async def test_replicas_that_start_together_serve_the_same(world: World, clock: ManualClock) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replicas = [Replica(world, clock) for _ in range(5)]
    await asyncio.gather(*(replica.keeper.look() for replica in replicas))
    served = {replica.identity._pair.certificate for replica in replicas if replica.identity._pair}
    assert served == {stored(world, "tls.crt")}
    assert registered(world, "ours") == stored(world, "ca.crt")


async def test_the_certificate_has_the_names_by_which_the_webhooks_are_called(world: World, clock: ManualClock) -> None:
    world.server.create(REGISTRATIONS, registration("by-service", HOOK))
    world.server.create(REGISTRATIONS, registration("by-address", HOOK, url="https://127.0.0.1:9443/validate"))
    world.server.create(REGISTRATIONS, registration("v6", HOOK, url="https://[fd00:0::1]:9443/validate"))
    replica = Replica(world, clock, "by-service", "by-address", "v6")
    await replica.keeper.look()
    assert names_of(x509.load_pem_x509_certificate(stored(world, "tls.crt"))) == {
        "haulout-webhook.haulout-system.svc",
        "nmo-webhook-service.nmo.svc",
        "127.0.0.1",
        "fd00::1",
    }
    replica.wire.asked.clear()
    await replica.keeper.look()
    assert replica.writes() == []


async def test_configurations_of_the_original_under_other_names_are_found_by_their_label(
    world: World, clock: ManualClock
) -> None:
    """Its chart names them after the release, and its webhooks call our Service."""
    labels = {"example.org/webhook-config": "true"}
    for name, path in (("release-webhook", "/validate"), ("another", "/another")):
        made = registration(name, "renamed.example.org")
        made["metadata"]["labels"] = labels
        made["webhooks"][0]["clientConfig"]["service"]["path"] = path
        world.server.create(REGISTRATIONS, made)
    wire = Wire(world)
    foreign = Foreign("example.org/webhook-config", "nmo-webhook-service", "nmo")
    keeper = SelfManagedCertificate(
        ServerIdentity(),
        wire,
        clock,
        namespace=NAMESPACE,
        secret=SECRET,
        registrations=Registrations(wire, [hook("ours")], foreign=foreign),
        names=["haulout-webhook.haulout-system.svc"],
        form=OWN,
        libraries=in_this_process,
    )
    await keeper.look()
    assert registered(world, "release-webhook") == stored(world, "ca.crt")
    assert registered(world, "another") == b""
    wire.asked.clear()
    wire.forbidden = {"GET validatingwebhookconfigurations"}
    await keeper.look()
    assert not [act for act in wire.asked if not act.startswith("GET")]


async def test_a_lifetime_passes_without_a_moment_in_which_nobody_is_trusted(world: World, clock: ManualClock) -> None:
    """Two replicas that never look at the same time, over the life of an authority."""
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replicas = [Replica(world, clock), Replica(world, clock)]
    instant, seen = START, set()
    while instant < START + AUTHORITY_FOR:
        for replica in replicas:
            next_at = await replica.keeper.look()
            clock.move_to(clock.now() + timedelta(minutes=1))
        trusted = x509.load_pem_x509_certificates(registered(world, "ours"))
        seen.add(registered(world, "ours"))
        for replica in replicas:
            assert replica.identity._pair is not None
            served = x509.load_pem_x509_certificate(replica.identity._pair.certificate)
            assert served.not_valid_after_utc > clock.now()
            assert served.issuer in {authority.subject for authority in trusted}
        instant = next_at
        clock.move_to(instant + timedelta(seconds=1))
    # The first alone, both, the second alone.
    assert len(seen) == 3


async def test_what_cannot_be_used_is_made_anew_and_the_rest_of_the_secret_stays(
    world: World, clock: ManualClock
) -> None:
    world.server.create(
        SECRETS, {"metadata": {"name": SECRET, "namespace": NAMESPACE}, "data": {"tls.crt": "bm8=", "mine": "bWU="}}
    )
    replica = Replica(world, clock)
    await replica.keeper.look()
    assert replica.identity.ready
    assert stored(world, "mine") == b"me"


@pytest.mark.parametrize("form", [OWN, skyhook("webhooks")], ids=["own", "skyhook"])
async def test_what_a_wrong_clock_made_is_made_anew(world: World, clock: ManualClock, form: FormName) -> None:
    """The first replica started with a clock of next year. The clock of the API server is right."""
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    ahead = Replica(world, ManualClock(clock.now() + timedelta(days=200)), form=form)
    await ahead.keeper.look()
    replica = Replica(world, clock, form=form)
    await replica.keeper.look()
    serving = x509.load_pem_x509_certificate(stored(world, "tls.crt"))
    signers = [each for each in x509.load_pem_x509_certificates(registered(world, "ours")) if signed_by(serving, each)]
    assert [each.not_valid_before_utc <= clock.now() for each in (serving, *signers)] == [True, True]
    # The second look writes the new end to the registration, the third nothing.
    await replica.keeper.look()
    replica.wire.asked.clear()
    await replica.keeper.look()
    assert replica.writes() == []


@pytest.mark.parametrize(("forbidden", "creation"), [(set[str](), APPLIED), ({APPLIED}, POSTED)], ids=["apply", "post"])
async def test_a_lost_race_ends_with_what_the_winner_wrote(
    world: World, clock: ManualClock, forbidden: set[str], creation: str
) -> None:
    first, second = Replica(world, clock), Replica(world, clock)
    first.wire.forbidden = second.wire.forbidden = forbidden

    async def meanwhile(act: str) -> None:
        if act == creation:
            first.wire.before = None
            await second.keeper.look()

    first.wire.before = meanwhile
    await first.keeper.look()
    assert first.identity._pair == second.identity._pair
    assert first.wire.asked.count(creation) == 1


@pytest.mark.parametrize("annotation", ["cert-manager.io/inject-ca-from", "service.beta.openshift.io/inject-cabundle"])
async def test_a_registration_that_another_looks_after_is_left_alone(
    world: World, clock: ManualClock, annotation: str
) -> None:
    world.server.create(REGISTRATIONS, registration("theirs", HOOK, annotations={annotation: "x"}))
    replica = Replica(world, clock, "theirs")
    await replica.keeper.look()
    assert registered(world, "theirs") == b""


@pytest.mark.parametrize("acts", [{"GET ours"}, {"PATCH ours", "PUT ours"}], ids=["to read", "to write"])
async def test_without_the_right_to_register_it_still_serves(
    world: World, clock: ManualClock, acts: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock)
    replica.wire.forbidden = acts
    for _ in range(3):
        await replica.keeper.look()
    assert replica.identity.ready
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("allowed", ["PUT", "PATCH"])
async def test_a_registration_is_written_with_the_verb_that_the_role_allows(
    world: World, clock: ManualClock, caplog: pytest.LogCaptureFixture, updates: bool, allowed: str
) -> None:
    world.server.create(REGISTRATIONS, registration("ours", "a.another.io", HOOK, annotations={"a.io/b": "c"}))
    replica = Replica(world, clock, updates=updates)
    replica.wire.forbidden = {"PUT ours", "PATCH ours"} - {f"{allowed} ours"}
    await replica.keeper.look()
    assert registered(world, "ours", 1) == stored(world, "ca.crt")
    assert (registered(world, "ours", 0), replica.keeper.lack) == (b"", "")
    assert found(world, REGISTRATIONS, "", "ours")["metadata"]["annotations"]["a.io/b"] == "c"
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
    # The way that works is known now.
    world.server.patch(REGISTRATIONS, "", "ours", {"metadata": {"annotations": None}})
    replica.wire.asked.clear()
    await replica.keeper.look()
    assert replica.writes() == [f"{allowed} ours"]


async def test_an_update_does_not_undo_what_another_changes_meanwhile(world: World, clock: ManualClock) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock, updates=True)

    async def meanwhile(act: str) -> None:
        if act == "PUT ours":
            replica.wire.before = None
            world.server.patch(REGISTRATIONS, "", "ours", {"metadata": {"annotations": {"a.io/b": "c"}}})

    replica.wire.before = meanwhile
    await replica.keeper.look()
    assert (registered(world, "ours"), replica.keeper.lack) == (b"", "ours does not trust the webhooks' certificate")
    await replica.keeper.look()
    assert (registered(world, "ours"), replica.keeper.lack) == (stored(world, "ca.crt"), "")
    assert found(world, REGISTRATIONS, "", "ours")["metadata"]["annotations"]["a.io/b"] == "c"


@pytest.mark.parametrize("form", [OWN, skyhook("webhooks")], ids=["own", "skyhook"])
async def test_it_is_not_ready_while_the_registration_does_not_trust_its_certificate(
    world: World, clock: ManualClock, form: FormName
) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock, form=form)
    replica.wire.forbidden = {"PATCH ours", "PUT ours"}
    next_at = await replica.keeper.look()
    assert replica.keeper.lack == "ours does not trust the webhooks' certificate"
    # No watch tells when an administrator corrects the role.
    assert next_at <= clock.now() + timedelta(minutes=1)
    replica.wire.forbidden = set()
    await replica.keeper.look()
    assert replica.keeper.lack == ""


async def test_a_renewed_certificate_is_not_presented_before_it_is_trusted(world: World, clock: ManualClock) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock, form=skyhook("webhooks"))
    await replica.keeper.look()
    first = stored(world, "tls.crt")
    clock.move_to(START + timedelta(days=358, hours=1))
    replica.wire.forbidden = {"PATCH ours", "PUT ours"}
    await replica.keeper.look()
    assert stored(world, "tls.crt") != first
    assert (replica.identity.certificate, replica.keeper.lack) == (first, "")
    replica.wire.forbidden = set()
    await replica.keeper.look()
    assert (replica.identity.certificate, replica.keeper.lack) == (stored(world, "tls.crt"), "")


async def test_a_certificate_that_is_still_presented_stays_trusted_after_the_secret_was_lost(
    world: World, clock: ManualClock
) -> None:
    """The files of a mounted Secret change about a minute after the Secret."""

    class Mounted(ServerIdentity):
        is_late = False

        def use(self, pair: Pair) -> bool:
            return not self.is_late and super().use(pair)

    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    identity = Mounted()
    replica = Replica(world, clock, identity=identity)
    await replica.keeper.look()
    first = stored(world, "ca.crt")
    world.server.delete(SECRETS, NAMESPACE, SECRET)
    identity.is_late = True
    next_at = await replica.keeper.look()
    assert registered(world, "ours") == stored(world, "ca.crt") + first
    assert replica.keeper.lack == ""
    identity.is_late = False
    clock.move_to(next_at)
    for _ in range(2):
        await replica.keeper.look()
    assert (registered(world, "ours"), replica.keeper.lack) == (stored(world, "ca.crt"), "")


async def test_whatever_is_undone_is_put_right_at_once(world: World, clock: ManualClock) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock)
    async with running(replica):
        await until(lambda: registered(world, "ours") != b"")
        world.server.patch(REGISTRATIONS, "", "ours", {"webhooks": registration("ours", HOOK)["webhooks"]})
        await until(lambda: registered(world, "ours") != b"")
        before = stored(world, "tls.crt")
        world.server.delete(SECRETS, NAMESPACE, SECRET)
        await until(lambda: world.server.list(SECRETS) != [])
        await until(lambda: registered(world, "ours") == stored(world, "ca.crt"))
        assert stored(world, "tls.crt") != before


async def test_a_registration_that_comes_later_is_found(world: World, clock: ManualClock) -> None:
    replica = Replica(world, clock)
    async with running(replica):
        await until(lambda: replica.identity.ready)
        world.server.create(REGISTRATIONS, registration("ours", HOOK))
        await until(lambda: registered(world, "ours") != b"")


async def test_whoever_may_not_keep_it_says_so_once_and_goes_on_trying(
    world: World, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    replica = Replica(world, clock)
    replica.wire.forbidden = {APPLIED, POSTED}
    async with running(replica):
        await until(lambda: replica.wire.asked.count(POSTED) >= 3)
        assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
            "certificate cannot be kept"
        ]
        assert not replica.identity.ready
        replica.wire.forbidden = set()
        await until(lambda: replica.identity.ready)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(record)["error"] for record in caplog.records if record.levelname == "ERROR"]


async def test_a_missing_secret_that_may_not_be_created_is_reported_with_the_command_that_creates_it(
    world: World, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.create(REGISTRATIONS, registration("ours", HOOK))
    replica = Replica(world, clock)
    replica.wire.forbidden = {APPLIED, POSTED}
    async with running(replica):
        await until(lambda: errors(caplog) != [])
        world.server.create(SECRETS, {"metadata": {"name": SECRET, "namespace": NAMESPACE}})
        await until(lambda: registered(world, "ours") != b"")
    expected = (
        "Secret haulout-system/haulout-webhook-cert is missing, and this account has no right to create it: "
        "kubectl create secret generic haulout-webhook-cert -n haulout-system"
    )
    assert errors(caplog) == [expected]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"type": "kubernetes.io/service-account-token"},
            "has the type 'kubernetes.io/service-account-token', not Opaque",
        ),
        ({"immutable": True}, "is immutable, and no certificate can be stored in it"),
    ],
    ids=["a type of another meaning", "immutable"],
)
async def test_a_secret_that_a_thief_has_prepared_is_not_filled(
    world: World, clock: ManualClock, caplog: pytest.LogCaptureFixture, fields: Json, what: str
) -> None:
    account = {"kubernetes.io/service-account.name": "default"}
    world.server.create(
        SECRETS, {"metadata": {"name": SECRET, "namespace": NAMESPACE, "annotations": account}, **fields}
    )
    replica = Replica(world, clock)
    async with running(replica):
        await until(lambda: errors(caplog) != [])
    expected = (
        f"Secret haulout-system/haulout-webhook-cert {what}: "
        "kubectl delete secret haulout-webhook-cert -n haulout-system && "
        "kubectl create secret generic haulout-webhook-cert -n haulout-system"
    )
    assert errors(caplog) == [expected]
    assert (replica.writes(), found(world, SECRETS, NAMESPACE, SECRET).get("data")) == ([], None)


class TestAsTheSkyhookOperator:
    """The Secret of the original's form."""

    @pytest.fixture
    def replica(self, world: World, clock: ManualClock) -> Replica:
        # Keys of the real length take seconds to make.
        return Replica(world, clock, form=skyhook("webhook-service"))

    async def test_the_secret_says_when_it_ends(self, world: World, clock: ManualClock, replica: Replica) -> None:
        await replica.keeper.look()
        secret = found(world, SECRETS, NAMESPACE, SECRET)
        assert (secret["type"], sorted(secret["data"])) == ("Opaque", ["ca.crt", "tls.crt", "tls.key"])
        assert secret["metadata"]["annotations"] == {
            "skyhook.nvidia.com/expiration": wire_time(START + timedelta(days=365)),
            "skyhook.nvidia.com/service": "webhook-service",
        }
        authority = x509.load_pem_x509_certificate(stored(world, "ca.crt"))
        assert authority.subject.rfc4514_string() == "CN=webhooks-ca,O=NVIDIA"
        assert names_of(x509.load_pem_x509_certificate(stored(world, "tls.crt"))) == {
            "haulout-webhook.haulout-system.svc"
        }

    async def test_another_replica_takes_it_as_it_is(self, world: World, clock: ManualClock, replica: Replica) -> None:
        await replica.keeper.look()
        other = Replica(world, clock, form=skyhook("webhook-service"))
        await other.keeper.look()
        assert other.writes() == []
        assert other.identity._pair == replica.identity._pair

    async def test_it_is_renewed_a_week_before_its_end(
        self, world: World, clock: ManualClock, replica: Replica
    ) -> None:
        await replica.keeper.look()
        first, authority = stored(world, "tls.crt"), stored(world, "ca.crt")
        clock.move_to(START + timedelta(days=357, hours=23))
        await replica.keeper.look()
        assert stored(world, "tls.crt") == first
        clock.move_to(START + timedelta(days=358, hours=1))
        await replica.keeper.look()
        assert stored(world, "tls.crt") != first
        # Replicas that have not read it yet are still trusted.
        assert stored(world, "ca.crt").endswith(authority)

    @pytest.mark.parametrize("text", [wire_time(START + timedelta(hours=100)), "soon"])
    async def test_the_annotation_counts(self, world: World, clock: ManualClock, replica: Replica, text: str) -> None:
        await replica.keeper.look()
        first = stored(world, "tls.crt")
        annotations = {"skyhook.nvidia.com/expiration": text, "mine": "kept"}
        world.server.patch(SECRETS, NAMESPACE, SECRET, {"metadata": {"annotations": annotations}})
        await replica.keeper.look()
        assert stored(world, "tls.crt") != first
        found_annotations = found(world, SECRETS, NAMESPACE, SECRET)["metadata"]["annotations"]
        assert found_annotations["skyhook.nvidia.com/expiration"] == wire_time(START + timedelta(days=365))
        assert found_annotations["mine"] == "kept"

    async def test_a_secret_that_cannot_be_used_is_made_anew(
        self, world: World, clock: ManualClock, replica: Replica
    ) -> None:
        world.server.create(
            SECRETS, {"metadata": {"name": SECRET, "namespace": NAMESPACE}, "data": {"tls.crt": "eA=="}}
        )
        await replica.keeper.look()
        assert replica.identity.ready

    async def test_it_is_ready_once_it_is_registered(self, world: World, clock: ManualClock, replica: Replica) -> None:
        assert replica.keeper.lack == "the webhooks have no certificate yet"
        await replica.keeper.look()
        assert replica.keeper.lack == "ours does not name the webhooks"
        world.server.create(REGISTRATIONS, registration("ours", HOOK))
        await replica.keeper.look()
        assert replica.keeper.lack == ""
        assert registered(world, "ours") == stored(world, "ca.crt")


RULE = {"apiGroups": ["x.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["xs"]}
MUTATING = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")


@pytest.mark.parametrize(
    ("rules", "writes"),
    [
        pytest.param([{**RULE, "operations": ["DELETE"]}], 1, id="too few operations"),
        pytest.param([], 1, id="none"),
        pytest.param([{**RULE, "operations": ["DELETE", "UPDATE", "CREATE"], "scope": "*"}], 0, id="the same"),
        pytest.param([{**RULE, "scope": "Namespaced"}], 1, id="another scope"),
    ],
)
async def test_what_is_reviewed_is_put_right(world: World, rules: list[Json], writes: int) -> None:
    made = registration("ours", "a.another.io", HOOK, annotations={CERTIFICATE_ENDS: wire_time(START)})
    made["webhooks"][1] |= {"rules": rules}
    made["webhooks"][1]["clientConfig"]["caBundle"] = base64.b64encode(b"x").decode()
    world.server.create(MUTATING, made)
    wire = Wire(world)
    registrations = Registrations(wire, [hook("ours", mutates=True, rules=(RULE,))])
    [(place, read)] = (await registrations.read()).items()
    await registrations.register(place, read, b"x", START)
    assert len([act for act in wire.asked if act.startswith("PATCH")]) == writes
    [other, ours] = found(world, MUTATING, "", "ours")["webhooks"]
    assert set(ours["rules"][0]["operations"]) == {"CREATE", "UPDATE", "DELETE"}
    assert "rules" not in other
