"""`haulout status --watch`: draws the fleet anew when it changes, and follows the keys of its user."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
from rich.live import Live

from haulout.base.clock import SystemClock
from haulout.cluster.key import node_key
from haulout.explain.fleet import Fleet
from haulout.explain.fleet_picture import cut, fleet_lines, installation_summary, wrapped_lines
from haulout.explain.installation import Installation
from haulout.explain.keys import keys
from haulout.explain.live import LivePicture
from haulout.explain.node import as_text, explain
from haulout.explain.paint import rich_text
from haulout.explain.setup import Setup
from haulout.explain.status import LOOK_EVERY, fleet_now, read_installation
from haulout.explain.watch_state import WatchState
from haulout.kube.http import HttpTransport
from haulout.runtime.live_console import LiveConsole


class StatusWatch:
    """The picture of a fleet on a terminal, with the choices of its user."""

    def __init__(self, live: LivePicture, setup: Setup, group_by: str, transport: HttpTransport) -> None:
        self._live = live
        self._setup = setup
        self._group_by = group_by
        self._transport = transport
        self._console = LiveConsole(highlight=False)
        self._clock = SystemClock()
        self._state: WatchState | None = WatchState()
        self._pressed = asyncio.Event()
        self._nodes: list[str] = []

    async def run(self) -> None:
        """Draw until the user quits."""
        installation, read_at = await read_installation(self._setup, self._transport), self._clock.monotonic()
        fleet = fleet_now(self._live, self._setup, self._group_by)
        with (
            Live(console=self._console, auto_refresh=False, screen=self._console.is_terminal) as screen,
            keys(self._press) as has_keys,
        ):
            change: asyncio.Task[None] | None = None
            try:
                while self._state is not None:
                    lines = self._lines(fleet, installation, self._state, has_keys=has_keys)
                    screen.update(rich_text(lines), refresh=True)  # type: ignore[arg-type]
                    change = change or asyncio.ensure_future(self._live.wait(LOOK_EVERY))
                    await self._key_or(change)
                    if not change.done():
                        continue
                    change = None
                    self._live.settle()
                    fleet = fleet_now(self._live, self._setup, self._group_by)
                    if self._clock.monotonic() - read_at >= LOOK_EVERY:
                        installation = await read_installation(self._setup, self._transport)
                        read_at = self._clock.monotonic()
            finally:
                if change is not None:
                    change.cancel()

    async def _key_or(self, change: asyncio.Task[None]) -> None:
        """Wait until a key is pressed or the cluster has changed."""
        pressed = asyncio.ensure_future(self._pressed.wait())
        try:
            await asyncio.wait({pressed, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pressed.cancel()
            self._pressed.clear()

    def _press(self, key: str) -> None:
        if self._state is not None:
            self._state = self._state.after(key, self._nodes)
        self._pressed.set()

    def _lines(self, whole: Fleet, installation: Installation, state: WatchState, *, has_keys: bool) -> list[str]:
        fleet = state.applied(whole)
        self._nodes = state.shown_nodes(fleet)
        width = self._console.width
        foot = [state.foot(self._nodes)] if has_keys else []
        if not state.opened:
            foot = [*installation_summary(installation), *foot]
        height = self._console.height - len(foot) - 1 if self._console.is_terminal else None
        if state.opened:
            lines = wrapped_lines(self._node_lines(state.opened, installation), width)[:height]
        else:
            lines = fleet_lines(fleet, width, height, installation.operator)
        return [*lines, "", *(cut(line, width) for line in foot)]

    def _node_lines(self, name: str, installation: Installation) -> list[str]:
        now = datetime.now(UTC)
        found = explain(self._live.kernel, self._setup.enabled, node_key(name), now)
        if found is None:
            return [f"node {name} is gone"]
        found = msgspec.structs.replace(found, settings=self._setup.origin, operator=installation.operator)
        return as_text(found, now).split("\n")
