"""What the webhooks of Skyhook and DeploymentPolicy fill in, warn about and refuse, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from haulout.base.patch import apply
from haulout.cluster.rows import Row, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View
from haulout.core.admission import AdmissionRequest, Verdict, Webhook
from haulout.serve.reviews import decode
from haulout.surfaces.packages.admit import webhooks
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, OF_KIND, SKYHOOK, Group
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.specs.image_rules import NOT_BELOW
from haulout.surfaces.packages.surface import CONFIG_KEY
from haulout.surfaces.packages.wire import (
    LEADS,
    MIRRORED_FROM,
    MIRRORED_GENERATION,
    Package,
    SkyhookRow,
    Spec,
    skyhook_key,
)
from haulout.surfaces.packages.wire_policy import POLICY_KINDS, PolicyRow, policy_key

Json = dict[str, Any]
HOOKS = {webhook.name: webhook for webhook in webhooks()}
NAME_RULE = "must match [(?m)^[a-z][-a-z0-9]{0,41}[a-z]$]"
GRAPH = "error trying to validate skyhook spec graph is invalid: error graph is not valid"
NOOP = {"type": "noop"}
# The webhooks that check the objects of each group, and how their messages begin.
HOOK = {SKYHOOK: "validate-skyhook", NODEWRIGHT: "validate-nodewright.nodewright"}
PREFIXES = {SKYHOOK: "", NODEWRIGHT: 'validating NodeWright "s": '}


def view_of(rows: Iterable[Row] = ()) -> View:
    store = Store()
    for table in (*OF_KIND, *POLICY_KINDS):
        store.set_listing("", table, Listing.LISTED)
    for row in rows:
        store.put(row)
    return View(store)


def policy_row(name: str) -> PolicyRow:
    return PolicyRow(key=policy_key(name), version=1)


def skyhook_row(name: str, policy: str) -> SkyhookRow:
    return SkyhookRow(key=skyhook_key(name), version=1, spec=Spec(deployment_policy=policy))


def review(hook: Webhook, operation: str, new: Any = None, old: Any = None, name: str = "s") -> AdmissionRequest:
    """Return a request as the server makes it from a review."""
    request = {"uid": "u", "operation": operation, "name": name, "object": new, "oldObject": old}
    made = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return decode(msgspec.json.encode(made)).read(hook.reads)


def asked(
    hook: str, new: Json | None, old: Json | None = None, rows: Iterable[Row] = (), operation: str = "", name: str = "s"
) -> Verdict:
    webhook = HOOKS[f"{hook}.nvidia.com"]
    words = operation or ("CREATE" if old is None else "UPDATE")
    return webhook.rule(review(webhook, words, new, old, name), view_of(rows))


def skyhook(name: str = "s", /, status: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec, "status": status or {}}


def pkg(version: str = "1.0.0", **more: Any) -> Json:
    return {"version": version, "image": "x/y", **more}


def refusal(spec: Json, name: str = "s") -> str:
    verdict = asked("validate-skyhook", skyhook(name, **spec), name=name)
    assert not verdict.allowed
    assert verdict.code == 403
    return verdict.message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"interruptionBudget": {"percent": 0, "count": 0}},
            "error InterruptionBudget is not valid, both percent and count can not be set at the same time",
        ),
        (
            {"deploymentPolicy": "p", "interruptionBudget": {"count": 1}},
            "deploymentPolicy and interruptionBudget are mutually exclusive",
        ),
        ({"deploymentPolicy": "nope"}, 'deploymentPolicy "nope" not found'),
        (
            {"packages": {"aa": pkg(name="other")}},
            "error package aa's name was set to other. Do not explicitly set the name in the package's definition",
        ),
        ({"packages": {"11": pkg()}}, f"package name [11] is not valid. {NAME_RULE}"),
        ({"packages": {"x": pkg()}}, f"package name [x] is not valid. {NAME_RULE}"),
        ({"packages": {"ab1": pkg()}}, f"package name [ab1] is not valid. {NAME_RULE}"),
        ({"packages": {"a_b": pkg()}}, f"package name [a_b] is not valid. {NAME_RULE}"),
        ({"packages": {"ab\ncd": pkg()}}, f"package name [ab\ncd] is not valid. {NAME_RULE}"),
        ({"packages": {"a" * 44: pkg()}}, f"package name [{'a' * 44}] is not valid. {NAME_RULE}"),
        (
            {"packages": {"aa": pkg(configMap={"a": "b"}, configInterrupts={"*.sh": NOOP})}},
            'error config interrupt glob "*.sh" does not match any configMap keys',
        ),
        (
            {"packages": {"aa": pkg(configMap={"a": "b"}, configInterrupts={"*[": NOOP})}},
            'error config interrupt glob "*[" does not match any configMap keys',
        ),
        (
            {"packages": {"aa": pkg(configMap={"a": "b"}, configInterrupts={"c": NOOP})}},
            "error config interrupt for key that doesn't exist: c doesn't exist as a configmap",
        ),
        ({"packages": {"aa": pkg(image="")}}, 'package "aa": image must be set'),
        ({"packages": {"aa": pkg("latest")}}, "error version string for aa is invalid: latest"),
        ({"packages": {"aa": pkg("2024/07/06")}}, "error version string for aa is invalid: 2024/07/06"),
        ({"packages": {"aa": pkg("1.0.0+b1")}}, "error version string for aa is invalid: 1.0.0+b1"),
        (
            {"packages": {"a" * 43: pkg("1.0.0-" + "b" * 14)}},
            f'package "{"a" * 43}": name and version must not be longer than 62 characters together',
        ),
        (
            {"packages": {"aa": pkg(resources={"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi"})}},
            (
                'package "aa": if any resource override is set, all of cpuRequest, cpuLimit, memoryRequest, memoryLimit must'
                " be set"
            ),
        ),
        (
            {
                "packages": {
                    "aa": pkg(resources={"cpuRequest": 1, "cpuLimit": "500m", "memoryRequest": 1, "memoryLimit": 1})
                }
            },
            'package "aa": cpuLimit (500m) must be >= cpuRequest (1)',
        ),
        (
            {
                "packages": {
                    "aa": pkg(resources={"cpuRequest": 1, "cpuLimit": 1, "memoryRequest": "1Gi", "memoryLimit": "1G"})
                }
            },
            'package "aa": memoryLimit (1G) must be >= memoryRequest (1Gi)',
        ),
        (
            {
                "packages": {
                    "aa": pkg(resources={"cpuRequest": -1, "cpuLimit": 1, "memoryRequest": 1, "memoryLimit": 1})
                }
            },
            'package "aa": all resource values must be positive',
        ),
        (
            {"packages": {"aa": pkg(dependsOn={"bb": ""}), "bb": pkg()}},
            "error trying to validate skyhook spec building graph: DependsOn version is empty for [bb]",
        ),
        (
            {"packages": {"aa": pkg(dependsOn={"milkshake": "1.2.3", "bb": "2"}), "bb": pkg()}},
            f"{GRAPH}, missing: [bb|2 milkshake|1.2.3]",
        ),
        ({"packages": {"aa": pkg(dependsOn={"aa": "1.0.0"})}}, f"{GRAPH}, cycle: [aa|1.0.0 aa|1.0.0]"),
        (
            {
                "packages": {
                    "aa": pkg("1.0", dependsOn={"bb": "2.0"}),
                    "bb": pkg("2.0", dependsOn={"cc": "3.0"}),
                    "cc": pkg("3.0", dependsOn={"aa": "1.0"}),
                    "dd": pkg("4.0", dependsOn={"aa": "1.0"}),
                }
            },
            f"{GRAPH}, cycle: [aa|1.0 bb|2.0 cc|3.0 aa|1.0]",
        ),
        (
            {"packages": {"aa": pkg(uninstall={"apply": True})}},
            'package "aa": uninstall.apply requires uninstall.enabled to be true',
        ),
        (
            {"packages": {"aa": pkg(gracefulShutdown="soon")}},
            'package "aa": gracefulShutdown is not valid: time: invalid duration "soon"',
        ),
        (
            {"packages": {"aa": pkg(stageTimeout="-1s")}},
            'package "aa": stageTimeout must be greater than or equal to 0',
        ),
        (
            {"drainConfig": {"timeout": "5"}},
            'drain config: drainConfig.timeout is not valid: time: missing unit in duration "5"',
        ),
    ],
)
def test_refused(spec: Json, message: str) -> None:
    assert refusal(spec) == message


def test_selectors_that_are_none() -> None:
    assert refusal({"nodeSelectors": {"matchLabels": {"-foo": "x"}}}).startswith("node selectors are not valid: ")
    wrong = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    assert refusal({"podNonInterruptLabels": wrong}).startswith("pod non-interrupt labels are not valid: ")


def test_the_first_problem_is_the_one_that_is_named() -> None:
    spec = {"interruptionBudget": {"percent": 1, "count": 1}, "packages": {"zz": pkg("x"), "bb": pkg("y")}}
    assert "both percent and count" in refusal(spec)
    del spec["interruptionBudget"]
    assert refusal(spec) == "error version string for bb is invalid: y"


def test_a_name_has_to_fit_into_an_annotation() -> None:
    assert "is longer than 53 characters" in refusal({}, "n" * 54)
    assert asked("validate-skyhook", skyhook("n" * 53)).allowed


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"packages": {}},
        *({"packages": {"aa": pkg(version)}} for version in ("1", "1.2", "v1.2.3", "2.3.1-test", "2024.05.10")),
        {"packages": {"aa": pkg(resources={})}},
        {"packages": {"aa": pkg(resources={"cpuRequest": 0, "cpuLimit": "0"})}},
        {"packages": {"aa": pkg(configMap={"a.sh": ""}, configInterrupts={"*.sh": NOOP})}},
        {"packages": {"aa": pkg(dependsOn={"bb": "1.0.0"}), "bb": pkg()}},
        {"packages": {"aa": pkg(gracefulShutdown="46s", stageTimeout="20m")}},
        {"packages": {"aa": pkg(uninstall={"enabled": True, "apply": True})}},
        {"interruptionBudget": {}, "deploymentPolicy": "there"},
        {"interruptionBudget": {"count": 0}},
    ],
)
def test_accepted(spec: Json) -> None:
    assert asked("validate-skyhook", skyhook(**spec), rows=[policy_row("there")]) == Verdict(allowed=True)


def test_a_policy_that_may_have_come_meanwhile_is_looked_for() -> None:
    assert asked("validate-skyhook", skyhook(deploymentPolicy="new")).doubts == (policy_key("new"),)


def test_an_edit_is_judged_as_a_new_one_is() -> None:
    verdict = asked("validate-skyhook", skyhook(deploymentPolicy="nope"), skyhook())
    assert verdict.message == 'deploymentPolicy "nope" not found'


def test_a_bad_spec_that_is_stored_can_be_paused_and_deleted() -> None:
    stored = skyhook(packages={"aa": pkg("latest")})
    assert asked("validate-skyhook", stored | {"metadata": {"annotations": {"x": "y"}}}, stored).allowed
    deleting = skyhook(packages={"aa": pkg("newest")}) | {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert asked("validate-skyhook", deleting, stored).allowed


INSTALLED = {"nodeState": {"n1": {"aa|1.0.0": {"name": "aa"}}}}


REMOVED = 'package "aa" has uninstall.enabled=true; set uninstall.apply=true and wait for completion before removing from spec'
LOWERED = 'package "aa": downgrade not allowed — '
TRUNCATED = {"conditions": [{"type": "skyhook.nvidia.com/StatusTruncated", "status": "True"}]}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.word)
@pytest.mark.parametrize(
    ("status", "apply", "packages", "message"),
    [
        pytest.param(INSTALLED, False, {}, REMOVED, id="removed"),
        pytest.param(INSTALLED, True, {}, REMOVED, id="removed too early"),
        pytest.param(
            INSTALLED,
            False,
            {"aa": pkg("0.9.0")},
            f"{LOWERED}set uninstall.apply=true first, wait for uninstall to complete, then change version",
            id="lowered",
        ),
        pytest.param(
            INSTALLED,
            True,
            {"aa": pkg("0.9.0")},
            f"{LOWERED}uninstall has not yet completed on all nodes. Wait for the uninstall to finish, then change version",
            id="lowered too early",
        ),
        pytest.param(TRUNCATED, False, {}, REMOVED, id="not all known"),
    ],
)
def test_a_package_that_is_to_be_uninstalled_on_purpose_stays_until_it_is(
    group: Group, status: Json, apply: bool, packages: Json, message: str
) -> None:
    old = skyhook(status=status, packages={"aa": pkg(uninstall={"enabled": True, "apply": apply})})
    verdict = asked(HOOK[group], skyhook(packages=packages), old)
    assert verdict.message == PREFIXES[group] + message


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.word)
def test_an_uninstallation_that_is_cancelled_is_warned_of(group: Group) -> None:
    old = skyhook(status=INSTALLED, packages={"aa": pkg(uninstall={"enabled": True, "apply": True})})
    verdict = asked(HOOK[group], skyhook(packages={"aa": pkg(uninstall={"enabled": True})}), old)
    text = 'package "aa": uninstall cancelled — nodes where uninstall completed will need to re-install'
    assert (verdict.allowed, verdict.warnings) == (True, (text,))


def stored(group: Group, version: str) -> SkyhookRow:
    spec = Spec(packages={"aa": Package("aa", version, "x/y")})
    return SkyhookRow(key=skyhook_key("s", group), version=1, spec=spec)


def nodewright_refusal(**package: Any) -> str:
    verdict = asked(HOOK[NODEWRIGHT], skyhook(packages={"aa": {**pkg(), **package}}))
    return verdict.message if not verdict.allowed else ""


@pytest.mark.parametrize(
    ("image", "message"),
    [
        pytest.param(
            "reg:5000/a/b:1",
            "contains an inline tag '1'. Do not embed a tag in the image; the package version supplies the tag",
            id="tag",
        ),
        pytest.param(
            "reg:5000/a/b@sha256:1",
            "contains an inline digest. Do not embed a digest in the image; pin the image bytes using the package's"
            " containerSHA field instead",
            id="digest",
        ),
    ],
)
def test_the_image_of_a_nodewright_has_no_tag_and_no_digest(image: str, message: str) -> None:
    assert nodewright_refusal(image=image) == f"{PREFIXES[NODEWRIGHT]}error package aa's image '{image}' {message}"
    assert nodewright_refusal(image="reg:5000/a/b") == ""


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"packages": {"aa": pkg(stageTimeout="-1s")}},
            'package "aa": stageTimeout must be greater than or equal to 0',
        ),
        (
            {"drainConfig": {"timeout": "-1s"}},
            "drain config: drainConfig.timeout must be greater than or equal to 0",
        ),
        (
            {"drainConfig": {"gracePeriod": "-1s"}},
            "drain config: drainConfig.gracePeriod must be greater than or equal to 0",
        ),
        (
            {"packages": {"aa": pkg(uninstall={"apply": True})}},
            'package "aa": uninstall.apply requires uninstall.enabled to be true',
        ),
    ],
)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.word)
def test_new_fields_are_checked_in_both_kinds(group: Group, spec: Json, message: str) -> None:
    assert asked(HOOK[group], skyhook(**spec)).message == PREFIXES[group] + message


def test_a_skyhook_beside_a_nodewright_is_warned_that_its_spec_has_no_effect() -> None:
    nodewright = stored(NODEWRIGHT, "1.0.0")
    text = ("the spec of NodeWright s (nodewright.nvidia.com) is in force, which differs from this one",)
    created = asked("validate-skyhook", skyhook(packages={"aa": pkg("2.0.0")}), rows=(nodewright,))
    assert (created.allowed, created.warnings) == (True, text)
    both = (nodewright, stored(SKYHOOK, "2.0.0"))
    body = skyhook(packages={"aa": pkg("2.0.0")})
    assert asked("validate-skyhook", body, body, rows=both).warnings == text
    assert asked("validate-skyhook", skyhook(packages={"aa": pkg()}), rows=(nodewright,)).warnings == ()
    assert asked("validate-nodewright.nodewright", body, body, rows=both).warnings == ()


NOTES = {MIRRORED_FROM: "s", MIRRORED_GENERATION: "1"}
TAKES_OVER = ("NodeWright s leads from now on: its spec is in force, and not that of Skyhook s",)
HAS_NO_EFFECT = ("the spec of Skyhook s (skyhook.nvidia.com) is in force, which differs from this one",)


@pytest.mark.parametrize(
    ("version", "notes", "warnings"),
    [
        pytest.param("2.0.0", NOTES, TAKES_OVER, id="an edit makes it lead"),
        pytest.param("1.0.0", NOTES | {"x": "y"}, (), id="another annotation changes nothing"),
        pytest.param("1.0.0", {}, TAKES_OVER, id="without its mark it is no mirror"),
        pytest.param("2.0.0", NOTES | {MIRRORED_GENERATION: "2"}, TAKES_OVER, id="a forged generation does not help"),
    ],
)
def test_an_untouched_mirror_is_told_what_its_edit_means(
    version: str, notes: dict[str, str], warnings: tuple[str, ...]
) -> None:
    mirror = structs.replace(stored(NODEWRIGHT, "1.0.0"), generation=1, annotations=NOTES)
    rows = (mirror, structs.replace(stored(SKYHOOK, "1.0.0"), generation=1))
    old, new = skyhook(packages={"aa": pkg()}), skyhook(packages={"aa": pkg(version)})
    old["metadata"]["annotations"], new["metadata"]["annotations"] = NOTES, notes
    found = asked(HOOK[NODEWRIGHT], new, old, rows=rows)
    assert (found.allowed, found.warnings) == (True, warnings)


def test_an_edit_of_the_skyhook_of_an_untouched_mirror_has_its_effect() -> None:
    mirror = structs.replace(stored(NODEWRIGHT, "1.0.0"), uid="n", generation=1, annotations=NOTES)
    leads = {LEADS: "n/1/1/"}
    leader = structs.replace(stored(SKYHOOK, "1.0.0"), uid="s", generation=1, annotations=leads)
    old, new = skyhook(packages={"aa": pkg()}), skyhook(packages={"aa": pkg("2.0.0")})
    old["metadata"]["annotations"] = new["metadata"]["annotations"] = leads
    found = asked(HOOK[SKYHOOK], new, old, rows=(leader, mirror))
    assert (found.allowed, found.warnings) == (True, ())


def test_a_mirror_that_waits_for_the_edit_of_its_skyhook_is_told_that_it_follows() -> None:
    mirror = structs.replace(stored(NODEWRIGHT, "1.0.0"), uid="n", generation=1, annotations=NOTES)
    leader = structs.replace(stored(SKYHOOK, "2.0.0"), uid="s", generation=2, annotations={LEADS: "n/1/1/"})
    body = skyhook(packages={"aa": pkg()})
    body["metadata"]["annotations"] = NOTES
    found = asked(HOOK[NODEWRIGHT], body, body, rows=(leader, mirror))
    assert (found.allowed, found.warnings) == (True, HAS_NO_EFFECT)


@pytest.mark.parametrize(
    ("status", "uninstall"),
    [
        pytest.param({"nodeState": {"n1": {"bb|1.0.0": {}}}}, {"enabled": True}, id="nowhere"),
        pytest.param(INSTALLED, {"enabled": False}, id="not on purpose"),
    ],
)
def test_other_packages_can_be_removed(status: Json, uninstall: Json) -> None:
    old = skyhook(status=status, packages={"aa": pkg(uninstall=uninstall)})
    assert asked("validate-skyhook", skyhook(), old).allowed


def test_what_has_no_effect_is_warned_of() -> None:
    spec: Json = {"pause": True, "packages": {"aa": pkg(image="r:5000/x/y:other"), "bb": pkg(image="x/y:1.0.0")}}
    expected = (
        'spec.pause has no effect: set the annotation skyhook.nvidia.com/pause to "true"',
        (
            "error package aa's image tag was set to 'other' for 'r:5000/x/y:other' and doesn't match the pacakge's version"
            " '1.0.0'. Do not explicitly set the image's tag in the package's definition (The package version will be set as"
            " the tag)"
        ),
    )
    for hook in ("validate-skyhook", "mutate-skyhook"):
        assert asked(hook, skyhook(**spec)).warnings == expected


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        (pkg(), {"name": "aa", "image": "x/y"}),
        (pkg(name="other"), {"name": "other", "image": "x/y"}),
        (pkg(image="r:5000/x/y"), {"name": "aa", "image": "r:5000/x/y"}),
        (pkg(image="r:5000/x/y:9"), {"name": "aa", "image": "r:5000/x/y"}),
        (pkg(image="x:9@sha256:ab"), {"name": "aa", "image": "x:9@sha256:ab"}),
        ({"version": "1"}, {"name": "aa", "image": None}),
    ],
)
def test_packages_are_normalised(package: Json, expected: Json) -> None:
    given = skyhook(packages={"aa": package})
    verdict = asked("mutate-skyhook", given)
    patched = apply(given, list(verdict.patch))["spec"]["packages"]["aa"]
    assert {field: patched.get(field) for field in ("name", "image")} == expected


def test_keys_with_strokes_are_found_in_a_patch() -> None:
    given = skyhook(packages={"a/b~c": pkg()})
    patched = apply(given, list(asked("mutate-skyhook", given).patch))
    assert patched["spec"]["packages"]["a/b~c"]["name"] == "a/b~c"


def test_what_is_normal_is_not_touched() -> None:
    given = skyhook(packages={"aa": pkg(name="aa")})
    assert asked("mutate-skyhook", given) == Verdict(allowed=True)


@pytest.mark.parametrize("hook", ["mutate-skyhook", "mutate-deploymentpolicy"])
def test_what_cannot_be_read_is_left_to_the_schema(hook: str) -> None:
    assert asked(hook, {"spec": 1}) == Verdict(allowed=True)


@pytest.mark.parametrize("hook", ["validate-skyhook", "validate-deploymentpolicy"])
@pytest.mark.parametrize("content", [{"spec": 1}, None])
def test_what_cannot_be_read_is_not_valid(hook: str, content: Json | None) -> None:
    assert asked(hook, content).code == 400


def policy(default: Any = None, *compartments: Json, **more: Any) -> Json:
    given = {"budget": {"count": 1}, "strategy": {"fixed": {}}} if default is None else default
    return {"metadata": {"name": "p"}, "spec": {"default": given, "compartments": list(compartments), **more}}


def compartment(name: str, labels: Json, **more: Any) -> Json:
    return {"name": name, "selector": {"matchLabels": labels}, "budget": {"count": 1}, **more}


FIXED: Json = {"strategy": {"fixed": {}}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (policy(FIXED), "default budget: exactly one of percent or count must be set"),
        (
            policy(FIXED | {"budget": {"count": 1, "percent": 1}}),
            "default budget: percent and count are mutually exclusive",
        ),
        (
            policy({"budget": {"count": 1}}),
            "default strategy: exactly one of fixed, linear, or exponential must be set",
        ),
        (
            policy({"budget": {"count": 1}, "strategy": {"fixed": {}, "linear": {}}}),
            "default strategy: exactly one of fixed, linear, or exponential must be set",
        ),
        (
            policy(None, compartment("__default__", {"a": "b"})),
            'compartment name "__default__" is reserved and cannot be used',
        ),
        (
            policy(None, compartment("x", {"a": "b"}), compartment("x", {"a": "c"})),
            'compartment name "x" is not unique',
        ),
        (
            policy(None, compartment("x", {"a": "b"}, budget={})),
            'compartment "x" budget: exactly one of percent or count must be set',
        ),
        (
            policy(None, compartment("x", {"a": "b"}, strategy={})),
            'compartment "x" strategy: exactly one of fixed, linear, or exponential must be set',
        ),
        (
            policy(None, compartment("a", {"a": "b"}), compartment("b", {"a": "b"})),
            'compartment "b" has identical selector to compartment "a"',
        ),
    ],
)
def test_policies_that_are_refused(given: Json, message: str) -> None:
    assert asked("validate-deploymentpolicy", given).message == message
    assert asked("validate-deploymentpolicy", given, policy()).message == message


PROMETHEUS = {"url": "http://p", "query": "up"}


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"soak": "long"}, 'gate: soak is not valid: time: invalid duration "long"'),
        ({"prometheus": {**PROMETHEUS, "url": "p:9090"}}, "gate: prometheus: url is no address of a server: p:9090"),
    ],
)
def test_gates_that_are_refused(gate: Json, message: str) -> None:
    assert asked("validate-deploymentpolicy", policy(gate=gate)).message == message


def test_the_expression_of_a_gate_has_to_be_one() -> None:
    message = asked("validate-deploymentpolicy", policy(gate={"prometheus": {**PROMETHEUS, "expr": "value <"}})).message
    assert message.startswith("gate: prometheus: expr is not valid: ")


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        (Options(), ("gate: prometheus: url has no TLS, and the setting allowHttpPrometheus does not allow that",)),
        (Options(allow_http_prometheus=True), ()),
    ],
)
def test_a_gate_that_nothing_could_pass_is_warned_of(options: Options, warnings: tuple[str, ...]) -> None:
    gate = {"soak": "5m", "prometheus": PROMETHEUS}
    rows = [Value(key=CONFIG_KEY, value=options)]
    verdict = asked("validate-deploymentpolicy", policy(gate=gate), rows=rows)
    assert (verdict.allowed, verdict.warnings) == (True, warnings)


def test_names_that_another_skyhook_has_are_warned_of() -> None:
    packages = {"node-tune": Package("node-tune", "1.0.0", "x/y")}
    rows = [SkyhookRow(key=skyhook_key("gpu"), version=1, spec=Spec(packages=packages))]
    verdict = asked("validate-skyhook", skyhook("gpu-node", packages={"tune": pkg()}), rows=rows, name="gpu-node")
    assert verdict.allowed
    (warning,) = verdict.warnings
    assert warning.startswith(
        'the objects of package "tune" would have the names of those of package "node-tune" of Sky'
    )
    again = asked("validate-skyhook", skyhook("gpu", packages={"node-tune": pkg()}), rows=rows, name="gpu")
    assert (again.allowed, again.warnings) == (True, ())


RULED = (Value(key=CONFIG_KEY, value=Options(allowed_image_prefixes=("x/team",))),)


def test_an_image_that_the_settings_do_not_allow_is_refused() -> None:
    spec = {"packages": {"base": pkg(image="x/team/tool:1.0.0"), "evil": pkg(image="x/team-evil/tool:1.0.0")}}
    verdict = asked("validate-skyhook", skyhook(**spec), rows=RULED)
    assert (verdict.allowed, verdict.message) == (False, f'package "evil": image x/team-evil/tool:1.0.0 {NOT_BELOW}')
    assert asked("validate-skyhook", skyhook(**spec)).allowed


def test_a_stored_skyhook_with_an_image_that_is_no_longer_allowed_can_be_paused_but_not_changed() -> None:
    stored = skyhook(packages={"base": pkg(image="y/tool")})
    paused = {**stored, "metadata": {"name": "s", "annotations": {"skyhook.nvidia.com/pause": "true"}}}
    assert asked("validate-skyhook", paused, stored, rows=RULED).allowed
    changed = skyhook(packages={"base": pkg(image="y/tool")}, priority=1)
    assert not asked("validate-skyhook", changed, stored, rows=RULED).allowed
    corrected = skyhook(packages={"base": pkg(image="x/team/tool")})
    assert asked("validate-skyhook", corrected, stored, rows=RULED).allowed


def test_a_selector_of_a_compartment_that_is_none() -> None:
    message = asked("validate-deploymentpolicy", policy(None, compartment("x", {"-": "b"}))).message
    assert message.startswith('compartment "x" has invalid selector: ')


def test_policies_that_are_accepted() -> None:
    given = policy(None, compartment("a", {"a": "b"}), compartment("b", {"a": "c"}, strategy={"linear": {}}))
    assert asked("validate-deploymentpolicy", given) == Verdict(allowed=True)


def test_the_parameters_of_strategies_are_filled_in() -> None:
    given = policy(
        {"budget": {"count": 1}, "strategy": {"linear": {"initialBatch": 3, "safetyLimit": None}}},
        compartment("x", {"a": "b"}, strategy={"exponential": {"failureThreshold": 2}}),
        compartment("y", {"a": "c"}),
    )
    spec = apply(given, list(asked("mutate-deploymentpolicy", given).patch))["spec"]
    assert spec["default"]["strategy"] == {
        "linear": {"initialBatch": 3, "batchThreshold": 100, "safetyLimit": 50, "delta": 1}
    }
    assert spec["compartments"][0]["strategy"] == {
        "exponential": {
            "initialBatch": 1,
            "batchThreshold": 100,
            "safetyLimit": 50,
            "growthFactor": 2,
            "failureThreshold": 2,
        }
    }
    assert "strategy" not in spec["compartments"][1]


def test_a_policy_in_use_is_not_deleted() -> None:
    rows = [skyhook_row("b", "p"), skyhook_row("a", "p"), skyhook_row("c", "q")]
    verdict = asked("validate-deploymentpolicy", None, policy(), rows, "DELETE", "p")
    assert verdict.message == 'cannot delete DeploymentPolicy "p": still referenced by 2 Skyhook(s): [a b]'
    assert verdict.doubts == (skyhook_key("a"), skyhook_key("b"))
    assert asked("validate-deploymentpolicy", None, policy(), rows, "DELETE", "r").allowed


def test_names_and_paths_are_the_originals() -> None:
    found = {name: (hook.path, hook.registration, hook.rules[0]["operations"]) for name, hook in HOOKS.items()}
    both, path = ["CREATE", "UPDATE"], "skyhook-nvidia-com-v1alpha1"
    mutating, validating = "skyhook-operator-mutating-webhook", "skyhook-operator-validating-webhook"
    new_path = "nodewright-nvidia-com-v1alpha1"
    new_mutating, new_validating = "nodewright-mutating-webhook", "nodewright-validating-webhook"
    assert found == {
        "mutate-skyhook.nvidia.com": (f"/mutate-{path}-skyhook", mutating, both),
        "mutate-deploymentpolicy.nvidia.com": (f"/mutate-{path}-deploymentpolicy", mutating, both),
        "validate-skyhook.nvidia.com": (f"/validate-{path}-skyhook", validating, both),
        "validate-deploymentpolicy.nvidia.com": (f"/validate-{path}-deploymentpolicy", validating, [*both, "DELETE"]),
        "mutate-nodewright.nodewright.nvidia.com": (f"/mutate-{new_path}-nodewright", new_mutating, both),
        "mutate-deploymentpolicy.nodewright.nvidia.com": (f"/mutate-{new_path}-deploymentpolicy", new_mutating, both),
        "validate-nodewright.nodewright.nvidia.com": (f"/validate-{new_path}-nodewright", new_validating, both),
        "validate-deploymentpolicy.nodewright.nvidia.com": (
            f"/validate-{new_path}-deploymentpolicy",
            new_validating,
            [*both, "DELETE"],
        ),
    }


def crowd(count: int, **more: Any) -> Json:
    """Return packages with names of two letters and more."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return {f"p{a}{b}{c}": pkg(**more) for a in letters for b in letters for c in letters[: count // 676 + 1]}


@pytest.mark.parametrize(
    ("hook", "given", "problem"),
    [
        ("validate-skyhook", skyhook(packages=crowd(676)), "the Skyhook has 1352 packages, and may have at most 500"),
        (
            "validate-skyhook",
            skyhook(
                packages={
                    "aa": pkg(
                        configMap={f"key-{number}": "" for number in range(1000)},
                        configInterrupts={f"*-{number}": NOOP for number in range(1000)},
                    )
                }
            ),
            'package "aa": 1000 patterns of config interrupts are too many or too long for its keys',
        ),
        (
            "validate-skyhook",
            skyhook(packages={"aa": pkg(configMap={"a" * 100_000: ""}, configInterrupts={"*a" * 5000 + "b*": NOOP})}),
            'package "aa": 1 patterns of config interrupts are too many or too long for its keys',
        ),
        (
            "validate-deploymentpolicy",
            policy(None, *(compartment(f"c{number}", {"a": str(number)}) for number in range(101))),
            "the policy has 101 compartments, and may have at most 100",
        ),
        (
            "validate-deploymentpolicy",
            policy(gate={"prometheus": {"url": "https://p", "query": "q", "expr": "value+" * 1000 + "1"}}),
            "gate: prometheus: expr is not valid: longer than 4096 characters at column 4096",
        ),
    ],
)
def test_what_would_take_too_long_to_look_through_is_refused(hook: str, given: Json, problem: str) -> None:
    assert asked(hook, given).message == problem
    filled_in = asked(hook.replace("validate", "mutate"), given)
    assert (filled_in.allowed, len(filled_in.patch) <= 100) == (True, True)


def test_a_duration_of_many_parts_is_refused() -> None:
    message = asked("validate-skyhook", skyhook(packages={"aa": pkg(stageTimeout="1ns" * 100_000)})).message
    assert message.startswith('package "aa": stageTimeout is not valid: time: invalid duration "1ns1ns')
    assert len(message) < 400


TEXTS = st.text(max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
PACKAGES = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXTS,
        "version": TEXTS | st.from_regex(r"v?[0-9]{1,80}(\.[0-9]+){0,3}(-[a-z0-9.]+)?", fullmatch=True),
        "image": TEXTS | st.sampled_from(["a:b:c", "/:", "@", "a@b:c/d:e"]),
        "configMap": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "configInterrupts": st.dictionaries(TEXTS | st.text("*[]?\\^-a", max_size=8), st.just(NOOP), max_size=2),
        "dependsOn": st.dictionaries(st.sampled_from(["aa", "bb", ""]), TEXTS, max_size=2),
        "resources": st.dictionaries(
            st.sampled_from(["cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit"]),
            TEXTS | st.integers() | st.from_regex(r"[0-9.]{1,30}([eE][0-9]{1,4}|Gi|m)?", fullmatch=True),
        ),
        "gracefulShutdown": TEXTS,
        "uninstall": st.fixed_dictionaries({"enabled": st.booleans(), "apply": st.booleans()}),
    },
)
SPECS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "packages": st.dictionaries(st.sampled_from(["aa", "bb"]) | TEXTS, PACKAGES | VALUES, max_size=3),
        "nodeSelectors": VALUES,
        "interruptionBudget": VALUES,
        "default": VALUES,
        "compartments": VALUES,
    },
)


@given(st.sampled_from(sorted(HOOKS)), SPECS, SPECS, st.sampled_from(["CREATE", "UPDATE", "DELETE", ""]))
def test_whatever_is_sent_gets_an_answer(name: str, new: Any, old: Any, operation: str) -> None:
    webhook = HOOKS[name]
    verdict = webhook.rule(review(webhook, operation, {"spec": new}, {"spec": old, "status": old}), view_of())
    assert verdict.allowed or verdict.message
    assert not verdict.patch or apply({"spec": new}, list(verdict.patch))
