"""Removes Haulout from a cluster: shows what goes, asks, stops the operator, and removes until nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import click
import msgspec

from haulout.acts.answers import missing_right
from haulout.acts.caller import Caller
from haulout.base.backoff import Sleep
from haulout.base.clock import Clock, SystemClock
from haulout.base.visible import page
from haulout.core.act import Need, Verb
from haulout.explain.home import home_endpoint
from haulout.kube.errors import Conflict, Invalid, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.transport import Transport
from haulout.removal.stopping import OperatorWatch, StillRunning, stops, surfaces_of_others
from haulout.removal.survey import REGISTRATIONS, WORK, Erasure, Findings, Survey, Unreadable, Wanted
from haulout.runtime.interruption import run_command

# Objects that change meanwhile are read again. Each look removes nearly everything.
MOST_LOOKS = 20
PODS_WITHIN = timedelta(minutes=5)
LOOK_EVERY, DEFINITIONS_WITHIN = 1.0, 60.0
# The most lines of one group that are printed.
MOST_LINES = 200

Ask = Callable[[], bool]
Say = Callable[[str], None]


class Refused(Exception):
    """The error of a removal that cannot be done, or not to its end."""


def uninstall(wanted: Wanted, cluster: Mapping[str, Any], ask: Ask, *, dry_run: bool) -> int:
    """Carry out `haulout uninstall`. Return its exit code."""
    endpoint = home_endpoint(cluster)

    async def carried_out() -> int:
        transport = HttpTransport(endpoint, SystemClock())
        try:
            return await Removal(transport, wanted, SystemClock(), ask, _say).run(dry_run=dry_run)
        finally:
            await transport.close()

    try:
        return run_command(carried_out())
    except (Refused, StillRunning, Unreadable, KubeError) as error:
        raise click.ClickException(page([str(error)])) from None


def _say(line: str) -> None:
    click.echo(page([line]))


class Removal:
    """One removal. Everything that it needs to know is in the cluster, so that it can be killed and run again."""

    def __init__(
        self, transport: Transport, wanted: Wanted, clock: Clock, ask: Ask, say: Say, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._transport = transport
        self._wanted = wanted
        self._clock = clock
        self._ask = ask
        self._say = say
        self._sleep = sleep
        self._pods_are_gone = False

    async def run(self, *, dry_run: bool) -> int:
        """Remove what is wanted, and return the exit code."""
        caller, survey = self._look()
        if self._wanted.is_all and (others := await surfaces_of_others(caller, self._clock.now())):
            for name, holder in others.items():
                self._say(f"surface {name} is left alone, because another operator serves its objects: {holder}")
            self._wanted = msgspec.structs.replace(self._wanted, kept=frozenset(others))
            caller, survey = self._look()
        halts = await stops(survey) if self._wanted.is_all else []
        found = await survey.findings()
        await self._check_rights(caller, found, halts)
        self._show((*halts, *found.erasures), found.advice)
        if not halts and not found.erasures:
            self._say("nothing of Haulout is left here")
            return 0
        if not self._wanted.definitions and (kept := await survey.definitions()):
            names = ", ".join(str(each["metadata"]["name"]).partition(".")[0] for each in kept)
            self._say(f"these definitions stay, with their objects (--definitions removes them): {names}")
        if dry_run:
            self._say("nothing was written: this was a dry run")
            return 0
        if not self._ask():
            self._say("nothing was written")
            return 1
        for each in halts:
            await self._send(caller, each)
        await OperatorWatch(caller, self._wanted, self._clock, self._sleep).wait()
        await self._remove_all()
        await self._await_definitions()
        self._say("done")
        for release in found.releases:
            namespace, _, name = release.partition("/")
            self._say(f"Helm still lists its release. Remove that, too: helm uninstall {name} --namespace {namespace}")
        return 0

    def _look(self) -> tuple[Caller, Survey]:
        caller = Caller(self._transport)
        return caller, Survey(caller, self._wanted, self._clock.now())

    async def _check_rights(self, caller: Caller, found: Findings, halts: Iterable[Erasure]) -> None:
        """Raise Refused with every right that is missing, before anything is written."""
        writes = [each.write for each in (*halts, *found.erasures)]
        needs = dict.fromkeys(
            Need(each.verb, each.endpoint, each.namespace, subresource=each.subresource) for each in writes
        )
        missing = [*found.unread, *[need for need in needs if await caller.may(need) is False]]
        if missing:
            lines = [f"  {missing_right(need).detail}" for need in missing]
            raise Refused("\n".join(("nothing was written, because rights are missing:", *lines)))

    def _show(self, erasures: Iterable[Erasure], advice: Iterable[str]) -> None:
        groups: dict[str, list[str]] = {}
        for each in erasures:
            groups.setdefault(each.phase, []).append(each.line)
        for phase, lines in groups.items():
            self._say(f"{phase}:")
            for line in lines[:MOST_LINES]:
                self._say(f"  {line}")
            if len(lines) > MOST_LINES:
                self._say(f"  and {len(lines) - MOST_LINES} more")
        for line in advice:
            self._say(f"Warning: {line}")

    async def _remove_all(self) -> None:
        last: dict[str, KubeError] = {}
        for _ in range(MOST_LOOKS):
            caller, survey = self._look()
            found = await survey.findings()
            if found.unread:
                raise Refused(missing_right(found.unread[0]).detail)
            if not found.erasures:
                return
            last = {}
            for each in found.erasures:
                if each.phase not in (REGISTRATIONS, WORK):
                    # No node is given back while a pod of ours still works on it.
                    await self._await_pods()
                if (error := await self._send(caller, each)) is not None:
                    last[each.line] = error
            if last and len(last) == len(found.erasures):
                await self._sleep(LOOK_EVERY)
        lines = [f"  {line}: {error}" for line, error in last.items()] or ["  others write these objects all the time"]
        raise Refused("\n".join(("not everything could be removed. Run this again after this is cured:", *lines)))

    async def _send(self, caller: Caller, erasure: Erasure) -> KubeError | None:
        """Send a write. Return the error of one that a later look may make good."""
        try:
            await caller.send(erasure.write, dry_run=False)
        except NotFound:
            return None
        except (Conflict, Invalid) as error:
            return error
        self._say(f"{'removed' if erasure.write.verb is Verb.DELETE else 'changed'} {erasure.line}")
        return None

    async def _await_pods(self) -> None:
        if self._pods_are_gone:
            return
        ends_at = self._clock.now() + PODS_WITHIN
        while pods := await self._look()[1].ending_pods():
            if self._clock.now() > ends_at:
                raise Refused(
                    f"{len(pods)} pods of maintenances have not ended, such as {pods[0]}. Run this again later"
                )
            await self._sleep(LOOK_EVERY)
        self._pods_are_gone = True

    async def _await_definitions(self) -> None:
        """Wait until the definitions are gone: the API server deletes their objects first."""
        if not self._wanted.definitions:
            return
        ends_at = self._clock.monotonic() + DEFINITIONS_WITHIN
        while names := [each["metadata"]["name"] for each in await self._look()[1].definitions()]:
            if self._clock.monotonic() > ends_at:
                raise Refused(
                    f"the API server still deletes {', '.join(names)}: finalizers of other programs keep their objects"
                )
            await self._sleep(LOOK_EVERY)
