"""The chart that takes the values of the NVIDIA skyhook operator's chart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout import __version__
from haulout.cli.root import main
from haulout.manifests.webhooks import configurations
from haulout.surfaces.packages.declare import SURFACE
from haulout.surfaces.packages.options import STAMP_VERSION
from tests.build.restricted import excesses, pod_specs
from tests.rig.helm import HelmError, helm, rendered
from tests.rig.original_roles import SKYHOOK
from tests.rig.plane import ControlPlane
from tests.rig.process import Scratch
from tools.skyhook_chart import ACCOUNT, CHART, templates

pytestmark = pytest.mark.tools("helm")

Json = dict[str, Any]
NAMESPACE = "skyhook"


def installed(
    given: str = "", namespace: str = NAMESPACE, chart: Path = CHART, release: str = "skyhook"
) -> dict[tuple[str, str], Json]:
    """Return the objects of a release with these values, by kind and name."""
    objects = rendered(chart, yaml.safe_load(given) or {}, release=release, namespace=namespace)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def pod(given: str = "") -> Json:
    spec: Json = installed(given)["Deployment", ACCOUNT]["spec"]["template"]["spec"]
    return spec


def variables(given: str = "") -> Json:
    return {each["name"]: each["value"] for each in pod(given)["containers"][0]["env"]}


def test_the_templates_are_current() -> None:
    """`python -m tools.skyhook_chart` makes them so."""
    for name, text in templates():
        assert (CHART / "templates" / name).read_text() == text


def test_it_is_of_this_version_and_brings_both_definitions() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    found = {name: each for (kind, name), each in installed().items() if kind == "CustomResourceDefinition"}
    names = {each["spec"]["names"]["plural"] for each in found.values()}
    assert names == {"skyhooks", "nodewrights", "deploymentpolicies"}
    for each in found.values():
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_process_is_told_everything() -> None:
    found = variables()
    assert (found["NAMESPACE"], found["LEADER_ELECTION"], found["AGENT_LOG_ROOT"]) == (
        NAMESPACE,
        "true",
        "/var/log/skyhook",
    )
    assert (found["WEBHOOK_SECRET_NAME"], found["ENABLE_WEBHOOKS"]) == ("webhook-cert", "true")
    env = {
        "copyDirRoot": ("COPY_DIR_ROOT", "/opt/x"),
        "agentLogRoot": ("AGENT_LOG_ROOT", "/opt/y"),
        "leaderElection": ("LEADER_ELECTION", "false"),
        "logLevel": ("LOG_LEVEL", "debug"),
        "metricsPort": ("METRICS_PORT", ":9000"),
        "probePort": ("PROBE_PORT", ":9001"),
        "reapplyOnReboot": ("REAPPLY_ON_REBOOT", "true"),
        "runtimeRequiredTaint": ("RUNTIME_REQUIRED_TAINT", "a=b:NoExecute"),
        "pauseImage": ("PAUSE_IMAGE", "pause:1"),
        "keepFailureLogs": ("KEEP_FAILURE_LOGS", "true"),
        "allowedImagePrefixes": ("ALLOWED_IMAGE_PREFIXES", "a.test/x,b.test"),
        "requireContainerSHA": ("REQUIRE_CONTAINER_SHA", "true"),
        "forbidAgentImageOverride": ("FORBID_AGENT_IMAGE_OVERRIDE", "true"),
    }
    given = json.dumps({"controllerManager": {"manager": {"env": {name: value for name, (_, value) in env.items()}}}})
    found = variables(given)
    assert {name: found[name] for name, _ in env.values()} == dict(env.values())
    ports = {each["name"]: each["containerPort"] for each in pod(given)["containers"][0]["ports"]}
    assert ports == {"metrics": 9000, "probes": 9001, "webhooks": 9443}


def test_truth_values_may_be_written_without_quotes() -> None:
    given = "{controllerManager: {manager: {env: {leaderElection: false, reapplyOnReboot: true}}}}"
    assert (variables(given)["LEADER_ELECTION"], variables(given)["REAPPLY_ON_REBOOT"]) == ("false", "true")


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ("{repository: a/b, tag: v1}", "a/b:v1"),
        ("{repository: 'a:5000/b', tag: v1, digest: 'sha256:00'}", "a:5000/b:v1@sha256:00"),
    ],
    ids=["a tag", "a tag and a digest"],
)
def test_images(image: str, reference: str) -> None:
    given = f"{{controllerManager: {{manager: {{image: {image}, agent: {image}}}}}}}"
    assert (pod(given)["containers"][0]["image"], variables(given)["AGENT_IMAGE"]) == (reference, reference)


@pytest.mark.parametrize(
    ("nodes", "packages", "limits", "requests"),
    [
        (1, 1, {"cpu": "1000m", "memory": "512Mi"}, {"cpu": "500m", "memory": "256Mi"}),
        (400, 5, {"cpu": "1280m", "memory": "640Mi"}, {"cpu": "640m", "memory": "256Mi"}),
        (1000, 2, {"cpu": "1600m", "memory": "800Mi"}, {"cpu": "800m", "memory": "400Mi"}),
    ],
    ids=["the least", "of packages", "of nodes"],
)
def test_resources_are_worked_out(nodes: int, packages: int, limits: Json, requests: Json) -> None:
    given = f"{{estimatedNodeCount: {nodes}, estimatedPackageCount: {packages}}}"
    assert pod(given)["containers"][0]["resources"] == {"limits": limits, "requests": requests}


def test_resources_may_be_given() -> None:
    given = "{controllerManager: {manager: {resources: {limits: {cpu: 3}}}}}"
    assert pod(given)["containers"][0]["resources"] == {"limits": {"cpu": 3}}


PLACES = {
    "selectors": ("{selectors: {pool: system}}", "nodeSelector", {"pool": "system"}),
    "tolerations": ("{tolerations: [{key: a, operator: Exists}]}", "tolerations", [{"key": "a", "operator": "Exists"}]),
    "affinity": (
        "{nodeAffinity: {matchExpressions: [{key: a, operator: Exists}]}}",
        "affinity",
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
                }
            }
        },
    ),
}


@pytest.mark.parametrize(("given", "field", "expected"), PLACES.values(), ids=PLACES.keys())
def test_where_the_operator_and_the_cleanup_run(given: str, field: str, expected: Json) -> None:
    found = installed(f"{{controllerManager: {given}}}")
    for key in (("Deployment", ACCOUNT), ("Job", "skyhook-operator-cleanup")):
        assert found[key]["spec"]["template"]["spec"][field] == expected


MISTAKES = {
    "both": (
        "{controllerManager: {selectors: {a: b}, nodeAffinity: {matchExpressions: [{key: a, operator: Exists}]}}}",
        "cannot be used together",
    ),
    "no room": ("{controllerManager: {replicas: 1}}", "must be below controllerManager.replicas"),
}


@pytest.mark.parametrize(("given", "text"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(given: str, text: str) -> None:
    with pytest.raises(HelmError, match=text):
        installed(given)


def test_it_does_not_go_into_the_namespace_default() -> None:
    with pytest.raises(HelmError, match="namespace default"):
        installed(namespace="default")


def test_the_rest_of_the_values() -> None:
    found = installed()
    assert found["Deployment", ACCOUNT]["spec"]["replicas"] == 2
    assert found["PodDisruptionBudget", ACCOUNT]["spec"]["minAvailable"] == 1
    limits = {"default": {"cpu": "500m", "memory": "512Mi"}, "defaultRequest": {"cpu": "250m", "memory": "256Mi"}}
    assert found["LimitRange", "skyhook-operator-limits"]["spec"]["limits"] == [{"type": "Container", **limits}]
    job = found["Job", "skyhook-operator-cleanup"]
    assert (job["metadata"]["annotations"]["helm.sh/hook"], job["spec"]["activeDeadlineSeconds"]) == ("pre-delete", 120)
    assert ("Service", f"{ACCOUNT}-metrics-service") in found
    assert not {("ClusterRole", f"skyhook-{word}-role") for word in ("viewer", "editor")} & found.keys()
    assert ("ClusterRoleBinding", "skyhook-operator-metrics-reader") not in found


def test_what_is_switched_off_or_on() -> None:
    found = installed(
        "{limitRange: false, cleanup: {enabled: false}, webhook: {enable: false}, useHostNetwork: true, imagePullSecret: pull,"
        " rbac: {createSkyhookViewerRole: true, createSkyhookEditorRole: true}, metrics: {addServiceAccountBinding: true}}"
    )
    kinds = {kind for kind, _ in found}
    assert not kinds & {"LimitRange", "Job", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
    spec = found["Deployment", ACCOUNT]["spec"]["template"]["spec"]
    told = {each["name"]: each["value"] for each in spec["containers"][0]["env"]}
    assert (told["ENABLE_WEBHOOKS"], told["IMAGE_PULL_SECRET"]) == ("false", "pull")
    assert (spec["hostNetwork"], spec["imagePullSecrets"]) == (True, [{"name": "pull"}])
    assert {("ClusterRole", "skyhook-viewer-role"), ("ClusterRole", "skyhook-editor-role")} <= found.keys()
    assert ("ClusterRoleBinding", "skyhook-operator-metrics-reader") in found


def test_its_webhooks_are_those_that_are_printed() -> None:
    found = installed("{webhook: {serviceName: hooks, secretName: mine}}")
    for expected in configurations(SURFACE.webhooks, NAMESPACE, "hooks"):
        assert found[expected["kind"], expected["metadata"]["name"]] == expected
    assert found["Service", "hooks"]["spec"]["ports"][0]["targetPort"] == 9443


def test_its_roles_are_those_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        f"--packages-namespace={NAMESPACE}",
        f"--original-lease={NAMESPACE}",
        "--webhook-secret=webhook-cert",
        "--delete-pods",
    )
    assert main(["rbac", "kernel", "packages", "-n", NAMESPACE, "--service-account", ACCOUNT, *options]) == 0
    printed = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each["kind"] in ("Role", "ClusterRole")]
    rules = {each["metadata"]["name"].replace("haulout-", "skyhook-operator-"): each["rules"] for each in printed}
    shown = "createSkyhookViewerRole: true, createSkyhookEditorRole: true"
    given = f"{{rbac: {{{shown}}}, cleanup: {{enabled: false}}}}"
    found = {name: each["rules"] for (kind, name), each in installed(given).items() if kind in ("Role", "ClusterRole")}
    ours = ("nodedisruptionbudget-", "maintenancerecord-")
    assert found == {name: each for name, each in rules.items() if not name.startswith(ours)}


def test_the_image_of_the_original_works_under_its_roles() -> None:
    """Everything that the role of the original allows is allowed to the account of a release that asks for the way back."""
    assert ("ClusterRoleBinding", "skyhook-operator-original") not in installed()
    found = installed("{rbac: {createOriginalRole: true}}")
    bound = found["ClusterRoleBinding", "skyhook-operator-original"]
    assert [each["name"] for each in bound["subjects"]] == [ACCOUNT]
    rules = found[bound["roleRef"]["kind"], bound["roleRef"]["name"]]["rules"]
    assert wanted_rights(SKYHOOK.everywhere) - wanted_rights(rules) == set()
    assert wanted_rights(SKYHOOK.at_home) - wanted_rights(rules) == set()


def wanted_rights(rules: Iterable[Json]) -> set[tuple[str, ...]]:
    return {
        (group, resource, verb, *sorted(rule.get("resourceNames", ())))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(("value", "allowed"), [('"false"', False), ("false", False), ('"true"', True), ("true", True)])
def test_logs_may_be_read_only_where_they_are_kept(value: str, allowed: bool) -> None:
    found = installed(f"{{controllerManager: {{manager: {{env: {{keepFailureLogs: {value}}}}}}}}}")
    assert (("Role", "skyhook-operator-packages-logs") in found) is allowed
    assert (
        any("pods/log" in rule.get("resources", ()) for each in found.values() for rule in each.get("rules", ()))
        is allowed
    )


def test_its_pods_have_no_privileges() -> None:
    """The drop-in keeps the webhooks' certificate where the original does, below /tmp."""
    manager, cleanup = pod_specs(list(installed().values()))
    assert excesses(cleanup) == []
    assert excesses(manager) == ["volume tmp holds more than configuration", "manager may write to /tmp"]


def test_the_command_line_finds_out_its_version() -> None:
    assert installed()["Deployment", ACCOUNT]["metadata"]["labels"]["app.kubernetes.io/version"] == STAMP_VERSION


def test_a_value_of_null_counts_as_none() -> None:
    """Helm takes such a value out of the defaults, too."""
    assert variables("imagePullSecret: null")["IMAGE_PULL_SECRET"] == ""
    assert "affinity" not in pod("controllerManager: {nodeAffinity: null}")


@pytest.mark.tools("etcd", "kube-apiserver")
def test_the_secret_of_the_webhooks_is_brought_where_it_is_missing_and_kept(scratch: Scratch) -> None:
    """Helm refuses to bring an object that another has made, as the original makes this one."""
    with ControlPlane(scratch.directory("skyhook-chart-plane")) as plane:
        api = plane.api()
        words = ("--install", "-n", NAMESPACE)

        def upgrade() -> Json:
            helm("upgrade", "skyhook", CHART, *words, kubeconfig=plane.kubeconfig("test"))
            return api.get("secrets", "webhook-cert", NAMESPACE)

        api.create("namespaces", {"metadata": {"name": NAMESPACE}})
        api.create("secrets", {"metadata": {"name": "webhook-cert"}, "data": {"tls.key": "eA=="}}, NAMESPACE)
        assert [upgrade().get("data"), upgrade().get("data")] == [{"tls.key": "eA=="}] * 2
        api.delete("secrets", "webhook-cert", NAMESPACE)
        made = [upgrade() for _ in range(3)]
        assert [each.get("data") for each in made] == [None] * 3
        assert len({each["metadata"]["uid"] for each in made}) == 1
