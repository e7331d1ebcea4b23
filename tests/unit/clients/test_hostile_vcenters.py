"""vCenters that are broken or hostile: silent, endless, compressed, elsewhere, or full of nonsense."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from haulout.clients import cutoff, vcenter_zones
from haulout.clients.esx import Hosts
from haulout.clients.vcenter_zones import VCenters
from haulout.runtime.probes import ProbeFailed
from haulout.surfaces.esx.options import Login, VCenterSettings
from haulout.surfaces.esx.vcenter import HostState

PASSWORD = "not for logs, ever"
ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope'
    ' xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>{}</soapenv:Body></soapenv:Envelope>'
)
CONTENT = "".join(
    f'<{name} type="{kind}">{name}</{name}>'
    for name, kind in [
        ("rootFolder", "Folder"),
        ("propertyCollector", "PropertyCollector"),
        ("viewManager", "ViewManager"),
    ]
) + (
    "<about><name>x</name><fullName>x</fullName><vendor>x</vendor><version>6</version><build>1</build><osType>x</osType>"
    "<productLineId>x</productLineId><apiType>x</apiType><apiVersion>6</apiVersion></about>"
    '<sessionManager type="SessionManager">sessionManager</sessionManager>'
)
SESSION = (
    "<key>k</key><userName>u</userName><fullName>u</fullName><loginTime>2026-01-01T00:00:00Z</loginTime>"
    "<lastActiveTime>2026-01-01T00:00:00Z</lastActiveTime><locale>en</locale><messageLocale>en</messageLocale>"
)
EXPIRED = (
    "<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>the session is not authenticated</faultstring>"
    '<detail><NotAuthenticatedFault xmlns="urn:vim25" xsi:type="NotAuthenticated"><object type="Folder">f</object>'
    "<privilegeId>p</privilegeId></NotAuthenticatedFault></detail></soapenv:Fault>"
)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def found(kind: str, name: str, *props: tuple[str, str, str]) -> str:
    values = (f'<propSet><name>{path}</name><val xsi:type="{of}">{value}</val></propSet>' for path, of, value in props)
    return f'<objects><obj type="{kind}">{name}</obj>{"".join(values)}</objects>'


class Simulated:
    """A vCenter with one host, `h`. `calls`: the methods that were called.

    `alarms`: how many alarms the host has. `endless`: lists never end. `expires`: the session ends after so many calls.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.alarms = 0
        self.endless = False
        self.expires: int | None = None

    def answer(self, body: str) -> tuple[int, str]:
        method = re.search(r"Body><(\w+)", body)
        assert method is not None
        self.calls.append(method[1])
        if self.expires is not None and len(self.calls) == self.expires:
            return 500, EXPIRED
        return 200, f'<{method[1]}Response xmlns="urn:vim25">{self._returned(method[1], body)}</{method[1]}Response>'

    def _returned(self, method: str, body: str) -> str:
        match method:
            case "RetrieveServiceContent":
                return f"<returnval>{CONTENT}</returnval>"
            case "Login":
                return f"<returnval>{SESSION}</returnval>"
            case "CreateContainerView":
                return '<returnval type="ContainerView">v</returnval>'
            case "RetrievePropertiesEx" | "ContinueRetrievePropertiesEx":
                token = "<token>more</token>" if self.endless else ""
                return f"<returnval>{token}{self._objects(body)}</returnval>"
            case _:
                return ""

    def _objects(self, body: str) -> str:
        if "ContainerView" in body or self.endless:
            return found("HostSystem", "h-1", ("name", "xsd:string", "h"))
        if "info.name" in body:
            names = re.findall(r">(alarm-\d+)<", body)
            return "".join(found("Alarm", name, ("info.name", "xsd:string", name)) for name in names)
        states = "".join(
            f'<AlarmState><key>{number}</key><entity type="HostSystem">h-1</entity><alarm type="Alarm">alarm-{number}'
            "</alarm><overallStatus>red</overallStatus><time>2026-01-01T00:00:00Z</time></AlarmState>"
            for number in range(self.alarms)
        )
        return found(
            "HostSystem",
            "h-1",
            ("config.product.version", "xsd:string", "7"),
            ("runtime.inMaintenanceMode", "xsd:boolean", "true"),
            ("triggeredAlarmState", "ArrayOfAlarmState", states),
        )

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"(?i)content-length: (\d+)", head)
            assert length is not None
            status, made = self.answer((await reader.readexactly(int(length[1]))).decode())
            content = ENVELOPE.format(made).encode()
            writer.write(f"HTTP/1.1 {status} OK\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)


def replying(*pieces: bytes, every: float = 0.0, repeat: bytes = b"") -> Handler:
    """A server that sends pieces, and then the same for ever."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
        while repeat:
            writer.write(repeat)
            await writer.drain()
            await asyncio.sleep(every)
        await reader.read(1 << 20)
        writer.close()

    return handle


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server on loopback. Its port is the name of its zone."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield str(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


class AllZones(dict[str, Login]):
    """The same credentials for each zone."""

    def get(self, zone: str, default: object = None) -> Login:
        return Login(username="robot", password=PASSWORD)


@pytest.fixture(params=["http"])
def centers(request: pytest.FixtureRequest) -> Iterator[VCenters]:
    url = f"{request.param}://127.0.0.1:$AZ"
    made = VCenters(lambda: VCenterSettings(template_url=url, credentials=AllZones(), insecure=True))
    yield made
    made.close()


async def refusal(centers: VCenters, zone: str) -> str:
    with pytest.raises(ProbeFailed) as caught:
        async with asyncio.timeout(20):
            await Hosts(centers)(("h", zone))
    text = str(caught.value)
    assert PASSWORD not in text
    assert "\n" not in text
    return text


async def test_a_host_of_a_vcenter_that_is_well(centers: VCenters) -> None:
    async with serving(Simulated().handle) as zone:
        assert await Hosts(centers)(("h", zone)) == HostState("7", in_maintenance=True)


async def test_a_silent_vcenter_keeps_no_other_zone_waiting(centers: VCenters) -> None:
    async with serving(silent) as bad, serving(Simulated().handle) as good:
        waiting = asyncio.create_task(Hosts(centers)(("h", bad)))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(20):
            assert await Hosts(centers)(("h", good)) == HostState("7", in_maintenance=True)
        assert not waiting.done()
        # As at the end of the process: what nothing waits for any more is given up, also by the thread.
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        async with asyncio.timeout(20):
            await asyncio.to_thread(centers.close)


DRIP = 0.05


@pytest.mark.parametrize(
    ("centers", "handler"),
    [
        ("http", silent),
        ("http", replying(b"HTTP/1.1 200 OK\r\nX: ", every=DRIP, repeat=b"x")),
        ("http", replying(b"HTTP/1.1 200 OK\r\n\r\n<a>", every=DRIP, repeat=b" ")),
        ("http", replying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", every=DRIP, repeat=b"1\r\n \r\n")),
        ("https", silent),
        ("https", replying(b"\x16\x03\x03\x40\x00\x02", every=DRIP, repeat=b"\x00")),
    ],
    ids=["silent", "headers", "body", "chunks", "silent in the handshake", "handshake"],
    indirect=["centers"],
)
async def test_a_call_that_does_not_end_is_given_up(
    centers: VCenters, handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vcenter_zones, "CALL_WITHIN", 0.5)
    async with serving(handler) as zone:
        assert "no end within 0.5 s" in await refusal(centers, zone)


async def test_pages_that_do_not_end_are_given_up(centers: VCenters, monkeypatch: pytest.MonkeyPatch) -> None:
    from haulout.clients import vcenter

    monkeypatch.setattr(vcenter, "MOST_OBJECTS", 20)
    center = Simulated()
    center.endless = True
    async with serving(center.handle) as zone:
        assert "it has more than 20 objects of one kind" in await refusal(centers, zone)


async def test_an_answer_that_does_not_end_takes_bounded_memory(
    centers: VCenters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutoff, "LONGEST_ANSWER", 1 << 18)
    opened = b'<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/">'
    async with serving(replying(b"HTTP/1.1 200 OK\r\n\r\n", opened, repeat=b" " * 65536)) as zone:
        assert "the answer is longer than 262144 bytes" in await refusal(centers, zone)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx", "compressed"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302 Found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n<html>sorry<br></html>", "Error: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"<a>" * 33334, ""),
        (b"HTTP/1.1 500 \xff\xfe\r\nContent-Length: 2\r\n\r\n\xff\xfe", ""),
        (b"\x00" * 100_000, ""),
        (b"", ""),
    ],
    ids=["compressed", "a redirect", "a page", "nothing", "deeply nested", "no text", "no HTTP", "a hang-up"],
)
async def test_what_is_no_answer_is_an_error_of_its_host(centers: VCenters, answer: bytes, words: str) -> None:
    async with serving(replying(answer)) as zone:
        text = await refusal(centers, zone)
    assert text.startswith(f"host h cannot be judged: asking the vCenter of zone {zone}: ")
    assert words in text


async def test_a_server_without_tls_is_refused() -> None:
    made = VCenters(lambda: VCenterSettings(template_url="https://127.0.0.1:$AZ", credentials=AllZones()))
    async with serving(replying(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as zone:
        assert "SSLError" in await refusal(made, zone)
    made.close()


async def test_thousands_of_alarms_take_one_request(centers: VCenters) -> None:
    center = Simulated()
    center.alarms = 3000
    async with serving(center.handle) as zone:
        host = await Hosts(centers)(("h", zone))
    assert len(host.alarms) == 3000
    assert center.calls.count("RetrievePropertiesEx") == 3


async def test_a_session_that_expires_in_the_middle_is_opened_again(centers: VCenters) -> None:
    center = Simulated()
    center.expires = 3
    async with serving(center.handle) as zone:
        assert "NotAuthenticated" in await refusal(centers, zone)
        assert await Hosts(centers)(("h", zone)) == HostState("7", in_maintenance=True)
    assert center.calls.count("Login") == 2


async def test_a_zone_without_credentials_takes_no_thread() -> None:
    made = VCenters(lambda: VCenterSettings(template_url="http://127.0.0.1:$AZ", credentials={}))
    assert "there are no credentials for zone x" in await refusal(made, "x")
    assert made._zones == {}
