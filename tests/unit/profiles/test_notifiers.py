"""The built-in notifiers: their settings, and the messages that they make."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from haulout.base.gotemplate import TemplateError
from haulout.cluster.key import node_key
from haulout.plugins.api import Mail, Post, Thread
from haulout.plugins.config import ConfigProblem
from haulout.plugins.load import load_plugins
from haulout.surfaces.profiles.lint import lint
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.messages import Notice, compose
from haulout.surfaces.profiles.wire import Stamp
from tests.unit.plugins.test_load import offer

SCHEDULE = "schedule: {type: periodic, config: {}}"
NODE: dict[str, Any] = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {
        "name": "n",
        "uid": "u-1",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"zone": "a"},
        "annotations": {"note": "x"},
        "ownerReferences": [{"kind": "Machine", "name": "m", "controller": True}],
    },
    "spec": {
        "podCIDR": "10.0.0.0/24",
        "podCIDRs": ["10.0.0.0/24"],
        "providerID": "p://1",
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}],
    },
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {"kubeletVersion": "v1.35.0", "osImage": "Flatcar", "machineID": "m-1", "bootID": "b-1"},
        "images": [{"names": ["x"], "sizeBytes": 5}],
    },
}


def loaded(type_: str, config: str) -> Any:
    text = f"intervals: {{requeue: 30s}}\ninstances: {{notify: [{{type: {type_}, name: x, config: {config}, {SCHEDULE}}}]}}"
    return load(text, known_plugins(), source="maintenance.yaml", environment={"SECRET": "s, {x}"}).notifications["x"]


def notice(type_: str, config: str, *, transition: str = "2026-03-01T10:00:00.123456789Z", **more: Any) -> Notice:
    made = loaded(type_, config)
    at = datetime(2026, 3, 1, 10, tzinfo=UTC)
    known: dict[str, Any] = {
        "changes": {},
        "state": "in-maintenance",
        "profile": "kernel",
        "last": "os",
        "transition": Stamp(transition, at),
        "in_maintenance": True,
        "log_details": False,
    }
    return Notice(made.plugin, made.config, "x", node_key("n"), **{**known, **more})


def text_of(template: str, **more: Any) -> str:
    message = compose(notice("slack", f"{{hook: h, channel: c, message: '{template}'}}", **more), NODE)
    assert isinstance(message, Post)
    text: str = message.body["text"]
    return text


@pytest.mark.parametrize(
    "template, text",
    [
        ("{{ .Node.Name }} {{ .Node.ObjectMeta.Name }} {{ .Node.GetName }} {{ .Node.UID }} {{ .Node.Kind }}", "n n n u-1 Node"),
        ('{{ index .Node.Labels "zone" }}|{{ index .Node.Labels "x" }}|{{ .Node.Labels.x }}', "a||<no value>"),
        ("{{ .Node.Annotations.note }} {{ .Node.Annotations }}", "x map[note:x]"),
        ("{{ .Node.CreationTimestamp }} {{ .Node.DeletionTimestamp }}", "2026-01-02 03:04:05 +0000 UTC <nil>"),
        ("{{ (index .Node.OwnerReferences 0).Name }} {{ (index .Node.OwnerReferences 0).Controller }}", "m true"),
        ("{{ .Node.Spec.PodCIDR }} {{ .Node.Spec.PodCIDRs }} {{ .Node.Spec.ProviderID }}", "10.0.0.0/24 [10.0.0.0/24] p://1"),
        ("{{ .Node.Spec.Unschedulable }} {{ range .Node.Spec.Taints }}{{ .Key }}={{ .Value }}:{{ .Effect }}{{ end }}", "false k=v:NoSchedule"),
        ("{{ .Node.Status.NodeInfo.KubeletVersion }} {{ .Node.Status.NodeInfo.OSImage }}", "v1.35.0 Flatcar"),
        ("{{ .Node.Status.NodeInfo.MachineID }} {{ .Node.Status.NodeInfo.BootID }}", "m-1 b-1"),
        ("{{ range .Node.Status.Conditions }}{{ .Type }}={{ .Status }} {{ .Reason }}{{ end }}", "Ready=True KubeletReady"),
        ("{{ range .Node.Status.Addresses }}{{ .Type }} {{ .Address }}{{ end }}", "InternalIP 10.0.0.1"),
        ("{{ .Node.Status.Capacity.Cpu }} {{ .Node.Status.Capacity.Pods }} {{ .Node.Status.Capacity.memory }}", "4 0 8Gi"),
        ("{{ .Node.Status.DaemonEndpoints.KubeletEndpoint.Port }} {{ len .Node.Status.Images }}", "10250 1"),
        ("{{ .Node.Status.Phase }}|{{ .Node.Spec.ConfigSource }}|{{ .Node.Namespace }}", "|<nil>|"),
        ("{{ .State }} {{ .Profile }} {{ .Profile.Current }}/{{ .Profile.Last }} {{ .InMaintenance }} {{ .LogDetails }}",
         "in-maintenance kernel kernel/os true false"),
        ("{{ .LastTransition }} {{ .LastTransition.Unix }} {{ .LastTransition.Weekday }}",
         "2026-03-01 10:00:00.123456789 +0000 UTC 1772359200 Sunday"),
        ('{{ .LastTransition.UTC.Format "2006-01-02" }}', "2026-03-01"),
    ],
)  # fmt: skip
def test_a_template_knows(template: str, text: str) -> None:
    assert text_of(template) == text


def test_a_time_is_shown_in_the_zone_in_which_it_is_written() -> None:
    shown = text_of("{{ .LastTransition }} {{ .LastTransition.UTC }}", transition="2026-03-01T12:00:00+02:00")
    assert shown == "2026-03-01 12:00:00 +0200 +0200 2026-03-01 10:00:00 +0000 UTC"


@pytest.mark.parametrize(
    "template, words",
    [
        ("{{ .Node.Nope }}", "can't evaluate field Nope in type *v1.Node"),
        ("{{ .Node.Spec.Nope }}", "can't evaluate field Nope in type v1.NodeSpec"),
        ("{{ .Client }}", "can't evaluate field Client in type plugin.Parameters"),
        ("{{ .State", "template: :1: unclosed action"),
    ],
)
def test_a_template_that_is_wrong_fails_when_it_is_rendered(template: str, words: str) -> None:
    with pytest.raises(TemplateError) as failed:
        text_of(template)
    assert words in str(failed.value)


def test_slack_is_a_post_that_expects_one_word() -> None:
    made = compose(notice("slack", "{hook: 'http://h', channel: '#c {{ .State }}', message: '{{ .State }} <&>'}"), NODE)
    assert isinstance(made, Post)
    assert made.body == {"text": "in-maintenance <&>", "channel": "#c {{ .State }}"}
    assert (made.url, made.expects) == ("http://h", "ok")


def test_mail_fills_in_its_message_alone() -> None:
    config = "{address: 'h:25', from: a, to: b, subject: '{{ .State }}', message: '{{ .State }}', user: u, password: $SECRET}"
    made = compose(notice("mail", config.replace("$SECRET", "'${SECRET}'")), NODE)
    assert made == Mail("h:25", "a", ("b",), "{{ .State }}", "in-maintenance", None)
    made = compose(
        notice("mail", config.replace("user: u,", "auth: true, user: u,").replace("$SECRET", "'${SECRET}'")), NODE
    )
    assert isinstance(made, Mail)
    # A password with a comma or a brace stays what it is.
    assert made.login == ("", "u", "s, {x}")


def test_slack_threads_escape_both_texts() -> None:
    config = "{token: t, channel: c, title: '<{{ .Profile }}>', message: 'a & b', leaseName: l, leaseNamespace: ns, period: 1h}"
    assert compose(notice("slackThread", config), NODE) == Thread(
        "t", "c", "&lt;kernel&gt;", "a &amp; b", "l", "ns", timedelta(hours=1)
    )


@pytest.mark.parametrize(
    "type_, config, path, what",
    [
        ("slack", "{channel: c, message: m}", "hook", "string value is not set"),
        ("slack", "{hook: h, message: m}", "channel", "string value is not set"),
        ("slack", "{hook: h, channel: c, message: ''}", "message", "string value is not set"),
        ("mail", "{from: a, to: [b], subject: s, message: m}", "address", "string value is not set"),
        ("mail", "{address: a, from: a, subject: s, message: m}", "to", "missing required field"),
        ("mail", "{address: a, from: a, to: [], subject: s, message: m}", "to", "empty array"),
        ("mail", "{address: a, from: a, to: [b], message: m}", "subject", "string value is not set"),
        ("slackThread", "{token: t, channel: c, title: t, message: m, leaseName: l, leaseNamespace: n}", "period",
         "missing required field"),
        ("slackThread", "{token: t, channel: c, title: t, message: m, leaseNamespace: n, period: 1h}", "leaseName",
         "string value is not set"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_when_the_file_is_loaded(type_: str, config: str, path: str, what: str) -> None:
    with pytest.raises(ConfigProblem) as problem:
        loaded(type_, config)
    assert problem.value.text == f"{what} accessing 'instances.notify.0.config.{path}' (source:'maintenance.yaml')"


@pytest.mark.parametrize(
    "type_, config",
    [
        ("slack", "{hook: 'http://h/hunter2', channel: c, message: m}"),
        ("mail", "{auth: true, address: 'h:1', from: a, to: b, subject: s, message: m, password: hunter2}"),
        (
            "slackThread",
            "{token: hunter2, channel: c, title: t, message: m, leaseName: l, leaseNamespace: ns, period: 1h}",
        ),
    ],
)
def test_secrets_are_in_no_trace(type_: str, config: str) -> None:
    made = notice(type_, config)
    assert "hunter2" not in repr(made)
    assert "hunter2" not in repr(compose(made, NODE))


@pytest.mark.parametrize(
    "message, why",
    [
        ("{{ .State", "template: :1: unclosed action"),
        ("{{ upper .State }}", 'template: :1: function "upper" not defined'),
        ("{{ .Node.Nope }}", "can't evaluate field Nope in type *v1.Node"),
        ("{{ (index .Node.Spec.Taints 0).Key }}", ""),
        ("{{ .Node.Name }} {{ .Profile.Last }}", ""),
    ],
)
def test_lint_finds_messages_that_no_node_can_be_told_with(message: str, why: str) -> None:
    text = f"""
intervals: {{requeue: 30s}}
instances:
  check: [{{type: hasLabel, name: go, config: {{key: go}}}}]
  notify:
  - {{type: slack, name: x, config: {{hook: h, channel: c, message: '{message}'}}, {SCHEDULE}}}
profiles:
- {{name: p, operational: {{notify: x, transitions: [{{check: go, next: operational}}]}}}}
"""
    found = [str(problem) for problem in lint(text, known_plugins(), source="f", environment={})]
    assert len(found) == bool(why)
    assert all(
        line.startswith("f:6:") and "its message can never be rendered" in line and why in line for line in found
    )


PLUGIN = """
from haulout.plugins.api import Config, Fill, Post, notifier

class Pager(Config, frozen=True, kw_only=True):
    url: str

@notifier("pager", Pager)
def pager(config: Pager, fill: Fill) -> Post:
    return Post(config.url, {"summary": fill("{{ .Node.Name }}")})
"""


def test_another_package_brings_a_notifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "acme_pager", raising=False)
    offer(tmp_path, "acme_pager", "haulout.notifiers", "pager", PLUGIN)
    assert set(load_plugins().notifiers) == {"mail", "pager", "slack", "slackThread"}
    made = compose(notice("pager", "{url: 'http://p'}"), NODE)
    assert made == Post("http://p", {"summary": "n"})
