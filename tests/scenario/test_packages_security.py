"""What a Skyhook may run on hosts, and what its pods are given: the settings of an administrator hold everywhere."""

from __future__ import annotations

from typing import Any

from haulout.embedded import PODS, Json
from tests.build.original import NAME, NODE, Original, entry
from tests.build.skyhooks import Skyhooks, pkg

REBOOT = {"type": "reboot"}
TOKENLESS = {"automountServiceAccountToken": False, "enableServiceLinks": False}


def access(pod: Json) -> dict[str, Any]:
    return {name: pod["spec"].get(name) for name in TOKENLESS}


class TestPodsWithoutToken:
    def test_no_pod_of_a_life_has_a_token_of_the_api_server(self) -> None:
        ops = Skyhooks()
        removable = {"interrupt": REBOOT, "uninstall": {"enabled": True}}
        ops.make("demo", {"base": pkg(**removable), "tune": pkg()}).run(60)
        ops.packages("demo", {"tune": pkg("1.1.0")}).run(60)
        ops.packages("demo", {"tune": pkg("1.0.0")}).run(60)
        ops.packages("demo", {"base": pkg(interrupt=REBOOT, uninstall={"enabled": True, "apply": True})}).run(60)
        assert {about.stage for about in ops.made} == {
            *("apply", "config", "interrupt", "post-interrupt", "upgrade", "uninstall", "uninstall-interrupt"),
        }
        assert all(access(about.pod) == TOKENLESS for about in ops.made)

    def test_a_pod_with_a_token_is_left_to_its_end(self) -> None:
        """It was made by the original, or by this operator in an older version."""
        original = Original(pkg()).stands("in_progress", entry("apply", "in_progress")).runs("apply")
        (pod,) = original.ops.world.objects.list(PODS, "skyhook")
        assert access(pod) != TOKENLESS
        ops = original.taken_over(60)
        assert [about.pod["metadata"]["uid"] for about in ops.pods()] == [pod["metadata"]["uid"]]
        assert (ops.made, ops.state(NODE, NAME)) == ([], {"base|1.0.0": "apply/in_progress"})
