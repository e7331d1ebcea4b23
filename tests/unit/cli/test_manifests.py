"""The manifests that are printed: complete, the same every time, and nothing but YAML."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest
import yaml

from haulout.cli.root import main
from haulout.settings.file import read_settings
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.clusterapi.surface import CLUSTERAPI
from haulout.surfaces.nodemaintenance.declare import WEBHOOK
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import (
    API_VERSION,
    GROUP,
    KIND,
    PLURAL,
    DrainSpec,
    Status,
)
from haulout.surfaces.notify.surface import NOTIFY
from haulout.surfaces.packages.admit import webhooks
from haulout.surfaces.packages.surface import PACKAGES
from haulout.surfaces.profiles.surface import PROFILES
from haulout.surfaces.registry import surfaces
from tests.build.restricted import excesses, pod_specs

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]


def printed(capsys: Capture, *words: str) -> list[Json]:
    assert main(words) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def rules(documents: list[Json], kind: str, name: str) -> set[tuple[str, str, str]]:
    """Return the rules as tuples of group, resource and verb."""
    [role] = [each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def allows(document: Json, resource: str) -> list[Json]:
    return [rule for rule in document.get("rules", ()) if resource in rule.get("resources", ())]


def test_everything_that_installs_it(capsys: Capture) -> None:
    documents = printed(capsys, "manifests", "nodemaintenance", "-n", "away", "--image", "here:1", "--replicas", "3")
    kinds = [document["kind"] for document in documents]
    assert kinds[0] == "Namespace"
    assert kinds.index("CustomResourceDefinition") < kinds.index("Deployment") < kinds.index(kinds[-1])
    assert kinds[-1] == "ValidatingAdmissionPolicyBinding"
    namespaced = {"ServiceAccount", "ConfigMap", "Service", "Deployment", "Role", "RoleBinding"}
    places = {each["metadata"]["namespace"] for each in documents if each["kind"] in namespaced}
    assert places == {"away", "default", "medik8s-leases"}
    [deployment] = [each for each in documents if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]
    assert (deployment["spec"]["replicas"], pod["spec"]["containers"][0]["image"]) == (3, "here:1")
    for service in (each for each in documents if each["kind"] == "Service"):
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    [settings] = [each["data"]["haulout.yaml"] for each in documents if each["kind"] == "ConfigMap"]
    assert read_settings(settings.encode(), "haulout.yaml", {}, {}, "").of(NodeMaintenanceSettings)
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
            "there is no surface 'ghosts'; there are: kernel, profiles, nodemaintenance, clusterapi, notify, packages",
        ),
        (
            ["rbac", "ghosts"],
            "there is no surface 'ghosts'; there are: kernel, profiles, nodemaintenance, clusterapi, notify, packages",
        ),
        (["rbac", "profiles", "--workload"], "--workload: only clusterapi works in other clusters"),
        (["rbac", "clusterapi", "kernel", "--workload"], "--workload: only clusterapi works in other clusters"),
        (["webhooks", "--url", "http://a"], "it begins with https://"),
        (["webhooks", "--certificates", "none"], "'none' is not one of 'self', 'cert-manager', 'mounted'"),
    ],
)
def test_wrong_command_lines(capsys: Capture, words: list[str], said: str) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


class TestPackages:
    def test_the_webhooks_are_those_that_are_served(self, capsys: Capture) -> None:
        service, *registrations = printed(capsys, "webhooks", "packages")
        assert (service["kind"], len(registrations)) == ("Service", 4)
        found = {
            (each["kind"] == "MutatingWebhookConfiguration", each["metadata"]["name"], hook["name"]): hook
            for each in registrations
            for hook in each["webhooks"]
        }
        served = {(webhook.mutates, webhook.registration, webhook.name): webhook for webhook in webhooks()}
        assert found.keys() == served.keys()
        for key, hook in found.items():
            assert hook["clientConfig"]["service"]["path"] == served[key].path
            assert hook["rules"] == list(served[key].rules)
            assert (hook["failurePolicy"], hook["sideEffects"], hook["timeoutSeconds"]) == ("Fail", "None", 10)

    def test_two_surfaces_share_one_service(self, capsys: Capture) -> None:
        kinds = [each["kind"] for each in printed(capsys, "webhooks", "nodemaintenance", "packages")]
        assert kinds.count("Service") == 1


class TestNodeMaintenance:
    def test_the_definition_is_of_the_kind_that_is_served(self, capsys: Capture) -> None:
        [definition] = printed(capsys, "crds", "nodemaintenance")
        spec = definition["spec"]
        [version] = spec["versions"]
        assert f"{spec['group']}/{version['name']}" == API_VERSION
        assert (spec["names"]["kind"], spec["names"]["plural"], spec["names"]["shortNames"]) == (KIND, PLURAL, ["nm"])
        columns = [column["name"] for column in version["additionalPrinterColumns"]]
        assert columns == ["Node", "Phase", "Progress", "Pods", "Reason", "Age"]

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
        assert (hook["name"], hook["clientConfig"]["service"]["path"]) == (WEBHOOK.name, WEBHOOK.path)
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
        [registration] = printed(capsys, "webhooks", "nodemaintenance", "--url", "https://10.0.0.1:9443/")
        assert registration["webhooks"][0]["clientConfig"] == {"url": f"https://10.0.0.1:9443{WEBHOOK.path}"}

    def test_with_cert_manager_that_makes_the_certificate(self, capsys: Capture) -> None:
        words = ("--certificates", "cert-manager", "-n", "ops", "--service", "hooks")
        documents = printed(capsys, "webhooks", "nodemaintenance", *words)
        assert [each["kind"] for each in documents] == [
            "Service",
            "Issuer",
            "Certificate",
            "ValidatingWebhookConfiguration",
        ]
        annotations = documents[-1]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "ops/haulout-webhook-cert"}
        assert "hooks.ops.svc" in documents[2]["spec"]["dnsNames"]

    def test_the_role_has_what_a_maintenance_needs_and_no_more(self, capsys: Capture) -> None:
        documents = printed(capsys, "rbac", "nodemaintenance")
        allowed = rules(documents, "ClusterRole", "haulout-nodemaintenance")
        assert ("", "pods/eviction", "create") in allowed
        assert [each for each in allowed if each[2] in ("update", "delete")] == [(GROUP, PLURAL, "delete")]
        assert not [each for each in allowed if each[1] in ("leases", "secrets")]
        assert ("", "namespaces", "create") not in allowed
        assert not {group for group, _, _ in allowed} & {"oauth.openshift.io", "monitoring.coreos.com"}

    def test_leases_are_its_own_in_their_namespace_alone(self, capsys: Capture) -> None:
        documents = printed(capsys, "rbac", "nodemaintenance", "--lease-namespace", "held")
        assert (documents[0]["kind"], documents[0]["metadata"]["name"]) == ("Namespace", "held")
        places = [each["metadata"].get("namespace") for each in documents if allows(each, "leases")]
        assert places == ["held"]

    def test_of_registrations_only_its_own_is_open(self, capsys: Capture) -> None:
        documents = printed(capsys, "rbac", "kernel", "nodemaintenance")
        found = [rule for each in documents for rule in allows(each, "validatingwebhookconfigurations")]
        assert [(rule["verbs"], rule["resourceNames"]) for rule in found] == [
            (["get", "watch", "patch"], ["haulout-overrides"]),
            (["get"], ["haulout-overrides"]),
            (["get", "watch", "patch"], [WEBHOOK.configuration]),
        ]
        registration = printed(capsys, "webhooks", "nodemaintenance")[-1]
        assert registration["metadata"]["name"] == WEBHOOK.configuration

    def test_whoever_mounts_certificates_needs_no_right_to_make_them(self, capsys: Capture) -> None:
        documents = printed(capsys, "rbac", "kernel", "nodemaintenance", "--no-own-certificates")
        assert not [rule for each in documents for rule in allows(each, "secrets")]
        # Whether overrides are guarded is read from their registration.
        found = [rule for each in documents for rule in allows(each, "validatingwebhookconfigurations")]
        assert [(rule["verbs"], rule["resourceNames"]) for rule in found] == [(["get"], ["haulout-overrides"])]

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
            *(("", "secrets", verb) for verb in ("list", "watch")),
            *((group, "machines", verb) for verb in (*self.READ, "patch")),
            *((group, "clusters", verb) for verb in ("list", "watch")),
            ("", "events", "create"),
            ("", "events", "patch"),
        }

    def test_kubeconfigs_may_be_limited_to_namespaces(self, capsys: Capture) -> None:
        documents = printed(capsys, "rbac", "clusterapi", "--kubeconfigs", "one", "--kubeconfigs", "two")
        places = [each["metadata"].get("namespace") for each in documents if allows(each, "secrets")]
        assert places == ["one", "two"]

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
        made = read_settings(settings.encode(), "haulout.yaml", {}, {}, "").of(ClusterApiSettings)
        assert made == ClusterApiSettings(enable_metal3_maintenance=metal3)
        assert (("metal3.io", "baremetalhosts", "patch") in rules(documents, *self.ROLE)) is metal3

    def test_it_is_not_among_all(self, capsys: Capture) -> None:
        documents = printed(capsys, "manifests")
        assert self.ROLE not in {(each["kind"], each["metadata"]["name"]) for each in documents}
        [settings] = [each["data"]["haulout.yaml"] for each in documents if each["kind"] == "ConfigMap"]
        assert read_settings(settings.encode(), "haulout.yaml", {}, {}, "").of(ClusterApiSettings) is None


def test_each_surface_has_a_role_that_is_bound_to_the_account(capsys: Capture) -> None:
    documents = printed(capsys, "rbac", "-n", "ops", "--service-account", "me")
    bindings = [each for each in documents if each["kind"] == "ClusterRoleBinding"]
    assert [each["roleRef"]["name"] for each in bindings] == [
        "haulout-kernel",
        "haulout-kernel-overrides",
        "haulout-profiles",
        "haulout-nodemaintenance",
        "haulout-clusterapi",
        "haulout-notify",
        "haulout-packages",
    ]
    assert all(each["subjects"] == [{"kind": "ServiceAccount", "name": "me", "namespace": "ops"}] for each in bindings)


def test_secrets_are_open_to_it_in_its_own_namespace_alone(capsys: Capture) -> None:
    documents = printed(capsys, "rbac", "kernel", "profiles", "nodemaintenance")
    [role] = [each for each in documents if allows(each, "secrets")]
    assert role["metadata"]["namespace"] == "haulout-system"
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in role["rules"]] == [
        (["get", "watch", "update"], ["haulout-webhook-cert"]),
    ]


def test_leases_are_open_to_it_by_name(capsys: Capture) -> None:
    """But for those of nodes in maintenance, which have a namespace of their own."""
    words = ("--stagger", "kube-system/os-0", "--stagger", "kube-system/os-1", "--slack-thread", "ops/slack")
    documents = printed(capsys, "rbac", "kernel", "profiles", "--original-lease", "old", "--leader-lease", "l", *words)
    found = {
        (each["metadata"]["namespace"], verb): rule.get("resourceNames")
        for each in documents
        for rule in allows(each, "leases")
        for verb in rule["verbs"]
        if verb not in ("create", "list", "watch")
    }
    assert found == {
        ("haulout-system", "get"): ["l"],
        ("haulout-system", "update"): ["l"],
        ("kube-system", "get"): ["os-0", "os-1"],
        ("kube-system", "patch"): ["os-0", "os-1"],
        ("ops", "get"): ["slack"],
        ("ops", "patch"): ["slack"],
        ("old", "get"): [PROFILES.lease],
        ("old", "update"): [PROFILES.lease],
    }


def test_the_leases_of_the_originals_are_known_by_name() -> None:
    declared = (PROFILES, NODEMAINTENANCE, CLUSTERAPI, NOTIFY, PACKAGES)
    assert {each.name: each.lease for each in declared} == {
        each.name: each.original.lease for each in surfaces() if each.original
    }


@pytest.mark.parametrize("surface", ["profiles", "nodemaintenance"])
def test_pods_are_deleted_only_on_request(capsys: Capture, surface: str) -> None:
    role, right = ("ClusterRole", f"haulout-{surface}"), ("", "pods", "delete")
    assert right not in rules(printed(capsys, "rbac", surface), *role)
    assert right in rules(printed(capsys, "rbac", surface, "--delete-pods"), *role)


def test_a_secret_of_the_cloud_is_open_by_name(capsys: Capture) -> None:
    documents = printed(capsys, "rbac", "profiles", "--cloud-secret", "kube-system/cloud")
    [(place, rule)] = [(each["metadata"]["namespace"], rule) for each in documents for rule in allows(each, "secrets")]
    assert (place, rule["verbs"], rule["resourceNames"]) == ("kube-system", ["get"], ["cloud"])


@pytest.mark.parametrize("given", ["a", "/a", "a/", "a/b/c"])
def test_what_is_no_name_in_a_namespace_is_refused(capsys: Capture, given: str) -> None:
    assert main(["rbac", "--stagger", given]) == 2
    assert f"'{given}' is not NAMESPACE/LEASE" in capsys.readouterr().err


def test_settings_go_with_the_rights(capsys: Capture) -> None:
    words = ("--node-conditions", "--eviction-requests", "--lease-namespace", "held", "--leader-lease", "l")
    documents = printed(capsys, "manifests", "nodemaintenance", *words, "--webhook-secret", "s")
    [text] = [each["data"]["haulout.yaml"] for each in documents if each["kind"] == "ConfigMap"]
    settings = read_settings(text.encode(), "haulout.yaml", {}, {}, "")
    block = settings.of(NodeMaintenanceSettings)
    assert block is not None
    assert (block.node_conditions, block.lease_namespace) == (True, "held")
    assert (settings.lease.name if settings.lease else "", settings.webhooks.secret) == ("l", "s")


def test_passwords_may_come_from_secrets(capsys: Capture) -> None:
    documents = printed(capsys, "manifests", "--config-secret", "mine", "--env-from-secret", "words")
    [pod] = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"]
    assert pod["volumes"][1] == {"name": "profiles", "secret": {"secretName": "mine", "optional": True}}
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "words"}}]


def test_each_configuration_file_may_come_from_a_secret_of_its_own(capsys: Capture) -> None:
    words = ("profiles", "notify", "--config-secret", "notify=hooks", "--config-secret", "mine")
    documents = printed(capsys, "manifests", *words)
    [pod] = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"]
    secrets = {each["name"]: each["secret"]["secretName"] for each in pod["volumes"][1:]}
    assert secrets == {"profiles": "mine", "notify": "hooks"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nodemaintenance", "--config-secret", "x"], "no surface here has a configuration file"),
        (["profiles", "--config-secret", "packages=x"], "'packages=x' names no surface and its Secret (profiles=NAME)"),
        (["profiles", "--config-secret", "profiles="], "'profiles=' names no surface and its Secret (profiles=NAME)"),
    ],
)
def test_a_secret_that_belongs_to_no_file_is_refused(capsys: Capture, words: list[str], problem: str) -> None:
    assert main(["manifests", *words]) == 2
    assert problem in capsys.readouterr().err


def names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("words", [[], ["nodemaintenance"], ["clusterapi", "--metal3"], ["profiles"]])
def test_the_pods_have_no_privileges(capsys: Capture, words: list[str]) -> None:
    (spec,) = pod_specs(printed(capsys, "manifests", *words))
    assert excesses(spec) == []


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("securityContext", "runAsNonRoot"), False, "the pod may run as root"),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}, "the pod has no seccomp profile"),
        (("hostNetwork",), True, "the pod shares hostNetwork"),
        (("volumes", 0, "emptyDir"), {}, "volume settings holds more than configuration"),
        (("serviceAccountName",), "default", "the pod has the rights of the namespace's default account"),
        (("containers", 0, "securityContext", "allowPrivilegeEscalation"), True, "haulout may gain privileges"),
        (
            ("containers", 0, "securityContext", "readOnlyRootFilesystem"),
            False,
            "haulout may write to its root file system",
        ),
        (("containers", 0, "securityContext", "capabilities"), {"drop": ["KILL"]}, "haulout has capabilities"),
        (("containers", 0, "securityContext", "runAsUser"), 0, "haulout overrides the pod's security context"),
        (("containers", 0, "volumeMounts", 0, "readOnly"), False, "haulout may write to /etc/haulout"),
    ],
)
def test_each_privilege_would_be_noticed(capsys: Capture, path: tuple[Any, ...], value: Any, line: str) -> None:
    (spec,) = pod_specs(printed(capsys, "manifests"))
    place: Any = spec
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert excesses(spec) == [line]
