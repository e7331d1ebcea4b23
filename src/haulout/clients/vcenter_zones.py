"""The sessions with the vCenters of all zones, for use on the event loop. Blocking calls run in threads.

See decision 0157.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from yarl import URL

from haulout.clients.cutoff import Cutoff
from haulout.clients.peers import without
from haulout.kube.errors import one_line
from haulout.surfaces.esx.options import Login, VCenterSettings

if TYPE_CHECKING:
    from haulout.clients.vcenter import VCenter

ZONE_VARIABLE = "$AZ"
_ZONE = re.compile(r"[-A-Za-z0-9_.]{0,63}")
# Seconds for one call, with all the requests that it takes: sign-in, the names of all hosts, and the answer.
CALL_WITHIN = 300.0
T = TypeVar("T")


class VCenterError(Exception):
    """A request to a vCenter failed. The message is one line and holds no secret."""


class ToolsUnavailable(VCenterError):
    """The guest system cannot be asked to shut down, because its VMware Tools do not run."""


class VCenters:
    """The sessions with the vCenters of all zones."""

    def __init__(self, settings: Callable[[], VCenterSettings | None]) -> None:
        self._settings = settings
        self._zones: dict[str, _Zone] = {}

    def kept(self, zone: str) -> AbstractAsyncContextManager[None]:
        """Keep the session of a zone open within the `with` block, so that its calls share it."""
        return self._zone(zone).kept()

    async def call(self, zone: str, what: Callable[[VCenter], T]) -> T:
        return await self._zone(zone).call(what)

    def close(self) -> None:
        """Wait for calls and sign-outs that are under way, and end the threads."""
        for zone in self._zones.values():
            zone.close()

    def _zone(self, name: str) -> _Zone:
        # The name is from a Node, and each zone has a thread.
        self._login(name)
        if name not in self._zones:
            self._zones[name] = _Zone(name, self._signed_in, lambda: self._login(name)[1].password)
        return self._zones[name]

    def _login(self, zone: str) -> tuple[VCenterSettings, Login]:
        settings = self._settings()
        login = settings.credentials.get(zone) if settings else None
        if settings is None or login is None:
            raise VCenterError(f"there are no credentials for zone {zone}")
        return settings, login

    def _signed_in(self, zone: str, cutoff: Cutoff) -> VCenter:
        # Imported here, because the library takes 15 MiB, and few installations need it.
        from haulout.clients.vcenter import VCenter

        settings, login = self._login(zone)
        url = address(settings.template_url, zone)
        return VCenter(url, login.username, login.password, cutoff, insecure=settings.insecure)


class _Zone:
    """The session with the vCenter of one zone.

    The library blocks, so its calls run in a thread. Each zone has its own, so that no vCenter keeps another waiting.
    When the last caller is done, the session is closed.
    """

    def __init__(self, name: str, sign_in: Callable[[str, Cutoff], VCenter], password: Callable[[], str]) -> None:
        self._name = name
        self._password = password
        self._sign_in = sign_in
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"vcenter-{name}")
        self._session: VCenter | None = None
        self._cutoff = Cutoff()
        self._is_busy = False
        self._callers = 0

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        self._callers += 1
        try:
            yield
        finally:
            self._callers -= 1
            if not self._callers:
                if self._is_busy:
                    # All callers were cancelled: the process ends. It must not wait for a vCenter that is silent.
                    self._cutoff.cut()
                asyncio.get_running_loop().run_in_executor(self._thread, self._sign_out)

    async def call(self, what: Callable[[VCenter], T]) -> T:
        async with self.kept():
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._called, what)

    def close(self) -> None:
        self._thread.shutdown()

    def _called(self, what: Callable[[VCenter], T]) -> T:
        try:
            with self._limited():
                if self._session is None:
                    self._session = self._sign_in(self._name, self._cutoff)
                return what(self._session)
        except VCenterError as error:
            raise type(error)(self._line(str(error))) from None
        except Exception as error:  # noqa: BLE001 - the library and what lies behind it fail in many ways
            words = f"no end within {CALL_WITHIN:g} s" if self._cutoff.is_cut else _words(error)
            # The state of the session is unknown, so the next call opens a new one.
            self._forget()
            raise VCenterError(self._line(f"asking the vCenter of zone {self._name}: {words}")) from None

    def _line(self, text: str) -> str:
        """Return an error message as one line without the password, which a server may repeat."""
        return one_line(without(text, (self._password(),)))

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Cut the connections if what is within the `with` block takes too long."""
        timer = threading.Timer(CALL_WITHIN, self._cutoff.cut)
        timer.daemon = True
        timer.start()
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            timer.cancel()

    def _forget(self) -> None:
        if self._session is not None:
            self._session.drop()
        self._session = None
        self._cutoff.close()
        self._cutoff = Cutoff()

    def _sign_out(self) -> None:
        # Keep the session if another call has begun in the meantime.
        if not self._callers and self._session is not None:
            with self._limited():
                self._session.close()
            self._forget()


def address(template: str, zone: str) -> URL:
    # The zone is the value of a label. In other characters, a kubelet could name another server.
    if not _ZONE.fullmatch(zone):
        raise VCenterError("the zone is not the value of a label")
    try:
        url = URL(template.replace(ZONE_VARIABLE, zone).rstrip("/") + "/sdk")
    except ValueError:
        raise VCenterError("templateUrl is no URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise VCenterError("templateUrl is no URL")
    return url


def _words(error: Exception) -> str:
    """Return an error of the library in one line. Its own text has many lines, with all fields of the fault."""
    text = getattr(error, "msg", None) or ("" if hasattr(error, "faultCause") else str(error))
    return f"{type(error).__name__.rpartition('.')[2]}: {text}".removesuffix(": ").replace("\n", " ")
