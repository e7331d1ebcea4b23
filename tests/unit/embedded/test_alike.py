"""Objects from one spec: the second one shares the defaults that were filled in for the first."""

from __future__ import annotations

from haulout.embedded import PODS, Json
from tests.build.apiserver import World
from tests.build.workloads import template


def second_pod(*, alike: bool) -> Json:
    """The second of two pods of a template, created like the first or by itself."""
    server, spec = World().server, template("a", cpu="0.5")["spec"]
    first, second = ({"metadata": {"name": name, "namespace": "default"}, "spec": spec} for name in ("a", "b"))
    made = server.create(PODS, first)
    return server.create(PODS, second, like=made if alike else None)


def test_a_pod_that_is_made_like_another_is_what_it_would_have_been() -> None:
    assert second_pod(alike=True) == second_pod(alike=False)
    assert second_pod(alike=True)["spec"]["tolerations"]
