"""etcd is restored from a backup while four surfaces work: both replicas of the operator start over by themselves, and all finish."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.test_surfaces_together import WITHIN, Together, Unfinished, operator_of
from tests.rig.api import ApiError
from tests.rig.kwok import Kwok
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

STARTS_OVER = "the API server shows an earlier state than before, as after a restored backup: starting over"
RESTARTED = (ApiError, OSError)


@pytest.mark.timeout(600)
def test_an_operator_that_keeps_running_finishes_after_a_restore(scratch: Scratch, tmp_path: Path) -> None:
    """The control plane is the test's own, because others would lose what they have stored."""
    name = "restored"
    with ControlPlane(scratch.directory(name)) as plane:
        plane.start_controllers()
        plane.start_scheduler()
        plane.api().create("namespaces", {"metadata": {"name": name}})
        with Kwok(plane, package_takes=1) as kwok:
            together = Together(plane, kwok, name)
            users = ("operator", "operator-b")
            first, second = (operator_of(plane, tmp_path / user, name, user=user) for user in users)
            with first, second:
                together.wish()
                count = len(together.unfinished())
                eventually(lambda: len(together.unfinished()) < count, "something is finished")
                backup = tmp_path / "backup"
                plane.etcd.copy_to(backup)
                count = len(together.unfinished())
                eventually(lambda: len(together.unfinished()) < count - 1, "more is finished, which will be lost")
                plane.restore(backup)
                kwok.stop()
                kwok.start()
                for operator in (first, second):
                    eventually(lambda operator=operator: operator.logged(STARTS_OVER), "it starts over")  # type: ignore[misc]
                eventually(together.is_done, "all are done", WITHIN, refused=(Unfinished, *RESTARTED))
                eventually(lambda: not together.marks(), "all nodes are as they were")
                assert first.process.running
                assert second.process.running
    assert "Traceback" not in first.process.text() + second.process.text()
