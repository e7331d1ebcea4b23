"""The fault proxy itself: each kind of fault has its effect on a simple client, and on the server or not."""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import pytest

from tests.rig.api import BROKEN, Api, ApiError, Json, path_of, readable
from tests.rig.faults import (
    Action,
    Answer,
    CutAfter,
    CutBefore,
    CutStream,
    Delay,
    DelayEvents,
    DropEvents,
    FaultProxy,
    InsertEvent,
    RepeatEvents,
    Stall,
    Write,
)
from tests.rig.forwarder import Forwarder
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

MAPS = "configmaps"


@pytest.fixture
def client(plane: ControlPlane, proxy: FaultProxy) -> Iterator[Api]:
    """A client of the API server through the proxy, with a short time-out."""
    made = Api(proxy.url, plane.token("operator"), ca=plane.ca, timeout=30)
    yield made
    made.close()


@pytest.fixture
def truth(plane: ControlPlane, namespace: str) -> Api:
    """A client of the API server past the proxy, and a namespace with one object in it."""
    plane.api().create(MAPS, config_map("first"), namespace)
    return plane.api()


def config_map(name: str) -> Json:
    return {"metadata": {"name": name}, "data": {"key": "value"}}


def names(api: Api, ns: str) -> list[str]:
    return [body["metadata"]["name"] for body in api.items(MAPS, ns)]


def watched(client: Api, ns: str, count: int) -> list[str]:
    """Return the first so many events of a watch, as `ADDED first`."""
    with client.watch(MAPS, ns) as watch:
        events = watch.take(count)
    return [f"{event['type']} {event['object'].get('metadata', {}).get('name')}" for event in events]


def test_everything_passes_without_rules(client: Api, proxy: FaultProxy, namespace: str) -> None:
    client.create(MAPS, config_map("a"), namespace)
    assert client.patch(MAPS, "a", {"data": {"key": "other"}}, namespace)["data"] == {"key": "other"}
    assert watched(client, namespace, 1) == ["ADDED a"]
    with pytest.raises(ApiError, match="404 NotFound"):
        client.get(MAPS, "missing", namespace)
    assert [(write.method, write.code) for write in proxy.writes] == [("POST", 201), ("PATCH", 200)]


def test_plain_http_passes_too(plane: ControlPlane, namespace: str) -> None:
    with FaultProxy(plane, tls=False) as proxy:
        client = Api(proxy.url, plane.token("operator"))
        assert names(client, namespace) == []
        client.close()


def test_refused_connection_until_accepted_again(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    assert names(client, namespace) == ["first"]
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        client.items(MAPS, namespace)
    proxy.accept()
    assert names(client, namespace) == ["first"]


def test_cut_before_has_no_effect(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    rule = proxy.rule(CutBefore(), method="POST", times=1)
    with pytest.raises(ConnectionError):
        client.create(MAPS, config_map("second"), namespace)
    assert names(truth, namespace) == ["first"]
    assert rule.acted == 1


def test_cut_after_has_an_effect_and_no_answer(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    proxy.rule(CutAfter(), method="POST", times=1)
    with pytest.raises(ConnectionError):
        client.create(MAPS, config_map("second"), namespace)
    assert names(truth, namespace) == ["first", "second"]


@pytest.mark.parametrize("code", [401, 403, 404, 409, 410, 422, 429, 500, 503, 504])
def test_answer_in_the_servers_place(client: Api, proxy: FaultProxy, truth: Api, namespace: str, code: int) -> None:
    proxy.rule(Answer(code, retry_after=7), method="POST", times=1)
    with pytest.raises(ApiError) as caught:
        client.create(MAPS, config_map("second"), namespace)
    assert (caught.value.code, caught.value.body["code"]) == (code, code)
    assert caught.value.headers["Retry-After"] == "7"
    assert caught.value.body["details"] == {"retryAfterSeconds": 7}
    assert names(truth, namespace) == ["first"]


def test_answer_with_a_body_can_be_a_stale_list(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    stale = truth.request("GET", f"/api/v1/namespaces/{namespace}/{MAPS}")
    truth.create(MAPS, config_map("second"), namespace)
    proxy.rule(Answer(200, body=stale), method="GET", watch=False, times=1)
    assert names(client, namespace) == ["first"]
    assert names(client, namespace) == ["first", "second"]


def test_delay_before_and_after(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    proxy.rule(Delay(before=0.3, after=0.3), method="POST")
    started = time.monotonic()
    client.create(MAPS, config_map("second"), namespace)
    assert time.monotonic() - started >= 0.6


def test_late_request_arrives_after_the_client_has_given_up(
    plane: ControlPlane, proxy: FaultProxy, truth: Api, namespace: str
) -> None:
    rule = proxy.rule(Delay(before=1, late=True), method="POST")
    tls = ssl.create_default_context(cafile=plane.ca)
    hasty = http.client.HTTPSConnection("127.0.0.1", proxy.port, context=tls)
    bearer = {"Authorization": f"Bearer {plane.token('operator')}", "Content-Type": "application/json"}
    hasty.request("POST", path_of(MAPS, ns=namespace), json.dumps(config_map("second")), bearer)
    eventually(lambda: rule.acted, "the proxy has it")
    hasty.close()
    eventually(lambda: names(truth, namespace) == ["first", "second"], "the late request has had its effect")


def test_stalled_answer_comes_when_released(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    rule = proxy.rule(Stall(), method="POST")
    asking = threading.Thread(target=client.create, args=(MAPS, config_map("second"), namespace))
    asking.start()
    eventually(lambda: "second" in names(truth, namespace), "it has happened")
    assert asking.is_alive()
    proxy.release(rule)
    asking.join(30)
    assert not asking.is_alive()


def test_rules_count_and_strike_only_the_chosen_occurrence(
    client: Api, proxy: FaultProxy, truth: Api, namespace: str
) -> None:
    rule = proxy.rule(Answer(500), method="PATCH", path=rf"/namespaces/{namespace}/", skip=2, times=1)
    codes = [code_of(client, namespace) for _ in range(4)]
    client.items(MAPS, namespace)
    assert codes == [200, 200, 500, 200]
    assert (rule.seen, rule.acted) == (4, 1)


def code_of(client: Api, ns: str) -> int:
    try:
        client.patch(MAPS, "first", {}, ns)
    except ApiError as error:
        return error.code
    return 200


def test_rule_for_watches_leaves_lists_alone(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    proxy.rule(Answer(410), path=MAPS, watch=True)
    assert names(client, namespace) == ["first"]
    with pytest.raises(ApiError, match="410 Expired"):
        client.watch(MAPS, namespace)


def test_stalled_watch_is_silent_until_released(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    rule = proxy.rule(Stall(events=1), watch=True)
    with client.watch(MAPS, namespace) as watch:
        events = iter(watch)
        assert next(events)["object"]["metadata"]["name"] == "first"
        truth.create(MAPS, config_map("second"), namespace)
        watch.bear(1)
        with pytest.raises(TimeoutError):
            next(events)
    proxy.release(rule)
    assert watched(client, namespace, 2) == ["ADDED first", "ADDED second"]


@pytest.mark.parametrize(
    "cut", [CutStream(1, "reset"), CutStream(1, "close"), CutStream(1, "torn")], ids=["reset", "close", "torn"]
)
def test_watch_breaks_after_so_many_events(
    client: Api, proxy: FaultProxy, truth: Api, namespace: str, cut: CutStream
) -> None:
    truth.create(MAPS, config_map("second"), namespace)
    proxy.rule(cut, times=1)
    with client.watch(MAPS, namespace) as watch:
        events = iter(watch)
        assert next(events)["object"]["metadata"]["name"] == "first"
        with pytest.raises(BROKEN):
            next(events)
    assert watched(client, namespace, 2) == ["ADDED first", "ADDED second"]


def test_watch_ends_politely_after_so_many_events(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    truth.create(MAPS, config_map("second"), namespace)
    proxy.rule(CutStream(1, "end"), times=1)
    assert watched(client, namespace, 9) == ["ADDED first"]


def is_second(event: Json) -> bool:
    return bool(event["object"]["metadata"]["name"] == "second")


ERROR: Json = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "metadata": {"name": "status"}}}


@pytest.mark.parametrize(
    "action, seen",
    [
        pytest.param(DropEvents(is_second), ["ADDED first", "ADDED third"], id="drop"),
        pytest.param(RepeatEvents(is_second), ["ADDED first", "ADDED second", "ADDED second"], id="repeat"),
        pytest.param(InsertEvent(ERROR, events=1), ["ADDED first", "ERROR status", "ADDED second"], id="insert"),
        pytest.param(DelayEvents(0.3, is_second), ["ADDED first", "ADDED second", "ADDED third"], id="delay"),
    ],
)
def test_events_of_a_watch_are_altered(
    client: Api, proxy: FaultProxy, truth: Api, namespace: str, action: Action, seen: list[str]
) -> None:
    for name in ("second", "third"):
        truth.create(MAPS, config_map(name), namespace)
    rule = proxy.rule(action)
    assert watched(client, namespace, len(seen)) == seen
    assert rule.events == 1


def test_hook_sees_each_write_before_and_after(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    seen: list[tuple[int, str, str, bool]] = []

    def look(write: Write) -> bool:
        seen.append((write.number, write.method, write.moment, "second" in names(truth, namespace)))
        return True

    proxy.on_write = look
    client.items(MAPS, namespace)
    client.create(MAPS, config_map("second"), namespace)
    client.delete(MAPS, "second", namespace)
    assert seen == [
        (1, "POST", "before", False),
        (1, "POST", "after", True),
        (2, "DELETE", "before", True),
        (2, "DELETE", "after", False),
    ]


@pytest.mark.parametrize("moment, happens", [("before", False), ("after", True)])
def test_hook_cuts_at_its_moment(
    client: Api, proxy: FaultProxy, truth: Api, namespace: str, moment: str, happens: bool
) -> None:
    proxy.on_write = lambda write: write.moment != moment
    with pytest.raises(ConnectionError):
        client.create(MAPS, config_map("second"), namespace)
    assert ("second" in names(truth, namespace)) == happens


def test_it_ends_while_the_server_owes_it_an_answer(plane: ControlPlane) -> None:
    """And leaves no socket open, which would be held against whatever test is next."""
    proxy = FaultProxy(plane).start()
    client = Api(proxy.url, plane.token("operator"), ca=plane.ca)
    rule = proxy.rule(Delay(), method="POST")

    def ask() -> None:
        with contextlib.suppress(ConnectionError):
            client.create(MAPS, config_map("owed"), "default")

    asking = threading.Thread(target=ask)
    plane.apiserver.freeze()
    try:
        asking.start()
        eventually(lambda: rule.acted, "the proxy has it")
        proxy.stop()
    finally:
        plane.apiserver.thaw()
    asking.join()
    gc.collect()


def test_all_connections_can_be_cut(client: Api, proxy: FaultProxy, truth: Api, namespace: str) -> None:
    with client.watch(MAPS, namespace) as watch:
        events = iter(watch)
        next(events)
        proxy.cut_all()
        with pytest.raises(BROKEN):
            next(events)
    client.close()
    proxy.wait_deserted()


def test_a_connection_whose_handshake_is_under_way_is_cut_too(proxy: FaultProxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as mute:

        def is_cut() -> bool:
            proxy.cut_all()
            return readable(mute)

        # It would end by itself after a minute.
        eventually(is_cut, "it is cut", 30)


def test_a_way_that_is_closed_breaks_connections_that_lead_nowhere_yet(plane: ControlPlane) -> None:
    with Forwarder(plane.server) as way:
        way.freeze()
        with socket.create_connection(("127.0.0.1", way.port)) as early:
            eventually(lambda: way.connections == 1, "it is accepted")
            way.refuse()
            eventually(lambda: readable(early), "it is cut")
            way.thaw()
            eventually(lambda: way.connections == 0, "nothing is left of it")
