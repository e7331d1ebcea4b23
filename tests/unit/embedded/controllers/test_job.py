"""The Job controller of the embedded cluster."""

from haulout.embedded import JOBS
from tests.build.workloads import World, condition_of, job, template


def pods(**notes: str) -> dict[str, object]:
    return template(
        "once",
        notes={"exits-after": "10s", **{k.replace("_", "-"): v for k, v in notes.items()}},
        restartPolicy="Never",
    )


def test_enough_successes_complete_it() -> None:
    world = World(nodes=2).make(job("once", pods(), completions=3, parallelism=2)).run(15)
    assert world.status(JOBS, "once")["active"] + world.status(JOBS, "once").get("succeeded", 0) == 3
    status = world.run(30).status(JOBS, "once")
    assert (status["succeeded"], status.get("failed", 0), status.get("active", 0)) == (3, 0, 0)
    assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert [one["metadata"].get("finalizers") for one in world.pods()] == [None, None, None]


def test_too_many_failures_fail_it_with_pauses_between() -> None:
    world = World(nodes=1).make(job("once", pods(exit_code="1"), backoffLimit=2)).run(20)
    assert len(world.names()) == 1
    status = world.run(300).status(JOBS, "once")
    assert status["failed"] == 3
    assert [(one["type"], one["reason"]) for one in status["conditions"]] == [
        ("FailureTarget", "BackoffLimitExceeded"),
        ("Failed", "BackoffLimitExceeded"),
    ]


def test_an_evicted_pod_is_replaced_and_counted() -> None:
    world = World(nodes=2).make(job("once", pods(exits_after="1h"))).run()
    (name,) = world.names()
    world.objects.evict("default", name)
    world.run(120)
    assert world.status(JOBS, "once")["failed"] == 1
    assert len(world.names()) == 1
    assert world.names() != [name]
    assert world.ready() == 1


def test_a_deadline_ends_it() -> None:
    world = World(nodes=1).make(job("once", pods(exits_after="1h"), activeDeadlineSeconds=60)).run(59)
    assert condition_of(world.get(JOBS, "once"), "Failed") == ""
    assert condition_of(world.run(60).get(JOBS, "once"), "Failed") == "True"


def test_suspended_it_has_no_pods() -> None:
    world = World(nodes=1).make(job("once", pods(), suspend=True)).run()
    assert world.names() == []
    world.change(JOBS, "once", {"spec": {"suspend": False}})
    assert condition_of(world.run().get(JOBS, "once"), "Complete") == "True"
    assert condition_of(world.get(JOBS, "once"), "Suspended") == "False"
