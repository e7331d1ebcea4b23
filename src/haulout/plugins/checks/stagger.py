"""stagger: passes for a limited number of nodes in each span of time. A node that passes takes one of some Leases."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from haulout.base.clock import after
from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.project import within
from haulout.cluster.rows import LeaseRow, Row
from haulout.core.action import Create, Patch, Write
from haulout.model.meta import wire_micro_time
from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import GoDuration

BUSY = "busy"
_LAST = datetime.max.replace(tzinfo=UTC)
# A lease is still taken at the very instant of its end, and free right after it.
_TICK = timedelta(microseconds=1)


class Stagger(Config, frozen=True, kw_only=True):
    """The settings of a `stagger` check.

    - `duration`: how long a node that has passed keeps its Lease.
    - `leaseName`: the beginning of the Leases' names, which a number follows.
    - `parallel`: the number of Leases, and so of nodes that may pass within the duration.

    - {type: stagger, name: apart, config: {duration: 10m, leaseName: stagger, leaseNamespace: kube-system, parallel: 2}}
    """

    duration: GoDuration
    lease_name: str
    lease_namespace: str
    parallel: int = 1

    @property
    def leases(self) -> "Leases":
        return Leases(self.lease_namespace, self.lease_name, self.parallel)


class Leases(Count, frozen=True):
    """A count of the Leases of a check. Each is in a group of its own name and, while it is taken, in group `BUSY`."""

    namespace: str
    prefix: str
    parallel: int

    @property
    def kind(self) -> str:
        return within("Lease", self.namespace)

    def keys(self, cluster: str) -> list[Key]:
        return [Key(cluster, self.kind, self.namespace, f"{self.prefix}-{i}") for i in range(self.parallel)]

    def groups(self, row: Row) -> Iterable[Membership]:
        if not isinstance(row, LeaseRow) or row.key not in self.keys(row.key.cluster):
            return
        yield Membership(row.key.name)
        if (until := busy_until(row)) is not None:
            yield Membership(BUSY, after(until, _TICK))

    def describe(self, group: object) -> str:
        return f"leases {self.namespace}/{self.prefix} that are taken"


@check("stagger", Stagger, needs=lambda config: frozenset({config.leases.kind}))
def stagger(config: Stagger, inputs: CheckInput) -> Verdict:
    leases = config.leases
    keys = leases.keys(inputs.node.key.cluster)
    if not keys:
        finding, act = "the check has no Leases", "set `parallel` of the check to 1 or more"
        return Verdict(passed=False, info={"availableInSec": []}, finding=finding, act=act)
    if any(_is_ours(key, inputs) for key in keys):
        # The node took a Lease, but its own write failed because another client had changed the node. It keeps that
        # Lease: to take another one, it would have to wait for the end of its own.
        return Verdict(passed=True, take=_nothing, finding="the node has taken a Lease")
    exists = inputs.view.at_least(leases, keys[0].name, 1)
    prepare: tuple[Write, ...] = (
        () if exists else (_created(keys[0], config, inputs, inputs.now - 2 * config.duration),)
    )
    take = partial(_take, config, inputs)
    if inputs.may_wait:
        # The instant is only for explanations. A subject that waits for the limit is woken when it has room.
        frees_at = _frees_at(keys, inputs) if inputs.view.explaining else None
        info = _remaining(keys, inputs) if frees_at is not None else {}
        limit = Limit(leases, BUSY, config.parallel, inputs.node.key.cluster)
        return Verdict(passed=True, until=frees_at, limits=(limit,), info=info, prepare=prepare, take=take)
    ends = [end for key in keys if (end := _busy_until(key, inputs)) is not None]
    name = f"{config.lease_namespace}/{config.lease_name}"
    if len(ends) < len(keys):
        finding = f"{len(keys) - len(ends)} of {len(keys)} Leases {name} are free"
        return Verdict(passed=True, until=min(ends, default=None), prepare=prepare, take=take, finding=finding)
    finding = f"all {len(keys)} Leases {name} are taken"
    return Verdict(passed=False, until=min(ends), info=_remaining(keys, inputs), prepare=prepare, finding=finding)


def busy_until(lease: LeaseRow) -> datetime | None:
    """Return the last instant at which a lease is taken; None if it has no renew time or no duration."""
    if lease.renewed_at is None or lease.duration_for is None:
        return None
    return after(lease.renewed_at, timedelta(seconds=lease.duration_for)) or _LAST


def _is_ours(key: Key, inputs: CheckInput) -> bool:
    taken_at = inputs.turns.get(key)
    lease = inputs.view.get(key, LeaseRow) if taken_at is not None else None
    return lease is not None and (lease.holder, lease.acquired_at) == (inputs.node.key.name, taken_at)


def _nothing() -> tuple[Write, ...]:
    return ()


def _busy_until(key: Key, inputs: CheckInput) -> datetime | None:
    lease = inputs.view.get(key, LeaseRow)
    until = busy_until(lease) if lease is not None else None
    return until if until is not None and inputs.now <= until else None


def _frees_at(keys: list[Key], inputs: CheckInput) -> datetime | None:
    """Return when the first lease becomes free; None while one of them is free."""
    ends = [end for key in keys if (end := _busy_until(key, inputs)) is not None]
    return min(ends) if len(ends) == len(keys) else None


def _remaining(keys: list[Key], inputs: CheckInput) -> dict[str, object]:
    """Return for how many seconds each lease is still taken; nothing while one of them is free."""
    ends = [end for key in keys if (end := _busy_until(key, inputs)) is not None]
    seconds = [(end - inputs.now).total_seconds() for end in ends]
    return {"availableInSec": seconds} if len(ends) == len(keys) else {}


def _take(config: Stagger, inputs: CheckInput) -> tuple[Write, ...] | datetime:
    """Return the write that takes the first free lease for this node. If none is free, return when one will be.

    The write has the resource version as a precondition, so two nodes cannot take the same lease.
    """
    ends: list[datetime] = []
    for key in config.leases.keys(inputs.node.key.cluster):
        if (end := _busy_until(key, inputs)) is not None:
            ends.append(end)
            continue
        lease = inputs.view.get(key, LeaseRow)
        if lease is None:
            return (_created(key, config, inputs, inputs.now, leaseTransitions=0),)
        transitions = 0 if lease.transitions is None else lease.transitions + 1
        spec = _spec(config, inputs, inputs.now, leaseTransitions=transitions)
        return (Patch(key, {"spec": spec}, becomes=_as_taken(lease, config, inputs, transitions)),)
    return min(ends)


def _as_taken(lease: LeaseRow, config: Stagger, inputs: CheckInput, transitions: int) -> LeaseRow:
    return msgspec.structs.replace(
        lease,
        holder=inputs.node.key.name,
        duration_for=_seconds(config),
        acquired_at=inputs.now,
        renewed_at=inputs.now,
        transitions=transitions,
    )


def _created(key: Key, config: Stagger, inputs: CheckInput, at: datetime, **more: int) -> Create:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": _spec(config, inputs, at, **more),
    }
    return Create(key, body)


def _spec(config: Stagger, inputs: CheckInput, at: datetime, **more: int) -> dict[str, object]:
    return {
        "holderIdentity": inputs.node.key.name,
        "acquireTime": wire_micro_time(at),
        "renewTime": wire_micro_time(at),
        "leaseDurationSeconds": _seconds(config),
        **more,
    }


def _seconds(config: Stagger) -> int:
    """Return the duration in whole seconds, without the fraction."""
    return int(config.duration.total_seconds())
