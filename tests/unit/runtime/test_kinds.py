"""Kinds that are served under one of several versions, or not at all, and their tables then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from haulout.cluster.key import Key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Keep
from haulout.cluster.store import Listing, Store
from haulout.kube.codec import Garbled
from haulout.kube.errors import ConnectionFailed, KubeError
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, Reply
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import ABSENT_FOR, BETTER_FOR, WITHOUT_FOR, Pump
from haulout.runtime.served_versions import serving
from haulout.surfaces.clusterapi.wire import CLUSTER, HOST, MACHINE, OWN_KINDS, MachineRow
from tests.build.fakeapi import Server, refusal
from tests.build.virtual import LoopClock, virtual

NEW, OLD, METAL = "/apis/cluster.x-k8s.io/v1beta2", "/apis/cluster.x-k8s.io/v1beta1", "/apis/metal3.io/v1alpha1"
MACHINES = next(resource for resource in OWN_KINDS if resource.kind == MACHINE)


class Apis:
    """A server of kinds by prefix, as `Transport`.

    `denied`: kinds that may not be read. `fault`: raised by every request.
    """

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, str], Server] = {}
        self.denied: set[str] = set()
        self.fault: KubeError | None = None
        self.asked: list[str] = []
        self.garbled = False

    def serve(self, prefix: str, plural: str, *names: str) -> Server:
        made = self.kinds[prefix, plural] = Server()
        for name in names:
            made.put(name)
        return made

    def drop(self, prefix: str, plural: str) -> None:
        """Delete the definition of a kind, which ends its watches."""
        self.kinds.pop((prefix, plural)).cut()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 30.0,
        keep: Shape | None = None,
    ) -> Reply:
        if path == "/api" and self.fault is None:
            return Reply(200, b'{"versions":["v1"]}')
        await self._arrive(path)
        served = [plural for prefix, plural in self.kinds if prefix == path]
        if served and self.garbled:
            return Reply(200, b"<html>")
        if served:
            return Reply(200, json.dumps({"resources": [{"name": name} for name in served]}).encode())
        return await self._server(path).request(method, path, query=query)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._arrive(path)
        async with self._server(path).stream(path, query=query, silence=silence) as lines:
            yield lines

    async def close(self) -> None: ...

    async def _arrive(self, path: str) -> None:
        self.asked.append(path)
        await asyncio.sleep(0.001)
        if self.fault is not None:
            raise self.fault

    def _server(self, path: str) -> Server:
        prefix, _, plural = path.rpartition("/")
        if plural in self.denied:
            raise refusal(403, "Forbidden")
        found = self.kinds.get((prefix, plural))
        if found is None:
            raise refusal(404, "NotFound")
        return found


class Watched:
    def __init__(self, apis: Apis) -> None:
        self.apis, self.store = apis, Store()
        self.pump = Pump(self.store, LoopClock(), Metrics(), lambda: None, Kinds(OWN_KINDS))

    @asynccontextmanager
    async def running(self, kind: str) -> AsyncIterator[Watched]:
        self.kind = kind
        async with asyncio.TaskGroup() as group:
            self.pump.open(group, self.apis, "", kind, Keep())
            await asyncio.sleep(1)
            try:
                yield self
            finally:
                self.pump.close_all()

    @property
    def listing(self) -> Listing:
        return self.store.table("", self.kind).listing

    @property
    def names(self) -> list[str]:
        return [key.name for key in self.store.keys("", self.kind)]

    @property
    def path(self) -> str:
        """Return the path to which the sender would write an object."""
        return self.pump.kinds.projector("", self.kind).resource.object_path(Key("", self.kind, "ns", "x"))


# Which version


@pytest.mark.parametrize(
    "served, expected",
    [((NEW, OLD), NEW), ((OLD,), OLD), ((NEW,), NEW), ((), None)],
    ids=["both", "old", "new", "none"],
)
def test_the_best_version_that_is_served_is_used(served: tuple[str, ...], expected: str | None) -> None:
    @virtual
    async def scenario() -> None:
        apis = Apis()
        for prefix in served:
            apis.serve(prefix, "machines")
        found = await serving(apis, MACHINES, within=5)
        assert (found.prefix if found else None) == expected
        assert found is None or found.versions == MACHINES.versions

    scenario()


@virtual
async def test_a_group_that_serves_other_kinds_does_not_serve_this_one() -> None:
    apis = Apis()
    apis.serve(NEW, "clusters")
    apis.serve(OLD, "machines")
    found = await serving(apis, MACHINES, within=5)
    assert found is not None
    assert found.prefix == OLD


@virtual
async def test_what_cannot_be_found_out_is_not_taken_for_an_answer() -> None:
    apis = Apis()
    apis.serve(NEW, "machines")
    apis.garbled = True
    with pytest.raises(Garbled):
        await serving(apis, MACHINES, within=5)
    apis.fault = ConnectionFailed("refused")
    with pytest.raises(ConnectionFailed):
        await serving(apis, MACHINES, within=5)


@pytest.mark.parametrize("prefix", [NEW, OLD])
def test_reading_and_writing_go_by_the_version_that_is_served(prefix: str) -> None:
    @virtual
    async def scenario() -> None:
        apis = Apis()
        apis.serve(prefix, "machines", "a")
        async with Watched(apis).running(MACHINE) as watched:
            assert (watched.listing, watched.names) == (Listing.LISTED, ["a"])
            assert watched.path == f"{prefix}/namespaces/ns/machines/x"
            assert watched.pump.kinds.resource(MACHINE).prefix == prefix, "events name it by this version too"

    scenario()


@virtual
async def test_a_better_version_is_found_when_it_comes_without_anybody_being_woken() -> None:
    apis = Apis()
    old = apis.serve(OLD, "machines", "a")
    async with Watched(apis).running(MACHINE) as watched:
        new = apis.serve(NEW, "machines")
        new.objects, new.version = dict(old.objects), old.version
        row = watched.store.row(watched.store.keys("", MACHINE)[0])
        await asyncio.sleep(BETTER_FOR + 5)
        assert watched.path.startswith(NEW)
        assert (watched.listing, watched.names) == (Listing.LISTED, ["a"])
        assert watched.store.row(watched.store.keys("", MACHINE)[0]) is row
        new.put("b")
        await asyncio.sleep(1)
        assert watched.names == ["a", "b"]


@virtual
async def test_looking_for_a_better_version_leaves_the_watch_alone() -> None:
    apis = Apis()
    apis.serve(OLD, "machines", "a")
    async with Watched(apis).running(MACHINE) as watched:
        # Its first stream is left once, for a longer one of a server that is known to send bookmarks.
        asked = apis.asked.count(f"{OLD}/machines") + 1
        await asyncio.sleep(3 * BETTER_FOR + 5)
        assert apis.asked.count(NEW) == 4
        assert apis.asked.count(f"{OLD}/machines") == asked
        apis.fault = ConnectionFailed("away")
        await asyncio.sleep(BETTER_FOR)
        apis.fault = None
        apis.serve(NEW, "machines", "a", "b")
        await asyncio.sleep(BETTER_FOR + 5)
        assert watched.names == ["a", "b"]


@virtual
async def test_the_best_version_is_not_looked_for_again() -> None:
    apis = Apis()
    apis.serve(NEW, "machines")
    async with Watched(apis).running(MACHINE):
        await asyncio.sleep(3 * BETTER_FOR)
        assert apis.asked.count(NEW) == 1


@virtual
async def test_a_version_that_is_not_served_any_more_is_left_for_another() -> None:
    apis = Apis()
    apis.serve(NEW, "machines", "a")
    async with Watched(apis).running(MACHINE) as watched:
        old = apis.serve(OLD, "machines", "a", "b")
        old.version = 500
        apis.drop(NEW, "machines")
        # At once, not when it would be looked for anew.
        await asyncio.sleep(ABSENT_FOR / 2)
        assert watched.path.startswith(OLD)
        assert (watched.listing, watched.names) == (Listing.LISTED, ["a", "b"])


# Not served


@virtual
async def test_a_kind_that_is_not_there_is_waited_for_quietly(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    apis = Apis()
    async with Watched(apis).running(HOST) as watched:
        await asyncio.sleep(10 * ABSENT_FOR)
        assert (watched.listing, watched.names) == (Listing.WAITING, [])
        assert 9 <= len(apis.asked) <= 11
        assert [record.getMessage() for record in caplog.records] == ["kind is not served"]
        apis.serve(METAL, "baremetalhosts", "h")
        await asyncio.sleep(ABSENT_FOR + 1)
        assert (watched.listing, watched.names) == (Listing.LISTED, ["h"])


@virtual
async def test_a_kind_that_vanishes_leaves_its_rows_and_is_waited_for() -> None:
    """A decision must not conclude that there are no objects."""
    apis = Apis()
    apis.serve(NEW, "machines", "a")
    async with Watched(apis).running(MACHINE) as watched:
        apis.drop(NEW, "machines")
        await asyncio.sleep(60)
        assert (watched.listing, watched.names) == (Listing.WAITING, ["a"])
        assert isinstance(watched.store.row(watched.store.keys("", MACHINE)[0]), MachineRow)
        back = apis.serve(NEW, "machines")
        back.version = 900
        back.put("b")
        await asyncio.sleep(ABSENT_FOR + 1)
        assert (watched.listing, watched.names) == (Listing.LISTED, ["b"])


@pytest.mark.parametrize("kind, plural", [(MACHINE, "machines"), (CLUSTER, "clusters")])
def test_a_balancer_without_servers_says_nothing_of_what_they_serve(kind: str, plural: str) -> None:
    @virtual
    async def scenario() -> None:
        apis = Apis()
        server = apis.serve(NEW, plural, "a")
        async with Watched(apis).running(kind) as watched:
            apis.fault = refusal(404, "")
            server.cut()
            await asyncio.sleep(5 * ABSENT_FOR)
            assert (watched.listing, watched.names) == (Listing.LISTED, ["a"])
            server.put("b")
            apis.fault = None
            await asyncio.sleep(60)
            assert (watched.listing, watched.names) == (Listing.LISTED, ["a", "b"])

    scenario()


@virtual
async def test_a_server_that_does_not_answer_says_nothing_of_what_it_serves() -> None:
    apis = Apis()
    apis.serve(NEW, "machines", "a")
    apis.fault = ConnectionFailed("refused")
    async with Watched(apis).running(MACHINE) as watched:
        assert watched.listing is Listing.WAITING
        apis.fault = None
        await asyncio.sleep(60)
        assert (watched.listing, watched.names) == (Listing.LISTED, ["a"])


# What one can do without


@pytest.mark.parametrize("served", [True, False], ids=["forbidden", "not served"])
def test_what_one_can_do_without_is_unreadable_and_looked_for_now_and_then(
    served: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @virtual
    async def scenario() -> None:
        caplog.set_level("INFO")
        apis = Apis()
        apis.serve(NEW, "clusters" if served else "machines", "c")
        apis.denied.add("clusters")
        async with Watched(apis).running(CLUSTER) as watched:
            assert watched.listing is Listing.UNREADABLE
            before = len(apis.asked)
            await asyncio.sleep(WITHOUT_FOR - 5)
            assert len(apis.asked) == before
            assert [record.getMessage() for record in caplog.records] == ["kind is not served"]
            apis.denied.clear()
            apis.serve(NEW, "clusters", "c")
            await asyncio.sleep(10)
            assert (watched.listing, watched.names) == (Listing.LISTED, ["c"])

    scenario()


@virtual
async def test_rights_that_are_taken_away_later_are_done_without_too() -> None:
    apis = Apis()
    clusters = apis.serve(NEW, "clusters", "c")
    async with Watched(apis).running(CLUSTER) as watched:
        assert watched.names == ["c"]
        apis.denied.add("clusters")
        clusters.cut()
        await asyncio.sleep(60)
        assert watched.listing is Listing.UNREADABLE


@virtual
async def test_machines_that_may_not_be_read_are_unreadable_and_tried_again_soon() -> None:
    apis = Apis()
    apis.serve(NEW, "machines", "a")
    apis.denied.add("machines")
    async with Watched(apis).running(MACHINE) as watched:
        assert watched.listing is Listing.UNREADABLE
        apis.denied.clear()
        await asyncio.sleep(31)
        assert (watched.listing, watched.names) == (Listing.LISTED, ["a"])
