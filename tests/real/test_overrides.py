"""Who may write an override, on the real API server: roles and ways to write it, guarded by the webhook or by the policy."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from haulout.app.webhooks import Certificates
from haulout.core.budgets.admit import webhook
from haulout.core.budgets.override_registration import CONFIGURATION, POLICY, override_policy
from haulout.core.steering import OVERRIDE
from tests.rig.api import Api, ApiError, Json
from tests.rig.fleet import node_object
from tests.rig.hooks import Hooks
from tests.rig.maintenances import NMS, define, maintenance
from tests.rig.plane import ControlPlane
from tests.rig.rights import grant, printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

GROUP = "admissionregistration.k8s.io/v1"
REGISTRATIONS = f"{GROUP}/validatingwebhookconfigurations"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
WRITES = ["create", "get", "patch", "update"]
OBJECTS: list[Json] = [
    {"apiGroups": ["nodemaintenance.medik8s.io"], "resources": ["nodemaintenances"], "verbs": WRITES},
    {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": WRITES},
]
# What the right to override is, and whether it lets the user override the budget `night`.
RIGHTS: dict[str, tuple[list[str], list[str], bool]] = {
    "none": ([], [], False),
    "all": (["override"], [], True),
    "named": (["override"], ["night"], True),
    "another": (["override"], ["noon"], False),
    "patch": (["get", "list", "patch", "update"], [], False),
}


def value(limit: str = "night", **changes: str) -> str:
    until = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"limit": limit, "reason": "outage", "until": until} | changes)


def annotated(text: str) -> Json:
    return {"metadata": {"annotations": {OVERRIDE: text}}}


def attempt(write: Callable[[], object]) -> tuple[int, str]:
    try:
        write()
    except ApiError as error:
        return error.code, str(error)
    return 200, ""


@contextlib.contextmanager
def by_policy(plane: ControlPlane, namespace: str) -> Iterator[None]:
    api = plane.api()
    policy, binding = override_policy()
    api.create(POLICIES, policy)
    api.create(BINDINGS, binding)
    try:
        yield
    finally:
        api.delete(BINDINGS, POLICY)
        api.delete(POLICIES, POLICY)


@contextlib.contextmanager
def by_webhook(plane: ControlPlane, namespace: str) -> Iterator[None]:
    api, user = plane.api(), _operator(plane, namespace)
    given = Certificates(own=True, namespace=namespace, service="haulout-webhook", secret="haulout-webhook-cert")
    with Hooks(plane.kubeconfig(user), (webhook(lambda: datetime.now(UTC)),), given, kinds=(), resources=()) as hooks:
        documents = printed("webhooks", "kernel", "--url", hooks.url)
        (registration,) = (each for each in documents if each["metadata"]["name"] == CONFIGURATION)
        api.create(REGISTRATIONS, registration)
        try:
            yield
        finally:
            api.delete(REGISTRATIONS, CONFIGURATION)


@pytest.mark.parametrize("guard", [by_policy, by_webhook])
def test_only_who_may_override_the_budget_writes_an_override(
    plane: ControlPlane, namespace: str, guard: Callable[..., contextlib.AbstractContextManager[None]]
) -> None:
    admin = plane.api()
    define(admin)
    admin.create("nodes", node_object(namespace, labels={}, annotations={}))
    admin.create(NMS, maintenance(namespace, namespace))
    with guard(plane, namespace):
        nobody, anybody = _user(plane, "none"), _user(plane, "all")

        def is_guarded() -> bool:
            # Rights of a new user, the end of the other guard and trust in a new certificate take a moment each.
            refused = attempt(lambda: _by_hand(nobody, namespace, value()))[1]
            _clean(admin, namespace)
            return REFUSAL in refused and attempt(lambda: _by_hand(anybody, namespace, value()))[0] == 200

        eventually(is_guarded, "overrides are guarded")
        for name, (_, _, allowed) in RIGHTS.items():
            api = _user(plane, name)
            ways: dict[str, Callable[[], Json]] = {
                "maintenance": partial(_by_hand, api, namespace, value()),
                "node": partial(api.patch, "nodes", namespace, annotated(value())),
                "status of node": partial(api.patch, "nodes", namespace, annotated(value()), sub="status"),
                "creation": partial(api.create, NMS, _new(f"{namespace}-{name}", namespace)),
            }
            for way, write in ways.items():
                _clean(admin, namespace)
                code, text = attempt(write)
                assert (code == 200) is allowed, (name, way, code, text)
                assert allowed or (code == 403 and REFUSAL in text), (name, way, text)
            _clean(admin, namespace)
            harmless = partial(api.patch, NMS, namespace, {"metadata": {"annotations": {"n": "x"}}})
            assert attempt(harmless)[0] == 200
        sly = value("noon").replace('{"limit"', '{"\\u006cimit": "night", "limit"')
        assert attempt(lambda: _by_hand(_user(plane, "another"), namespace, sly))[0] == 403
        wrong = {
            "longer than 24h": value(until=(datetime.now(UTC) + timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")),
            "reason is empty": value(reason=" "),
        }
        for words, text in wrong.items():
            code, refusal = attempt(lambda text=text: _by_hand(anybody, namespace, text))  # type: ignore[misc]
            assert (code, words in refusal) == (403, True), refusal
        latest = (datetime.now(UTC) + timedelta(hours=23, minutes=59)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert attempt(lambda: _by_hand(anybody, namespace, value(until=latest)))[0] == 200
        twice = value("noon").replace("{", '{"limit": "night", ', 1)
        assert attempt(lambda: _by_hand(_user(plane, "another"), namespace, twice))[0] == 403


def _operator(plane: ControlPlane, namespace: str) -> str:
    """Return a user with the rights of an operator that serves webhooks."""
    words = ("kernel", "nodemaintenance", "-n", namespace, f"--lease-namespace={namespace}-leases")
    return grant(plane, namespace, *words).user


def _new(name: str, node: str) -> Json:
    body = maintenance(name, node)
    return {**body, "metadata": {**body["metadata"], **annotated(value())["metadata"]}}


def _by_hand(api: Api, name: str, text: str) -> Json:
    return api.patch(NMS, name, annotated(text))


def _clean(api: Api, name: str) -> None:
    for resource in (NMS, "nodes"):
        api.patch(resource, name, {"metadata": {"annotations": {OVERRIDE: None}}})


def _user(plane: ControlPlane, name: str) -> Api:
    verbs, names, _ = RIGHTS[name]
    rule: Json = {"apiGroups": ["haulout.dev"], "resources": ["nodedisruptionbudgets"], "verbs": verbs}
    rules = [*OBJECTS, *([{**rule, **({"resourceNames": names} if names else {})}] if verbs else [])]
    if (known := _USERS.get((plane.server, name))) is None:
        known = _USERS[plane.server, name] = plane.limited_user(rules)
    return plane.api(known)


REFUSAL = "override resource nodedisruptionbudgets"
_USERS: dict[tuple[str, str], str] = {}
