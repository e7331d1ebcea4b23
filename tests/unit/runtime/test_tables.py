"""Tables of the store: what is said of objects that are too large or cannot be read, and for how long that is kept."""

from __future__ import annotations

from datetime import UTC, datetime

from haulout.base.clock import ManualClock
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.store import Store
from haulout.model.meta import ObjectMeta
from haulout.model.pod import Pod
from haulout.runtime.metrics import Metrics
from haulout.runtime.tables import TableSink


class Pods:
    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.metrics = Metrics()
        clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
        projector = Projector(RESOURCES["Pod"], "", Keep())
        self.sink = TableSink(
            Store(),
            projector,
            clock,
            self.metrics,
            lambda: None,
            on_oversized=lambda what, length: self.told.append((what, length)),
        )

    def put(self, name: str, version: int) -> None:
        pod = _pod(name, version)
        self.sink.put(pod)
        self.sink.oversized(pod.metadata, 7_000_000)

    def list(self, *names: str, version: int) -> None:
        self.sink.begin()
        for name in names:
            self.put(name, version)
        self.sink.listed(str(version), future=False)


def _pod(name: str, version: int) -> Pod:
    return Pod(ObjectMeta(name=name, namespace="ns", resource_version=str(version)))


def test_oversized_object_is_told_once_as_long_as_it_exists() -> None:
    pods = Pods()
    pods.list("fat", version=1)
    pods.put("fat", 2)
    pods.list("fat", version=3)
    assert pods.told == [("Pod ns/fat", 7_000_000)]
    assert 'haulout_oversized_objects_total{kind="Pod"} 3' in pods.metrics.render().decode()


def test_oversized_object_is_told_again_after_it_was_gone() -> None:
    pods = Pods()
    pods.put("fat", 1)
    pods.sink.delete(_pod("fat", 2))
    pods.put("fat", 3)
    pods.list("other", version=4)
    pods.put("fat", 5)
    assert [what for what, _ in pods.told] == ["Pod ns/fat", "Pod ns/fat", "Pod ns/other", "Pod ns/fat"]
