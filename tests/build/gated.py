"""Packages behind a gate, in virtual time, with a simulated Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from haulout.cluster.rows import Value
from haulout.embedded import NODES
from haulout.plugins.checks.prometheus_instant import Sample
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.skyhook.wave_gates import PROBE, GateQuestion
from tests.build.skyhooks import Skyhooks

PROMETHEUS = {"url": "https://prometheus.test", "query": "errors", "expr": "value < 3"}


class Gated(Skyhooks):
    """A world with packages and a Prometheus.

    `answer`: the value of its query, or an error; it is asked once per second. `waves`: every batch of `demo` that was
    stored.
    `most_busy`: the most nodes with a pod or a cordon at once.
    """

    def __init__(self, options: Options | None = None, *, nodes: int) -> None:
        self.answer: Callable[[GateQuestion], float | str] = lambda question: 0.0
        self.asked: list[GateQuestion] = []
        self.waves: list[list[str]] = []
        self.most_busy = 0
        self._seen: dict[str, list[str]] = {}
        super().__init__(options, nodes=nodes)
        self.before = self._look

    def _look(self, body: object) -> None:
        nodes = self.world.objects.list(NODES, "")
        busy = {each.node for each in self.pods()}
        busy |= {node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")}
        self.most_busy = max(self.most_busy, len(busy))
        for name, each in sorted(self.compartments().items()):
            members = each.get("batchNodes") or []
            self.waves += [members] if members and members != self._seen.get(name) else []
            self._seen[name] = members

    def compartments(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status("demo").get("compartmentStatuses", {})
        return found

    def run(self, seconds: float = 60) -> Self:
        for _ in range(round(seconds)):
            super().run(1)
            self._answer()
        return self

    def _answer(self) -> None:
        for key, demand in self.kernel.loop.demands().items():
            if demand.probe == PROBE:
                assert isinstance(demand.argument, GateQuestion)
                self.asked.append(demand.argument)
                said = self.answer(demand.argument)
                fact = (
                    Value(key=key, error=said, state="unknown", failures=1)
                    if isinstance(said, str)
                    else Value(key=key, value=Sample(repr(said)), state="fresh")
                )
                self.kernel.store.write(fact)

    def gated(self, *, size: int = 1, count: int = 10, **gate: Any) -> Self:
        """Make the policy `p` with waves of `size` nodes and a gate."""
        default = {"budget": {"count": count}, "strategy": {"fixed": {"initialBatch": size}}}
        self.policy("p", default=default, gate=gate)
        return self

    def halt(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status("demo").get("halt", {})
        return found

    def versions(self, package: str = "base") -> list[str]:
        """Return the versions of a package in each node's entries."""
        names = [node["metadata"]["name"] for node in self.world.objects.list(NODES, "")]
        keys = ([key for key in self.state(name, "demo") if key.startswith(f"{package}|")] for name in sorted(names))
        return [" ".join(sorted(key.partition("|")[2] for key in each)) for each in keys]
