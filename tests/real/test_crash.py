"""The crash harness finds nothing in a good toy operator and the bug in each bad one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from tests.rig.crash import CrashTest, normalised
from tests.rig.fleet import node_object, pod_object
from tests.rig.plane import ControlPlane
from tests.rig.process import CHECKOUT, Scratch
from tests.rig.toy import LABEL

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

Crash = Callable[..., CrashTest]


@pytest.fixture
def crash(plane: ControlPlane, scratch: Scratch, prefix: str) -> Iterator[Crash]:
    """A crash test of a node with two pods that is to be drained."""
    node, api = f"{prefix}-node", plane.api()

    def make_world() -> None:
        plane.wipe(prefix)
        api.create("namespaces", {"metadata": {"name": prefix}})
        pods = [pod_object(f"{prefix}-{i}", prefix, node, grace=0) for i in range(2)]
        plane.load([node_object(node, labels={LABEL: "idle"}), *pods])

    def ask() -> None:
        api.patch("nodes", node, {"metadata": {"labels": {LABEL: "asked"}}})

    def settled() -> bool:
        return bool(api.get("nodes", node)["metadata"]["labels"][LABEL] == "done")

    def made(*flags: str, within: float, quiet: float = 0.3) -> CrashTest:
        return CrashTest(
            plane,
            scratch.directory(prefix),
            [sys.executable, "-m", "tests.rig.toy", prefix, *flags],
            make_world=make_world,
            act=ask,
            settled=settled,
            end_state=lambda: normalised([api.get("nodes", node), api.items("pods", prefix)]),
            env={"PYTHONPATH": str(CHECKOUT)},
            within=within,
            quiet=quiet,
            late=5,
            share=1,
        )

    yield made
    plane.wipe(prefix)


def test_good_operator_survives_every_crash(crash: Crash) -> None:
    report = crash(within=60).verify()
    assert len(report.writes) == 4
    assert report.runs == 9


def test_wrong_end_after_a_crash_is_found(crash: Crash) -> None:
    # It writes once more when it is as good as done: that is not to be taken for the end on a busy machine.
    report = crash("--label-first", within=60, quiet=1.0).run()
    assert [text.partition("\n")[0] for text in report.differences] == [
        f"killed after {report.writes[3]}: another end",
        f"killed after {report.writes[3]}: other destructive acts",
        f"killed before {report.writes[4]}: another end",
        f"killed before {report.writes[4]}: other destructive acts",
    ]
    assert '"unschedulable": true' in report.differences[0]


def test_destructive_act_that_is_done_twice_is_found(crash: Crash) -> None:
    report = crash("--careless", within=60).run()
    (found,) = report.differences
    assert found.startswith(f"killed after {report.writes[3]}: other destructive acts")


def test_end_that_is_never_reached_is_found(crash: Crash) -> None:
    test = crash(within=3)
    test.settled = lambda: False
    with pytest.raises(AssertionError, match="the undisturbed run did not settle"):
        test.run()
