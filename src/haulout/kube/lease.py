"""Leader election with a Lease, compatible with client-go's: only one of several processes leads at a time."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Never

import msgspec
from msgspec import Struct

from haulout.base.backoff import Sleep
from haulout.base.clock import Clock
from haulout.base.number import digits
from haulout.kube.codec import Garbled
from haulout.kube.errors import Conflict, KubeError, NotFound
from haulout.kube.transport import Transport
from haulout.model.meta import wire_micro_time

log = logging.getLogger(__name__)

# As in client-go: between two tries, a candidate waits for the retry period plus up to this multiple of it.
_JITTER = 1.2
_RELEASE_FOR = 2.0
# The label of the Lease of an operator of Haulout, and the annotation with the surfaces that its holder serves, with commas.
LABELS = {"app.kubernetes.io/name": "haulout"}
SERVED = "haulout.dev/surfaces"


class Terms(Struct, frozen=True):
    """The time spans of a leader election, in seconds.

    `duration`: another candidate may take a lease that was not renewed for this long.
    `renew_within`: a leader that could not renew its lease for this long sends no more writes.
    `retry`: the time between two tries.
    """

    duration: float = 15.0
    renew_within: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_within > self.retry * _JITTER > 0:
            raise ValueError(
                f"lease: duration ({self.duration:g} s) must be longer than the renew deadline ({self.renew_within:g} s),"
                f" and that longer than {_JITTER} × the retry period ({self.retry:g} s)"
            )


class Election:
    """A candidate in a leader election with a Lease.

    Spans are measured by `clock.monotonic()` of this process, because another computer's clock may be wrong. So another
    holder's lease has expired once this process has seen no change in it for its duration.

    `labels`, `annotations`: written on the lease when it is taken.
    `release`: give the lease back when `run` is cancelled.
    `on_rewound`: called when the server shows an earlier state of the lease than before: a backup of its storage was
    restored. The lease is read every few seconds, so that this is noticed before anything else.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        release: bool = False,
        random: Random | None = None,
        sleep: Sleep = asyncio.sleep,
        on_rewound: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self.namespace = namespace
        self.name = name
        self._identity = identity
        self._terms = terms or Terms()
        self._metadata = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
        self._release = release
        self._random = random or Random()  # noqa: S311
        self._sleep = sleep
        self._on_rewound = on_rewound
        self._lease: dict[str, Any] = {}
        self._seen_at = 0.0
        self._renewed_at: float | None = None

    @property
    def leading(self) -> bool:
        """Whether we hold the lease, as far as we know. `may_write_until` says whether a write may still be sent."""
        return self._renewed_at is not None

    @property
    def holder(self) -> str:
        """The identity of the last known holder; empty if the lease had none."""
        return _text(_spec(self._lease).get("holderIdentity"))

    def may_write_until(self) -> float | None:
        """Return the `monotonic()` after which nothing may be sent; None if we do not lead."""
        return None if self._renewed_at is None else self._renewed_at + self._terms.renew_within

    def lease_ends_at(self) -> float | None:
        """Return the `monotonic()` from which on another replica may lead; None if we do not lead.

        No request of ours may still be under way then.
        """
        return None if self._renewed_at is None else self._renewed_at + self._terms.duration

    async def run(self, on_gained: Callable[[], None], on_lost: Callable[[], None]) -> Never:
        """Take the lease, renew it, and begin again when it is lost. Every `on_gained` is followed by an `on_lost`.

        With `release`, cancelling gives the lease back. Everything that needs the lease must have ended before.
        """
        try:
            while True:
                await self._acquire()
                log.info("lease gained", extra=self._fields())
                on_gained()
                try:
                    await self._keep()
                    log.info("lease lost", extra=self._fields(holder=self.holder))
                finally:
                    self._renewed_at = None
                    on_lost()
        finally:
            if self._release and self.holder == self._identity:
                await self._give_back()

    async def _acquire(self) -> None:
        while not await self._tried(self._clock.monotonic() + self._terms.renew_within):
            await self._sleep(self._terms.retry * (1 + self._random.uniform(0, _JITTER)))

    async def _keep(self) -> None:
        """Renew the lease again and again. Return once another replica holds it, or it could not be renewed in time."""
        while True:
            await self._sleep(self._terms.retry)
            if not await self._renewed():
                return

    async def _renewed(self) -> bool:
        deadline = self.may_write_until()
        assert deadline is not None
        while (remaining := deadline - self._clock.monotonic()) > 0:
            if await self._tried(deadline):
                return True
            if self.holder not in ("", self._identity):
                return False
            await self._sleep(min(self._terms.retry, remaining))
        return False

    async def _tried(self, deadline: float) -> bool:
        try:
            return await self._attempt(deadline)
        except Conflict:
            # Another replica has written the Lease first, which is normal. The next try reads it again.
            return False
        except KubeError as error:
            log.warning("lease attempt failed", extra=self._fields(error=str(error)))
            return False

    async def _attempt(self, deadline: float) -> bool:
        """Try once to take or renew the lease. Return False if another replica holds it.

        The lease's duration counts from the start of the try: when the server stored the renewal is not known.
        """
        started_at = self._clock.monotonic()
        if not await self._renewed_unseen(deadline):
            await self._look(deadline)
            if self.holder not in ("", self._identity) and self._clock.monotonic() < self._runs_out_at():
                return False
            await self._store(self._claim(), deadline)
        self._renewed_at = started_at
        return True

    async def _renewed_unseen(self, deadline: float) -> bool:
        """Renew the lease without reading it first. Return False if that is not possible.

        This takes one request instead of two, as long as no other client changes the lease.
        """
        if self._renewed_at is None or self.holder != self._identity:
            return False
        try:
            await self._store(self._claim(), deadline)
        except (Conflict, NotFound):
            return False
        return True

    def _runs_out_at(self) -> float:
        stated = _spec(self._lease).get("leaseDurationSeconds")
        return self._seen_at + (stated if isinstance(stated, int) and stated > 0 else self._terms.duration)

    def _claim(self) -> dict[str, Any]:
        """Return the lease with us as its holder. Fields that other clients have set are kept."""
        spec, now = _spec(self._lease), wire_micro_time(self._clock.now())
        transitions = spec.get("leaseTransitions")
        count = transitions if isinstance(transitions, int) else 0
        kept = self.holder == self._identity
        return self._with_spec(
            holderIdentity=self._identity,
            leaseDurationSeconds=math.ceil(self._terms.duration),
            acquireTime=(kept and _text(spec.get("acquireTime"))) or now,
            renewTime=now,
            leaseTransitions=count + (not kept and bool(self._lease)),
        )

    def _with_spec(self, **fields: Any) -> dict[str, Any]:
        meta = self._lease.get("metadata")
        kept = meta if isinstance(meta, dict) else {}
        noted = {name: {**(kept.get(name) or {}), **values} for name, values in self._metadata.items() if values}
        return {
            **self._lease,
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**kept, **noted, "name": self.name, "namespace": self.namespace},
            "spec": {**_spec(self._lease), **fields},
        }

    async def _look(self, deadline: float) -> None:
        try:
            self._see(await self._request("GET", self._path, None, deadline))
        except NotFound:
            self._lease = {}

    async def _store(self, lease: dict[str, Any], deadline: float) -> None:
        """Create the lease, or replace the version that was read last. Raises `Conflict` if there is a newer one."""
        if self._lease:
            self._see(await self._request("PUT", self._path, lease, deadline))
        else:
            self._see(await self._request("POST", self._collection, lease, deadline))

    def _see(self, lease: dict[str, Any]) -> None:
        if _is_earlier(lease, self._lease):
            self._on_rewound()
        if lease.get("spec") != self._lease.get("spec"):
            self._seen_at = self._clock.monotonic()
        self._lease = lease

    async def _give_back(self) -> None:
        deadline = self._clock.monotonic() + _RELEASE_FOR
        now = wire_micro_time(self._clock.now())
        try:
            # A renewal that was cancelled before its answer came may have changed the version.
            await self._look(deadline)
            if self.holder == self._identity:
                released = self._with_spec(holderIdentity="", leaseDurationSeconds=1, acquireTime=now, renewTime=now)
                await self._store(released, deadline)
                log.info("lease given back", extra=self._fields())
        except KubeError as error:
            log.warning("lease not given back", extra=self._fields(error=str(error)))

    async def _request(self, method: str, path: str, lease: dict[str, Any] | None, deadline: float) -> dict[str, Any]:
        body = None if lease is None else msgspec.json.encode(lease)
        seconds = max(0.1, deadline - self._clock.monotonic())
        reply = await self._transport.request(method, path, body=body, timeout=seconds)
        try:
            return msgspec.json.decode(reply.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Garbled(f"{method} {path}: not a Lease: {error}") from error

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    @property
    def _path(self) -> str:
        return f"{self._collection}/{self.name}"

    def _fields(self, **more: str) -> dict[str, str]:
        return {"lease": f"{self.namespace}/{self.name}", "identity": self._identity, **more}


def _is_earlier(lease: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether this is an earlier state of the same lease."""
    metas = [each.get("metadata") for each in (lease, known)]
    fresh, old = ({} if not isinstance(meta, dict) else meta for meta in metas)
    versions = [digits(_text(meta.get("resourceVersion")), 20) for meta in (fresh, old)]
    is_known = bool(old.get("uid")) and old.get("uid") == fresh.get("uid")
    return is_known and None not in versions and versions[0] < versions[1]  # type: ignore[operator]


def _spec(lease: dict[str, Any]) -> dict[str, Any]:
    spec = lease.get("spec")
    return spec if isinstance(spec, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
