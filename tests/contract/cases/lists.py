"""Lists: selectors, pages, and the meaning of a resource version."""

from __future__ import annotations

from collections.abc import Iterator

from tests.contract.build import config_map, job, node, pod, ready_pod, widget
from tests.contract.registry import case, each, halves
from tests.contract.world import CRDS, DEPLOYMENTS, EVENTS, JOBS, LEASES, WIDGETS, World

SELECTORS = {
    "equal": "app=a",
    "double": "app==a",
    "unequal": "app!=a",
    "in": "app in (a, b)",
    "not-in": "app notin (a)",
    "exists": "tier",
    "absent": "!tier",
    "several": "app=a,tier",
    "spaces": " app = a , tier ",
    "greater": "size>2",
    "less": "size<3",
    "empty-value": "tier=",
    "prefixed": "example.test/x=1",
    "nothing": "",
}


@each(SELECTORS)
def label_selector(w: World, selector: str) -> None:
    w.create("configmaps", config_map("a1", labels={"app": "a", "tier": "x", "size": "1"}))
    w.create("configmaps", config_map("a2", labels={"app": "a", "tier": "", "size": "3"}))
    w.create("configmaps", config_map("b", labels={"app": "b", "example.test/x": "1", "size": "no"}))
    w.create("configmaps", config_map("c"))
    w.list("configmaps", labelSelector=selector)


@case
def label_selector_that_cannot_be_read(w: World) -> None:
    for selector in ("app in a", "app=a=b", "(a)", "a b", "=a", "app>x", "app in (a", "not valid!=", "k=" + "v" * 64):
        w.list("configmaps", labelSelector=selector)


@each(
    {
        "comma": "a,=b",
        "two-commas": "a,,b",
        "end": "a,",
        "not-in": "app notin a",
        "not": "!",
        "not-symbol": "!=a",
        "value": "a=(b)",
        "less": "app<1.5",
        "long-in": "k in (a,{v})",
        "long-unequal": "k!={v}",
        "sign": "k=a b",
        "key": "-k=a",
        "prefix": "UP/k=a",
        "slashes": "a/b/c=d",
        "bad-value": "k=-a",
    }
)
def label_selector_that_is_none(w: World, selector: str) -> None:
    w.list("configmaps", labelSelector=selector.format(v="v" * 64))


@case
def label_selector_that_cannot_be_read_of_widgets(w: World) -> None:
    w.list(WIDGETS, labelSelector="app in a")
    w.list(WIDGETS, fieldSelector="spec.size=1")


@each(
    {
        "name": "metadata.name=a",
        "not-name": "metadata.name!=a",
        "node": "spec.nodeName=n1",
        "no-node": "spec.nodeName=",
        "phase": "status.phase=Running",
        "not-phases": "status.phase!=Succeeded,status.phase!=Failed",
        "both": "spec.nodeName=n1,metadata.name=a",
        "namespace": "metadata.namespace=elsewhere",
        "restart": "spec.restartPolicy=Always",
        "scheduler": "spec.schedulerName=default-scheduler",
        "nothing": "",
    }
)
def pod_field_selector(w: World, selector: str) -> None:
    w.create("pods", pod("a", node="n1"))
    w.create("pods", pod("b", node="n2"))
    w.create("pods", pod("c"))
    w.patch("pods", "b", ready_pod(), "status")
    w.list("pods", fieldSelector=selector)


@case
def field_selector_that_is_not_supported(w: World) -> None:
    for resource, selector in (
        ("pods", "spec.none=a"),
        ("pods", "metadata.labels=a"),
        ("nodes", "status.phase=a"),
        ("configmaps", "data=a"),
        (DEPLOYMENTS, "spec.replicas=1"),
        (LEASES, "spec.holderIdentity=me"),
        (CRDS, "spec.group=a"),
        ("pods", "metadata.name"),
        ("pods", "metadata.name>a"),
    ):
        w.list(resource, fieldSelector=selector)


@case
def field_selector_of_nodes(w: World) -> None:
    w.create("nodes", node(w.ns, unschedulable=True))
    w.list("nodes", fieldSelector=f"metadata.name={w.ns},spec.unschedulable=true")
    w.list("nodes", fieldSelector=f"metadata.name={w.ns},spec.unschedulable=false")
    w.list("nodes", fieldSelector=f"metadata.name={w.ns}")


@case
def field_selector_of_events(w: World) -> None:
    for name, reason in (("one", "Why"), ("two", "How")):
        involved = {"kind": "Pod", "namespace": w.ns, "name": name}
        w.create("events", {"metadata": {"name": name}, "involvedObject": involved, "reason": reason, "type": "Normal"})
    w.list("events", fieldSelector="involvedObject.name=one")
    w.list("events", fieldSelector="reason=How,type=Normal")
    w.list(EVENTS, fieldSelector="regarding.name=two")
    w.list("events", fieldSelector="message=x")


@case
def field_selector_of_jobs_and_secrets(w: World) -> None:
    w.create(JOBS, job())
    w.list(JOBS, fieldSelector="status.successful=0")
    w.create("secrets", {"metadata": {"name": "a"}, "type": "example.test/x"})
    w.list("secrets", fieldSelector="type=example.test/x")
    w.list("secrets", fieldSelector="type=Opaque")


@case
def field_selector_of_widgets(w: World) -> None:
    for name in ("a", "b"):
        w.create(WIDGETS, widget(name))
    w.list(WIDGETS, fieldSelector="metadata.name=b")
    w.list(WIDGETS, fieldSelector=f"metadata.namespace={w.ns},metadata.name!=b")


@case
def lists_are_in_the_order_of_names(w: World) -> None:
    for name in ("b", "a-b", "a", "a.b", "c", "a0"):
        w.create("configmaps", config_map(name))
    w.list("configmaps")


@case
def list_over_all_namespaces(w: World) -> None:
    w.create("configmaps", config_map("b", labels={"of": w.ns}))
    w.create("configmaps", config_map("a", labels={"of": w.ns}), ns="default")
    shown = "items[].metadata.namespace items[].metadata.name"
    w.ask("GET", "/api/v1/configmaps", show=shown, labelSelector=f"of={w.ns}")


PAGE = "items[].metadata.name metadata"


@case
def pages(w: World) -> None:
    for name in "abcde":
        w.create("configmaps", config_map(name))
    token = w.list("configmaps", limit="2", show=PAGE).body["metadata"].get("continue", "")
    token = w.list("configmaps", **{"limit": "2", "continue": token}, show=PAGE).body["metadata"].get("continue", "")
    w.list("configmaps", **{"limit": "2", "continue": token}, show=PAGE)
    w.list("configmaps", limit="5", show=PAGE)
    w.list("configmaps", limit="6", show=PAGE)


@case
def pages_of_widgets(w: World) -> None:
    for name in "abc":
        w.create(WIDGETS, widget(name))
    token = w.list(WIDGETS, limit="2", show=PAGE).body["metadata"].get("continue", "")
    w.list(WIDGETS, **{"limit": "2", "continue": token}, show=PAGE)


@case
def pages_with_a_selector(w: World) -> None:
    for name in "abcde":
        w.create("configmaps", config_map(name, labels={"odd": str(name in "ace").lower()}))
    token = w.list("configmaps", limit="2", labelSelector="odd=true", show=PAGE).body["metadata"].get("continue", "")
    w.list("configmaps", **{"limit": "2", "continue": token, "labelSelector": "odd=true"}, show=PAGE)


@case
def pages_show_one_moment(w: World) -> None:
    for name in "abcd":
        w.create("configmaps", config_map(name, step="old"))
    token = w.list("configmaps", limit="2", show=PAGE).body["metadata"].get("continue", "")
    w.delete("configmaps", "c")
    w.patch("configmaps", "d", {"data": {"step": "new"}})
    w.create("configmaps", config_map("e"))
    w.list("configmaps", **{"continue": token}, show="items[].metadata.name items[].data")


@case
def pages_with_a_token_that_is_none(w: World) -> None:
    w.list("configmaps", **{"limit": "2", "continue": "nonsense"})
    w.list("configmaps", limit="x")
    w.list("configmaps", limit="-1", show="items")
    w.list("configmaps", limit="0", show="items")


@case
def pages_with_token_and_version(w: World) -> None:
    for name in "abc":
        w.create("configmaps", config_map(name))
    page = w.list("configmaps", limit="1", show=PAGE)
    token = page.body["metadata"].get("continue", "")
    w.list("configmaps", **{"continue": token, "resourceVersion": page.version})
    w.list("configmaps", **{"continue": token, "resourceVersion": "0"}, show=PAGE)


@halves
def pages_after_compaction(w: World) -> Iterator[None]:
    for name in "abc":
        w.create("configmaps", config_map(name))
    token = w.list("configmaps", limit="1", show=PAGE).body["metadata"].get("continue", "")
    w.create("configmaps", config_map("d"))
    yield
    refused = w.list("configmaps", **{"limit": "1", "continue": token}, show=PAGE)
    resumed = refused.body["metadata"]["continue"]
    w.list(
        "configmaps", **{"limit": "1", "continue": resumed}, show="items[].metadata.name metadata.remainingItemCount"
    )
    w.list("configmaps", **{"continue": resumed})


@case
def version_of_a_list(w: World) -> None:
    first = w.create("configmaps", config_map("a"))
    w.create("configmaps", config_map("b"))
    # Read the newest version first, so that the answer cannot be older. Without this, an older answer would be right,
    # too.
    w.list("configmaps")
    for match in ("NotOlderThan", "Exact"):
        w.list("configmaps", resourceVersion=first.version, resourceVersionMatch=match)
    w.list("configmaps", resourceVersion=first.version, limit="1", show=PAGE)
    w.list("configmaps", resourceVersion="0", resourceVersionMatch="NotOlderThan")


@case
def version_of_a_list_that_makes_no_sense(w: World) -> None:
    w.list("configmaps", resourceVersion="x")
    w.list("configmaps", resourceVersionMatch="Exact")
    w.list("configmaps", resourceVersion="0", resourceVersionMatch="Exact")
    w.list("configmaps", resourceVersion="1", resourceVersionMatch="Nearly")
    w.list(WIDGETS, resourceVersion="x")
    w.get("configmaps", "a", resourceVersion="x")


@case
def version_from_the_future(w: World) -> None:
    w.list("configmaps", resourceVersion="900000000")
    w.list("configmaps", resourceVersion="900000000", resourceVersionMatch="Exact")


@case
def get_with_a_version(w: World) -> None:
    made = w.create("configmaps", config_map())
    w.get("configmaps", "a", resourceVersion=made.version, show="metadata.name")
    w.get("configmaps", "a", resourceVersion="0", show="metadata.name")


@halves
def list_of_a_compacted_version(w: World) -> Iterator[None]:
    first = w.create("configmaps", config_map("a"))
    w.create("configmaps", config_map("b"))
    yield
    w.list("configmaps", resourceVersion=first.version, resourceVersionMatch="Exact")
    w.list("configmaps", resourceVersion="1", resourceVersionMatch="Exact")
    w.list("configmaps", resourceVersion="1", show="items[].metadata.name")
