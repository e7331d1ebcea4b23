"""The vCenters of all zones, from the event loop: what blocks is done in a thread, sessions are opened and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from yarl import URL

from haulout.surfaces.esx.options import VCenterSettings

if TYPE_CHECKING:
    from haulout.clients.vcenter import VCenter

ZONE_VARIABLE = "$AZ"
T = TypeVar("T")


class VCenterError(Exception):
    """What failed, in one line that holds no secret."""


class ToolsUnavailable(VCenterError):
    """The guest cannot be asked to shut down."""


class VCenters:
    """The sessions with the vCenters of all zones.

    They share one thread, because the library blocks. The last user signs out of every vCenter.
    """

    def __init__(self, settings: Callable[[], VCenterSettings | None]) -> None:
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vcenter")
        self._sessions: dict[str, VCenter] = {}
        self._callers = 0

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Return a session, which stays open for the next call."""
        self._callers += 1
        try:
            yield
        finally:
            self._callers -= 1
            if not self._callers:
                asyncio.get_running_loop().run_in_executor(self._thread, self._sign_out)

    async def call(self, zone: str, what: Callable[[VCenter], T]) -> T:
        async with self.kept():
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._called, zone, what)

    def close(self) -> None:
        """Wait for what is under way, and sign out."""
        self._thread.shutdown()

    def _called(self, zone: str, what: Callable[[VCenter], T]) -> T:
        try:
            if zone not in self._sessions:
                self._sessions[zone] = self._signed_in(zone)
            return what(self._sessions[zone])
        except VCenterError:
            raise
        except Exception as error:  # noqa: BLE001 - the library and what lies behind it fail in many ways
            # The state of the session is unknown: the next call opens a new one.
            session = self._sessions.pop(zone, None)
            if session is not None:
                session.drop()
            raise VCenterError(f"asking the vCenter of zone {zone}: {_words(error)}") from None

    def _signed_in(self, zone: str) -> VCenter:
        # What starts fast must not wait for 15 MiB that only some need.
        from haulout.clients.vcenter import VCenter

        settings = self._settings()
        login = settings.credentials.get(zone) if settings else None
        if settings is None or login is None:
            raise VCenterError(f"there are no credentials for zone {zone}")
        return VCenter(address(settings.template_url, zone), login.username, login.password, insecure=settings.insecure)

    def _sign_out(self) -> None:
        # Another call may have begun in the meantime.
        if not self._callers:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()


def address(template: str, zone: str) -> URL:
    try:
        url = URL(template.replace(ZONE_VARIABLE, zone).rstrip("/") + "/sdk")
    except ValueError:
        raise VCenterError("templateUrl is no URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise VCenterError("templateUrl is no URL")
    return url


def _words(error: Exception) -> str:
    """Return a fault in one line: by itself it prints all its fields over many."""
    text = getattr(error, "msg", None) or ("" if hasattr(error, "faultCause") else str(error))
    return f"{type(error).__name__.rpartition('.')[2]}: {text}".removesuffix(": ").replace("\n", " ")
