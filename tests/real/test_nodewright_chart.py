"""The chart that takes the values of NodeWright's chart, and the names of objects that other tools look for."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from haulout.surfaces.packages.declare import SURFACE
from tests.real.test_skyhook_chart import installed
from tools.nodewright_chart import CHART, VARIABLES, templates
from tools.skyhook_chart import CHART as SKYHOOK_CHART

pytestmark = pytest.mark.tools("helm")

Json = dict[str, Any]
TAINT = "nodewright.nvidia.com=runtime-required:NoSchedule"


def release(given: str = "", name: str = "nodewright") -> dict[tuple[str, str], Json]:
    return installed(given, "nodewright", CHART, name)


def manager(given: str = "", name: str = "nodewright") -> Json:
    """Return the operator's container."""
    found: Json = release(given, name)["Deployment", f"{name}-controller-manager"]
    container: Json = found["spec"]["template"]["spec"]["containers"][0]
    return container


def variables(given: str = "") -> Json:
    return {each["name"]: each["value"] for each in manager(given)["env"]}


def test_the_templates_are_current() -> None:
    """`python -m tools.nodewright_chart` makes them so."""
    for name, text in templates():
        assert (CHART / "templates" / name).read_text() == text


@pytest.mark.parametrize(
    ("name", "given", "fullname"),
    [
        ("nodewright", "", "nodewright"),
        ("my-nodewright", "", "my-nodewright"),
        ("gpu", "", "gpu-nodewright"),
        ("gpu", "fullnameOverride: other", "other"),
    ],
)
def test_objects_are_named_after_the_release(name: str, given: str, fullname: str) -> None:
    found = installed(given, "nodewright", CHART, name)
    deployment = found["Deployment", f"{fullname}-controller-manager"]
    assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "nodewright"
    assert ("Service", f"{fullname}-webhook-service") in found
    assert ("ClusterRole", f"{fullname}-metrics-reader") in found
    registered = {hook.configuration for hook in SURFACE.webhooks}
    assert registered <= {each for kind, each in found if kind.endswith("WebhookConfiguration")}


def test_tools_read_the_taint_from_the_deployment() -> None:
    assert variables()["RUNTIME_REQUIRED_TAINT"] == TAINT
    assert manager()["args"] == ["as", "nodewright-operator"]
    given = "{controllerManager: {manager: {env: {runtimeRequiredTaint: 'a=b:NoSchedule'}}}}"
    assert variables(given)["RUNTIME_REQUIRED_TAINT"] == "a=b:NoSchedule"


@pytest.mark.parametrize(("value", "variable"), VARIABLES.items(), ids=VARIABLES)
def test_values_since_the_rename_reach_the_process(value: str, variable: str) -> None:
    given = f"{{controllerManager: {{manager: {{env: {{{value}: 7}}}}}}}}"
    assert variables(given)[variable] == "7"


def test_the_webhooks_call_the_service_of_the_release() -> None:
    for given, name in (("", "nodewright-webhook-service"), ("{webhook: {serviceName: other}}", "other")):
        found = release(given)
        hooks = found["ValidatingWebhookConfiguration", "nodewright-validating-webhook"]["webhooks"]
        assert {hook["clientConfig"]["service"]["name"] for hook in hooks} == {name}
        assert variables(given)["WEBHOOK_SERVICE_NAME"] == name


def test_the_log_of_a_failed_job_may_be_read_whatever_the_settings_say() -> None:
    role = release()["Role", "nodewright-packages-logs"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]
    assert ("RoleBinding", "nodewright-packages-logs") in release()


def test_metrics_are_served_over_tls() -> None:
    found = release("{metricsService: {annotations: {a: b}}}")
    service = found["Service", "nodewright-controller-manager-metrics-service"]
    assert (service["spec"]["ports"][0]["port"], service["metadata"]["annotations"]) == (8443, {"a": "b"})
    assert variables()["METRICS_PORT"] == ":8443"
    rules = found["ClusterRole", "nodewright-metrics-auth"]["rules"]
    assert {rule["resources"][0] for rule in rules} == {"tokenreviews", "subjectaccessreviews"}


def test_both_groups_are_deleted_with_the_release() -> None:
    (words,) = (
        each["args"] for each in release()["Job", "nodewright-cleanup"]["spec"]["template"]["spec"]["containers"]
    )
    assert {word.partition(".")[2] for word in words[1].split(",")} == {"skyhook.nvidia.com", "nodewright.nvidia.com"}


def test_every_value_of_the_older_chart_is_known() -> None:
    older, newer = (yaml.safe_load((chart / "values.yaml").read_text()) for chart in (SKYHOOK_CHART, CHART))
    assert paths(older) <= paths(newer)


def paths(value: Any, before: str = "") -> set[str]:
    if not isinstance(value, dict):
        return {before}
    return {path for name, each in value.items() for path in paths(each, f"{before}.{name}")} or {before}
