"""Watches that lose events in virtual time: the world goes on, and the kernel does not receive changes of one kind."""

from __future__ import annotations

from typing import Any

from haulout.plan.virtual import VirtualDriver


def mute(driver: VirtualDriver, kind: str = "Pod") -> None:
    """Drop all further events about objects of this kind."""
    hear = driver._hear

    def heard(projector: Any, labels: Any, change: Any) -> None:
        if projector.resource.kind != kind:
            hear(projector, labels, change)

    driver._hear = heard  # type: ignore[method-assign]


def lose(driver: VirtualDriver, name: str, change_type: str = "DELETED") -> None:
    """Drop the next event of this type about the pod of this name. All others are delivered."""
    hear = driver._hear
    lost: list[Any] = []

    def heard(projector: Any, labels: Any, change: Any) -> None:
        is_meant = projector.resource.kind == "Pod" and change.object["metadata"]["name"] == name
        if is_meant and change.type == change_type and not lost:
            lost.append(change)
        else:
            hear(projector, labels, change)

    driver._hear = heard  # type: ignore[method-assign]


class Lists:
    """Counts the lists of one node's pods that a driver carries out, and lets them be refused."""

    def __init__(self, driver: VirtualDriver) -> None:
        self.nodes: list[str] = []
        self.refusal: Any = None
        carry_out = driver._carried_out

        def carried_out(body: Any) -> Any:
            if type(body).__name__ != "ListPods":
                return carry_out(body)
            self.nodes.append(body.target.name)
            return self.refusal or carry_out(body)

        driver._carried_out = carried_out  # type: ignore[method-assign]
