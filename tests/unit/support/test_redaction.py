"""What a support archive may contain of configuration and objects."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.base.yaml import YamlError
from haulout.support.redaction import REMOVED, TooLarge, all_archived, kept_object, kept_settings, kinds
from haulout.surfaces.registry import all_declarations

SECRET = "hunter2hunter2"
# As a person, a tool or a shell would write one down.
LEAKS = (
    SECRET,
    f"--password {SECRET}",
    f"curl -H 'Authorization: Bearer {SECRET}' https://a",
    f"https://u:{SECRET}@a/b",
    f"https://hooks.slack.com/services/T0/B0/{SECRET}",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
)


def container(leak: str) -> dict[str, Any]:
    probe = {
        "httpGet": {"path": f"/{leak}", "httpHeaders": [{"name": "X", "value": leak}]},
        "exec": {"command": [leak]},
    }
    return {
        "name": "c",
        "image": "i",
        "command": ["sh", "-c", leak],
        "args": ["--password", leak, f"--token={leak}"],
        "env": [{"name": "A", "value": leak}, {"name": leak, "value": "x"}],
        "envFrom": [{"prefix": leak}],
        "livenessProbe": probe,
        "lifecycle": {"preStop": probe},
        "resources": {"requests": {"cpu": "1", "memory": leak}},
        "terminationMessagePath": leak,
    }


def pod(leak: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "labels": {"app": leak, "app.kubernetes.io/name": "shop"},
            "annotations": {"a": leak, "haulout.dev/drain": "wait", "haulout.dev/other": leak},
            "managedFields": [{"manager": leak}],
        },
        "spec": {
            "nodeName": "s1",
            "containers": [container(leak)],
            "initContainers": [container(leak)],
            "ephemeralContainers": [container(leak)],
            "volumes": [
                {"name": "v", "emptyDir": {}},
                {"name": "w", "nfs": {"server": leak}, "csi": {"volumeAttributes": {"a": leak}}},
            ],
            "hostAliases": [{"ip": leak}],
            "securityContext": {"sysctls": [{"value": leak}]},
        },
        "status": {
            "phase": "Running",
            "message": leak,
            "conditions": [{"type": "Ready", "status": "True", "message": leak}],
            "containerStatuses": [
                {"name": "c", "ready": False, "state": {"terminated": {"exitCode": 1, "message": leak}}}
            ],
        },
    }


@pytest.mark.parametrize("leak", LEAKS)
def test_no_place_of_a_pod_that_can_hold_a_secret_is_kept(leak: str) -> None:
    kept = kept_object(pod(leak), "Pod")
    assert SECRET not in json.dumps(kept)
    assert kept["metadata"]["labels"]["app.kubernetes.io/name"] == "shop"
    assert kept["metadata"]["annotations"] == {"haulout.dev/drain": "wait", "(others)": "2 removed"}
    assert kept["spec"]["nodeName"] == "s1"
    assert kept["spec"]["containers"][0]["command"] == "(removed: 3)"
    assert kept["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert kept["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}, {"name": "w"}]
    assert kept["status"]["conditions"] == [{"type": "Ready", "status": "True"}]


def test_a_selector_is_seen_to_match_without_its_words() -> None:
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": SECRET}}}}
    kept = kept_object(budget, "PodDisruptionBudget")
    assert (
        kept["spec"]["selector"]["matchLabels"]["app"] == kept_object(pod(SECRET), "Pod")["metadata"]["labels"]["app"]
    )
    assert kept["spec"]["minAvailable"] == 1


GONE = "(removed: 14 characters)"
KUBELET = {"source": {"component": "kubelet"}, "reason": "NodeReady"}
EVENTS = {
    "of the kubelet about a pod": ("Pod", KUBELET, GONE),
    "of the kubelet about a node": ("Node", KUBELET, SECRET),
    "of ours about a node": ("Node", {"reportingComponent": "skyhook-controller", "reason": "State"}, SECRET),
    "of ours in both fields": (
        "Node",
        {"reportingComponent": "haulout", "source": {"component": "haulout"}, "reason": "x"},
        SECRET,
    ),
    "output of a package": ("Node", {"reportingComponent": "skyhook-controller", "reason": "Failed"}, GONE),
    "of a program that is not known": ("Node", {"reportingComponent": "inventory", "reason": "State"}, GONE),
    "of another program behind ours": ("Node", {**KUBELET, "reportingComponent": "inventory"}, GONE),
    "of no program": ("Node", {"reason": "State"}, GONE),
    "of a malformed one": ("Node", {"source": "kubelet", "reportingComponent": 1, "reason": "State"}, GONE),
}


@pytest.mark.parametrize(("kind", "fields", "kept"), EVENTS.values(), ids=EVENTS.keys())
def test_messages_of_events_are_kept_of_known_reporters_alone(kind: str, fields: dict[str, Any], kept: str) -> None:
    event = {"metadata": {"name": "e"}, "message": SECRET, "involvedObject": {"kind": kind}, **fields}
    assert kept_object(event, "Event")["message"] == kept


def test_messages_of_a_nodes_conditions_are_kept_of_the_kubelet_alone() -> None:
    conditions = [{"type": kind, "status": "True", "message": SECRET} for kind in ("Ready", "KernelDeadlock")]
    kept = kept_object({"metadata": {"name": "n"}, "status": {"conditions": conditions}}, "Node")
    assert [each.get("message") for each in kept["status"]["conditions"]] == [SECRET, None]
    assert [each["type"] for each in kept["status"]["conditions"]] == ["Ready", "KernelDeadlock"]


def shapes(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    )


PLANTED = shapes(st.sampled_from(LEAKS))
JSON = shapes(st.none() | st.booleans() | st.integers() | st.text(max_size=5))
UNKNOWN = st.text("abcdefghijklmnop", min_size=1, max_size=9).map(lambda name: f"x{name}")


def planted(value: Any, data: st.DataObject) -> Any:
    """Return the object with secrets in unknown fields, at every level."""
    if isinstance(value, list):
        return [planted(each, data) for each in value]
    if not isinstance(value, dict):
        return value
    grown = {name: planted(each, data) for name, each in value.items()}
    return {**grown, data.draw(UNKNOWN): data.draw(PLANTED)}


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(sorted(kinds())), leak=st.sampled_from(LEAKS), data=st.data())
def test_no_secret_comes_through_in_any_kind(kind: str, leak: str, data: st.DataObject) -> None:
    obj = planted(pod(leak), data)
    obj["spec"] |= {"reason": leak, "bootstrap": data.draw(PLANTED), "versions": [{"schema": data.draw(PLANTED)}]}
    obj["webhooks"] = [{"name": "w", "clientConfig": {"url": leak, "caBundle": leak}}]
    obj |= {"data": {"a": leak}, "stringData": leak, "involvedObject": {"kind": "Pod"}, "message": leak}
    # Labels of Nodes and of our own kinds, and what the kubelet says of its Node, are kept.
    obj["metadata"]["labels"], obj["status"]["conditions"] = {"app.kubernetes.io/name": "shop"}, []
    assert SECRET not in json.dumps(kept_object(obj, kind))


@given(
    kind=st.sampled_from(sorted(kinds())), parts=st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON)
)
def test_whatever_shape_an_object_has_it_is_read(kind: str, parts: dict[str, Any]) -> None:
    json.dumps(kept_object(parts, kind))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("password: hunter2hunter2", "password: '(removed: 14 characters)'", id="a password"),
        pytest.param("x: hunter2hunter2", "x: '(removed: 14 characters)'", id="a name that nobody knows"),
        pytest.param("tokens: [hunter2hunter2]", "tokens:\n- '(removed: 14 characters)'", id="a list"),
        pytest.param("pin: 12", "pin: 12", id="a number"),
        pytest.param("api_token: 12345", f"api_token: {REMOVED}", id="a number that is a secret"),
        pytest.param("url: https://me:hunter2hunter2@db:9/", "url: https://db:9/", id="a login"),
        pytest.param("url: https://a/x/hunter2hunter2", f"url: https://a/{REMOVED}", id="a path"),
        pytest.param("url: https://a?key=hunter2hunter2", f"url: https://a/{REMOVED}", id="a query"),
        pytest.param("token: ${SLACK_TOKEN}", "token: ${SLACK_TOKEN}", id="where the secret is"),
        pytest.param("token: ${T:hunter2hunter2}", "token: '(removed: 19 characters)'", id="and what it is"),
        pytest.param("check: a && !b", "check: a && !b", id="an expression"),
        pytest.param("requeue: 1m30s", "requeue: 1m30s", id="a duration"),
        pytest.param("elect: true", "elect: true", id="a switch"),
        pytest.param("a: # hunter2hunter2\n  max: 3", "a:\n  max: 3", id="a comment"),
        pytest.param("selector: {matchLabels: {a.io/b: c}}", "selector:\n  matchLabels:\n    a.io/b: c", id="a selector"),
        pytest.param(
            "{type: theirs, name: check, config: {key: hunter2hunter2}}",
            "type: theirs\nname: check\nconfig: '(removed: of a plugin that is not ours)'",
            id="a plugin of somebody else",
        ),
        pytest.param("{type: hasLabel, config: {key: k}}", "type: hasLabel\nconfig:\n  key: k", id="a plugin of ours"),
    ],
)  # fmt: skip
def test_settings(text: str, kept: str) -> None:
    assert kept_settings(text.encode()).strip() == kept


@settings(max_examples=40, deadline=None)
@given(tree=shapes(st.sampled_from(LEAKS)), name=st.sampled_from(["password", "hook", "message", "x", "config"]))
def test_no_secret_comes_through_in_settings(tree: Any, name: str) -> None:
    text = yaml.safe_dump({name: {"y": tree}, "instances": {"notify": [{"type": "theirs", "config": tree}]}})
    with contextlib.suppress(YamlError):
        assert SECRET not in kept_settings(text.encode())


def bomb(width: int, depth: int) -> bytes:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, depth)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(("width", "depth"), [(9, 9), (9, 5), (2, 20)])
def test_a_file_that_grows_is_not_kept(width: int, depth: int) -> None:
    with pytest.raises((YamlError, TooLarge)):
        kept_settings(bomb(width, depth))


def test_no_template_of_a_job_is_kept() -> None:
    env = f"env: [{{name: PASSWORD, value: {SECRET}}}, {{name: PIN, value: 4711}}]"
    template = f"{{spec: {{template: {{spec: {{containers: [{{name: c, {env}, key: {SECRET}}}]}}}}}}}}"
    kept = kept_settings(f"operators: {{runner: {{recipes: [{{name: rec, template: {template}}}]}}}}".encode())
    assert (SECRET in kept, "4711" in kept, "name: rec" in kept) == (False, False, True)


def test_a_few_aliases_are_fine() -> None:
    assert kept_settings(b"a: &a {name: x}\nb: *a\n") == "a:\n  name: x\nb:\n  name: x\n"


def leaves(value: Any) -> list[str]:
    """Yield every text in an object, also the names of fields."""
    match value:
        case dict():
            return [text for name, each in value.items() for text in (str(name), *leaves(each))]
        case list():
            return [text for each in value for text in leaves(each)]
        case _:
            return [str(value)]


def notify_maintenance(leak: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "m", "namespace": "n", "annotations": {"a": leak}, "labels": {"b": leak}},
        "spec": {
            "nodeObject": "n1",
            "maintenanceID": "GPU-1",
            "maintenanceType": "planned",
            "metadataConfigmap": "info",
            "owner": leak,
            "additionalMessageChannels": {"amazonSNSTopicARN": leak, "other": leak},
        },
        "status": {
            "maintenanceStatus": "MaintenanceStarted",
            "conditions": [{"type": "drainProgress", "status": leak, "reason": leak, "message": leak}],
            "transitionTimestamps": [
                {"maintenanceStatus": "MaintenanceScheduled", "transitionTimestamp": "2026-01-01T00:00:00Z"}
            ],
        },
    }


def skyhook(leak: str) -> dict[str, Any]:
    package = {
        "name": "tuning",
        "version": "1.0.0",
        "image": f"registry.test/{leak}",
        "configMap": {"config.sh": leak, leak: "x"},
        "env": [{"name": "PASSWORD", "value": leak}],
        "interrupt": {"type": "service", "services": [leak]},
        "resources": {"cpuLimit": "1", "memoryLimit": leak},
        "dependsOn": {"base": "1.0.0"},
    }
    return {
        "metadata": {"name": "s", "annotations": {"skyhook.nvidia.com/log": leak}},
        "spec": {"packages": {"tuning": package}, "additionalTolerations": [{"key": "k", "value": leak}]},
        "status": {
            "status": "erroring",
            "nodeState": {"n1": {"tuning|1.0.0": {"name": "tuning", "state": "erroring", "image": leak}}},
            "nodeStatus": {"n1": "erroring"},
            "conditions": [{"type": "Failing", "status": "True", "reason": "StepFailed", "message": leak}],
            "configUpdates": {"tuning": [leak]},
        },
    }


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize(
    ("kind", "made", "kept"),
    [
        ("NotifyMaintenance", notify_maintenance, {"n1", "GPU-1", "MaintenanceStarted", "drainProgress"}),
        ("Skyhook", skyhook, {"tuning", "1.0.0", "erroring", "n1", "StepFailed"}),
    ],
)
def test_what_users_and_clients_write_into_objects_of_surfaces_stays(
    kind: str, made: Callable[[str], dict[str, Any]], kept: set[str], leak: str
) -> None:
    texts = leaves(kept_object(made(leak), kind))
    assert [text for text in texts if SECRET in text] == []
    assert kept <= set(texts)


@pytest.mark.parametrize("kind", ["NotifyMaintenance", "Skyhook", "DeploymentPolicy"])
def test_messages_of_events_that_quote_others_stay(kind: str) -> None:
    event = {"message": SECRET, "reason": "StepFailed", "involvedObject": {"kind": kind, "name": "x"}}
    assert kept_object(event, "Event")["message"] == f"(removed: {len(SECRET)} characters)"


def test_messages_of_our_own_events_are_kept() -> None:
    event = {
        "message": "drained",
        "source": {"component": "NodeMaintenance"},
        "involvedObject": {"kind": "NodeMaintenance", "name": "x"},
    }
    assert kept_object(event, "Event")["message"] == "drained"


def test_every_surface_with_objects_says_what_of_them_belongs_into_an_archive() -> None:
    """PlatformInfos are read by no program."""
    defined = (yaml.safe_load(each.definition(crd))["spec"] for each in all_declarations() for crd in each.crds)
    kinds = {(each["group"], each["names"]["plural"]) for each in defined}
    missing = kinds - {(each.group, each.plural) for each in all_archived()}
    assert {plural for _, plural in missing} == {"platforminfos"}
