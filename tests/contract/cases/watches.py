"""Watches: which events come, in which order, from which version."""

from __future__ import annotations

from collections.abc import Iterator

from tests.contract.build import config_map, named, node, pod, ready_pod, widget
from tests.contract.registry import case, halves
from tests.contract.world import WIDGETS, World

SEEN = "kind metadata.name metadata.resourceVersion metadata.labels data"


@case
def watch_without_a_version_begins_with_what_is(w: World) -> None:
    w.create("configmaps", config_map("b"))
    w.create("configmaps", config_map("a"))
    # Read the newest version first, so that it does not come as a new event: the real server's cache may be behind its
    # storage.
    w.list("configmaps")
    stream = w.watch("configmaps")
    stream.take(2, show=SEEN)
    w.create("configmaps", config_map("c"))
    w.patch("configmaps", "c", {"data": {"k": "v"}})
    w.delete("configmaps", "c")
    stream.take(3, show=SEEN)


@case
def watch_from_zero_begins_with_what_is(w: World) -> None:
    w.create("configmaps", config_map("a"))
    stream = w.watch("configmaps", resourceVersion="0")
    stream.take(1, show="metadata.name")
    w.delete("configmaps", "a")
    stream.take(1, show=SEEN)


@case
def watch_from_a_version_tells_what_came_after(w: World) -> None:
    first = w.create("configmaps", config_map("a"))
    w.create("configmaps", config_map("b"), show="metadata.resourceVersion")
    w.patch("configmaps", "a", {"data": {"k": "v"}}, show="metadata.resourceVersion")
    w.delete("configmaps", "b")
    w.create("configmaps", config_map("last"))
    w.watch("configmaps", resourceVersion=first.version).until("last", show=SEEN)


@case
def watch_from_the_version_of_a_list(w: World) -> None:
    w.create("configmaps", config_map("a"))
    listed = w.list("configmaps")
    stream = w.watch("configmaps", resourceVersion=listed.version)
    w.patch("configmaps", "a", {"data": {"k": "v"}})
    stream.take(1, show=SEEN)


@case
def watch_is_silent_about_writes_that_change_nothing(w: World) -> None:
    first = w.create("configmaps", config_map("a", k="v"))
    stream = w.watch("configmaps", resourceVersion=first.version)
    w.patch("configmaps", "a", {"data": {"k": "v"}})
    w.patch("configmaps", "a", {"data": {"k": "w"}}, dryRun="All")
    w.create("configmaps", config_map("last"))
    stream.until("last", show=SEEN)


@case
def watch_with_a_label_selector(w: World) -> None:
    """What enters is ADDED, what leaves is DELETED, as it was when it still matched but for the version."""
    first = w.create("configmaps", config_map("a"))
    stream = w.watch("configmaps", resourceVersion=first.version, labelSelector="app=a")
    w.patch("configmaps", "a", {"metadata": {"labels": {"app": "a"}}}, show="metadata.resourceVersion")
    w.patch("configmaps", "a", {"data": {"k": "1"}}, show="metadata.resourceVersion")
    w.patch(
        "configmaps", "a", {"metadata": {"labels": {"app": "b"}}, "data": {"k": "2"}}, show="metadata.resourceVersion"
    )
    w.patch("configmaps", "a", {"data": {"k": "3"}}, show="metadata.resourceVersion")
    w.delete("configmaps", "a")
    w.create("configmaps", config_map("last", labels={"app": "a"}))
    stream.until("last", show=SEEN)


@case
def watch_with_a_label_selector_and_deletion(w: World) -> None:
    first = w.create("configmaps", config_map("a", labels={"app": "a"}))
    stream = w.watch("configmaps", resourceVersion=first.version, labelSelector="app=a")
    w.delete("configmaps", "a")
    w.create("configmaps", config_map("last", labels={"app": "a"}))
    stream.until("last", show=SEEN)


@case
def watch_with_a_field_selector(w: World) -> None:
    first = w.create("pods", pod("a"))
    w.create("pods", pod("b", node="other"))
    stream = w.watch("pods", resourceVersion=first.version, fieldSelector="spec.nodeName=n")
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "n"}}
    w.ask("POST", w.path("pods", "a", "binding"), {"metadata": {"name": "a"}, **target})
    w.patch("pods", "a", ready_pod(), "status")
    w.delete("pods", "a", gracePeriodSeconds="0")
    w.create("pods", pod("last", node="n"))
    stream.until("last", show="metadata.name spec.nodeName status.phase")


@case
def watch_with_a_phase_selector(w: World) -> None:
    first = w.create("pods", pod("a", node="n"))
    stream = w.watch("pods", resourceVersion=first.version, fieldSelector="status.phase!=Succeeded")
    w.patch("pods", "a", {"status": {"phase": "Running"}}, "status")
    w.patch("pods", "a", {"status": {"phase": "Succeeded"}}, "status")
    w.delete("pods", "a", gracePeriodSeconds="0")
    w.create("pods", pod("last"))
    stream.until("last", show="metadata.name status.phase")


@case
def watch_of_one_object(w: World) -> None:
    w.create("configmaps", config_map("a"))
    w.create("configmaps", config_map("b"))
    stream = w.watch("configmaps", fieldSelector="metadata.name=a")
    w.patch("configmaps", "b", {"data": {"k": "1"}})
    w.patch("configmaps", "a", {"data": {"k": "1"}})
    stream.take(2, show=SEEN)


@case
def watch_is_no_question_for_one_object(w: World) -> None:
    w.create("configmaps", config_map("a"))
    w.get("configmaps", "a", watch="true", show="kind metadata.name")


@case
def watch_by_the_old_path(w: World) -> None:
    w.create("configmaps", config_map("a"))
    stream = w.watch_path(f"/api/v1/watch/namespaces/{w.ns}/configmaps")
    stream.take(1, show=SEEN)


@case
def watch_over_all_namespaces(w: World) -> None:
    w.create("configmaps", config_map("a", labels={"of": w.ns}))
    stream = w.watch_path("/api/v1/configmaps", labelSelector=f"of={w.ns}")
    w.create("configmaps", config_map("b", labels={"of": w.ns}), ns="default")
    stream.take(2, show="metadata.namespace metadata.name")


@case
def watch_of_widgets(w: World) -> None:
    first = w.create(WIDGETS, widget("a"))
    stream = w.watch(WIDGETS, resourceVersion=first.version)
    w.patch(WIDGETS, "a", {"spec": {"size": 4}})
    w.patch(WIDGETS, "a", {"status": {"phase": "Done"}}, "status")
    w.delete(WIDGETS, "a")
    stream.take(3, show="apiVersion kind metadata.name metadata.resourceVersion metadata.generation spec.size status")


@case
def watch_of_nodes_sees_a_cordon(w: World) -> None:
    first = w.create("nodes", node(w.ns), show="metadata.resourceVersion")
    stream = w.watch("nodes", resourceVersion=first.version, fieldSelector=f"metadata.name={w.ns}")
    w.patch("nodes", w.ns, {"spec": {"unschedulable": True}}, show="metadata.resourceVersion")
    w.delete("nodes", w.ns)
    stream.take(2, show="metadata.resourceVersion spec.unschedulable")


@case
def watch_of_namespaces(w: World) -> None:
    stream = w.watch("namespaces", fieldSelector=f"metadata.name={w.ns}-own")
    w.create("namespaces", named(f"{w.ns}-own"))
    w.patch("namespaces", f"{w.ns}-own", {"metadata": {"labels": {"a": "b"}}})
    stream.take(2, show="metadata.name metadata.labels status.phase")


@case
def watch_ends_after_its_time(w: World) -> None:
    w.create("configmaps", config_map("a"))
    w.watch("configmaps", timeoutSeconds="3").rest()


@case
def watch_with_bookmarks_ends_with_one(w: World) -> None:
    w.create("configmaps", config_map("a"))
    # Two seconds before the end, or not at all if the real server finds no time to plan it before that.
    stream = w.watch("configmaps", resourceVersion="0", allowWatchBookmarks="true", timeoutSeconds="6")
    stream.rest(show="kind apiVersion metadata.name metadata.annotations metadata.creationTimestamp")


@case
def streaming_list(w: World) -> None:
    w.create("configmaps", config_map("b"))
    w.create("configmaps", config_map("a"))
    stream = w.watch(
        "configmaps",
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
        timeoutSeconds="60",
    )
    stream.to_bookmark(show="kind apiVersion metadata.name metadata.annotations metadata.creationTimestamp")
    w.patch("configmaps", "a", {"data": {"k": "1"}})
    stream.take(1, show=SEEN)


@case
def streaming_list_of_nothing(w: World) -> None:
    stream = w.watch(
        WIDGETS,
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
        resourceVersion="0",
        timeoutSeconds="60",
    )
    stream.to_bookmark(show="kind apiVersion metadata.name metadata.annotations")


@case
def streaming_list_with_a_selector(w: World) -> None:
    w.create("pods", pod("a", node="n"))
    w.create("pods", pod("b"))
    stream = w.watch(
        "pods",
        fieldSelector="spec.nodeName=n",
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
        timeoutSeconds="60",
    )
    stream.to_bookmark(show="kind metadata.name metadata.annotations")


@case
def streaming_list_that_makes_no_sense(w: World) -> None:
    w.watch("configmaps", sendInitialEvents="true", timeoutSeconds="1")
    w.watch("configmaps", sendInitialEvents="true", resourceVersionMatch="Exact", timeoutSeconds="1")
    w.watch("configmaps", resourceVersionMatch="NotOlderThan", resourceVersion="0", timeoutSeconds="1")
    w.list("configmaps", sendInitialEvents="true", resourceVersionMatch="NotOlderThan")


@case
def watch_without_initial_events(w: World) -> None:
    w.create("configmaps", config_map("a"))
    stream = w.watch(
        "configmaps", sendInitialEvents="false", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    w.create("configmaps", config_map("b"))
    stream.take(1)


@case
def watch_from_a_version_that_is_no_number(w: World) -> None:
    w.watch("configmaps", resourceVersion="x", timeoutSeconds="1")
    w.watch(WIDGETS, resourceVersion="x", timeoutSeconds="1")


@case
def watch_with_a_selector_that_cannot_be_read(w: World) -> None:
    w.watch("configmaps", labelSelector="a b", timeoutSeconds="1")
    w.watch("pods", fieldSelector="spec.none=a", timeoutSeconds="1")


@case
def watch_from_the_future(w: World) -> None:
    w.watch("configmaps", resourceVersion="900000000", timeoutSeconds="1").rest()


@halves
def watch_from_a_version_that_is_too_old(w: World) -> Iterator[None]:
    version = w.create("configmaps", config_map("a")).version
    w.create("configmaps", config_map("b"))
    yield
    w.watch("configmaps", resourceVersion="1", timeoutSeconds="2").rest()
    w.watch("configmaps", resourceVersion=version, timeoutSeconds="2").rest()


@case
def watch_as_metadata_only(w: World) -> None:
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    w.create("configmaps", config_map("a", k="v"))
    stream = w.watch_path(w.path("configmaps"), accept=accept)
    w.delete("configmaps", "a")
    stream.take(2, show="*")


@case
def watch_as_table(w: World) -> None:
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    w.create(WIDGETS, widget("a"))
    stream = w.watch_path(w.path(WIDGETS), accept=accept)
    w.patch(WIDGETS, "a", {"spec": {"size": 4}})
    stream.take(2, show="kind columnDefinitions[].name rows[].object.kind")


@case
def watch_sees_every_write_once_and_in_order(w: World) -> None:
    first = w.create("configmaps", config_map("a"))
    stream = w.watch("configmaps", resourceVersion=first.version)
    for number in range(20):
        w.patch("configmaps", "a", {"data": {"n": str(number)}})
    stream.take(20, show="data metadata.resourceVersion")
