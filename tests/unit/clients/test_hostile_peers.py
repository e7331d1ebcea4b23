"""Every client of another server, against servers that are broken or hostile: each failure is one clear line, in time."""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

import haulout
from haulout.app import info
from haulout.app.hooks import Hooks
from haulout.base.clock import SystemClock
from haulout.clients import delivery, openstack, peers, prometheus, sns, vcenter_zones
from haulout.clients.delivery import Deliveries
from haulout.clients.esx import Hosts
from haulout.clients.kubernikus import CloudAccess, PoolSize, Servers
from haulout.clients.openstack import CloudError
from haulout.clients.prometheus import Prometheus
from haulout.clients.vcenter_zones import VCenters
from haulout.kube import oidc
from haulout.kube.allowed_addresses import Reach
from haulout.kube.endpoint import Oidc, Secret
from haulout.kube.errors import KubeError
from haulout.kube.transport import Reply
from haulout.kube.writer import Writer
from haulout.plugins.messages import Mail, Message, Post, Publish, Thread
from haulout.runtime.probes import ProbeFailed
from haulout.runtime.sender import SendFailed
from haulout.surfaces.esx.options import Login, VCenterSettings
from haulout.surfaces.kubernikus.wire import ServerDeletion
from haulout.surfaces.notify.recipes.hooks import HookAnswer, HookCall, StatusQuestion
from tests.build import hostile
from tests.build.cloud import PASSWORD
from tests.build.cloud import serving as cloud_serving
from tests.build.hostile import Attack, Call, Peer, serving
from tests.build.notices import options
from tests.build.server import server_context

SECRET = "hunter2-not-for-logs"
SECRETS = (SECRET, PASSWORD, base64.b64encode(f"user:{SECRET}".encode()).decode())
# How long a client may take in these tests, and how long a test waits for it.
WITHIN, PATIENCE = 0.4, 20
# More than any client reads of an answer, with what sockets buffer.
MOST_SENT = 24 * 2**20
Client = Callable[[str], Awaitable[Any]]


class Refused(Exception):
    """A client has returned a failure as its answer."""


FAILURES = (ProbeFailed, SendFailed, CloudError, KubeError, Refused)


class ApiServer:
    """A stand-in for the API server: it has one Secret, no Lease, and the pod of a leader on this computer."""

    async def get(self, path: str, **_: object) -> bytes:
        return json.dumps({"data": {"token": base64.b64encode(SECRET.encode()).decode()}, "spec": {}}).encode()

    async def request(self, method: str, path: str, **_: object) -> Reply:
        return Reply(200, b'{"status":{"podIP":"127.0.0.1"}}')

    create = merge_patch = get


def _login(url: str) -> str:
    return url.replace("://", f"://user:{SECRET}@") + f"?token={SECRET}"


async def _sample(url: str) -> None:
    await Prometheus(SystemClock())((_login(url), "up"))


async def _alerts(url: str) -> None:
    await Prometheus(SystemClock()).has_rows(_login(url), "ALERTS")


async def _gate(url: str) -> None:
    await Prometheus(SystemClock(), Reach(loopback=True, plain_http=True))((_login(url), "up"))


def _access(auth_url: str, directory: Path) -> CloudAccess:
    values = {"auth-url": auth_url, "username": "robot", "password": PASSWORD, "region": "r-1", "domain-name": "d"}
    lines = [f"{name} = {value}" for name, value in {**values, "tenant-id": "p-1"}.items()]
    path = directory / "cloudprovider.conf"
    path.write_text("\n".join(["[Global]", *lines]))
    return CloudAccess(cast("Any", ApiServer()), str(path))


def _keystone(directory: Path) -> Client:
    return lambda url: PoolSize(_access(f"{url}/v3", directory), url)(("mine", "", ""))


def _nova(directory: Path) -> Client:
    async def ask(url: str) -> None:
        async with cloud_serving() as cloud:
            cloud.nova = url
            await Servers(_access(f"{cloud.url}/v3", directory))(ServerDeletion("n", ("", "")))

    return ask


def _kubernikus(directory: Path) -> Client:
    async def ask(url: str) -> None:
        async with cloud_serving() as cloud:
            await PoolSize(_access(f"{cloud.url}/v3", directory), url)(("mine", "", ""))

    return ask


def _delivery(message: Callable[[str], Message], chosen: float | None = None) -> Client:
    async def ask(url: str) -> None:
        writer = cast("Writer", ApiServer())
        within = chosen or delivery.DELIVER_WITHIN
        await Deliveries(writer, SystemClock(), slack_api=f"{url}/", within=within).deliver(message(url))

    return ask


def _post(url: str) -> Message:
    headers = {"Authorization": f"Bearer {SECRET}"}
    return Post(f"{url}/{SECRET}", {"text": "t"}, expects="ok", headers=headers)


def _thread(url: str) -> Message:
    return Thread(SECRET, "c", "title", "text", "lease", "ns", timedelta(hours=1))


def _topics(monkeypatch: pytest.MonkeyPatch) -> Client:
    async def ask(url: str) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", url)
        for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
            monkeypatch.delenv(name, raising=False)
        await _delivery(lambda _: Publish("arn:aws:sns:eu-west-1:1:t", "m"), PATIENCE)(url)

    return ask


class AllZones(dict[str, Login]):
    """The same credentials for each zone."""

    def get(self, zone: str, default: object = None) -> Login:
        return Login(username="robot", password=SECRET)


async def _vcenter(url: str) -> None:
    centers = VCenters(lambda: VCenterSettings(template_url=url, credentials=AllZones()))
    try:
        await Hosts(centers)(("h", "z"))
    finally:
        await asyncio.to_thread(centers.close)


def _hooks(url: str) -> Hooks:
    recipe = {"name": "rec", "type": "webhook", "url": f"{url}/jobs", "requestTimeout": "1s"}
    recipe["tokenSecret"] = {"name": "hook", "key": "token"}  # type: ignore[assignment]
    content = {"slaPeriod": "1h", "operators": {"runner": {"enabled": True, "recipes": [recipe]}}}
    read = options(json.dumps(content))
    return Hooks(cast("Writer", ApiServer()), lambda: read)


def _is_success(answer: HookAnswer) -> None:
    if answer.result != "success":
        raise Refused(answer.message or answer.result)


async def _hook(url: str) -> None:
    _is_success(await _hooks(url).call(HookCall("runner", "rec", "key", b"{}")))


async def _hook_status(url: str) -> None:
    _is_success(await _hooks(url).status(StatusQuestion("runner", "rec", f"{url}/1")))


async def _status_elsewhere(url: str) -> None:
    recipe = f"{url.partition(':')[0]}://127.0.0.1:1"
    _is_success(await _hooks(recipe).status(StatusQuestion("runner", "rec", f"{url}/1")))


async def _issuer(url: str) -> None:
    await oidc.Refresh(Oidc(url, "client", Secret(SECRET), Secret(""), Secret(SECRET)), "kubeconfig")()


async def _leader(url: str) -> None:
    answer = await info._from_leader(cast("Any", ApiServer()), f":{url.rpartition(':')[2]}", "pod_1", "ns")
    if answer.status == 200 and answer.body == b"[]":
        return
    raise Refused(json.loads(answer.body)["error"] if answer.status == 502 else f"answered with {answer.status}")


# The clients by name, and the modules of `clients` that each of them runs. Mail has attacks of its own below.
CLIENTS: dict[str, tuple[str, ...]] = {
    "Prometheus": ("prometheus",),
    "Prometheus of an alert gate": ("prometheus",),
    "Prometheus of a wave's gate": ("prometheus",),
    "Keystone": ("openstack", "kubernikus"),
    "Nova": ("openstack", "kubernikus"),
    "Kubernikus": ("openstack", "kubernikus"),
    "Slack": ("slack", "delivery"),
    "webhook": ("slack", "delivery"),
    "SNS": ("sns", "delivery"),
    "vCenter": ("vcenter", "vcenter_zones", "esx", "cutoff"),
    "recipe's server": (),
    "recipe's status": (),
    "statusURL": (),
    "leader": (),
    "issuer of tokens": (),
}
# Modules that connect to nothing by themselves: they are run through the clients above, or through the mail below. The collector
# of traces is attacked in test_otlp.py: a library sends to it, in a thread of its own.
OTHERS = {"__init__", "peers", "connector", "failures", "mail", "otlp"}
# Every module that makes a connection itself. Another one belongs into `clients.peers`, or has to be attacked here, too.
CONNECTING = {
    "haulout.clients.peers": "all of the clients above",
    "haulout.clients.cutoff": "vCenter",
    "haulout.clients.mail": "mail",
    "haulout.kube.http1.connector": "issuer of tokens, and API servers: tests/unit/kube/test_hostile_servers.py",
    "haulout.embedded.face.webhooks": "webhooks of a demo",
}
PLAIN_ONLY = {"leader"}


@pytest.fixture(params=CLIENTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    made: dict[str, Client] = {
        "Prometheus": _sample,
        "Prometheus of an alert gate": _alerts,
        "Prometheus of a wave's gate": _gate,
        "Keystone": _keystone(tmp_path),
        "Nova": _nova(tmp_path),
        "Kubernikus": _kubernikus(tmp_path),
        "Slack": _delivery(_thread),
        "webhook": _delivery(_post),
        "SNS": _topics(monkeypatch),
        "vCenter": _vcenter,
        "recipe's server": _hook,
        "recipe's status": _hook_status,
        "statusURL": _status_elsewhere,
        "leader": _leader,
        "issuer of tokens": _issuer,
    }
    return made[name]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, WITHIN)
    monkeypatch.setattr(sns, "ATTEMPTS", 1)
    # Answers about all nodes of a large cluster are longer than those of any other server.
    monkeypatch.setattr(info, "LONGEST_ANSWER", 2**20)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clients wait for an answer, which takes its time on a busy machine."""
    limit(monkeypatch, PATIENCE)


def limit(monkeypatch: pytest.MonkeyPatch, within: float) -> None:
    """Set the seconds that the clients take for an answer."""
    limits = {prometheus: "ANSWER_WITHIN", openstack: "ANSWER_WITHIN", sns: "SECONDS", info: "ASK_FOR"}
    for module, name in {
        **limits,
        vcenter_zones: "CALL_WITHIN",
        delivery: "DELIVER_WITHIN",
        oidc: "LIMIT_SECONDS",
    }.items():
        monkeypatch.setattr(module, name, within)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the clients trust one authority as they trust those of the system."""
    with authority.cert_pem.tempfile() as path:
        monkeypatch.setenv("SSL_CERT_FILE", path)
        peers.system_trust.cache_clear()
        yield
    peers.system_trust.cache_clear()


async def refusal(client: Client, url: str) -> str:
    """Return the error of a client. It is one line without a secret."""
    with pytest.raises(FAILURES) as caught:
        async with asyncio.timeout(PATIENCE):
            await client(url)
    text = str(caught.value)
    assert text.isprintable()
    assert text.strip() == text != ""
    assert len(text) <= 1200
    assert not [secret for secret in SECRETS if secret in text], text
    assert not [word for word in ("Traceback", "RecursionError", "UnicodeDecodeError", "object at 0x") if word in text]
    return text


@pytest.mark.parametrize("attack", [*hostile.BROKEN.values()], ids=[*hostile.BROKEN])
async def test_an_answer_that_is_none_is_an_error(client: Client, attack: Attack) -> None:
    async with serving(attack) as peer:
        await refusal(client, f"http://127.0.0.1:{peer.port}")


# Whether an alert fires is known from the number of rows, whatever they say.
@pytest.mark.parametrize("name", [each for each in CLIENTS if each != "Prometheus of an alert gate"], indirect=True)
@pytest.mark.parametrize("attack", [*hostile.NUMBERS.values()], ids=[*hostile.NUMBERS])
async def test_a_number_that_is_none_is_an_error(client: Client, attack: Attack) -> None:
    async with serving(attack) as peer:
        await refusal(client, f"http://127.0.0.1:{peer.port}")


@pytest.mark.parametrize("attack", [*hostile.NEVER_ENDING.values()], ids=[*hostile.NEVER_ENDING])
async def test_an_answer_that_does_not_end_is_given_up(client: Client, attack: Attack) -> None:
    async with serving(attack) as peer:
        await refusal(client, f"http://127.0.0.1:{peer.port}")


@pytest.mark.usefixtures("_patient")
async def test_many_answers_at_once_are_not_parsed() -> None:
    """Parsing a full buffer of them would block the event loop for 80 ms."""
    async with serving(hostile.NEVER_ENDING["interim answers for ever"]) as peer:
        text = await refusal(_sample, f"http://127.0.0.1:{peer.port}")
    assert text.endswith("the server closed the connection without an answer")


@pytest.mark.parametrize("attack", [*hostile.FLOODS.values()], ids=[*hostile.FLOODS])
async def test_an_answer_without_end_takes_bounded_memory(client: Client, attack: Attack) -> None:
    async with serving(attack) as peer:
        await refusal(client, f"http://127.0.0.1:{peer.port}")
    assert peer.sent <= MOST_SENT


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("to", ["http://127.0.0.1:{port}/", "//127.0.0.1:{port}/x", "https://127.0.0.1:{port}/"])
async def test_a_redirect_is_not_followed(client: Client, status: int, to: str) -> None:
    async with (
        serving(hostile.answering(hostile.body(b"{}"))) as other,
        serving(hostile.redirect(status, to.format(port=other.port))) as peer,
    ):
        await refusal(client, f"http://127.0.0.1:{peer.port}")
    assert (len(other.calls), len(peer.calls)) == (0, 1)


async def test_a_redirect_to_itself_is_one_request(client: Client) -> None:
    async with serving(hostile.redirect(307, "/")) as peer:
        await refusal(client, f"http://127.0.0.1:{peer.port}")
    assert len(peer.calls) == 1


@pytest.mark.usefixtures("trusted")
class TestTls:
    """Servers with TLS that must not be trusted, or that have none."""

    @pytest.fixture(params=[each for each in CLIENTS if each not in PLAIN_ONLY])
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.mark.usefixtures("_patient")
    @pytest.mark.parametrize("kind", ["self-signed", "for another host", "expired", "not valid yet"])
    async def test_a_certificate_that_is_wrong_is_refused(
        self, client: Client, authority: trustme.CA, kind: str
    ) -> None:
        async with serving(hostile.answering(), hostile.certificates(authority)[kind]) as peer:
            text = await refusal(client, f"https://127.0.0.1:{peer.port}")
        assert "certificate" in text.lower() or "CERTIFICATE" in text
        assert [call.request for call in peer.calls if call.request] == []

    @pytest.mark.usefixtures("_patient")
    async def test_a_certificate_that_is_right_is_accepted(self, client: Client, authority: trustme.CA) -> None:
        attack = hostile.answering(hostile.body(b"{}", b"HTTP/1.1 500 Internal Server Error\r\n"))
        async with serving(attack, server_context(authority)) as peer:
            assert "certificate" not in await refusal(client, f"https://127.0.0.1:{peer.port}")
        assert [call.request for call in peer.calls if call.request] != []

    @pytest.mark.parametrize("attack", [*hostile.HANDSHAKES.values()], ids=[*hostile.HANDSHAKES])
    async def test_a_handshake_that_is_none_is_an_error(self, client: Client, attack: Attack) -> None:
        async with serving(attack) as peer:
            await refusal(client, f"https://127.0.0.1:{peer.port}")


@pytest.mark.usefixtures("_patient")
async def test_a_mail_does_not_read_the_trusted_authorities_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would block the event loop for tens of milliseconds with each mail."""
    monkeypatch.setattr(ssl, "create_default_context", None)
    async with serving(dialogue(EHLO, b"535 no\r\n")) as peer:
        assert "535 no" in await refusal(_delivery(lambda _: _mail(peer.port)), "http://unused")


async def test_a_silent_server_keeps_no_other_waiting(client: Client) -> None:
    async with serving(hostile.answering()) as silent, serving(hostile.answering(hangs_up=True)) as other:
        waiting = asyncio.create_task(refusal(client, f"http://127.0.0.1:{silent.port}"))
        await _called(silent)
        await refusal(client, f"http://127.0.0.1:{other.port}")
        await waiting


async def _called(peer: Peer) -> None:
    async with asyncio.timeout(PATIENCE):
        while not peer.calls:  # noqa: ASYNC110 - the server has no bell for it
            await asyncio.sleep(0.005)


# Mail


def dialogue(*replies: bytes, tls: ssl.SSLContext | None = None) -> Attack:
    """Return a mail server that answers each command with the next reply; `%b` in it is the command itself."""

    async def attack(call: Call) -> None:
        await call.send(b"220 mail.example.com\r\n")
        for reply in replies:
            line = (await call.read_line()).strip()
            await call.send(reply.replace(b"%b", line))
            if tls is not None and line == b"STARTTLS":
                await call.encrypt(tls)
        await call.wait()

    return attack


EHLO = b"250-mail.example.com\r\n250 AUTH PLAIN\r\n"
STARTTLS = b"250-mail.example.com\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"
MAIL: dict[str, Attack] = {
    "silence": hostile.greeting(),
    "a greeting byte by byte": hostile.greeting(repeat=b"2", every=hostile.DRIP),
    "a greeting for ever": hostile.greeting(repeat=b"2" * 2**16),
    "lines for ever": hostile.greeting(repeat=b"220-x\r\n" * 2**12),
    "lines one by one": hostile.greeting(repeat=b"220-x\r\n", every=hostile.DRIP),
    "answers that were not asked for": hostile.greeting(repeat=b"220 x\r\n" * 2**12),
    "a hang-up": hostile.greeting(hangs_up=True),
    "HTTP": hostile.greeting(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "no text": hostile.greeting(b"\xff\xfe\r\n" * 100),
    "a refusal of many lines": hostile.greeting(b"554-no\r\n" * 1000 + b"554 \x1b[2J\xff\r\n"),
    "a code that is none": hostile.greeting(b"999 hello\r\n"),
    "a code below zero": hostile.greeting(b"-10 hello\r\n"),
    "silence after EHLO": dialogue(EHLO),
    "an endless EHLO": hostile.greeting(b"220 x\r\n", repeat=b"250-X\r\n", every=hostile.DRIP),
    "the password in the refusal": dialogue(EHLO, b"535 %b\r\n"),
    "the password in many lines": dialogue(EHLO, b"535-%b\r\n535-%b\r\n535 no\r\n"),
    "the password in no answer": dialogue(EHLO, b"%b\r\n"),
    "the recipient in the refusal": dialogue(EHLO, b"235 ok\r\n", b"250 ok\r\n", b"550 %b\r\n"),
    "an EHLO that is refused": dialogue(b"502 no\r\n", b"502 no\r\n"),
    "TLS that is refused": dialogue(STARTTLS, b"454 no\r\n"),
    "TLS that is silent": dialogue(STARTTLS, b"220 go\r\n"),
    "TLS that is plain": dialogue(STARTTLS, b"220 go\r\n220 x\r\n250 x\r\n"),
}


def _mail(port: int, host: str = "127.0.0.1") -> Message:
    return Mail(f"{host}:{port}", "a@example.com", ("b@example.com",), "s", "t", ("", "user", SECRET))


@pytest.mark.parametrize("attack", [*MAIL.values()], ids=[*MAIL])
async def test_a_mail_server_that_is_none_is_an_error(attack: Attack) -> None:
    async with serving(attack) as peer:
        await refusal(_delivery(lambda _: _mail(peer.port)), "http://unused")
    assert SECRET not in str([call.request for call in peer.calls])
    assert peer.sent <= MOST_SENT


@pytest.mark.usefixtures("trusted", "_patient")
@pytest.mark.parametrize("kind", ["self-signed", "for another host", "expired", "not valid yet"])
async def test_a_mail_server_with_a_wrong_certificate_is_refused(authority: trustme.CA, kind: str) -> None:
    attack = dialogue(STARTTLS, b"220 go\r\n", STARTTLS, tls=hostile.certificates(authority)[kind])
    async with serving(attack) as peer:
        text = await refusal(_delivery(lambda _: _mail(peer.port)), "http://unused")
    assert "certificate" in text.lower()
    assert [call.request for call in peer.calls] == [b"STARTTLS\r\n"]


@pytest.mark.usefixtures("trusted", "_patient")
async def test_a_mail_server_with_a_right_certificate_is_accepted(authority: trustme.CA) -> None:
    attack = dialogue(STARTTLS, b"220 go\r\n", EHLO, b"535 no\r\n", tls=server_context(authority))
    async with serving(attack) as peer:
        assert "535" in await refusal(_delivery(lambda _: _mail(peer.port)), "http://unused")


# The table


def test_every_client_is_attacked() -> None:
    folder = Path(haulout.__file__).parent / "clients"
    attacked = {module for modules in CLIENTS.values() for module in modules}
    assert {path.stem for path in folder.glob("*.py")} == attacked | OTHERS


def test_no_other_module_opens_connections() -> None:
    root = Path(haulout.__file__).parent
    opening = {
        "ClientSession",
        "SMTP",
        "open_connection",
        "create_connection",
        "HTTPConnection",
        "urlopen",
        "HTTPSConnection",
    }
    found = set()
    for path in root.rglob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        names = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls}
        if names & opening:
            found.add(".".join(("haulout", *path.relative_to(root).with_suffix("").parts)))
    assert found == set(CONNECTING)
