"""The simulated kubelets of the embedded cluster."""

from datetime import timedelta

import pytest
from msgspec import structs

from haulout.embedded import NODES, PODS, ActorOptions, Json, KubeletOptions, PodBehaviour
from tests.build.workloads import World, condition_of, deployment, is_leaving, node, pod


def restarts(one: Json) -> int:
    return int(one["status"]["containerStatuses"][0]["restartCount"])


def test_a_node_is_registered() -> None:
    status = World(nodes=1).run(5).status(NODES, "n0")
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert len(status["nodeInfo"]["bootID"]) == 36
    assert status["allocatable"]["pods"] == "250"


def test_unmanaged_nodes_are_left_alone() -> None:
    alone = node("n0")
    alone["metadata"]["annotations"] = {"simulate.haulout.dev/unmanaged": ""}
    assert condition_of(World().make(alone).run().get(NODES, "n0"), "Ready") == ""


def test_a_pod_starts_and_becomes_ready_in_its_own_time() -> None:
    world = World(nodes=1).run(5).make(pod("a", notes={"starts-after": "10s", "ready-after": "20s"}))
    assert world.run(9).get(PODS, "a")["status"]["phase"] == "Pending"
    found = world.run(2).get(PODS, "a")
    assert (found["status"]["phase"], condition_of(found, "Ready")) == ("Running", "False")
    assert condition_of(world.run(20).get(PODS, "a"), "Ready") == "True"


@pytest.mark.parametrize(
    ("notes", "grace", "lasts", "phase"),
    [
        pytest.param({}, None, 30, "Failed", id="the whole grace period"),
        pytest.param({"stops-after": "5s"}, None, 5, "Succeeded", id="as it says"),
        pytest.param({"stops-after": "2m"}, None, 30, "Failed", id="no longer than allowed"),
        pytest.param({}, 3, 3, "Failed", id="as asked for"),
    ],
)
def test_a_pod_stops(notes: dict[str, str], grace: int | None, lasts: int, phase: str) -> None:
    world = World(nodes=1).make(pod("a", notes=notes)).run()
    world.objects.delete(PODS, "default", "a", grace=grace)
    assert is_leaving(world.run(lasts - 1).get(PODS, "a"))
    assert world.run(1).names() == []
    last = [change for change in world.log if change.resource == PODS][-2]
    assert last.object["status"]["phase"] == phase


@pytest.mark.parametrize(
    ("images", "ends"), [(("registry.k8s.io/pause:3.10", "pause"), True), (("pause", "x/app"), False)]
)
def test_pause_containers_end_at_once(images: tuple[str, ...], ends: bool) -> None:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    world = World(nodes=1).make(pod("a", containers=containers)).run()
    world.objects.delete(PODS, "default", "a")
    assert (world.run(0).names() == []) is ends


def test_a_shorter_grace_overrides_a_longer_one() -> None:
    world = World(nodes=1).make(pod("a", terminationGracePeriodSeconds=600)).run()
    world.objects.delete(PODS, "default", "a")
    world.run(10).objects.delete(PODS, "default", "a", grace=5)
    assert world.run(6).names() == []


def test_what_never_ran_is_gone_at_once() -> None:
    world = World(nodes=1).run(5).make(pod("a", notes={"starts-after": "1h"})).run()
    world.objects.delete(PODS, "default", "a")
    assert world.run(0).names() == []


def test_a_function_may_decide() -> None:
    def behave(obj: Json, given: PodBehaviour) -> PodBehaviour:
        return structs.replace(given, starts_after=timedelta(minutes=5)) if obj["metadata"]["name"] == "slow" else given

    world = World(ActorOptions(heartbeats=False, kubelet=KubeletOptions(behave=behave)), nodes=1)
    world.make(pod("slow"), pod("fast")).run()
    assert [one["status"]["phase"] for one in world.pods()] == ["Running", "Pending"]


def test_a_reboot() -> None:
    world = World(nodes=2).make(deployment("web", 4)).run()
    before = world.status(NODES, "n0")["nodeInfo"]["bootID"]
    names = world.names()
    world.actors.reboot("n0", timedelta(seconds=40), kubelet_version="v1.37.0")
    assert condition_of(world.run(1).get(NODES, "n0"), "Ready") == "False"
    assert world.taints("n0") == ["not-ready:NoSchedule", "not-ready:NoExecute"]
    assert world.ready() == 2
    assert condition_of(world.run(39).get(NODES, "n0"), "Ready") == "True"
    assert world.status(NODES, "n0")["nodeInfo"]["bootID"] != before
    assert world.status(NODES, "n0")["nodeInfo"]["kubeletVersion"] == "v1.37.0"
    assert world.ready() == 2
    assert world.run(5).ready() == 4
    assert world.taints("n0") == []
    assert world.names() == names
    assert sorted(restarts(one) for one in world.pods()) == [0, 0, 1, 1]


def test_an_unannounced_reboot_shows_only_if_it_takes_long() -> None:
    world = World(nodes=2).make(deployment("web", 2)).run()
    world.actors.reboot("n0", timedelta(seconds=30), announced=False)
    assert condition_of(world.run(29).get(NODES, "n0"), "Ready") == "True"
    assert world.ready() == 2
    assert world.run(2).ready() == 1
    assert world.run(5).ready() == 2
    world.actors.reboot("n0", timedelta(seconds=90), announced=False)
    assert condition_of(world.run(60).get(NODES, "n0"), "Ready") == "Unknown"
    assert world.run(60).ready() == 2
    assert sorted(restarts(one) for one in world.pods()) == [0, 2]


def test_pods_that_were_stopping_are_gone_after_a_reboot() -> None:
    world = World(nodes=1).make(pod("a", terminationGracePeriodSeconds=3600)).run()
    world.objects.delete(PODS, "default", "a")
    world.actors.reboot("n0", timedelta(seconds=20))
    assert is_leaving(world.run(19).get(PODS, "a"))
    assert world.run(2).names() == []


def test_a_crash_loop_backs_off_until_mended() -> None:
    world = World(nodes=1).make(pod("a", notes={"exits-after": "1s", "exit-code": "1"})).run(4)
    found = world.get(PODS, "a")
    assert found["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert condition_of(found, "Ready") == "False"
    assert restarts(world.run(40).get(PODS, "a")) == 2
    world.change(PODS, "a", {"metadata": {"annotations": {"simulate.haulout.dev/exits-after": None}}})
    assert condition_of(world.run(300).get(PODS, "a"), "Ready") == "True"


@pytest.mark.parametrize(
    ("policy", "code", "phase", "count"),
    [
        ("Never", 0, "Succeeded", 0),
        ("Never", 3, "Failed", 0),
        ("OnFailure", 0, "Succeeded", 0),
        ("OnFailure", 3, "Running", 1),
        ("Always", 0, "Running", 1),
    ],
)
def test_restart_policies(policy: str, code: int, phase: str, count: int) -> None:
    notes = {"exits-after": "30s", "exit-code": str(code)}
    found = World(nodes=1).make(pod("a", notes=notes, restartPolicy=policy)).run(45).get(PODS, "a")
    assert (found["status"]["phase"], restarts(found)) == (phase, count)


def test_a_dead_kubelet_neither_starts_nor_stops_anything() -> None:
    world = World(nodes=1).make(pod("old")).run()
    world.actors.kill_kubelet("n0")
    world.objects.delete(PODS, "default", "old")
    world.make(pod("new", nodeName="n0")).run(45)
    assert is_leaving(world.get(PODS, "old"))
    assert world.get(PODS, "new")["status"]["phase"] == "Pending"
    world.actors.revive_kubelet("n0")
    assert world.run(10).names() == ["new"]
    assert world.ready() == 1


@pytest.mark.parametrize("notes", [{"starts-after": "soon"}, {"exit-code": "one"}])
def test_what_a_pod_says_in_words_that_nobody_knows_stops_nobody(notes: dict[str, str]) -> None:
    world = World(nodes=1).run(5).make(pod("a", notes=notes), pod("b")).run(10)
    assert [condition_of(one, "Ready") for one in world.pods()] == ["True", "True"]


def with_inits(name: str, *inits: Json, notes: dict[str, str] | None = None, **spec: object) -> Json:
    made = pod(name, notes=notes or {})
    made["spec"] |= {"initContainers": [{"name": f"i{n}", "image": "x", **one} for n, one in enumerate(inits)], **spec}
    return made


def inits_of(world: World, name: str) -> list[Json]:
    found: list[Json] = world.get(PODS, name)["status"]["initContainerStatuses"]
    return found


def simulated(**values: str) -> Json:
    return {"env": [{"name": f"SIMULATE_{name.upper()}", "value": value} for name, value in values.items()]}


class TestInitContainers:
    def test_they_run_one_after_another_before_the_pod_does(self) -> None:
        world = (
            World(nodes=1).run(5).make(with_inits("a", {}, {}, notes={"starts-after": "0s", "init-runs-for": "10s"}))
        )
        first = world.run(15)
        assert [list(one["state"]) for one in inits_of(first, "a")] == [["terminated"], ["running"]]
        found = first.get(PODS, "a")
        assert (found["status"]["phase"], condition_of(found, "Initialized")) == ("Pending", "False")
        found = world.run(10).get(PODS, "a")
        assert (found["status"]["phase"], condition_of(found, "Initialized")) == ("Running", "True")
        assert [one["state"]["terminated"]["exitCode"] for one in inits_of(world, "a")] == [0, 0]

    def test_one_that_fails_is_tried_again_and_says_why(self) -> None:
        broken = simulated(exit_code="3", message="no disk")
        world = World(nodes=1).run(5).make(with_inits("a", {}, broken, {}, restartPolicy="OnFailure")).run(60)
        ok, failing, waits = inits_of(world, "a")
        assert (ok["ready"], waits["state"]) == (True, {"waiting": {"reason": "PodInitializing"}})
        assert failing["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
        ended = failing["lastState"]["terminated"]
        assert (ended["exitCode"], ended["message"], failing["restartCount"]) == (3, "no disk", 2)
        assert world.get(PODS, "a")["status"]["phase"] == "Pending"

    def test_one_that_fails_ends_a_pod_that_is_never_restarted(self) -> None:
        world = World(nodes=1).run(5).make(with_inits("a", simulated(exit_code="1"), restartPolicy="Never")).run(10)
        assert world.get(PODS, "a")["status"]["phase"] == "Failed"

    def test_a_sidecar_goes_on(self) -> None:
        world = World(nodes=1).run(5).make(with_inits("a", {"restartPolicy": "Always"}, {})).run(10)
        assert [list(one["state"]) for one in inits_of(world, "a")] == [["running"], ["terminated"]]
        assert world.get(PODS, "a")["status"]["phase"] == "Running"

    def test_words_that_cannot_be_read_change_nothing(self) -> None:
        odd = simulated(exit_code="none", runs_for="soon")
        world = World(nodes=1).run(5).make(with_inits("a", odd)).run(10)
        assert world.get(PODS, "a")["status"]["phase"] == "Running"

    def test_one_reboots_its_node_once(self) -> None:
        world = World(nodes=1).run(5)
        before = world.status(NODES, "n0")["nodeInfo"]["bootID"]
        asked = with_inits("a", {"args": ["reboot"]}, notes={"reboots-for": "30s"})
        assert condition_of(world.make(asked).run(20).get(NODES, "n0"), "Ready") == "False"
        found = world.run(30).get(NODES, "n0")
        boot = found["status"]["nodeInfo"]["bootID"]
        assert (condition_of(found, "Ready"), boot == before) == ("True", False)
        assert world.get(PODS, "a")["status"]["phase"] == "Running"
        # Made again for the same work, it finds the node rebooted.
        world.objects.delete(PODS, "default", "a")
        world.run(40).make(asked).run(20)
        assert world.status(NODES, "n0")["nodeInfo"]["bootID"] == boot
        assert world.get(PODS, "a")["status"]["phase"] == "Running"

    def test_a_brief_world_shows_the_same_end(self) -> None:
        pods = with_inits("a", {}, {}, notes={"init-runs-for": "10s"})
        worlds = [World(ActorOptions(brief=brief), nodes=1).run(5).make(pods).run(60) for brief in (True, False)]
        brief, full = (each.get(PODS, "a")["status"] for each in worlds)
        assert brief["initContainerStatuses"] == full["initContainerStatuses"]
        assert brief["phase"] == full["phase"] == "Running"
