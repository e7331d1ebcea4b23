"""Loading `maintenance.yaml`: instances, profiles, and the errors of invalid files."""

from __future__ import annotations

import textwrap
from datetime import timedelta

import msgspec
import pytest

from haulout.base.expression import And, Name, Not, Or
from haulout.plugins.config import Config, ConfigProblem, Fields, GoDuration, GoDurationText
from haulout.surfaces.profiles.load import Configuration, Plugins, Stage, load, problems
from haulout.surfaces.profiles.schedules import Periodic
from haulout.surfaces.profiles.wire import State

SOURCE = "config/maintenance.yaml"
WHERE = f" (source:'{SOURCE}')"
ENVIRONMENT = {"LABEL": "example.com/x", "KEYS": "a,b"}


class Label(Config, frozen=True, kw_only=True):
    key: str
    value: str = ""


class Wait(Config, frozen=True, kw_only=True):
    duration: GoDurationText


class Limit(Config, frozen=True, kw_only=True):
    max: int
    group_by: tuple[str, ...] = ()
    skip_after: GoDuration = timedelta(0)


class Affinity(Config, frozen=True, kw_only=True):
    min_operational: int = 0


class Status(Config, frozen=True, kw_only=True):
    fields: Fields

    def validate(self) -> None:
        for name in self.fields:
            raise ConfigProblem(f"field {name} not found in HypervisorStatus")


class Slack(Config, frozen=True, kw_only=True):
    hook: str
    channel: str
    message: str


class Plugin(msgspec.Struct, frozen=True):
    config: type[Config]
    takes_null: bool = False


PLUGINS = Plugins(
    checks={
        "hasLabel": Plugin(Label),
        "wait": Plugin(Wait),
        "maxMaintenance": Plugin(Limit),
        "affinity": Plugin(Affinity, takes_null=True),
        "checkHypervisor": Plugin(Status),
    },
    notifiers={"slack": Plugin(Slack)},
    triggers={"alterLabel": Plugin(Label)},
)

GO = "- {type: hasLabel, name: go, config: {key: go}}"
SENT = "type: slack, name: ops, config: {hook: h, channel: c, message: m}"
OPS = f"- {{{SENT}, schedule: {{type: periodic, config: {{}}}}}}"
MARK = "- {type: alterLabel, name: mark, config: {key: k}}"


def written(
    *, intervals: str = "{requeue: 30s}", check: str = "", notify: str = "", trigger: str = "", profiles: str = "", rest: str = ""
) -> str:  # fmt: skip
    """Return a file with one instance of each kind, and what else a test wants."""

    def lines(*parts: str) -> str:
        return textwrap.indent("\n".join(textwrap.dedent(part).strip("\n") for part in parts if part), "  ")

    return "\n".join(
        (
            f"intervals: {intervals}",
            "instances:\n  check:",
            lines(GO, check),
            "  notify:",
            lines(OPS, notify),
            "  trigger:",
            lines(MARK, trigger),
            f"profiles:\n{lines(profiles)}",
            rest,
        )
    )


def only(check: str = "go", trigger: str = "mark", following: str = "next: maintenance-required") -> str:
    return f"- name: v\n  operational: {{transitions: [{{check: {check!r}, trigger: {trigger!r}, {following}}}]}}"


def loaded(text: str) -> Configuration[Plugin, Plugin, Plugin]:
    return load(text, PLUGINS, source=SOURCE, environment=ENVIRONMENT)


def refused(text: str) -> ConfigProblem:
    with pytest.raises(ConfigProblem) as caught:
        loaded(text)
    return caught.value


def test_the_smallest_file() -> None:
    configuration = loaded("intervals: {requeue: 30}")
    assert configuration.requeue == timedelta(seconds=30)
    assert configuration.checks == configuration.notifications == configuration.triggers == {}
    assert configuration.label_filter == ()
    assert list(configuration.profiles) == ["default"]
    assert dict(configuration.profiles["default"].stages) == dict.fromkeys(State, Stage())


@pytest.mark.parametrize("requeue", ["1ns", "0.00000001"])
def test_the_shortest_pace_is_a_pace(requeue: str) -> None:
    assert loaded(f"intervals: {{requeue: {requeue}}}").requeue == timedelta(microseconds=1)


def test_instances_are_bound_to_plugins() -> None:
    configuration = loaded(written(check="- {type: affinity, name: near}"))
    assert configuration.checks["go"].plugin is PLUGINS.checks["hasLabel"]
    assert configuration.checks["go"].config == Label(key="go")
    assert configuration.checks["near"].config == Affinity()
    assert configuration.notifications["ops"].schedule == Periodic()
    assert configuration.triggers["mark"].config == Label(key="k")


def test_profiles_are_bound_to_instances() -> None:
    profiles = """
        - name: kernel
          operational:
            transitions:
            - {check: "go && !(a-b||go)", next: maintenance-required, trigger: mark && mark}
            - {check: "!go", next: operational}
          maintenance-required: {notify: ops}
          in-maintenance: {enter: mark}
        """
    configuration = loaded(written(check="- {type: wait, name: a-b, config: {duration: 1h}}", profiles=profiles))
    stages = configuration.profiles["kernel"].stages
    first, second = stages[State.OPERATIONAL].transitions
    go, mark = configuration.checks["go"], configuration.triggers["mark"]
    assert first.check == And((Name("go"), Not(Or((Name("a-b"), Name("go"))))))
    assert first.text == "go && !(a-b||go)"
    assert first.checks == (go, configuration.checks["a-b"], go)
    assert first.trigger == (mark, mark)
    assert (first.next, second.next) == (State.REQUIRED, State.OPERATIONAL)
    assert stages[State.REQUIRED].notify == (configuration.notifications["ops"],)
    assert stages[State.IN_MAINTENANCE].enter == (mark,)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("- {type: hasLabel, name: go, config: {key: second}}", id="check"),
        pytest.param("- {name: go, config: {key: second}, type: hasLabel, extra: [1]}", id="unknown keys"),
        pytest.param("- {type: hasLabel, name: go, config: {key: '${NO:second}'}}", id="variable"),
    ],
)
def test_later_instances_replace_earlier_ones(text: str) -> None:
    assert loaded(written(check=text)).checks["go"].config == Label(key="second")


def test_later_profiles_replace_earlier_ones() -> None:
    profiles = "- name: default\n- {name: p, operational: {enter: mark}}\n- {name: p}"
    configuration = loaded(written(profiles=profiles))
    assert list(configuration.profiles) == ["default", "p"]
    assert configuration.profiles["p"].stages[State.OPERATIONAL] == Stage()


def test_default_can_be_redefined() -> None:
    configuration = loaded(written(profiles="- {name: default, operational: {enter: mark}}"))
    assert configuration.profiles["default"].stages[State.OPERATIONAL].enter == (configuration.triggers["mark"],)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("profiles: {name: x}", id="map for a list"),
        pytest.param("profiles: null", id="null"),
        pytest.param("instances: {check: {type: nope}}", id="map of instances"),
        pytest.param("keys: {a: b}\nunknown: '${NO}'", id="unknown keys"),
        pytest.param("dashboard: null", id="null block"),
    ],
)
def test_tolerated(text: str) -> None:
    assert list(loaded(f"intervals: {{requeue: 1s, notify: 5}}\n{text}").profiles) == ["default"]


def test_dashboard() -> None:
    assert loaded(written(rest="dashboard: {labelFilter: [a, '${LABEL}']}")).label_filter == ("a", "example.com/x")
    assert loaded(written(rest="dashboard: {labelFilter: '${KEYS}'}")).label_filter == ("a", "b")


def test_names_may_be_booleans_and_are_text_everywhere() -> None:
    text = written(
        trigger="- {type: alterLabel, name: on, config: {key: k}}", profiles="- {name: no, operational: {enter: yes}}"
    )
    configuration = loaded(text)
    assert configuration.profiles["false"].stages[State.OPERATIONAL].enter == (configuration.triggers["true"],)
    warned = [problem.path for problem in problems(text, PLUGINS, source="m.yaml", environment={})]
    assert {"profiles.0.name", "profiles.0.operational.enter"} < {*warned}


def test_what_such_a_name_says_names_it_too() -> None:
    text = written(
        check="- {type: hasLabel, name: on, config: {key: k}}\n- {type: hasLabel, name: v, config: {key: k}}",
        trigger="- {type: alterLabel, name: off, config: {key: k}}",
        profiles="""
        - name: on
          operational:
            enter: off
            transitions: [{check: on, next: in-maintenance}]
        """,
    )
    configuration = loaded(text)
    stage = configuration.profiles["on"].stages[State.OPERATIONAL]
    assert stage == configuration.profiles["true"].stages[State.OPERATIONAL]
    assert [each.name for each in stage.enter] == ["off"]
    (meant,) = stage.transitions
    assert (meant.checks, meant.text) == ((configuration.checks["on"],), "on")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"intervals": "{}"}, f"missing required field accessing 'intervals.requeue'{WHERE}", id="requeue"),
        pytest.param({"intervals": "{requeue: 0}"}, f"missing required field accessing 'intervals.requeue'{WHERE}", id="requeue 0"),
        pytest.param({"intervals": "null"}, "missing required field accessing 'intervals.requeue'", id="intervals null"),
        pytest.param({"intervals": "{requeue: '60'}"}, f"time: missing unit in duration \"60\" accessing 'intervals.requeue'{WHERE}", id="requeue unit"),
        pytest.param({"check": "- {type: checkLabel, name: v, config: {key: x}}"}, 'the requested check plugin type "checkLabel" is not known to the registry', id="check type"),
        pytest.param({"trigger": "- {type: reboot, name: v, config: {}}"}, 'the requested trigger plugin type "reboot" is not known to the registry', id="trigger type"),
        pytest.param({"notify": "- {type: pager, name: v, config: {}}"}, 'the requested notification plugin type "pager" is not known to the registry', id="notification type"),
        pytest.param({"check": "- {name: v}"}, 'the requested check plugin type "" is not known to the registry', id="no type"),
        pytest.param({"check": "- null"}, 'the requested check plugin type "" is not known to the registry', id="null instance"),
        pytest.param({"notify": f"- {{{SENT}}}"}, "a notification instance does not have a schedule assigned", id="no schedule"),
        pytest.param({"notify": f"- {{{SENT}, schedule: null}}"}, "a notification instance does not have a schedule assigned", id="null schedule"),
        pytest.param({"notify": f"- {{{SENT}, schedule: {{type: periodic}}}}"}, "a notification instance does not have a schedule assigned", id="schedule without config"),
        pytest.param({"notify": f"- {{{SENT}, schedule: {{type: hourly, config: {{}}}}}}"}, "notification scheduler with name hourly is unknown", id="schedule type"),
        pytest.param({"notify": f"- {{{SENT}, schedule: {{config: {{}}}}}}"}, "notification scheduler with name  is unknown", id="no schedule type"),
        pytest.param({"notify": f"- {{{SENT}, schedule: {{type: scheduled, config: {{instant: 9:00, weekdays: [someday]}}}}}}"}, "'someday' is not a known weekday", id="weekday"),
        pytest.param({"notify": f"- {{{SENT}, schedule: {{type: ONESHOT, config: {{delay: x}}}}}}"}, f"time: invalid duration \"x\" accessing 'instances.notify.1.schedule.config.delay'{WHERE}", id="delay"),
        pytest.param({"check": "- {type: hasLabel, name: v, config: x}"}, f"required 'object', but found 'string' in field 'instances.check.1.config'{WHERE}", id="scalar config"),
        pytest.param({"check": "- {type: hasLabel, name: v, config: null}"}, "required 'object', but found 'any' in field 'instances.check.1.config'", id="null config"),
        pytest.param({"check": "- {type: hasLabel, name: v, config: {value: x}}"}, f"string value is not set accessing 'instances.check.1.config.key'{WHERE}", id="required key"),
        pytest.param({"check": "- {type: hasLabel, name: v, config: []}"}, f"string value is not set accessing 'instances.check.1.config.key'{WHERE}", id="list as config"),
        pytest.param({"check": "- {type: maxMaintenance, name: v, config: {max: 0}}"}, f"missing required field accessing 'instances.check.1.config.max'{WHERE}", id="zero"),
        pytest.param({"check": "- {type: wait, name: v, config: {duration: 60}}"}, 'time: missing unit in duration "60"', id="wait"),
        pytest.param({"check": "- {type: checkHypervisor, name: v, config: {value: x}}"}, "field value not found in HypervisorStatus", id="plugin's own words"),
        pytest.param({"check": "- {type: hasLabel, name: v, config: {key: '${NO}'}}"}, f"missing field accessing 'instances.check.1.config.key'{WHERE}", id="variable"),
        pytest.param({"check": "- {type: hasLabel, name: v, config: {key: '${NO:?say why}'}}"}, f"say why accessing 'instances.check.1.config.key'{WHERE}", id="variable with a message"),
        pytest.param({"check": "- nope"}, f"required 'object', but found 'string' in field 'instances.check.1'{WHERE}", id="scalar instance"),
        pytest.param({"profiles": "- operational: {}"}, f"string value is not set accessing 'profiles.0.name'{WHERE}", id="nameless profile"),
        pytest.param({"profiles": "- null"}, "string value is not set accessing 'profiles.0.name'", id="null profile"),
        pytest.param({"profiles": "- {name: v, operational: x}"}, f"required 'object', but found 'string' in field 'profiles.0.operational'{WHERE}", id="scalar state"),
        pytest.param({"profiles": only(check="nope")}, 'the requested check instance "nope" is not known to the registry', id="check instance"),
        pytest.param({"profiles": only(check="go & go")}, 'the requested check instance "&" is not known to the registry', id="no operator"),
        pytest.param({"profiles": only(check="go, $x")}, 'the requested check instance "go," is not known to the registry', id="no name"),
        pytest.param({"profiles": only(check="go && (nope")}, 'the requested check instance "nope" is not known to the registry', id="instance before syntax"),
        pytest.param({"profiles": only(check="go && (go")}, "parsing error: unexpected end instead of ')' at column 10", id="unbalanced"),
        pytest.param({"profiles": only(check="  ")}, "parsing error: unexpected end at column 3", id="blank expression"),
        pytest.param({"profiles": only(check="")}, f"string value is not set accessing 'profiles.0.operational.transitions.0.check'{WHERE}", id="no expression"),
        pytest.param({"profiles": only(check="true")}, 'the requested check instance "true" is not known to the registry', id="constant"),
        pytest.param({"profiles": only(trigger="mark && nope")}, 'the requested trigger instance " nope" is not known to the registry', id="trigger instance"),
        pytest.param({"profiles": only(trigger="mark || mark")}, 'the requested trigger instance "mark || mark" is not known to the registry', id="no operator in chains"),
        pytest.param({"profiles": "- {name: v, operational: {notify: x}}"}, 'the requested notification instance "x" is not known to the registry', id="notification instance"),
        pytest.param({"profiles": only(following="next: rebooting")}, "'rebooting' is not a valid NodeStateLabel", id="next"),
        pytest.param({"profiles": only(following="")}, f"string value is not set accessing 'profiles.0.operational.transitions.0.next'{WHERE}", id="no next"),
        pytest.param({"rest": "junk: '${'"}, f"missing '}}' parsing splice accessing config{WHERE}", id="splice"),
        pytest.param({"rest": "dashboard: {labelFilter: [{}]}"}, f"can not convert 'object' into 'string' accessing 'dashboard.labelFilter.0'{WHERE}", id="dashboard"),
    ],
)  # fmt: skip
def test_refusals(changes: dict[str, str], message: str) -> None:
    assert refused(written(**changes)).text == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "missing required field accessing 'requeue'", id="empty"),
        pytest.param("- a", "missing required field accessing 'requeue'", id="list"),
        pytest.param("x", f"type 'string' is not supported on top level of config, only dictionary or list{WHERE}", id="scalar"),
        pytest.param("a: [b\n", "yaml: line 2: did not find expected ',' or ']'", id="syntax"),
    ],
)  # fmt: skip
def test_refused_files(text: str, message: str) -> None:
    assert refused(text).text == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"intervals": "{}", "rest": "junk: '${'"}, "missing '}' parsing splice", id="splices first"),
        pytest.param({"check": "- {type: nope}", "profiles": "- null"}, "string value is not set", id="shape before plugins"),
        pytest.param({"trigger": "- {type: nope}", "notify": "- {type: no}"}, "the requested notification", id="notify before trigger"),
        pytest.param({"profiles": "- {name: v, operational: {enter: x, notify: z}}"}, "the requested notification", id="notify before enter"),
        pytest.param({"profiles": only(check="x", trigger="z")}, "the requested check", id="check before trigger"),
        pytest.param({"profiles": only(trigger="z", following="next: x")}, "the requested trigger", id="trigger before next"),
        pytest.param({"profiles": "- {name: v, in-maintenance: {enter: i}, maintenance-required: {enter: r}}"}, 'the requested trigger instance "r"', id="order of states"),
    ],
)  # fmt: skip
def test_the_first_problem_wins(changes: dict[str, str], message: str) -> None:
    assert refused(written(**changes)).text.startswith(message)


@pytest.mark.parametrize(
    ("text", "is_syntax"),
    [
        pytest.param("a: [", True, id="no YAML"),
        pytest.param("x", True, id="scalar"),
        pytest.param("a: ${", True, id="splice"),
        pytest.param("", False, id="empty"),
        pytest.param("intervals: {requeue: x}", False, id="value"),
    ],
)
def test_syntax_is_told_from_meaning(text: str, is_syntax: bool) -> None:
    assert refused(text).is_syntax is is_syntax


def test_problems_know_their_place() -> None:
    problem = refused(written(profiles=only(check="nope")))
    assert problem.path == ("profiles", "0", "operational", "transitions", "0", "check")
    assert problem.place is not None
    assert (
        written(profiles=only(check="nope"))
        .splitlines()[problem.place.line - 1][problem.place.column - 1 :]
        .startswith("'nope'")
    )


BROKEN = """\
intervals: {}
junk: ${
instances:
  check:
  - {type: hasLabel, name: a, config: {value: yes, vaule: z}}
  - {type: hasLable, name: b, config: {key: x}}
  - {type: wait, name: a, config: x}
  notify:
  - {type: slack, name: ops, config: {hook: h, channel: c, message: m}}
profiles:
- name: p
  operational:
    enter: nope
    transitions:
    - {check: "a && b && ops2 && aa", next: operatonal}
    - {next: operational}
"""

LINTED = """\
m.yaml:1:12: intervals.requeue: missing required field (needed: a duration such as 90s or 1h30m, or a number of seconds)
m.yaml:2:7: junk: missing '}' parsing splice ($$ stands for a dollar sign)
m.yaml:5:39: instances.check.0.config.key: string value is not set (needed: a text)
m.yaml:5:47: instances.check.0.config.value: warning: an unquoted boolean is read as the text "true" (put it in quotes)
m.yaml:5:52: instances.check.0.config.vaule: warning: this key is not known, and ignored (known: key, value)
m.yaml:6:12: instances.check.1.type: the requested check plugin type "hasLable" is not known to the registry (did you mean "hasLabel"?)
m.yaml:7:24: instances.check.2.name: warning: replaces the earlier instance named "a" (give it another name)
m.yaml:7:35: instances.check.2.config: required 'object', but found 'string' in field 'instances.check.2.config' (a map of settings)
m.yaml:9:5: instances.notify.0.schedule: a notification instance does not have a schedule assigned (type and config, at least {})
m.yaml:13:12: profiles.0.operational.enter: the requested trigger instance "nope" is not known to the registry
m.yaml:15:15: profiles.0.operational.transitions.0.check: the requested check instance "ops2" is not known to the registry
m.yaml:15:15: profiles.0.operational.transitions.0.check: the requested check instance "aa" is not known to the registry (did you mean "a"?)
m.yaml:15:45: profiles.0.operational.transitions.0.next: 'operatonal' is not a valid NodeStateLabel (operational, maintenance-required, in-maintenance)
m.yaml:16:7: profiles.0.operational.transitions.1.check: string value is not set (needed: a text)
"""


def test_the_linter_finds_everything_and_nothing_twice() -> None:
    found = problems(BROKEN, PLUGINS, source="m.yaml", environment={})
    assert "".join(f"{problem}\n" for problem in found) == LINTED


def test_the_linter_on_what_is_no_yaml() -> None:
    (found,) = problems("a: [b\n", PLUGINS, source="m.yaml", environment={})
    assert str(found) == "m.yaml:2:1: did not find expected ',' or ']'"


def test_the_linter_has_nothing_to_say_about_a_good_file() -> None:
    assert problems(written(profiles=only()), PLUGINS, source="m.yaml", environment={}) == []
