"""checkHypervisor, hypervisorCondition and alterHypervisor."""

from __future__ import annotations

import pytest

from haulout.core.action import Patch
from haulout.plugins.api import Also, Failed
from tests.build.checks import hypervisor, judged, pulled, refusal
from tests.build.rows import node

STATUS = {
    "evicted": True,
    "numInstances": 3,
    "traits": ["a", "b"],
    "hypervisorVersion": "9.2",
    "conditions": [{"type": "Ready", "status": "True"}],
}
MISSING = 'hypervisors.kvm.cloud.sap "n" not found'


class TestCheckHypervisor:
    @pytest.mark.parametrize(
        ("config", "passes"),
        [
            pytest.param("{evicted: true}", True, id="a boolean"),
            pytest.param("{evicted: false}", False, id="another"),
            pytest.param('{hypervisorVersion: "9.2", evicted: true}', True, id="several"),
            pytest.param('{hypervisorVersion: "9.2", evicted: false}', False, id="one of several"),
            pytest.param("{numInstances: 3}", True, id="a number"),
            pytest.param("{traits: [a, b]}", True, id="a list"),
            pytest.param("{traits: [b, a]}", False, id="in another order"),
            pytest.param('{serviceId: ""}', True, id="absent is empty"),
            pytest.param("{}", True, id="nothing"),
        ],
    )
    def test_passes(self, config: str, passes: bool) -> None:
        verdict = judged("checkHypervisor", config, node("n"), hypervisor("n", status=STATUS))
        assert (verdict.passed, verdict.info) == (passes, {})

    def test_a_node_without_one_fails(self) -> None:
        assert judged("checkHypervisor", "{}", node("n"), hypervisor("o")).error == MISSING

    @pytest.mark.parametrize(
        ("config", "what"),
        [
            pytest.param("{value: test}", "field value not found in HypervisorStatus", id="unknown"),
            pytest.param(
                "{evicted: 1}", "field evicted has incorrect type: expected bool, got int", id="not a boolean"
            ),
            pytest.param(
                "{numInstances: three}",
                "field numInstances has incorrect type: expected int, got string",
                id="not a number",
            ),
            pytest.param(
                "{instances: []}",
                "field instances has incorrect type: expected []v1.Instance, got []string",
                id="cannot be compared",
            ),
        ],
    )
    def test_refuses(self, config: str, what: str) -> None:
        assert refusal("check", "checkHypervisor", config) == what


class TestHypervisorCondition:
    @pytest.mark.parametrize(
        ("config", "passes", "info"),
        [
            ('{type: Ready, status: "True"}', True, {"current": "True", "expected": "True"}),
            ('{type: Ready, status: "False"}', False, {"current": "True", "expected": "False"}),
            ('{type: Tainted, status: "True"}', False, {"reason": "condition Tainted not present"}),
        ],
        ids=["as it is", "another status", "absent"],
    )
    def test_passes(self, config: str, passes: bool, info: dict[str, str]) -> None:
        verdict = judged("hypervisorCondition", config, node("n"), hypervisor("n", status=STATUS))
        assert (verdict.passed, verdict.info) == (passes, info)

    def test_a_node_without_one_fails(self) -> None:
        assert judged("hypervisorCondition", '{type: Ready, status: "True"}').error == MISSING

    def test_what_is_no_condition_is_none(self) -> None:
        odd = hypervisor("n", status={"conditions": [None, "Ready", {"type": "Ready", "status": "True"}]})
        assert odd.conditions == (("Ready", "True"),)


class TestAlterHypervisor:
    def test_patches_what_differs(self) -> None:
        row = node("n")
        config = "{maintenance: manual, reboot: true, customTraits: [x]}"
        found = pulled("alterHypervisor", config, row, hypervisor("n", spec={"reboot": True}))
        assert isinstance(found, Also)
        (patch,) = found.writes
        assert isinstance(patch, Patch)
        assert patch.body == {"spec": {"maintenance": "manual", "customTraits": ("x",)}}
        assert found.node is row

    def test_leaves_alone_what_is_as_it_should_be(self) -> None:
        row = node("n")
        assert pulled("alterHypervisor", "{reboot: true}", row, hypervisor("n", spec={"reboot": True})) is row

    def test_a_node_without_one_fails(self) -> None:
        assert pulled("alterHypervisor", "{reboot: true}", node("n")) == Failed(MISSING)

    def test_refuses_what_is_no_field(self) -> None:
        expected = "field evicted not found in HypervisorSpec"
        assert refusal("trigger", "alterHypervisor", "{evicted: true}") == expected
