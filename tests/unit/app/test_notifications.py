"""Delivery of notifications: a real mail server, receivers that check what they get, an embedded cluster."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import trustme
from aiohttp import web
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from haulout.app.notifications import Notifications
from haulout.clients.delivery import AT_ONCE
from haulout.cluster.key import node_key
from haulout.embedded import Api, InProcessTransport, LoopTimers, Resource, Server
from haulout.kube.writer import Writer
from haulout.plugins.api import Notifier
from haulout.plugins.notifiers.mail import MailConfig, mail
from haulout.plugins.notifiers.slack import Slack, slack
from haulout.plugins.notifiers.slack_thread import SlackThread, slack_thread
from haulout.runtime.sender import SendFailed
from haulout.surfaces.profiles.messages import Notice
from haulout.surfaces.profiles.wire import stamp
from tests.build.clock import ManualClock
from tests.build.rows import START
from tests.build.server import serve, server_context

NODES = Resource("", "v1", "nodes")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"zone": "a"}},
    "status": {"nodeInfo": {"kubeletVersion": "v1.35.0"}},
}
MESSAGE = '{{ .Node.Name }} in {{ index .Node.Labels "zone" }} is {{ .State }} by {{ .Profile }}'
TEXT = "n in a is maintenance-required by p"
SECRET = "hunter2"


class Here:
    """A cluster with one node, and the channel of notifications."""

    def __init__(self, **how: Any) -> None:
        self.server = Server(LoopTimers(ManualClock(START)))
        self.server.create(NODES, {**NODE})
        self.clock = ManualClock(START)
        writer = Writer(InProcessTransport(Api(self.server)))
        self.channel = Notifications(writer, self.clock, **how)

    async def notify(self, plugin: Notifier, config: Any, **more: Any) -> None:
        known: dict[str, Any] = {
            "changes": {},
            "state": "maintenance-required",
            "profile": "p",
            "last": "q",
            "transition": stamp(START),
            "in_maintenance": False,
            "log_details": False,
        }
        await self.channel(Notice(plugin, config, "ops", node_key("n"), **{**known, **more}))

    def lease(self) -> Any:
        found = self.server.get(LEASES, "default", "thread")
        assert found is not None
        return found["spec"]


# Mail


class Mailbox:
    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.logins: list[tuple[str, bytes]] = []
        self.encrypted: list[bool] = []
        self.refuses = ""

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address == self.refuses:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.envelopes.append(envelope)
        self.encrypted.append(session.ssl is not None)
        return "250 taken"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login.decode(), data.password))
        return AuthResult(success=data.password == SECRET.encode(), handled=False)

    @asynccontextmanager
    async def open(self, **how: Any) -> AsyncIterator[int]:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"hostname": "mx.example", "loop": loop, "enable_SMTPUTF8": True, **how}
        server = await loop.create_server(lambda: SMTP(self, **options), "127.0.0.1", 0)
        other = await loop.create_server(lambda: SMTP(self, **options), "127.0.0.2", server.sockets[0].getsockname()[1])
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            other.close()
            await asyncio.sleep(0.05)


def letter(port: int, host: str = "127.0.0.1", **more: Any) -> MailConfig:
    return MailConfig(
        **{
            "address": f"{host}:{port}",
            "sender": "ops@example.com",
            "to": ("a@example.com", "b@example.com"),
            "subject": "{{ .State }}",
            "message": MESSAGE + "\n.dot\nübung",
            **more,
        }
    )


async def test_a_mail_goes_over_the_wire_as_it_should() -> None:
    box = Mailbox()
    async with box.open() as port:
        await Here().notify(mail, letter(port))
    [envelope] = box.envelopes
    assert (envelope.mail_from, envelope.rcpt_tos) == ("ops@example.com", ["a@example.com", "b@example.com"])
    assert (
        envelope.content
        == (
            "From: ops@example.com\r\nTo: a@example.com,b@example.com\r\nSubject: {{ .State }}\r\n\r\n"
            f"{TEXT}\r\n.dot\r\nübung\r\n"
        ).encode()
    )
    assert box.logins == []


async def test_a_mail_is_encrypted_and_signed_in_for_where_the_server_offers_it() -> None:
    box, authority = Mailbox(), trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    tls = server_context(authority, "127.0.0.1", "127.0.0.2")
    async with box.open(tls_context=tls, authenticator=box.authenticate, auth_required=True) as port:
        config = letter(port, "127.0.0.2", auth=True, user="me", password=SECRET, identity="")
        await Here(tls=trusting).notify(mail, config)
    assert box.encrypted == [True]
    assert box.logins == [("me", SECRET.encode())]


async def test_a_server_that_nobody_vouches_for_gets_nothing() -> None:
    box = Mailbox()
    async with box.open(tls_context=server_context(trustme.CA())) as port:
        with pytest.raises(SendFailed, match="certificate"):
            await Here().notify(mail, letter(port, auth=True, user="me", password=SECRET))
    assert box.envelopes == []
    assert box.logins == []


async def test_a_password_is_sent_unencrypted_to_this_machine_alone() -> None:
    box = Mailbox()
    async with box.open(authenticator=box.authenticate, auth_require_tls=False) as port:
        await Here().notify(mail, letter(port, auth=True, user="me", password=SECRET))
        with pytest.raises(SendFailed, match="unencrypted connection"):
            await Here().notify(mail, letter(port, "127.0.0.2", auth=True, user="me", password=SECRET))
        await Here().notify(mail, letter(port, "127.0.0.2", auth=False, user="me", password=SECRET))
    assert len(box.logins) == 1
    assert len(box.envelopes) == 2


async def test_a_wrong_password_is_said_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    box = Mailbox()
    async with box.open(authenticator=box.authenticate, auth_require_tls=False) as port:
        with pytest.raises(SendFailed, match="535") as failed:
            await Here().notify(mail, letter(port, auth=True, user="me", password="wrong-" + SECRET))
    said = str(failed.value) + "".join(record.getMessage() for record in caplog.records if record.name != "mail.log")
    assert SECRET not in said
    assert base64.b64encode(f"\0me\0wrong-{SECRET}".encode()).decode() not in said


async def test_a_server_that_repeats_the_password_does_not_bring_it_into_messages() -> None:
    ended = asyncio.Event()

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mx\r\n")
        while line := await reader.readline():
            if not line.startswith(b"AUTH"):
                writer.write(b"250-mx\r\n250 AUTH PLAIN\r\n")
                continue
            login = base64.b64decode(line.split()[-1]).replace(b"\0", b" ")
            writer.write(b"535 " + line.strip() + b" is" + login + b"\r\n")
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(repeat, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(SendFailed, match=r"535 AUTH PLAIN \.\.\. is me \.\.\.$"):
        await Here().notify(mail, letter(port, auth=True, user="me", password=SECRET, identity=""))
    server.close()
    await ended.wait()


async def test_a_server_without_sign_in_is_not_used_where_one_is_wanted() -> None:
    async with Mailbox().open() as port:
        with pytest.raises(SendFailed, match="server doesn't support AUTH"):
            await Here().notify(mail, letter(port, auth=True, user="me", password=SECRET))


async def test_a_mail_goes_to_all_or_to_none() -> None:
    box = Mailbox()
    box.refuses = "b@example.com"
    async with box.open() as port:
        with pytest.raises(SendFailed, match="550"):
            await Here().notify(mail, letter(port))
    assert box.envelopes == []


@pytest.mark.parametrize("address, said", [("nowhere", "missing port"), ("127.0.0.1:1", "127.0.0.1:1")])
async def test_a_mail_without_a_server_fails_in_words(address: str, said: str) -> None:
    with pytest.raises(SendFailed, match=said):
        await Here().notify(mail, letter(0, address=address))


# Webhooks


class Hook:
    """A server that answers as the test says, and remembers what it received."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.delay = 0.0
        self.released = asyncio.Event()
        self.released.set()

    async def handle(self, request: web.Request) -> web.Response:
        is_form = request.content_type != "application/json"
        body = dict(await request.post()) if is_form else await request.json()
        self.got.append((request.path, dict(request.headers), body))
        await asyncio.sleep(self.delay)
        await self.released.wait()
        status, answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return web.Response(status=status, text=answer) if isinstance(answer, str) else web.json_response(answer)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        async with serve(app) as url:
            yield url


async def test_a_webhook_gets_what_slack_wants() -> None:
    hook = Hook((200, "ok"))
    async with hook.open() as url:
        await Here().notify(slack, Slack(hook=f"{url}/T1/secret", channel="#ops", message=MESSAGE + " <b>"))
    [(path, headers, body)] = hook.got
    assert path == "/T1/secret"
    assert headers["Content-Type"] == "application/json"
    assert body == {"text": f"{TEXT} <b>", "channel": "#ops"}


@pytest.mark.parametrize("status, answer", [(200, "nope"), (200, "ok\n"), (404, "no_service"), (200, "")])
async def test_any_other_word_is_a_failure(status: int, answer: str) -> None:
    async with Hook((status, answer)).open() as url:
        with pytest.raises(SendFailed, match="slack webhook response is not ok"):
            await Here().notify(slack, Slack(hook=url, channel="#ops", message="x"))


async def test_the_word_counts_and_not_the_status() -> None:
    async with Hook((500, "ok")).open() as url:
        await Here().notify(slack, Slack(hook=url, channel="#ops", message="x"))


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/T1/hunter2", "hunter2", "http://[hunter2", "ftp://127.0.0.1/hunter2"]
)
async def test_an_address_that_does_not_answer_is_not_given_away(address: str) -> None:
    with pytest.raises(SendFailed) as failed:
        await Here().notify(slack, Slack(hook=address, channel="#ops", message="x"))
    assert SECRET not in str(failed.value)


async def test_a_peer_that_does_not_answer_fails_in_time() -> None:
    hook = Hook((200, "ok"))
    hook.delay = 30
    async with hook.open() as url:
        with pytest.raises(SendFailed, match=r"not delivered within 0\.2 s"):
            await Here(within=0.2).notify(slack, Slack(hook=url, channel="#ops", message="x"))


async def test_many_messages_to_one_peer_go_a_few_at_a_time_and_hold_up_no_other() -> None:
    hook, other = Hook((200, "ok")), Hook((200, "ok"))
    hook.released.clear()
    async with hook.open() as url, other.open() as elsewhere:
        here = Here()
        many = [here.notify(slack, Slack(hook=url, channel="c", message="x")) for _ in range(AT_ONCE * 2)]
        crowd = asyncio.gather(*many)
        await asyncio.sleep(0.1)
        await here.notify(slack, Slack(hook=elsewhere, channel="c", message="x"))
        assert len(hook.got) <= AT_ONCE
        hook.released.set()
        await crowd
    assert len(hook.got) == AT_ONCE * 2


async def test_an_answer_in_pieces_is_one_answer() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b"o", b"k"):
            await response.write(piece)
            await asyncio.sleep(0.05)
        return response

    app = web.Application()
    app.router.add_post("/", handle)
    async with serve(app) as url:
        await Here().notify(slack, Slack(hook=f"{url}/", channel="c", message="x"))


async def test_a_template_that_cannot_be_rendered_fails_the_notification_and_nothing_is_sent() -> None:
    hook = Hook((200, "ok"))
    async with hook.open() as url:
        with pytest.raises(SendFailed, match=r"template: :1:3: executing \"\" at <.Nope>: can't evaluate field Nope"):
            await Here().notify(slack, Slack(hook=url, channel="#ops", message="{{ .Nope }}"))
    assert hook.got == []


async def test_a_template_sees_the_whole_node_as_this_pass_makes_it() -> None:
    hook = Hook((200, "ok"))
    message = (
        "{{ .Node.Status.NodeInfo.KubeletVersion }} {{ .Node.Labels.marked }} {{ .Node.Spec.Unschedulable }} {{ .Profile.Last }}"
        ' {{ .LastTransition.Format "15:04" }} {{ .InMaintenance }} {{ .LogDetails }}'
    )
    changes = {"metadata": {"labels": {"marked": "yes"}}, "spec": {"unschedulable": True}}
    async with hook.open() as url:
        await Here().notify(slack, Slack(hook=url, channel="c", message=message), changes=changes, in_maintenance=True)
    assert hook.got[0][2]["text"] == "v1.35.0 yes true q 10:00 true false"


# Threads


class Redirect(Hook):
    """A server that redirects every request to another place, which answers `ok`."""

    async def handle(self, request: web.Request) -> web.Response:
        if request.path.endswith("/elsewhere"):
            self.got.append((request.path, dict(request.headers), None))
            return web.Response(text="ok")
        return web.Response(status=307, headers={"Location": "/elsewhere"})


async def test_a_redirect_of_a_webhook_is_not_followed() -> None:
    hook = Redirect()
    async with hook.open() as url:
        with pytest.raises(SendFailed, match="status 307"):
            await Here().notify(slack, Slack(hook=url, channel="#ops", message="x"))
    assert hook.got == []


async def test_no_redirect_gets_the_token_of_a_thread() -> None:
    hook = Redirect()
    async with hook.open() as url:
        with pytest.raises(SendFailed, match="status 307"):
            await Here(slack_api=f"{url}/api/").notify(slack_thread, THREAD)
    assert hook.got == []


THREAD = SlackThread(
    token=f"xoxb-{SECRET}",
    channel="#ops",
    title="Maintenance of {{ .Profile }} & more",
    message="<{{ .Node.Name }}>",
    lease_name="thread",
    lease_namespace="default",
    period=timedelta(hours=1, milliseconds=700),
)


def said(number: int) -> tuple[int, dict[str, Any]]:
    return 200, {"ok": True, "ts": f"{number}.0"}


def forms(hook: Hook) -> list[tuple[str, str]]:
    return [(body["text"], body.get("thread_ts", "")) for _, _, body in hook.got]


async def test_a_thread_has_one_title_until_its_time_is_over() -> None:
    hook = Hook(*[said(number) for number in range(1, 10)])
    async with hook.open() as url:
        here = Here(slack_api=f"{url}/api/")
        await here.notify(slack_thread, THREAD)
        lease = here.lease()
        assert (lease["holderIdentity"], lease["leaseDurationSeconds"]) == ("1.0", 3600)
        here.clock.move_to(START + timedelta(hours=1))
        await here.notify(slack_thread, THREAD)
        assert here.lease() == lease
        here.clock.move_to(START + timedelta(hours=1, seconds=1))
        await here.notify(slack_thread, THREAD)
    title, reply = "Maintenance of p &amp; more", "&lt;n&gt;"
    assert forms(hook) == [(title, ""), (reply, "1.0"), (reply, "1.0"), (title, ""), (reply, "4.0")]
    assert here.lease()["holderIdentity"] == "4.0"
    path, headers, body = hook.got[0]
    assert path == "/api/chat.postMessage"
    assert headers["Authorization"] == f"Bearer xoxb-{SECRET}"
    assert body["channel"] == "#ops"


async def test_nodes_that_notify_at_once_share_a_title() -> None:
    hook = Hook(*[said(number) for number in range(1, 10)])
    async with hook.open() as url:
        here = Here(slack_api=f"{url}/api/")
        await asyncio.gather(*[here.notify(slack_thread, THREAD) for _ in range(4)])
    assert [text.startswith("Maintenance") for text, _ in forms(hook)] == [True, False, False, False, False]


async def test_a_reply_that_fails_leaves_no_lease() -> None:
    hook = Hook(said(1), (200, {"ok": False, "error": "channel_not_found"}), said(3), said(4))
    async with hook.open() as url:
        here = Here(slack_api=f"{url}/api/")
        with pytest.raises(SendFailed, match="slack says channel_not_found"):
            await here.notify(slack_thread, THREAD)
        await here.notify(slack_thread, THREAD)
    assert here.lease()["holderIdentity"] == "3.0"


async def test_a_lease_without_a_holder_is_an_error() -> None:
    here = Here()
    spec = {"renewTime": "2026-03-01T10:00:00.000000Z", "leaseDurationSeconds": 60}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "thread", "namespace": "default"},
    }
    here.server.create(LEASES, {**lease, "spec": spec})
    with pytest.raises(SendFailed, match="slack thread leases has no holder"):
        await here.notify(slack_thread, THREAD)


@pytest.mark.parametrize("answer", [(500, "<html>"), (429, "slow down")])
async def test_an_answer_that_is_none_fails_in_words(answer: tuple[int, str]) -> None:
    async with Hook(answer).open() as url:
        with pytest.raises(SendFailed, match=f"slack server error: status {answer[0]}"):
            await Here(slack_api=f"{url}/api/").notify(slack_thread, THREAD)


async def test_a_node_that_is_gone_fails_the_notification() -> None:
    here = Here()
    here.server.delete(NODES, "", "n")
    with pytest.raises(SendFailed, match="the node cannot be read"):
        await here.notify(slack, Slack(hook="http://127.0.0.1:1/", channel="c", message="x"))
