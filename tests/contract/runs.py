"""Runs cases on a site, several at a time, and keeps their transcripts."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self

from tests.contract.build import SHARED_CRDS, is_active
from tests.contract.normal import normal
from tests.contract.records import Transcript
from tests.contract.registry import Case
from tests.contract.world import CRDS, Site, World
from tests.rig.wait import eventually

# Most of the time of a case is waiting for a controller or for silence.
AT_ONCE = 8


class Runs:
    """The transcripts of one site. Cases in two halves run after all the others."""

    def __init__(self, site: Site, cases: Iterable[Case]) -> None:
        prepare(site)
        # The real garbage collector looks for new kinds every half minute: it has to find those of the cases at its start.
        site.start_controllers()
        self._pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE, thread_name_prefix=site.name)
        chosen = list(cases)
        together = {case.name: self._pool.submit(run, site, case) for case in chosen if not case.halves}
        last = [case for case in chosen if case.halves]
        self._together = together
        self._last = self._pool.submit(run_halves, site, last, together.values())

    def transcript(self, case: Case) -> Transcript:
        return self._last.result()[case.name] if case.halves else self._together[case.name].result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)


def run(site: Site, case: Case) -> Transcript:
    with World(site, case.slug) as world:
        begin(world)
        # An answer without what the case goes on with: the transcript up to there says more than the trace.
        try:
            case.run(world)
        except (KeyError, IndexError, TypeError, AttributeError, StopIteration) as error:
            world.steps.append({"noted": "the case broke off", "body": repr(error)})
        return transcript_of(world)


def run_halves(site: Site, cases: list[Case], others: Iterable[Future[Transcript]]) -> dict[str, Transcript]:
    concurrent.futures.wait(others)
    with contextlib.ExitStack() as stack:
        begun: dict[str, tuple[World, Iterator[None]]] = {}
        for case in cases:
            assert case.halves is not None
            world = stack.enter_context(World(site, case.slug))
            begin(world)
            begun[case.name] = world, case.halves(world)
            next(begun[case.name][1])
        if begun:
            site.forget()
        for world, rest in begun.values():
            # The real server has restarted.
            world.reconnect()
            next(rest, None)
        return {name: transcript_of(world) for name, (world, _) in begun.items()}


def begin(world: World) -> None:
    world.create("namespaces", {"metadata": {"name": world.ns}})
    world.wait_for("namespaces", world.ns, is_active, "ready")


def transcript_of(world: World) -> Transcript:
    return normal(world.steps, world.generated)


def prepare(site: Site) -> None:
    """Create the definitions that several cases use, and wait until they are served."""
    with World(site, "prepare") as world:
        for body in SHARED_CRDS:
            world.create(CRDS, body)
            group, plural = body["spec"]["group"], body["spec"]["names"]["plural"]
            for version in body["spec"]["versions"]:
                path = f"/apis/{group}/{version['name']}/{plural}"
                eventually(partial(is_served, world, path), f"{site.name} serves {path}")
        eventually(partial(are_discovered, world), f"{site.name} tells of its definitions")


def is_served(world: World, path: str) -> bool:
    return world.quiet("GET", path, None).code == 200


def are_discovered(world: World) -> bool:
    """Whether definitions are in the discovery document, which the real server updates after it serves them."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = world.ask("GET", "/apis", accept=accept).body["items"]
    found = {
        (group["metadata"]["name"], version["version"], one["resource"])
        for group in groups
        for version in group["versions"]
        for one in version["resources"]
    }
    wanted = {
        (body["spec"]["group"], version["name"], body["spec"]["names"]["plural"])
        for body in SHARED_CRDS
        for version in body["spec"]["versions"]
    }
    return wanted <= found
