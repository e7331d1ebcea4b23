"""EvictionRequests, which ask the cluster to find a way to make a pod go (KEP-4563, `lifecycle.k8s.io`)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import ObjectRow, PodRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core.action import Create, Patch, Write
from haulout.model.meta import ObjectMeta

KIND, GROUP, API_VERSION = "EvictionRequest", "lifecycle.k8s.io", "lifecycle.k8s.io/v1alpha1"
REQUESTER = "haulout.dev/drain"
WANTED, WITHDRAWN = "Eviction", "Withdrawn"


class _Pod(Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Target(Struct, frozen=True):
    pod: _Pod = _Pod()


class _Spec(Struct, frozen=True, rename="camel"):
    target: _Target = _Target()
    requester_name: str = ""
    intent: str = ""


class EvictionRequest(Struct, frozen=True):
    """An EvictionRequest (lifecycle.k8s.io/v1alpha1), in part: which pod has to go, and which requester asks for it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


class RequestRow(ObjectRow, frozen=True, kw_only=True):
    """The row of an EvictionRequest.

    `pod`, `pod_uid`: the pod that has to go.
    `intent`: whether the requester still wants that (`Eviction`) or has withdrawn it (`Withdrawn`).
    """

    pod: str = ""
    pod_uid: str = ""
    requester: str = ""
    intent: str = ""


def _project(obj: EvictionRequest, common: dict[str, Any]) -> RequestRow:
    pod = obj.spec.target.pod
    return RequestRow(
        **common, pod=pod.name, pod_uid=pod.uid, requester=obj.spec.requester_name, intent=obj.spec.intent
    )


RESOURCE = Resource(KIND, f"/apis/{API_VERSION}", "evictionrequests", True, EvictionRequest, _project)


def _pod_of(row: Row) -> tuple[tuple[str, str], ...]:
    """Return the namespace and name of the pod of an EvictionRequest of ours; nothing for those of other requesters."""
    return ((row.key.namespace, row.pod),) if isinstance(row, RequestRow) and row.requester == REQUESTER else ()


REQUESTS_OF_POD = Index("eviction-requests-of-pod", KIND, _pod_of)


def request_writes(view: View, pod: PodRow, outcome: str) -> tuple[Write, ...]:
    """Return the writes that ask for the pod's eviction; none where our request exists and is not withdrawn."""
    known = [row for row in _of(view, pod.key) if row.pod_uid == pod.uid]
    if not known:
        return (Create(_key(pod), _body(pod), outcome),)
    return tuple(_intent(row, WANTED) for row in known if row.intent != WANTED)


def withdrawal_writes(view: View, pod: Key) -> tuple[Write, ...]:
    """Return the writes that withdraw our requests for a pod."""
    return tuple(_intent(row, WITHDRAWN) for row in _of(view, pod) if row.intent != WITHDRAWN)


def _of(view: View, pod: Key) -> list[RequestRow]:
    return view.rows(REQUESTS_OF_POD, (pod.namespace, pod.name), RequestRow, pod.cluster)


def _intent(row: RequestRow, intent: str) -> Patch:
    return Patch(row.key, {"spec": {"intent": intent}}, disrupts=intent == WANTED)


def _key(pod: PodRow) -> Key:
    return Key(pod.key.cluster, KIND, pod.key.namespace, f"{pod.key.name[:200]}.{pod.uid[:13]}")


def _body(pod: PodRow) -> dict[str, Any]:
    key = _key(pod)
    target = {"pod": {"name": pod.key.name, "uid": pod.uid}}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": {"target": target, "requesterName": REQUESTER, "intent": WANTED},
    }
