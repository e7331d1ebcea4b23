"""What the operators of notify show of themselves: events, conditions and metrics, by the names of the contract."""

from __future__ import annotations

from collections import Counter

import pytest

from haulout.cluster.view import MARK
from haulout.surfaces.notify.scheduler.present import samples
from haulout.surfaces.notify.wire import INCOMPLETE, SCHEDULED, VALIDATING
from tests.build.notices import Notices
from tests.scenario.test_notify_runner import default, finish, ops, recipe
from tests.scenario.test_notify_sentences import ops as operators


def measured(given: Notices, name: str) -> Counter[tuple[tuple[str, str], ...]]:
    return Counter(tuple(sorted(each.labels)) for each in given.measured if each.counter == name)


def run_of(role: str, result: str) -> tuple[tuple[str, str], ...]:
    return (("recipe", "rec"), ("result", result), ("role", role))


def reason(given: Notices, kind: str) -> str:
    return next(str(each["reason"]) for each in given.get("a")["status"]["conditions"] if each["type"] == kind)


class TestRuns:
    def test_each_attempt_is_told_and_counted(self) -> None:
        given = ops(default(retries=1)).drained("a")
        finish(given, kind="Failed", reason="BackoffLimitExceeded").run(15)
        assert given.message("a", "maintenanceRun") == "attempt 2/2"
        finish(given)
        assert given.status("a") == VALIDATING
        # On the maintenance and on its node.
        assert (given.reasons("a").count("JobStarted"), given.reasons("n0").count("JobStarted")) == (2, 2)
        assert (given.reasons("a").count("JobFailed"), given.reasons("n0").count("JobFailed")) == (1, 1)
        assert measured(given, "nm_run_total") == {run_of("runner", "failed"): 1, run_of("runner", "succeeded"): 1}
        assert measured(given, "nm_run_duration_seconds") == {(("recipe", "rec"), ("role", "runner")): 2}

    def test_a_failed_job_gives_its_reason(self) -> None:
        given = ops(default()).drained("a")
        finish(given, kind="Failed", reason="BackoffLimitExceeded")
        assert given.status("a") == INCOMPLETE
        assert reason(given, "maintenanceRun") == "BackoffLimitExceeded"
        assert given.message("a", "maintenanceRun") == "attempt 1/1: BackoffLimitExceeded"

    def test_a_validation_that_fails_is_told(self) -> None:
        given = ops(validator={"default": "rec", "recipes": [recipe()]}).drained("a").annotate("a", client="complete")
        finish(given.run(), kind="Failed")
        assert given.status("a") == INCOMPLETE
        assert given.reasons("a").count("ValidationFailed") == 1
        assert measured(given, "nm_run_total") == {run_of("validator", "failed"): 1}

    def test_a_check_that_fails_is_the_reason(self) -> None:
        checks = {"nodeReady": False, "kubelet": "v0", "checksTimeout": "10s"}
        smoke = {"name": "rec", "type": "builtin", "checks": checks}
        given = ops(validator={"default": "rec", "recipes": [smoke]}).drained("a").annotate("a", client="complete")
        given.run(20)
        assert (given.status("a"), reason(given, "validationRun")) == (INCOMPLETE, "CheckFailed: kubelet")


class TestReturns:
    def test_a_return_is_told_and_counted(self) -> None:
        given = operators(scheduler={}, returner={}).make("a").run(10).delete("a").run(10)
        assert given.found("a") is None
        assert given.reasons("n0").count("NodeReturned") == 1
        assert measured(given, "nm_return_total") == {(("result", "returned"),): 1}

    @pytest.mark.parametrize(("client", "told"), [("inprogress", 1), (None, 0)])
    def test_work_that_is_half_done_blocks_the_return_and_is_told_once(self, client: str | None, told: int) -> None:
        given = operators(scheduler={}, returner={}).make("a").run(10).annotate("a", ready="true").run()
        given.annotate("a", client=client).run().delete("a").run(600)
        assert given.cordoned("n0") is bool(told)
        assert given.reasons("n0").count("ReturnBlocked") == told

    def test_a_cordon_of_others_is_waited_for_and_told_once(self) -> None:
        given = operators(returner={}).drained("a").delete("a").run(600)
        assert given.cordoned("n0")
        assert given.reasons("a").count("WaitingForUncordon") == 1


def test_budgets_show_how_full_they_are() -> None:
    budgets = [{"name": "all", "maxUnavailable": 2}]
    given = operators(scheduler={"budgets": budgets}).make("a", "n0").make("b", "n1").make("c", "n2").run(20)
    assert [given.status(name) for name in "abc"].count(SCHEDULED) == 1
    shown = {(name, labels): value for name, labels, value in samples(given.kernel.store.rows("", MARK))}
    assert shown["nm_scheduler_budget_used", (("budget", "all"),)] == 2
    assert shown["nm_scheduler_budget_limit", (("budget", "all"),)] == 2
    assert shown["nm_scheduler_candidates", (("reason", "BudgetExhausted"),)] == 1
