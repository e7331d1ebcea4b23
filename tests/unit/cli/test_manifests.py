"""The manifests that are printed: complete, the same every time, and nothing but YAML."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest
import yaml

from haulout.cli.root import main
from haulout.cli.settings import ClusterApi
from haulout.cli.settings_file import read_settings
from haulout.surfaces.clusterapi.declare import CLUSTERAPI
from haulout.surfaces.nodemaintenance.wire import (
    API_VERSION,
    GROUP,
    KIND,
    PLURAL,
    WEBHOOK,
    WEBHOOK_PATH,
    DrainSpec,
    Status,
)

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]


def printed(capsys: Capture, *words: str) -> list[Json]:
    assert main(words) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def rules(documents: list[Json], kind: str, name: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb, each a tuple."""
    [role] = [each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_everything_that_installs_it(capsys: Capture) -> None:
    documents = printed(capsys, "manifests", "nodemaintenance", "-n", "away", "--image", "here:1", "--replicas", "3")
    kinds = [document["kind"] for document in documents]
    assert kinds[0] == "Namespace"
    assert kinds.index("CustomResourceDefinition") < kinds.index("Deployment") < kinds.index(kinds[-1])
    assert kinds[-1] == "ValidatingWebhookConfiguration"
    namespaced = {"ServiceAccount", "ConfigMap", "Service", "Deployment", "Role", "RoleBinding"}
    assert {each["metadata"]["namespace"] for each in documents if each["kind"] in namespaced} == {"away"}
    [deployment] = [each for each in documents if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]
    assert (deployment["spec"]["replicas"], pod["spec"]["containers"][0]["image"]) == (3, "here:1")
    for service in (each for each in documents if each["kind"] == "Service"):
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    [settings] = [each["data"]["haulout.yaml"] for each in documents if each["kind"] == "ConfigMap"]
    assert read_settings(settings.encode(), "haulout.yaml", {}, {}, "").nodemaintenance is not None
    accounts = {each["metadata"]["name"] for each in documents if each["kind"] == "ServiceAccount"}
    bound = {subject["name"] for each in documents for subject in each.get("subjects", ())}
    assert accounts == bound == {pod["spec"]["serviceAccountName"]}


@pytest.mark.parametrize("command", ["crds", "webhooks", "rbac", "manifests"])
def test_the_same_every_time(capsys: Capture, command: str) -> None:
    main([command])
    first = capsys.readouterr().out
    main([command])
    assert capsys.readouterr().out == first
    assert first.startswith("---\n")


@pytest.mark.parametrize("command", ["crds", "webhooks"])
@pytest.mark.parametrize("surface", ["profiles", "clusterapi"])
def test_some_bring_neither_resources_nor_webhooks(capsys: Capture, command: str, surface: str) -> None:
    assert printed(capsys, command, surface) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["webhooks", "ghosts"],
            "there is no surface 'ghosts'; there are: kernel, profiles, nodemaintenance, clusterapi",
        ),
        (["rbac", "ghosts"], "there is no surface 'ghosts'; there are: kernel, profiles, nodemaintenance, clusterapi"),
        (["rbac", "profiles", "--workload"], "--workload: only clusterapi goes to other clusters"),
        (["rbac", "clusterapi", "kernel", "--workload"], "--workload: only clusterapi goes to other clusters"),
        (["webhooks", "--url", "http://a"], "it begins with https://"),
        (["webhooks", "--certificates", "none"], "'none' is not one of 'self', 'cert-manager', 'mounted'"),
    ],
)
def test_wrong_command_lines(capsys: Capture, words: list[str], said: str) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


class TestNodeMaintenance:
    def test_the_definition_is_of_the_kind_that_is_served(self, capsys: Capture) -> None:
        [definition] = printed(capsys, "crds", "nodemaintenance")
        spec = definition["spec"]
        [version] = spec["versions"]
        assert f"{spec['group']}/{version['name']}" == API_VERSION
        assert (spec["names"]["kind"], spec["names"]["plural"], spec["names"]["shortNames"]) == (KIND, PLURAL, ["nm"])
        columns = [column["name"] for column in version["additionalPrinterColumns"]]
        assert columns == ["Node", "Phase", "Progress", "Pending", "Reason", "Age"]

    def test_the_definition_has_every_field_that_is_read_or_written(self, capsys: Capture) -> None:
        """What a schema does not name the API server drops without a word."""
        [definition] = printed(capsys, "crds", "nodemaintenance")
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        assert set(schema["spec"]["properties"]) == {"nodeName", "reason", "drain"}
        assert set(schema["spec"]["properties"]["drain"]["properties"]) == names(DrainSpec)
        assert set(schema["status"]["properties"]) == names(Status)

    def test_the_webhook_is_the_one_that_is_served(self, capsys: Capture) -> None:
        service, registration = printed(capsys, "webhooks", "nodemaintenance")
        [hook] = registration["webhooks"]
        assert (hook["name"], hook["clientConfig"]["service"]["path"]) == (WEBHOOK, WEBHOOK_PATH)
        assert hook["clientConfig"]["service"]["name"] == service["metadata"]["name"] == "haulout-webhook"
        assert (hook["failurePolicy"], hook["sideEffects"], hook["timeoutSeconds"]) == ("Fail", "None", 15)
        assert hook["rules"] == [
            {
                "apiGroups": [GROUP],
                "apiVersions": ["v1beta1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [PLURAL],
            }
        ]
        assert "caBundle" not in hook["clientConfig"]

    def test_webhooks_may_be_called_at_an_address(self, capsys: Capture) -> None:
        [registration] = printed(capsys, "webhooks", "--url", "https://10.0.0.1:9443/")
        assert registration["webhooks"][0]["clientConfig"] == {"url": f"https://10.0.0.1:9443{WEBHOOK_PATH}"}

    def test_with_cert_manager_that_makes_the_certificate(self, capsys: Capture) -> None:
        words = ("--certificates", "cert-manager", "-n", "ops", "--service", "hooks")
        documents = printed(capsys, "webhooks", *words)
        assert [each["kind"] for each in documents] == [
            "Service",
            "Issuer",
            "Certificate",
            "ValidatingWebhookConfiguration",
        ]
        annotations = documents[-1]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "ops/haulout-webhook-cert"}
        assert "hooks.ops.svc" in documents[2]["spec"]["dnsNames"]

    def test_the_role_has_what_the_original_lacks(self, capsys: Capture) -> None:
        allowed = rules(printed(capsys, "rbac", "nodemaintenance"), "ClusterRole", "haulout-nodemaintenance")
        assert {
            ("coordination.k8s.io", "leases", "delete"),
            ("", "events", "create"),
            ("events.k8s.io", "events", "patch"),
            ("", "namespaces", "create"),
            ("", "pods/eviction", "create"),
        } <= allowed
        assert ("", "pods", "delete") not in allowed
        assert not {group for group, _, _ in allowed} & {"oauth.openshift.io", "monitoring.coreos.com"}

    @pytest.mark.parametrize(
        ("flag", "allowed"),
        [
            ("--delete-pods", ("", "pods", "delete")),
            ("--node-conditions", ("", "nodes/status", "patch")),
            ("--eviction-requests", ("lifecycle.k8s.io", "evictionrequests", "create")),
        ],
    )
    def test_some_things_are_allowed_only_on_request(
        self, capsys: Capture, flag: str, allowed: tuple[str, str, str]
    ) -> None:
        name = ("ClusterRole", "haulout-nodemaintenance")
        assert allowed not in rules(printed(capsys, "rbac", "nodemaintenance"), *name)
        assert allowed in rules(printed(capsys, "rbac", "nodemaintenance", flag), *name)

    def test_people_have_roles_of_their_own(self, capsys: Capture) -> None:
        documents = printed(capsys, "rbac", "nodemaintenance")
        assert {verb for _, _, verb in rules(documents, "ClusterRole", "nodemaintenance-viewer-role")} == {
            "get",
            "list",
            "watch",
        }
        assert (GROUP, PLURAL, "delete") in rules(documents, "ClusterRole", "nodemaintenance-editor-role")


class TestClusterApi:
    ROLE = ("ClusterRole", "haulout-clusterapi")
    READ: ClassVar = {"get", "list", "watch"}

    def test_the_role(self, capsys: Capture) -> None:
        allowed = rules(printed(capsys, "rbac", "clusterapi"), *self.ROLE)
        group = "cluster.x-k8s.io"
        assert allowed == {
            *(("", "secrets", verb) for verb in self.READ),
            *((group, "machines", verb) for verb in (*self.READ, "patch")),
            *((group, "clusters", verb) for verb in self.READ),
            ("", "events", "create"),
            ("", "events", "patch"),
            *(("coordination.k8s.io", "leases", verb) for verb in ("create", "get", "update")),
        }

    def test_of_leases_it_may_hold_that_of_its_original_alone(self, capsys: Capture) -> None:
        [role] = [each for each in printed(capsys, "rbac", "clusterapi") if each["kind"] == "ClusterRole"]
        of_leases = [rule for rule in role["rules"] if rule["resources"] == ["leases"]]
        # What is created has no name yet that a rule could ask for.
        assert [(rule["verbs"], rule.get("resourceNames")) for rule in of_leases] == [
            (["create"], None),
            (["get", "update"], [CLUSTERAPI.lease]),
        ]

    def test_hosts_only_on_request(self, capsys: Capture) -> None:
        plain, more = printed(capsys, "rbac", "clusterapi"), printed(capsys, "rbac", "--metal3")
        added = {("metal3.io", "baremetalhosts", verb) for verb in (*self.READ, "patch")}
        assert rules(more, *self.ROLE) == rules(plain, *self.ROLE) | added
        assert not rules(more, "ClusterRole", "haulout-nodemaintenance") & added

    @pytest.mark.parametrize("words", [["--workload"], ["clusterapi", "--workload"]], ids=" ".join)
    def test_all_that_it_needs_in_workload_clusters(self, capsys: Capture, words: list[str]) -> None:
        role, binding = printed(capsys, "rbac", *words, "-n", "ops", "--service-account", "bridge")
        name = "haulout-clusterapi-workload"
        assert rules([role], "ClusterRole", name) == {("", "nodes", verb) for verb in (*self.READ, "patch")}
        assert (binding["kind"], binding["roleRef"]["name"]) == ("ClusterRoleBinding", name)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "bridge", "namespace": "ops"}]

    @pytest.mark.parametrize(("words", "metal3"), [([], False), (["--metal3"], True)], ids=["plain", "metal3"])
    def test_it_is_installed_by_its_name(self, capsys: Capture, words: list[str], metal3: bool) -> None:
        documents = printed(capsys, "manifests", "clusterapi", *words)
        [settings] = [each["data"]["haulout.yaml"] for each in documents if each["kind"] == "ConfigMap"]
        made = read_settings(settings.encode(), "haulout.yaml", {}, {}, "").clusterapi
        assert made == ClusterApi(enable_metal3_maintenance=metal3)
        assert (("metal3.io", "baremetalhosts", "patch") in rules(documents, *self.ROLE)) is metal3

    def test_it_is_not_among_all(self, capsys: Capture) -> None:
        documents = printed(capsys, "manifests")
        assert self.ROLE not in {(each["kind"], each["metadata"]["name"]) for each in documents}
        [settings] = [each["data"]["haulout.yaml"] for each in documents if each["kind"] == "ConfigMap"]
        assert read_settings(settings.encode(), "haulout.yaml", {}, {}, "").clusterapi is None


def test_each_surface_has_a_role_that_is_bound_to_the_account(capsys: Capture) -> None:
    documents = printed(capsys, "rbac", "-n", "ops", "--service-account", "me")
    bindings = [each for each in documents if each["kind"] == "ClusterRoleBinding"]
    assert [each["roleRef"]["name"] for each in bindings] == [
        "haulout-kernel",
        "haulout-profiles",
        "haulout-nodemaintenance",
        "haulout-clusterapi",
    ]
    assert all(each["subjects"] == [{"kind": "ServiceAccount", "name": "me", "namespace": "ops"}] for each in bindings)


def test_secrets_are_open_to_it_in_its_own_namespace_alone(capsys: Capture) -> None:
    documents = printed(capsys, "rbac", "kernel", "profiles", "nodemaintenance")
    everywhere = [each for each in documents if each["kind"] == "ClusterRole"]
    assert not [rule for role in everywhere for rule in role["rules"] if "secrets" in rule.get("resources", ())]
    [local] = [each for each in documents if each["kind"] == "Role"]
    [named] = [rule for rule in local["rules"] if "resourceNames" in rule]
    assert (named["resources"], named["resourceNames"]) == (["secrets"], ["haulout-webhook-cert"])


def names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}
