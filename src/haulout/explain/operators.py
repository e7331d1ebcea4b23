"""Whether an operator leads in a cluster, since when none does, and which surfaces no running operator serves.

See decision 0173.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from haulout.base.bounds import instant
from haulout.base.clock import SystemClock
from haulout.base.spans import span_text
from haulout.explain.home import home_endpoint
from haulout.explain.setup import Setup, setup_of
from haulout.explain.unread_text import unread_text
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ApiError, KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.lease import LABELS, SERVED
from haulout.kube.transport import Transport
from haulout.manifests.documents import NAMESPACE
from haulout.runtime.interruption import run_command
from haulout.surfaces.registry import surface

DEFAULT_LEASE = (NAMESPACE, "haulout")
LEASES = "/apis/coordination.k8s.io/v1"
ANSWER_WITHIN = 10.0
NO_OPERATOR = "NO OPERATOR IS RUNNING"
NOTHING_MOVES = "nothing below will move"
# A Lease without a duration counts as one of client-go.
DURATION = timedelta(seconds=15)
# A Lease that has expired by our clock is read again so often, after so many seconds each. If it is renewed, our clock is wrong.
LOOKS, LOOK_EVERY = 6, 0.5

Json = Mapping[str, Any]


class LeaseHolder(msgspec.Struct, frozen=True, rename="camel"):
    """A process that holds a Lease.

    `lease`: NAMESPACE/NAME. `holder`: its identity. `surfaces`: those that it serves; empty if it does not say so.
    """

    lease: str
    holder: str
    surfaces: tuple[str, ...] = ()


class OperatorState(msgspec.Struct, frozen=True, rename="camel"):
    """Whether an operator leads in a cluster.

    `is_leading`: null if that is unknown. `since`: since when no operator leads, if that is known.
    `why`: how we know; while an operator leads, what each process serves. `act`: what to do. `operators`: the processes of Haulout that lead.
    `not_served`: surfaces that no running operator serves.
    """

    is_leading: bool | None = None
    since: datetime | None = None
    why: str = ""
    act: str = ""
    operators: tuple[LeaseHolder, ...] = ()
    not_served: tuple[str, ...] = ()

    @property
    def stands_still(self) -> bool:
        """Whether nothing moves in the cluster, because no operator leads."""
        return self.is_leading is False

    @property
    def still_text(self) -> str:
        """Say of something that would move that it stands still, and since when; empty if an operator leads."""
        if not self.stands_still:
            return ""
        return f"standing still since {_at(self.since)}" if self.since else "standing still"

    @property
    def is_wrong(self) -> bool:
        """Whether commands end with 1: no operator leads, or none serves one of the surfaces."""
        return self.stands_still or bool(self.not_served)

    @property
    def exit_code(self) -> int:
        return 1 if self.is_wrong else 0


UNKNOWN = OperatorState()


async def operator_state(
    setup: Setup, transport: Transport, now: Callable[[], datetime], *, others: Iterable[str] = ()
) -> OperatorState:
    """Read from the cluster whether an operator leads, and which surfaces it serves.

    `others`: surfaces beside those of the setup whose objects exist.
    """
    return await _Reading(setup, transport, now).state(tuple(others))


async def is_namespace_missing(namespace: str, transport: Transport) -> bool:
    """Whether the server says that there is no such namespace. It is False if we may not ask."""
    try:
        await transport.request("GET", f"/api/v1/namespaces/{namespace}", timeout=ANSWER_WITHIN)
    except NotFound as error:
        return error.of_object
    except (ApiError, KubeError, TimeoutError):
        return False
    return False


def operator_lines(found: OperatorState, now: datetime, effect: str = NOTHING_MOVES) -> list[str]:
    """Return the first lines of what a command prints, if an operator is missing or there are several; else none.

    `effect`: what follows from it that no operator runs.
    """
    return [*_absence(found, now, effect), *_unserved(found), *_several(found)]


def print_absence(cluster: Mapping[str, Any], effect: str) -> None:
    """Warn on standard error if no operator leads. `effect`: what follows from that. What cannot be read says nothing."""
    try:
        endpoint = home_endpoint(cluster)
        found = run_command(_state_at(endpoint, setup_of("", endpoint, is_lenient=True)))
    except (KubeError, TimeoutError, click.ClickException):
        return
    if found.stands_still or found.not_served:
        for line in operator_lines(found, SystemClock().now(), effect):
            click.echo(line, err=True)


async def _state_at(endpoint: Endpoint, setup: Setup) -> OperatorState:
    transport = HttpTransport(endpoint, SystemClock())
    try:
        return await operator_state(setup, transport, SystemClock().now)
    finally:
        await transport.close()


def _at(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _absence(found: OperatorState, now: datetime, effect: str) -> Iterator[str]:
    if found.stands_still:
        yield f"{NO_OPERATOR}: {effect}" + (
            f" (since {_at(found.since)}, {span_text(now - found.since)} ago)" if found.since else ""
        )
        yield f"  {found.why}. {found.act}"
    elif found.is_leading is None and found.why:
        yield f"It is unknown whether an operator is running: {found.why}"
        if found.act:
            yield f"  If none is, {effect}. {found.act}"


def _unserved(found: OperatorState) -> Iterator[str]:
    if found.not_served and not found.stands_still:
        names = ", ".join(found.not_served)
        yield f"NO RUNNING OPERATOR SERVES {names}: none of its objects below will move"
        where = "Add" if found.operators else "Start the operator that serves it, or add"
        yield f"  {found.why}. {where} {names} to `surfaces` in {'its' if found.operators else 'a'} haulout.yaml"


def _several(found: OperatorState) -> Iterator[str]:
    if len(found.operators) > 1:
        named = ", ".join(f"{each.lease} (held by {each.holder})" for each in found.operators)
        yield f"{len(found.operators)} OPERATORS ARE RUNNING in this cluster, and both act on its nodes: {named}"
        yield "  Stop all but one"


class _Lease(msgspec.Struct, frozen=True):
    """A Lease as read: `lease` NAMESPACE/NAME, and since when no process holds it; None while one does."""

    lease: str
    holder: str
    surfaces: tuple[str, ...]
    ended_at: datetime | None
    renewed_at: datetime | None = None

    @property
    def operator(self) -> LeaseHolder:
        return LeaseHolder(self.lease, self.holder, self.surfaces)


class _Reading:
    """Reads the Leases of a cluster for one answer."""

    def __init__(self, setup: Setup, transport: Transport, now: Callable[[], datetime]) -> None:
        self._setup = setup
        self._transport = transport
        self._now = now
        self._unread: list[str] = []

    async def state(self, others: tuple[str, ...]) -> OperatorState:
        setup = self._setup
        own = setup.leader if setup.together else DEFAULT_LEASE
        if setup.together and not own[1]:
            # leader.elect is false: such an operator leaves no trace that could be read.
            return OperatorState(operators=tuple(each.operator for each in await self._labelled() if not each.ended_at))
        leases = [await self._checked(each) for each in await self._leases(own)]
        leading = tuple(each.operator for each in leases if not each.ended_at)
        originals = await self._originals(others)
        held = {name: lease for name, lease in originals.items() if not lease.ended_at}
        if leading or held:
            missing = self._missing(leading, originals, others)
            return OperatorState(is_leading=True, operators=leading, not_served=missing, why=_serving(leading, held))
        if self._unread:
            return OperatorState(why=self._unread[0])
        if not setup.together and not leases and not originals:
            # A drop-in or an original that elects no leader leaves no trace that could be read.
            why = (
                f"there is no Lease {'/'.join(own)}, and none of an original; an operator that elects no leader"
                " (leader.elect: false, LEADER_ELECTION=false) has none"
            )
            return OperatorState(why=why, act=self._act())
        return await self._absent([*leases, *([] if setup.together else originals.values())])

    async def _absent(self, leases: list[_Lease]) -> OperatorState:
        ended = [each for each in leases if each.ended_at]
        newest = max(ended, key=lambda each: each.ended_at or self._now(), default=None)
        act = self._act()
        if newest is None:
            namespace, name = self._setup.leader if self._setup.together else DEFAULT_LEASE
            why = f"there is no Lease {namespace}/{name}"
            if namespace and await is_namespace_missing(namespace, self._transport):
                why += f", because the namespace {namespace} does not exist: a running operator cannot lead"
                act = f"Create it: kubectl create namespace {namespace}. {act}"
            return OperatorState(False, None, why, act)
        last = f"was last held by {newest.holder}" if newest.holder else "was released"
        return OperatorState(False, newest.ended_at, f"Lease {newest.lease} {last}", act)

    def _act(self) -> str:
        if namespace := self._setup.deployment[0]:
            name = self._setup.deployment[1]
            return f"Find out why: kubectl -n {namespace} describe deployment {name} && kubectl -n {namespace} logs deployment/{name}"
        return "Start it: haulout run, or see how to install it: haulout help manifests"

    async def _leases(self, own: tuple[str, str]) -> list[_Lease]:
        """Return the Leases of operators in the cluster, after those in doubt were read again."""
        found = await self._found(own)
        doubtful = [each for each in found if each.ended_at and each.holder]
        if not doubtful or any(not each.ended_at for each in found):
            return found
        # The clock of this computer may be ahead of that of the operator. A leader renews its Lease every few seconds.
        before = {each.lease: each.renewed_at for each in doubtful}
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK_EVERY)
            again = await self._found(own)
            renewed = [each for each in again if each.holder and before.get(each.lease) not in (None, each.renewed_at)]
            if renewed:
                return [msgspec.structs.replace(each, ended_at=None) for each in renewed]
        return found

    async def _checked(self, lease: _Lease) -> _Lease:
        """Return the Lease, as ended if its holder is a pod of the operator's Deployment and is gone."""
        namespace, deployment = self._setup.deployment
        # The holder of a Lease is named by its host name, which is the pod's name, and a unique suffix.
        pod = lease.holder.rpartition("_")[0]
        if lease.ended_at or not deployment or not pod.startswith(f"{deployment}-"):
            return lease
        try:
            await self._transport.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}", timeout=ANSWER_WITHIN)
        except NotFound as error:
            is_gone = error.of_object
            return msgspec.structs.replace(lease, ended_at=lease.renewed_at or self._now()) if is_gone else lease
        except (ApiError, KubeError, TimeoutError):
            pass
        return lease

    async def _found(self, own: tuple[str, str]) -> list[_Lease]:
        found = {each.lease: each for each in await self._labelled()}
        place = "/".join(own)
        if place not in found and (lease := await self._one(*own)) is not None:
            found[place] = lease
        return list(found.values())

    async def _labelled(self) -> list[_Lease]:
        """Return the Leases that operators of Haulout have labelled. A missing right is noted: there may be others."""
        selector = ",".join(f"{name}={value}" for name, value in LABELS.items())
        return [self._read(each) for each in await self._list({"labelSelector": selector}) if _is_operators(each)]

    async def _list(self, query: Mapping[str, str]) -> list[Json]:
        try:
            reply = await self._transport.request("GET", f"{LEASES}/leases", query=query, timeout=ANSWER_WITHIN)
        except NotFound:
            return []
        except (ApiError, KubeError, TimeoutError) as error:
            self._note("leases.coordination.k8s.io", error)
            return []
        items = _decoded(reply.body).get("items")
        return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []

    async def _one(self, namespace: str, name: str) -> _Lease | None:
        if not namespace:
            return None
        try:
            path = f"{LEASES}/namespaces/{namespace}/leases/{name}"
            reply = await self._transport.request("GET", path, timeout=ANSWER_WITHIN)
        except NotFound:
            return None
        except (ApiError, KubeError, TimeoutError) as error:
            self._note(f"leases.coordination.k8s.io in {namespace}", error)
            return None
        # This user may read the Lease that decides, so that a missing right to list others does not matter.
        self._unread.clear()
        return self._read(_decoded(reply.body))

    def _note(self, what: str, error: Exception) -> None:
        text = unread_text(what, error)
        if text not in self._unread:
            self._unread.append(text)

    def _read(self, lease: Json) -> _Lease:
        metadata, spec = _part(lease, "metadata"), _part(lease, "spec")
        holder = str(spec.get("holderIdentity") or "")
        seconds = spec.get("leaseDurationSeconds")
        lasts = timedelta(seconds=seconds) if isinstance(seconds, int) and 0 < seconds < 86400 else DURATION
        renewed_at, now = _instant(spec.get("renewTime")), self._now()
        is_held = bool(holder) and (renewed_at is None or now - renewed_at <= lasts)
        written = _part(metadata, "annotations").get(SERVED)
        surfaces = tuple(written.split(",")) if isinstance(written, str) and written else ()
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        return _Lease(place, holder, surfaces, None if is_held else renewed_at or now, renewed_at)

    async def _originals(self, others: tuple[str, ...]) -> dict[str, _Lease]:
        """Return the Leases of originals, which the original or Haulout in its place holds, by surface; one held before one ended."""
        names = {*self._setup.names, *others}
        leases = {
            name: original.lease for name in sorted(names) if (original := surface(name).original) and original.lease
        }
        found = dict[str, _Lease]()
        for name, lease in leases.items():
            read = [self._read(each) for each in await self._list({"fieldSelector": f"metadata.name={lease}"})]
            if read:
                found[name] = max(read, key=lambda each: (each.ended_at is None, each.ended_at or self._now()))
        return found

    def _missing(
        self, leading: tuple[LeaseHolder, ...], originals: Mapping[str, _Lease], others: tuple[str, ...]
    ) -> tuple[str, ...]:
        if any(not each.surfaces for each in leading):
            # An earlier version does not say what it serves.
            return ()
        held = {name for name, lease in originals.items() if not lease.ended_at}
        served = {name for each in leading for name in each.surfaces} | held
        wanted = {*(self._setup.names if self._setup.together else originals), *others}
        return tuple(sorted(wanted - served))


def _serving(leading: tuple[LeaseHolder, ...], held: Mapping[str, _Lease]) -> str:
    """Say which process serves which surfaces."""
    originals = (f"{lease.holder} holds {lease.lease} and serves {name}" for name, lease in held.items())
    return "; ".join((*(f"{each.lease} serves {', '.join(each.surfaces)}" for each in leading), *originals))


def _is_operators(lease: Json) -> bool:
    """Whether a Lease is that of an operator. Any tenant may put our label on a Lease, so it has to say what it serves."""
    return isinstance(_part(_part(lease, "metadata"), "annotations").get(SERVED), str)


def _decoded(body: bytes) -> Json:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _part(found: Json, name: str) -> Json:
    part = found.get(name)
    return part if isinstance(part, dict) else {}


def _instant(written: object) -> datetime | None:
    try:
        return instant(datetime.fromisoformat(written)) if isinstance(written, str) else None
    except ValueError:
        return None
