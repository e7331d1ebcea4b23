"""Checks that look at other nodes: anyLabel, nodeCount, clusterSemver and affinity."""

from __future__ import annotations

import pytest

from haulout.cluster.rows import NodeRow
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL
from tests.build.checks import judged, member, pod, refusal
from tests.build.rows import node

REQUIRED, OPERATIONAL = "maintenance-required", "operational"


class TestAnyLabel:
    @pytest.mark.parametrize(
        ("config", "passes"),
        [
            pytest.param("{key: there}", True, id="some other node has it"),
            pytest.param("{key: there, value: a}", True, id="with the value"),
            pytest.param("{key: there, value: b}", False, id="with another value"),
            pytest.param("{key: own}", True, id="the node itself"),
            pytest.param("{key: empty}", True, id="without a value"),
            pytest.param("{key: nowhere}", False, id="nobody"),
        ],
    )
    def test_passes(self, config: str, passes: bool) -> None:
        verdict = judged("anyLabel", config, node("n", own="1"), node("o", there="a"), node("p", empty=""))
        assert (verdict.passed, verdict.info) == (passes, {})


class TestNodeCount:
    @pytest.mark.parametrize(("count", "passes"), [(1, True), (2, True), (3, False)])
    def test_passes(self, count: int, passes: bool) -> None:
        verdict = judged("nodeCount", f"{{count: {count}}}", node("n"), node("o"))
        assert verdict.passed is passes
        assert verdict.info == {"current": 2, "expected": count}

    def test_needs_a_number(self) -> None:
        assert refusal("check", "nodeCount", "{count: 0}") == "missing required field"


def versioned(name: str, version: str, profiles: str = "") -> NodeRow:
    return node(name, labels={"v": version, **({PROFILE_LABEL: profiles} if profiles else {})})


class TestClusterSemver:
    @pytest.mark.parametrize(
        ("own", "others", "passes", "most"),
        [
            pytest.param("1.2.3", ["1.2.4"], True, "1.2.4", id="a newer one"),
            pytest.param("1.2.3", ["1.2.3"], False, "1.2.3", id="the same"),
            pytest.param("1.10.0", ["1.9.0"], False, "1.10.0", id="numbers, not letters"),
            pytest.param("1.0.0-rc.1", ["1.0.0"], True, "1.0.0", id="a release is newer than its candidates"),
            pytest.param("1.0.0+a", ["1.0.0+b"], False, "1.0.0+a", id="builds do not count"),
            pytest.param("1.0.0", ["v9.0.0", "2", ""], False, "1.0.0", id="what is no version is skipped"),
            pytest.param("0.0.9", [], True, "0.1.0", id="the maximum begins with 0.1.0"),
        ],
    )
    def test_passes(self, own: str, others: list[str], passes: bool, most: str) -> None:
        rows = [versioned(f"o{number}", version) for number, version in enumerate(others)]
        verdict = judged("clusterSemver", "{key: v}", versioned("n", own), *rows)
        assert verdict.passed is passes
        assert verdict.info == {"own": own, "max": most}

    @pytest.mark.parametrize(
        ("profiles", "passes"),
        [
            pytest.param("p", True, id="the same profile"),
            pytest.param("q--p", True, id="among others"),
            pytest.param("pp", False, id="a name that contains it"),
            pytest.param("", False, id="none"),
        ],
    )
    def test_scoped_by_profile(self, profiles: str, passes: bool) -> None:
        own, other = versioned("n", "1.0.0", "p"), versioned("o", "2.0.0", profiles)
        assert judged("clusterSemver", "{key: v, profileScoped: true}", own, other).passed is passes

    def test_a_node_without_a_version_fails(self) -> None:
        assert judged("clusterSemver", "{key: v}").error == "node does not have label v containing version"

    @pytest.mark.parametrize("version", ["v1.0.0", "1.0", "01.0.0", ""])
    def test_a_node_whose_version_is_none_fails(self, version: str) -> None:
        verdict = judged("clusterSemver", "{key: v}", versioned("n", version))
        assert verdict.error.startswith("failed to parse current nodes version label: ")


class TestAffinity:
    def test_only_in_maintenance_required(self) -> None:
        verdict = judged("affinity", "null", state=OPERATIONAL)
        expected = "affinity check plugin failed, node n is not in maintenance-required but operational state"
        assert verdict.error == expected

    def test_enough_operational_nodes(self) -> None:
        fleet = member("n", p=REQUIRED), member("o", p=OPERATIONAL), member("q", p=OPERATIONAL, r=REQUIRED)
        verdict = judged("affinity", "{minOperational: 2}", *fleet, pod("a", "n"), state=REQUIRED)
        assert (verdict.passed, verdict.info) == (True, {"reason": "minOperational exceeded"})

    def test_a_node_without_such_pods_may_go(self) -> None:
        fleet = member("n", p=REQUIRED), member("o", p=REQUIRED), pod("a", "o")
        plain = pod("b", "n", prefers_operational=False)
        verdict = judged("affinity", "null", *fleet, plain, state=REQUIRED)
        assert (verdict.passed, verdict.info) == (True, {"reason": "no pods with affinity"})

    def test_a_node_with_such_pods_waits_for_those_without(self) -> None:
        fleet = member("n", p=REQUIRED), member("o", p=REQUIRED), pod("a", "n")
        verdict = judged("affinity", "{minOperational: 1}", *fleet, state=REQUIRED)
        assert (verdict.passed, verdict.info) == (False, {"reason": "pods without affinity on: o"})

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param((member("o", p=REQUIRED), pod("b", "o")), id="has such pods too"),
            pytest.param((member("o", p=OPERATIONAL),), id="in another state"),
            pytest.param((member("o", q=REQUIRED),), id="by another profile"),
            pytest.param((node("o", annotations={DATA_ANNOTATION: "{"}),), id="with data that cannot be read"),
        ],
    )
    def test_nobody_to_wait_for(self, other: tuple[NodeRow, ...]) -> None:
        verdict = judged("affinity", "null", member("n", p=REQUIRED), pod("a", "n"), *other, state=REQUIRED)
        assert (verdict.passed, verdict.info) == (True, {})
