"""Serves the surfaces' admission webhooks, and metrics over TLS. Every replica does, whether or not it leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Never

import msgspec

from haulout.base.address import OFF
from haulout.base.backoff import Backoff
from haulout.base.bounds import trim
from haulout.base.clock import Clock
from haulout.cluster.key import Key
from haulout.cluster.project import Projector
from haulout.cluster.store import Store
from haulout.core.admission import Answer, Items, Question, Unanswered, Webhook
from haulout.kube.errors import UNFIT, ApiError, KubeError, NotFound
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Metrics
from haulout.serve.admission import LONGEST_BODY, Admission, Ask, Look
from haulout.serve.bundle import FormName
from haulout.serve.certificate_process import in_child
from haulout.serve.guard import Guard, guard_handler
from haulout.serve.http import Handler
from haulout.serve.managed_certificate import SelfManagedCertificate
from haulout.serve.measured_identity import MeasuredIdentity
from haulout.serve.mounted_certificates import MountedCertificate
from haulout.serve.registrations import Foreign, Registrations
from haulout.serve.tls import Pair, ServerIdentity, TakesCertificates, Together
from haulout.serve.web import listen
from haulout.settings.settings import Webhooks

log = logging.getLogger("haulout.webhooks")

KEEP_AGAIN_AFTER = 1.0
# A page of a list. Decoding a longer one would block the event loop.
LIST_PAGE = 100
SELF_SIGNED_ANEW = timedelta(days=30)
SELF_SIGNED = "haulout.serve.certificates:make_self_signed"
OWN_FORM, SKYHOOK_FORM = "haulout.serve.secret_form:OwnForm", "haulout.serve.skyhook_secret:SkyhookForm"
# The label of the webhook configurations in the charts of the Skyhook operator since it was renamed, whose names depend on the
# release.
REGISTRATION_LABEL = "nodewright.nvidia.com/webhook-config"

# Where controller-runtime looks for certificates, and so where charts mount them.
WEBHOOK_FILES = "k8s-webhook-server/serving-certs"
METRICS_FILES = "k8s-metrics-server/serving-certs"
OLM_FILES = ("/apiserver.local.config/certificates/apiserver.crt", "/apiserver.local.config/certificates/apiserver.key")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Certificates(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server for admission webhooks takes its certificate from.

    `files`: pairs of certificate and key. The first pair that exists is used. Without any, the process issues one.
    `own`: whether the process may issue one. If not, it waits for the first pair of `files`.
    `published`: the process issues the certificate even if there are files. They are a mount of the Secret that it writes.
    `secret`: the name of the Secret in which replicas share the issued certificate, in `namespace`.
    `service`, `services`: the Service of the webhooks, and further ones that the certificate names.
    `skyhook`: the Secret has the form that the Skyhook operator gives it.
    `updates`: registrations are replaced rather than patched, as the roles of originals allow.
    """

    files: tuple[tuple[str, str], ...] = ()
    own: bool = True
    skyhook: bool = False
    updates: bool = False
    published: bool = False
    services: tuple[str, ...] = ()
    namespace: str
    service: str
    secret: str


def certificates_of(settings: Webhooks, namespace: str, *, updates: bool = False) -> Certificates:
    """Return where certificates come from by the settings: files of the original, a mounted directory, or our own."""
    places: tuple[tuple[str, str], ...] = ()
    match settings.certificates:
        case "self" | "skyhook":
            pass
        case "original":
            places = (OLM_FILES, mounted_in(WEBHOOK_FILES))
        case "cert-manager":
            places = (mounted_in(WEBHOOK_FILES),)
        case folder:
            places = ((f"{folder}/tls.crt", f"{folder}/tls.key"),)
    return Certificates(
        files=places,
        own=settings.certificates in ("self", "skyhook", "original"),
        skyhook=settings.certificates == "skyhook",
        updates=updates,
        published=settings.published,
        services=settings.services,
        namespace=namespace,
        service=settings.service,
        secret=settings.secret,
    )


def mounted_in(folder: str) -> tuple[str, str]:
    """Return the paths of certificate and key in a folder of the directory for temporary files, as in the originals."""
    # tempfile.gettempdir() would fail in a pod without a writable directory.
    base = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - others' choice
    return str(base / folder / "tls.crt"), str(base / folder / "tls.key")


@contextlib.asynccontextmanager
async def webhook_server(
    address: str,
    webhooks: tuple[Webhook, ...],
    certificates: Certificates,
    *,
    transport: Transport,
    store: Store,
    clock: Clock,
    metrics: Metrics,
    look: Look | None = None,
    also: Iterable[TakesCertificates] = (),
) -> AsyncIterator[Callable[[], str]]:
    """Serve webhooks. Yield a function that returns why they cannot be called yet, in words; empty once they can.

    `also`: other servers that present the same certificate.
    """
    if address in OFF or not webhooks:
        yield lambda: ""
        return
    identity = ServerIdentity()
    measured = MeasuredIdentity(Together(identity, *also), metrics)
    keeper, lack = _keeper(measured, webhooks, certificates, transport, clock, metrics)
    routes = Admission(store, metrics, look, asker(transport)).routes(webhooks)
    server = await listen(address, routes, method="POST", tls=identity.context, longest_body=LONGEST_BODY)
    assert server is not None
    log.info("serving webhooks", extra={"address": address, "webhooks": [webhook.name for webhook in webhooks]})
    try:
        async with _alongside(keeper):
            yield lack
    finally:
        await server.cleanup()


@contextlib.asynccontextmanager
async def guarded_metrics(
    address: str, handler: Handler, *, transport: Transport, clock: Clock, metrics: Metrics
) -> AsyncIterator[None]:
    """Serve `/metrics` over TLS to authorized clients. Without certificate files, make a certificate for this run."""
    if address in OFF:
        yield
        return
    identity = ServerIdentity()
    certificate, key = mounted_in(METRICS_FILES)
    if _are_there(certificate, key):
        mounted = MountedCertificate(identity, Path(certificate), Path(key), metrics)
        mounted.look()
        keeper: Callable[[], Awaitable[object]] = mounted.run
    else:
        keeper = partial(_keep_self_signed, identity, clock)
    routes = {"/metrics": guard_handler(handler, Guard(transport, clock))}
    server = await listen(address, routes, tls=identity.context)
    assert server is not None
    try:
        async with _alongside(keeper):
            yield
    finally:
        await server.cleanup()


def looker(
    transport: Transport, store: Store, projector: Callable[[str, str], Projector], stir: Callable[[], None]
) -> Look:
    """Return a function that reads one object of the home cluster again. The answer enters the store like any event."""

    async def look(key: Key) -> None:
        # The author of an object chose this name. It must not lead to another path of the API.
        if not _NAME.fullmatch(key.name) or (key.namespace and not _NAME.fullmatch(key.namespace)):
            return
        known, reader = store.row(key), projector(key.cluster, key.kind)
        store.hold_open(key)
        try:
            reply = await transport.request("GET", reader.resource.object_path(key), timeout=5.0)
            store.answer(reader.row(msgspec.json.decode(reply.body, type=reader.resource.model)))
        except NotFound:
            # A row that the watch has brought since then is newer than this answer, and stays.
            store.remove(key, known.version if known else -1)
        except (KubeError, *UNFIT) as error:
            log.warning("object could not be read again", extra={"object": str(key), "error": str(error)})
        finally:
            store.let_go(key)
        stir()

    return look


def asker(transport: Transport) -> Ask:
    """Return a function that answers a question of an admission rule by one GET of the home cluster, or a list in pages."""

    async def ask(question: Question) -> Answer:
        try:
            if question.lists:
                kind: type[Any] = question.reads
                return Items(tuple(await read_list(transport, question.path, kind, size=LIST_PAGE, keep=trim)))
            if question.body:
                reply = await transport.request("POST", question.path, body=question.body, timeout=5.0)
            else:
                reply = await transport.request("GET", question.path, timeout=5.0)
            return msgspec.json.decode(reply.body, type=question.reads)
        except NotFound:
            return None
        except ApiError as error:
            return Unanswered(error.status.code, str(error))
        except (KubeError, *UNFIT) as error:
            return Unanswered(0, str(error))

    return ask


def _keeper(
    identity: TakesCertificates,
    webhooks: tuple[Webhook, ...],
    certificates: Certificates,
    transport: Transport,
    clock: Clock,
    metrics: Metrics,
) -> tuple[Callable[[], Awaitable[object]], Callable[[], str]]:
    """Return a task that keeps the certificate, and a function that says why the webhooks cannot be called yet."""
    waited_for = None if certificates.own else certificates.files[0]
    found = next((pair for pair in certificates.files if _are_there(*pair)), waited_for)
    mounted = None
    if found is not None:
        mounted = MountedCertificate(identity, Path(found[0]), Path(found[1]), metrics)
        mounted.look()
        if not certificates.published:
            return mounted.run, lambda: "" if identity.ready else "the webhooks have no certificate yet"
    hosts = [f"{each}.{certificates.namespace}.svc" for each in (certificates.service, *certificates.services)]
    foreign = Foreign(REGISTRATION_LABEL, certificates.service, certificates.namespace)
    own = SelfManagedCertificate(
        _UntilMounted(identity, mounted) if mounted is not None else identity,
        transport,
        clock,
        namespace=certificates.namespace,
        secret=certificates.secret,
        registrations=Registrations(
            transport,
            webhooks,
            updates=certificates.updates,
            foreign=foreign if certificates.skyhook else None,
        ),
        names=[*hosts, f"{hosts[0]}.cluster.local"] if certificates.skyhook else hosts,
        form=FormName(SKYHOOK_FORM, (certificates.service,), strict=True)
        if certificates.skyhook
        else FormName(OWN_FORM),
    )
    return own.run if mounted is None else partial(_both, mounted.run, own.run), lambda: own.lack


class _UntilMounted:
    """Presents the certificate of the Secret until the mounted files exist, which are used from then on."""

    def __init__(self, identity: TakesCertificates, mounted: MountedCertificate) -> None:
        self._identity = identity
        self._mounted = mounted

    @property
    def ready(self) -> bool:
        return self._identity.ready

    @property
    def certificate(self) -> bytes:
        return self._identity.certificate

    def use(self, pair: Pair) -> bool:
        return not self._mounted.in_use and self._identity.use(pair)


async def _both(*keepers: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.TaskGroup() as group:
        for keeper in keepers:
            group.create_task(_awaited(keeper))


async def _awaited(keeper: Callable[[], Awaitable[object]]) -> None:
    await keeper()


async def _keep_self_signed(identity: ServerIdentity, clock: Clock) -> Never:
    while True:
        async with in_child() as library:
            identity.use(await library.call(SELF_SIGNED, ("localhost", "127.0.0.1"), clock.now()))
        await asyncio.sleep(SELF_SIGNED_ANEW.total_seconds())


def _are_there(*files: str) -> bool:
    return all(Path(file).is_file() for file in files)


@contextlib.asynccontextmanager
async def _alongside(keeper: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Run the keeper of certificates beside the server.

    It is not a task group, which would wrap an exception of the server into an ExceptionGroup.
    """
    task = asyncio.ensure_future(_kept(keeper))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _kept(keeper: Callable[[], Awaitable[object]]) -> Never:
    """Run the keeper, and start it again whenever it fails. Without it a certificate would expire weeks later."""
    backoff = Backoff(KEEP_AGAIN_AFTER, 300.0, Random())  # noqa: S311
    while True:
        error: Exception | None = None
        try:
            await keeper()
        except Exception as failure:  # noqa: BLE001 - whatever it is, certificates have to be looked after
            error = failure
        wait = KEEP_AGAIN_AFTER + backoff.fail()
        log.error("certificates could not be checked", exc_info=error, extra={"again_in_seconds": round(wait, 1)})
        await asyncio.sleep(wait)
