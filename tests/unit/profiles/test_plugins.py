"""The built-in plugins, each by itself."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View
from haulout.plugins.api import CheckInput, TriggerInput, Verdict
from haulout.plugins.config import ConfigProblem
from haulout.surfaces.profiles.counts import InMaintenance, unreadable
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.wire import DATA_ANNOTATION, PROFILE_LABEL, STATE_LABEL, stamp
from tests.build.rows import START, at, node

FILE = "intervals: {{requeue: 30s}}\ninstances: {{{kind}: [{{type: {type}, name: x, config: {config}}}]}}\n"


def instance(kind: str, plugin: str, config: str) -> Any:
    text = FILE.format(kind=kind, type=plugin, config=config)
    loaded = load(text, known_plugins(), source="maintenance.yaml", environment={})
    return (loaded.checks if kind == "check" else loaded.triggers)["x"]


def view(*nodes: NodeRow) -> View:
    store = Store()
    store.pass_time(START)
    for row in nodes:
        store.put(row)
    store.set_listing("", "Node", Listing.LISTED)
    return View(store)


def judged(
    plugin: str,
    config: str,
    row: NodeRow,
    *others: NodeRow,
    last_transition: datetime = START,
    now: datetime = START,
    may_wait: bool = True,
) -> Verdict:
    found = instance("check", plugin, config)
    inputs = CheckInput(
        node=row,
        profile="p",
        state="operational",
        last_transition=last_transition,
        now=now,
        view=view(row, *others),
        in_maintenance=InMaintenance,
        unreadable=unreadable,
        may_wait=may_wait,
    )
    verdict: Verdict = found.plugin.judge(found.config, inputs)
    return verdict


def refusal(kind: str, plugin: str, config: str) -> str:
    with pytest.raises(ConfigProblem) as caught:
        instance(kind, plugin, config)
    return caught.value.what


class TestHasLabel:
    @pytest.mark.parametrize(
        ("labels", "config", "passes"),
        [
            pytest.param({"key": "any"}, "{key: key}", True, id="there"),
            pytest.param({"key": ""}, "{key: key}", True, id="there without a value"),
            pytest.param({"key": "a"}, "{key: key, value: a}", True, id="the value"),
            pytest.param({"key": "a"}, '{key: key, value: ""}', True, id="an empty value asks for any"),
            pytest.param({"key": "A"}, "{key: key, value: a}", False, id="another case"),
            pytest.param({"key": ""}, "{key: key, value: a}", False, id="no value"),
            pytest.param({"key": "true"}, "{key: key, value: yes}", True, id="an unquoted boolean is a text"),
            pytest.param({"other": "a"}, "{key: key}", False, id="absent"),
        ],
    )
    def test_passes(self, labels: dict[str, str], config: str, passes: bool) -> None:
        assert judged("hasLabel", config, node("n", labels=labels)).passed is passes

    def test_says_what_is_missing(self) -> None:
        assert judged("hasLabel", "{key: key}", node("n")).info == {"reason": "label key not present"}

    @pytest.mark.parametrize(
        ("labels", "config", "finding", "act"),
        [
            pytest.param(
                {},
                "{key: ready, value: 'yes'}",
                "the label ready=yes is missing on the node",
                "set the label ready=yes on the node",
                id="no label",
            ),
            pytest.param(
                {},
                "{key: ready}",
                "the label ready is missing on the node",
                "set the label ready on the node",
                id="no label, and any value would do",
            ),
            pytest.param(
                {"ready": "no"},
                "{key: ready, value: 'yes'}",
                "the label ready of the node is 'no', not 'yes'",
                "set the label ready=yes on the node",
                id="another value",
            ),
            pytest.param(
                {"ready": "yes"},
                "{key: ready, value: 'yes'}",
                "the label ready=yes is on the node",
                "remove the label ready from the node",
                id="there",
            ),
        ],
    )
    def test_names_what_it_looks_for_and_the_act_that_turns_it_round(
        self, labels: dict[str, str], config: str, finding: str, act: str
    ) -> None:
        verdict = judged("hasLabel", config, node("n", labels=labels))
        assert (verdict.finding, verdict.act) == (finding, act)

    def test_needs_a_key(self) -> None:
        assert refusal("check", "hasLabel", "{value: x}") == "string value is not set"


class TestWait:
    @pytest.mark.parametrize(
        ("duration", "waited", "passes"),
        [
            pytest.param("1m", 59.0, False, id="too early"),
            pytest.param("1m", 60.0, False, id="exactly"),
            pytest.param("1m", 60.000001, True, id="just after"),
            pytest.param("1h30m", 5400.5, True, id="a longer word"),
            pytest.param("-1s", 0.0, True, id="negative"),
            pytest.param("1s", -30.0, False, id="a transition in the future"),
        ],
    )
    def test_passes(self, duration: str, waited: float, passes: bool) -> None:
        assert judged("wait", f"{{duration: {duration}}}", node("n"), now=at(waited)).passed is passes

    def test_says_how_long_it_takes_and_until_when(self) -> None:
        verdict = judged("wait", "{duration: 2m}", node("n"), now=at(30))
        assert verdict.info == {"remaining_seconds": 90.0}
        assert verdict.until == at(120)

    @pytest.mark.parametrize(
        ("config", "what"),
        [
            pytest.param("{}", "string value is not set", id="none"),
            pytest.param("{duration: 60}", 'time: missing unit in duration "60"', id="a number"),
            pytest.param("{duration: soon}", 'time: invalid duration "soon"', id="a word"),
        ],
    )
    def test_needs_a_duration(self, config: str, what: str) -> None:
        assert refusal("check", "wait", config) == what


def busy(name: str, since: float | str = 0.0, profiles: str = "p", **labels: str) -> NodeRow:
    """Return a node in maintenance since so many seconds after the start, or with this annotation."""
    text = since
    if not isinstance(since, str):
        entry = f'{{"Transition":"{stamp(at(since)).text}","Current":"in-maintenance","Previous":"in-maintenance"}}'
        text = f'{{"Profiles":{{"{profiles}":{entry}}},"Notifications":{{}}}}'
    state = {STATE_LABEL: "in-maintenance", PROFILE_LABEL: profiles}
    return node(name, annotations={DATA_ANNOTATION: str(text)}, labels={**state, **labels})


class TestMaxMaintenance:
    """Where a "no" could be negated, the check counts itself.

    Elsewhere it returns the limit, which the arbiter judges.
    """

    @pytest.mark.parametrize(
        ("config", "passes"),
        [
            pytest.param("{max: 3}", True, id="room for one more"),
            pytest.param("{max: 2}", False, id="as many as allowed"),
            pytest.param("{max: -1}", False, id="negative"),
            pytest.param("{max: 2, profile: q}", True, id="one profile, elsewhere"),
            pytest.param("{max: 1, profile: q}", False, id="one profile, there"),
            pytest.param("{max: 2, groupBy: [zone]}", True, id="another zone does not count"),
            pytest.param("{max: 1, groupBy: zone}", False, id="the same zone does"),
            pytest.param("{max: 1, groupBy: [zone, rack]}", True, id="two keys"),
            pytest.param("{max: 1, groupLabel: zone}", False, id="the older word"),
            pytest.param("{max: 1, groupBy: [zone], groupLabel: rack}", True, id="both words"),
            pytest.param("{max: 1, groupBy: [rack], groupLabel: rack}", True, id="both words for the same key"),
            pytest.param("{max: 2, groupBy: [absent]}", False, id="a key that this node has not narrows nothing"),
            pytest.param("{max: 2, groupBy: [empty]}", False, id="a key without a value narrows nothing"),
        ],
    )
    def test_counts(self, config: str, passes: bool) -> None:
        others = (
            busy("b", zone="z1", rack="r1", absent="x", empty="x"),
            busy("c", profiles="q", zone="z2", rack="r2"),
            node("d", labels={STATE_LABEL: "maintenance-required", "zone": "z1"}),
            node("e", labels={"zone": "z1"}),
        )
        this = node("a", labels={"zone": "z1", "rack": "r9", "empty": ""})
        assert judged("maxMaintenance", config, this, *others, may_wait=False).passed is passes

    @pytest.mark.parametrize(
        ("profiles", "passes"),
        [({}, True), ({PROFILE_LABEL: ""}, True), ({PROFILE_LABEL: "default"}, False), ({PROFILE_LABEL: "x"}, True)],
        ids=["none", "empty", "listed", "another"],
    )
    def test_the_default_profile_counts_where_the_label_lists_it(self, profiles: dict[str, str], passes: bool) -> None:
        other = node("b", labels={STATE_LABEL: "in-maintenance", **profiles})
        config = "{max: 1, profile: default}"
        assert judged("maxMaintenance", config, node("a"), other, may_wait=False).passed is passes

    def test_a_node_in_maintenance_counts_itself(self) -> None:
        assert judged("maxMaintenance", "{max: 1}", busy("a"), may_wait=False).passed is False

    @pytest.mark.parametrize(
        ("skip", "since", "counted"),
        [
            pytest.param("1h", -3599, True, id="younger"),
            pytest.param("1h", -3600, False, id="exactly"),
            pytest.param("3600", -3601, False, id="older, in seconds"),
            pytest.param("0", -9999, True, id="off"),
        ],
    )
    def test_skips_who_has_been_there_for_long(self, skip: str, since: float, counted: bool) -> None:
        config = f"{{max: 1, skipAfter: {skip}}}"
        passed = judged("maxMaintenance", config, node("a"), busy("b", since), may_wait=False).passed
        assert passed is not counted

    def test_skips_by_the_entry_of_the_profile_where_one_is_named(self) -> None:
        other = busy("b", -7200, profiles="q")
        config = "{max: 1, profile: q, skipAfter: 1h}"
        assert judged("maxMaintenance", config, node("a"), other, may_wait=False).passed is True

    def test_without_an_entry_of_the_profile_nobody_is_counted(self) -> None:
        """G16."""
        other = busy("b", '{"Profiles":{},"Notifications":{}}', profiles="q")
        config = "{max: 1, profile: q, skipAfter: 1h}"
        assert judged("maxMaintenance", config, node("a"), other, may_wait=False).passed is True

    def test_data_that_cannot_be_read_is_an_error_only_where_it_is_needed(self) -> None:
        other = busy("b", "garbage", zone="z1")
        this, elsewhere = node("a", labels={"zone": "z1"}), node("c", labels={"zone": "z2"})
        skipping = "{max: 5, groupBy: [zone], skipAfter: 1h}"
        assert judged("maxMaintenance", skipping, this, other).error == (
            "the maintenance data of 1 nodes in maintenance cannot be read"
        )
        assert judged("maxMaintenance", skipping, elsewhere, other).error == ""
        assert judged("maxMaintenance", "{max: 5, groupBy: [zone]}", this, other).error == ""

    def test_answers_with_the_limit(self) -> None:
        this = node("a", labels={"zone": "z1"})
        verdict = judged("maxMaintenance", "{max: 1, groupBy: [zone]}", this, busy("b", zone="z1"))
        (limit,) = verdict.limits
        assert verdict.passed
        assert (limit.most, limit.group) == (1, ("z1",))
        assert limit.count == InMaintenance("", ("zone",), timedelta(0))
        assert limit.count.describe(limit.group) == "nodes in maintenance with zone=z1"

    @pytest.mark.parametrize(
        ("config", "scope"),
        [
            pytest.param("{max: 2}", "all nodes in the cluster", id="all"),
            pytest.param(
                "{max: 2, groupBy: [zone, rack]}",
                "nodes matching the zone=z1,rack=r1 label selector",
                id="a group",
            ),
            pytest.param(
                "{max: 2, groupBy: [empty, zone, absent]}",
                "nodes matching the empty=,zone=z1 label selector",
                id="a key without a value",
            ),
        ],
    )
    @pytest.mark.parametrize("may_wait", [True, False], ids=["limit", "count"])
    def test_says_what_it_counted(self, config: str, scope: str, may_wait: bool) -> None:
        this = node("a", labels={"zone": "z1", "rack": "r1", "empty": ""})
        other = busy("b", zone="z1", rack="r1")
        info = judged("maxMaintenance", config, this, other, may_wait=may_wait).info
        assert info == {"scope": scope, "maintained": 1, "max": 2}

    @pytest.mark.parametrize("config", ["{}", "{max: 0}"], ids=["none", "zero"])
    def test_needs_a_maximum(self, config: str) -> None:
        assert refusal("check", "maxMaintenance", config) == "missing required field"


class TestAlterLabel:
    @pytest.mark.parametrize(
        ("config", "after"),
        [
            pytest.param("{key: k, value: v}", {"k": "v", "x": "1"}, id="set"),
            pytest.param("{key: x, value: 2}", {"x": "2"}, id="replaced"),
            pytest.param("{key: k}", {"k": "", "x": "1"}, id="without a value"),
            pytest.param("{key: x, remove: true}", {}, id="removed"),
            pytest.param("{key: k, remove: true}", {"x": "1"}, id="nothing to remove"),
            pytest.param('{key: x, value: "2", remove: "false"}', {"x": "2"}, id="a text that says no"),
        ],
    )
    def test_changes_the_draft_and_nothing_else(self, config: str, after: dict[str, str]) -> None:
        found, before = instance("trigger", "alterLabel", config), node("n", x="1", cordoned=True)
        changed = found.plugin.pull(found.config, TriggerInput(before, "p", "operational", START, view()))
        assert changed == node("n", labels=after, cordoned=True)
        assert before.labels == {"x": "1"}

    @pytest.mark.parametrize(
        ("config", "what"),
        [
            pytest.param("{value: x}", "string value is not set", id="no key"),
            pytest.param("{key: [a]}", "can not convert 'object' into 'string'", id="a list for a key"),
            pytest.param("{key: k, remove: 1}", "can not convert 'uint' into 'bool'", id="a number for a truth"),
            pytest.param("null", "required 'object', but found 'any' in field 'instances.trigger.0.config'", id="null"),
        ],
    )
    def test_needs_a_key(self, config: str, what: str) -> None:
        assert refusal("trigger", "alterLabel", config) == what
