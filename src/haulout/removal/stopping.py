"""Stops the operator before anything is removed: no process may set again what is about to go."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from haulout.acts.caller import Caller
from haulout.base.backoff import Sleep
from haulout.base.clock import Clock
from haulout.core.act import PersonalWrite, Verb
from haulout.core.remains import LEASES, PODS
from haulout.kube.lease import LABELS, SERVED
from haulout.removal.survey import DEPLOYMENTS, Erasure, Survey, Wanted
from haulout.surfaces.registry import all_declarations

Json = Mapping[str, Any]

STOP = "the operator, which is stopped first"
# A Lease that is not renewed expires after its duration, 15 s unless the settings say otherwise.
# A pod of the operator may take 75 s to end: it waits for a last scrape of its metrics.
PATIENCE, LOOK_EVERY = timedelta(seconds=120), 1.0
USUAL_SECONDS, LONGEST_SECONDS = 15, 3600


class StillRunning(Exception):
    """The error of an operator that goes on. Its text says which one and what to do."""


async def stops(survey: Survey) -> list[Erasure]:
    """Return the writes that scale the operator and the console to zero."""
    return [
        Erasure(
            STOP,
            PersonalWrite(
                Verb.PATCH,
                DEPLOYMENTS,
                str(each["metadata"]["name"]),
                str(each["metadata"]["namespace"]),
                {"spec": {"replicas": 0}},
            ),
            f"scale from {(each.get('spec') or {}).get('replicas', 1)} to 0",
        )
        for each in await survey.labelled(DEPLOYMENTS)
        if (each.get("spec") or {}).get("replicas", 1) != 0
    ]


async def surfaces_of_others(caller: Caller, now: datetime) -> dict[str, str]:
    """Return the surfaces that another operator serves, such as their original, each with a sentence about its Lease.

    An operator of ours may hold the Lease of an original, too: then it is the holder of its own Lease.
    """
    held = [each for each in await caller.select(LEASES) if _is_held(each, now)]
    ours = {each["spec"]["holderIdentity"] for each in held if _is_labelled(each)}
    names = {each.original.lease: each.name for each in all_declarations() if each.original is not None}
    return {
        names[each["metadata"]["name"]]: f"{each['spec']['holderIdentity']} holds Lease {_place(each)}"
        for each in held
        if each["metadata"]["name"] in names and each["spec"]["holderIdentity"] not in ours
    }


def _is_held(lease: Json, now: datetime) -> bool:
    spec = lease.get("spec") or {}
    try:
        renewed_at = datetime.fromisoformat(str(spec.get("renewTime")))
    except ValueError:
        return False
    if not spec.get("holderIdentity") or renewed_at.tzinfo is None:
        return False
    return now - renewed_at < timedelta(seconds=_duration(spec))


def _duration(spec: Json) -> int:
    written = spec.get("leaseDurationSeconds")
    return written if isinstance(written, int) and 0 < written < LONGEST_SECONDS else USUAL_SECONDS


def _is_labelled(lease: Json) -> bool:
    return LABELS.items() <= (lease["metadata"].get("labels") or {}).items()


class OperatorWatch:
    """Watches the Leases and pods of operators until none is left.

    A Lease that another computer renews is judged by whether it changes, because the clocks may differ.
    """

    def __init__(self, caller: Caller, wanted: Wanted, clock: Clock, sleep: Sleep) -> None:
        self._caller = caller
        self._wanted = wanted
        self._clock = clock
        self._sleep = sleep
        self._seen: dict[str, tuple[str, datetime]] = {}
        self._renewed: set[str] = set()

    async def wait(self) -> None:
        """Wait until no operator is left that serves one of the surfaces. Raises StillRunning."""
        ends_at = self._clock.now() + PATIENCE
        while problem := await self._problem():
            if self._clock.now() >= ends_at or (self._renewed and not self._wanted.is_all):
                raise StillRunning(problem)
            await self._sleep(LOOK_EVERY)

    async def _problem(self) -> str:
        for lease in await self._caller.select(LEASES):
            holder = (lease.get("spec") or {}).get("holderIdentity")
            if holder and self._concerns(lease) and not self._has_expired(lease):
                return self._advice(f"{holder} holds Lease {_place(lease)}")
        if self._wanted.is_all:
            label = ",".join(f"{name}={value}" for name, value in LABELS.items())
            for pod in await self._caller.select(PODS, label, self._wanted.namespace):
                if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                    return self._advice(f"pod {_place(pod)} is there")
        return ""

    def _advice(self, fact: str) -> str:
        if self._wanted.is_all:
            return f"an operator is still running: {fact}. Stop it, and run this again"
        names = ", ".join(self._wanted.surfaces)
        return (
            f"an operator still serves {names}: {fact}. Remove it from `surfaces` in haulout.yaml (with Helm: in the values),"
            " wait for the new pods, and run this again"
        )

    def _concerns(self, lease: Json) -> bool:
        metadata = lease["metadata"]
        if metadata.get("name") in {each.original.lease for each in self._wanted.declarations() if each.original}:
            return True
        served = str((metadata.get("annotations") or {}).get(SERVED, "")).split(",")
        return _is_labelled(lease) and (self._wanted.is_all or any(name in served for name in self._wanted.surfaces))

    def _has_expired(self, lease: Json) -> bool:
        spec, place, now = lease["spec"], _place(lease), self._clock.now()
        written = f"{spec.get('holderIdentity')} {spec.get('renewTime')}"
        first, since = self._seen.get(place, ("", now))
        if first != written:
            self._renewed |= {place} if first else set()
            self._seen[place] = (written, now)
            return False
        return now - since > timedelta(seconds=_duration(spec))


def _place(target: Json) -> str:
    return f"{target['metadata'].get('namespace')}/{target['metadata'].get('name')}"
