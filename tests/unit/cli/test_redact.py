"""What a support archive may say of configuration and objects."""

from __future__ import annotations

import pytest
import yaml

from haulout.cli.redact import REMOVED, redacted, redacted_object, redacted_yaml


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        pytest.param("password", "hunter2", REMOVED, id="by its name"),
        pytest.param("smtpPassword", "hunter2", REMOVED, id="by the end of its name"),
        pytest.param("api_key", 12345, REMOVED, id="a number"),
        pytest.param("tokens", ["a", "b"], [REMOVED, REMOVED], id="a list"),
        pytest.param("hook", "https://chat.example.org/x", REMOVED, id="a hook"),
        pytest.param("webhookUrl", "https://chat.example.org/x", REMOVED, id="the address of a hook"),
        pytest.param("address", "https://hooks.slack.com/services/T0/B0/x", REMOVED, id="a hook by its address"),
        pytest.param("where", "https://example.org/webhook/abc", REMOVED, id="a hook by its path"),
        pytest.param("url", "https://me:pw@db.example.org/x", f"https://{REMOVED}@db.example.org/x", id="a login"),
        pytest.param("url", "https://example.org/x?key=1", f"https://example.org/x?{REMOVED}", id="a query"),
        pytest.param("text", "eyJhbGciOi.eyJzdWIiOi.sig", REMOVED, id="a token by its looks"),
        pytest.param("pem", "-----BEGIN RSA PRIVATE KEY-----\nx", REMOVED, id="a private key"),
        pytest.param("token", "${SLACK_TOKEN}", "${SLACK_TOKEN}", id="where the secret is"),
        pytest.param("token", "${SLACK_TOKEN:abc}", REMOVED, id="where the secret is, and what it is"),
        pytest.param("password", "", "", id="nothing"),
        pytest.param("webhooks", ":9443", ":9443", id="a port for webhooks"),
        pytest.param("url", "https://prometheus.example.org:9090/api", "https://prometheus.example.org:9090/api", id="a plain address"),
        pytest.param("key", "cloud.sap/maintenance", "cloud.sap/maintenance", id="a label"),
        pytest.param("elect", True, True, id="a switch"),
        pytest.param("max", 3, 3, id="a plain number"),
    ],
)  # fmt: skip
def test_values(name: str, value: object, kept: object) -> None:
    assert redacted({name: value}) == {name: kept}


def test_files_lose_their_comments_and_keep_their_words() -> None:
    text = redacted_yaml(
        b"# token: abc\nintervals: {requeue: 30s}\nmail: {auth: true, password: x, n: 0123}\n---\na: 1\n"
    )
    assert "abc" not in text
    assert list(yaml.load_all(text, Loader=yaml.BaseLoader)) == [
        {"intervals": {"requeue": "30s"}, "mail": {"auth": "true", "password": REMOVED, "n": "0123"}},
        {"a": "1"},
    ]


def test_pods_lose_variables_and_copies_of_themselves() -> None:
    container = {
        "name": "c",
        "env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
        "args": ["--token=abc", "--level=info", "plain"],
    }
    copy = "kubectl.kubernetes.io/last-applied-configuration"
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p", "managedFields": [], "annotations": {copy: "{}", "a": "b"}},
        "spec": {"nodeName": "n", "containers": [container], "initContainers": [container]},
    }
    made = redacted_object(pod)
    clean = {
        "name": "c",
        "env": [{"name": "A", "value": REMOVED}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s"}}}],
        "args": [f"--token={REMOVED}", "--level=info", "plain"],
    }
    assert made["metadata"] == {"name": "p", "annotations": {"a": "b"}}
    assert made["spec"] == {"nodeName": "n", "containers": [clean], "initContainers": [clean]}
    assert container["args"][0] == "--token=abc"
