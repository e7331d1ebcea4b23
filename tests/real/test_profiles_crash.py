"""The operator is killed right before and right after each of its writes: the end is always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real.profiles import GO, PROFILE, entries_of, roll_config, states
from tests.rig.crash import CrashTest, normalised
from tests.rig.fleet import node_object
from tests.rig.operator import HAULOUT
from tests.rig.plane import ControlPlane

NODES = 2


@pytest.mark.tools("etcd", "kube-apiserver")
def test_killed_at_every_write_a_roll_ends_the_same(plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "maintenance.yaml").write_text(roll_config(1, profile="crash"))
    (tmp_path / "haulout.yaml").write_text(
        f'listen: {{http: "0", health: "0"}}\nleader: {{elect: false}}\nlog: {{format: console}}\n'
        f"surfaces: {{profiles: {{config: {tmp_path}/maintenance.yaml}}}}\n"
    )
    api = plane.api()

    def make_world() -> None:
        plane.wipe(prefix)
        plane.load(node_object(f"{prefix}-{i}", labels={PROFILE: "crash"}) for i in range(NODES))

    def act() -> None:
        for i in range(NODES):
            api.patch("nodes", f"{prefix}-{i}", {"metadata": {"labels": {GO: "true"}}})

    def settled() -> bool:
        nodes = [node for node in api.items("nodes") if node["metadata"]["name"].startswith(prefix)]
        wanted = any(GO in node["metadata"]["labels"] for node in nodes)
        return not wanted and set(states(api, prefix).values()) == {"operational"}

    def end_state() -> Any:
        nodes = [node for node in api.items("nodes") if node["metadata"]["name"].startswith(prefix)]
        seen = {
            node["metadata"]["name"]: [node["metadata"]["labels"], entries_of(node), node["spec"]] for node in nodes
        }
        return normalised(seen)

    report = CrashTest(
        plane=plane,
        logs=tmp_path,
        argv=[HAULOUT, "run", "--config", tmp_path / "haulout.yaml"],
        make_world=make_world,
        act=act,
        settled=settled,
        end_state=end_state,
        quiet=0.5,
    ).verify()
    plane.wipe(prefix)
    # Attached, then three transitions each; what is attached and moved at once is one write.
    assert 3 * NODES <= len(report.writes) <= 4 * NODES
    assert report.runs == 1 + 2 * len(report.writes)
