"""Messages of NotifyMaintenances on the wire: to a real SNS server, to web servers, signed and with their keys."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiosmtpd.smtp import SMTP, Envelope, Session
from moto.server import ThreadedMotoServer

from haulout.app.announcements import Announcements, signature
from haulout.base.clock import SystemClock
from haulout.clients.sns import AT_ONCE, Topics, has_credentials
from haulout.kube.errors import NotFound, Status
from haulout.plugins.messages import Publish
from haulout.runtime.metrics import Metrics
from haulout.runtime.sender import SendFailed
from haulout.surfaces.notify.notice.deliver import announcement
from haulout.surfaces.notify.options import Options
from tests.build.notices import options
from tests.rig.process import free_port
from tests.unit.notify.test_messages import row


class Secrets:
    """A stand-in for the API server that has Secrets of one namespace."""

    def __init__(self, **secrets: dict[str, str]) -> None:
        self._secrets = secrets

    async def get(self, path: str, *, key: Any) -> bytes:
        name = path.rpartition("/")[2]
        if name not in self._secrets:
            raise NotFound(Status(code=404, message=f'secrets "{name}" not found'))
        return msgspec.json.encode({"data": self._secrets[name]})


class Receiver:
    """A web server. It fails the first so many requests (`failures`), and answers the others with `status`."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        self.failures = 0
        self.delay = 0.0

    async def handle(self, request: web.Request) -> web.Response:
        self.got.append((dict(request.headers), await request.read()))
        await asyncio.sleep(self.delay)
        fails = len(self.got) <= self.failures
        return web.Response(status=500 if fails else self.status, text="ok")


class Mailbox:
    """A mail server that keeps what it received, byte for byte."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.mails.append(envelope.content)
        return "250 OK"


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[str, Receiver]]:
    made, app = Receiver(), web.Application()
    app.router.add_post("/{tail:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}/hook", made
    await runner.cleanup()


@pytest.fixture(scope="module")
def sns() -> Iterator[str]:
    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def aws(sns: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "t",
        "AWS_SECRET_ACCESS_KEY": "t",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL_SNS": sns,
        "AWS_ENDPOINT_URL_SQS": sns,
    }.items():
        monkeypatch.setenv(name, value)
    from botocore.session import get_session

    return get_session()


def made(given: Options, writer: Any = None) -> tuple[Announcements, Metrics]:
    metrics = Metrics()
    stand_in: Any = writer or Secrets()
    return Announcements(stand_in, SystemClock(), metrics, lambda: given), metrics


async def test_a_fifo_topic_delivers_once_for_one_deduplication_id(aws: Any) -> None:
    topics, queues = aws.create_client("sns", "eu-west-1"), aws.create_client("sqs", "eu-west-1")
    topic = topics.create_topic(Name="maint.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    queue = queues.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    arn = queues.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topics.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    send, metrics = made(options())
    message = announcement(row(topic=topic), "sns", "SLAStarted")
    await send(message)
    await send(message)
    received = queues.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=0)["Messages"]
    assert [json.loads(each["Body"])["Message"] for each in received] == [message.body.decode()]
    attributes = json.loads(received[0]["Body"])["MessageAttributes"]
    assert attributes["MaintenanceEvent"]["Value"] == "SLAStarted"
    assert attributes["MaintenanceClient"]["Value"] == "Slack_ST2"
    assert metrics.series("pika_notification_success_total") == {(("notifier", "SNSNotifier"),): 2.0}


async def test_a_standard_topic_takes_messages_without_ids(aws: Any) -> None:
    topic = aws.create_client("sns", "eu-west-1").create_topic(Name="plain")["TopicArn"]
    send, _ = made(options())
    await send(announcement(row(topic=topic), "sns", "SLAStarted"))


async def test_a_topic_that_is_not_there_is_a_failure_that_is_counted(aws: Any) -> None:
    send, metrics = made(options())
    with pytest.raises(SendFailed, match="SNS: "):
        await send(announcement(row(topic="arn:aws:sns:eu-west-1:123456789012:none"), "sns", "SLAStarted"))
    assert metrics.series("pika_notification_fail_total") == {(("notifier", "SNSNotifier"),): 1.0}


@pytest.fixture
async def hostile_sns(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[bytes | float]]:
    """Serve these bytes in the place of SNS.

    A number in the list is a pause, and at the end the server stays silent.
    """
    script: list[bytes | float] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # On a busy computer the client may give up before it has sent its request.
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            asked = await reader.readuntil(b"\r\n\r\n")
            for part in script:
                if isinstance(part, bytes):
                    writer.write(part.replace(b"ASKED", asked)[:LONGEST] if b"ASKED" in part else part)
                    await writer.drain()
                else:
                    await asyncio.sleep(part)
            await asyncio.sleep(60)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    environment = {
        "AWS_ACCESS_KEY_ID": "t",
        "AWS_SECRET_ACCESS_KEY": "t",
        "AWS_SESSION_TOKEN": "s3cr3t/token+=",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL_SNS": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield script
    server.close()


async def refused(topics: Topics) -> str:
    with pytest.raises(SendFailed) as caught:
        await topics.publish(Publish("arn:aws:sns:eu-west-1:123456789012:t", "text", "", "", {}))
    return str(caught.value)


LONGEST = 3000
HEAD = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/xml\r\n"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([HEAD, *[b"X: y\r\n", 0.05] * 1000], id="headers without end"),
        pytest.param([HEAD, b"\r\n", *[b"x", 0.05] * 1000], id="a body of small pieces"),
        pytest.param([HEAD, b"\r\n", *[b"x" * 2**20] * 4000], id="a body without end"),
    ],
)
async def test_a_server_of_sns_keeps_no_thread_and_no_memory(
    hostile_sns: list[bytes | float], script: list[bytes | float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("haulout.clients.sns.SECONDS", 0.3)
    hostile_sns[:] = script
    topics = Topics()
    assert (await refused(topics)).startswith("SNS: ")
    all_are_free = threading.Barrier(AT_ONCE)
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(topics._threads, all_are_free.wait, 5) for _ in range(AT_ONCE)))


async def test_a_server_of_sns_that_repeats_the_request_does_not_bring_its_token_into_messages(
    hostile_sns: list[bytes | float],
) -> None:
    error = b"<ErrorResponse><Error><Type>Sender</Type><Code>X</Code><Message>ASKED</Message></Error></ErrorResponse>"
    hostile_sns[:] = [HEAD, b"Content-Length: %d\r\n\r\n" % LONGEST, error.ljust(LONGEST)]
    text = await refused(Topics())
    assert "x-amz-security-token: ..." in text.lower()
    assert "s3cr3t" not in text


async def test_an_answer_that_is_not_of_sns_is_a_failure_that_is_counted(
    aws: Any, receiver: tuple[str, Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a load balancer, whose words are no XML. A message of one that is gone is tried again after it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", receiver[0])
    receiver[1].status = 500
    send, metrics = made(options())
    message = announcement(row(topic="arn:aws:sns:eu-west-1:123456789012:t"), "sns", "SLAStarted")
    with pytest.raises(SendFailed, match="SNS: "):
        await send(message)
    assert metrics.series("pika_notification_fail_total") == {(("notifier", "SNSNotifier"),): 1.0}


async def test_a_webhook_gets_the_payload_signed_and_with_its_key(receiver: tuple[str, Receiver]) -> None:
    url, got = receiver
    said = f"{{url: '{url}', hmacSecret: {{name: h, key: k}}, tokenSecret: {{name: t, key: k}}}}"
    send, _ = made(
        options(f"slaPeriod: 1h\nnotifications: {{webhook: {said}}}"), Secrets(h={"k": "c2VjcmV0"}, t={"k": "dG9rZW4="})
    )
    message = announcement(row(), "webhook", "ObjectsDrained")
    await send(message)
    [(headers, body)] = got.got
    assert body == message.body
    assert headers["X-Signature-256"] == "sha256=" + hmac.new(b"secret", body, hashlib.sha256).hexdigest()
    assert (headers["Authorization"], headers["Idempotency-Key"]) == ("Bearer token", "u-ObjectsDrained")
    assert headers["Content-Type"] == "application/json"


async def test_a_webhook_that_does_not_answer_in_time_is_a_failure(receiver: tuple[str, Receiver]) -> None:
    url, got = receiver
    got.delay = 5.0
    send, metrics = made(options(f"slaPeriod: 1h\nnotifications: {{webhook: {{url: '{url}', requestTimeout: 100ms}}}}"))
    with pytest.raises(SendFailed, match=r"no answer within 0\.1 s"):
        await send(announcement(row(), "webhook", "ObjectsDrained"))
    assert metrics.series("pika_notification_fail_total") == {(("notifier", "WebhookNotifier"),): 1.0}


async def test_a_secret_that_is_not_there_is_told(receiver: tuple[str, Receiver]) -> None:
    said = f"{{url: '{receiver[0]}', hmacSecret: {{name: h, key: k}}}}"
    send, _ = made(options(f"slaPeriod: 1h\nnotifications: {{webhook: {said}}}"))
    with pytest.raises(SendFailed, match="Secret pika-system/h cannot be read"):
        await send(announcement(row(), "webhook", "ObjectsDrained"))


async def test_slack_gets_the_text(receiver: tuple[str, Receiver]) -> None:
    send, _ = made(options(f"slaPeriod: 1h\nnotifications: {{slack: {{url: '{receiver[0]}', channel: '#ops'}}}}"))
    await send(announcement(row(), "slack", "ObjectsDrained"))
    assert json.loads(receiver[1].got[0][1]) == {"text": "Maintenance m1 objects drained on [n1]", "channel": "#ops"}


async def test_every_repetition_of_a_mail_has_the_same_id() -> None:
    mailbox = Mailbox()
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(mailbox), "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        send, _ = made(
            options(f"slaPeriod: 1h\nnotifications: {{mail: {{address: '{address}', from: a@b.c, to: [d@b.c]}}}}")
        )
        for event in ("SLAStarted", "SLAStarted", "ObjectsDrained"):
            await send(announcement(row(), "mail", event))
    first, repeated, other = (
        line for mail in mailbox.mails for line in mail.splitlines() if line.startswith(b"Message-ID")
    )
    assert first == repeated == b"Message-ID: <u-SLAStarted@haulout.dev>"
    assert other == b"Message-ID: <u-ObjectsDrained@haulout.dev>"


async def test_messages_of_one_that_is_gone_are_tried_in_order_until_they_are_delivered(
    receiver: tuple[str, Receiver],
) -> None:
    url, got = receiver
    got.failures = 1
    send, _ = made(options(f"slaPeriod: 1h\nnotifications: {{webhook: {{url: '{url}'}}}}"))
    await send.patiently(tuple(announcement(row(), "webhook", event) for event in ("SLAStarted", "ObjectsDrained")))
    events = [json.loads(body)["event"] for _, body in got.got]
    assert events == ["SLAStarted", "SLAStarted", "ObjectsDrained"]


async def test_an_answer_of_500_is_a_failure(receiver: tuple[str, Receiver]) -> None:
    receiver[1].status = 500
    send, _ = made(options(f"slaPeriod: 1h\nnotifications: {{webhook: {{url: '{receiver[0]}'}}}}"))
    with pytest.raises(SendFailed, match="500"):
        await send(announcement(row(), "webhook", "ObjectsDrained"))


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, True),
        ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": ""}, False),
        ({"HOME": "/nonexistent"}, False),
        ({}, False),
    ],
)
def test_credentials_are_looked_for_where_the_original_looks(environment: dict[str, str], found: bool) -> None:
    assert has_credentials(environment) is found


def test_the_signature_is_that_of_github_and_others() -> None:
    assert signature(b"key", b"body").startswith("sha256=")
