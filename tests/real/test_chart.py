"""The Helm chart with the real Helm: what it renders, what it refuses, and a release's life on the real API server."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml
from click.testing import CliRunner

from haulout.cli.root import root
from haulout.core.surface_names import BUILT_IN
from tests.build.restricted import excesses, pod_specs
from tests.rig.api import CRDS, DEPLOYMENTS, PDBS, ApiError, Json
from tests.rig.fleet import node_object
from tests.rig.helm import HelmError, Key, by_key, helm, rendered
from tests.rig.judge import Judge, await_kinds, definition
from tests.rig.maintenances import NMS, maintenance, phase
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import Process, Scratch, free_port
from tests.rig.session import require_tools
from tests.rig.wait import eventually
from tools.chart import CHART
from tools.nodewright_chart import CHART as NODEWRIGHT_CHART
from tools.release.__main__ import archive, tracked_files
from tools.skyhook_chart import CHART as SKYHOOK_CHART

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "helm")

CHARTS = (CHART, SKYHOOK_CHART, NODEWRIGHT_CHART)
ALL = dict.fromkeys(BUILT_IN, True)
NONE = dict.fromkeys(BUILT_IN, False)
# What Helm adds to each object, and what only a chart needs: pods restart with new settings, and what has to outlive a
# release is kept.
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version")
SELECTED = {"app.kubernetes.io/name": "haulout", "app.kubernetes.io/instance": "haulout"}


def only(*names: str) -> Json:
    return {**NONE, **dict.fromkeys(names, True)}


def printed(*words: str) -> list[Json]:
    done = CliRunner().invoke(root, words)
    assert done.exit_code == 0, done.output
    return [each for each in yaml.load_all(done.output, Loader=yaml.CSafeLoader) if each]


def without_helm(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: without_helm(each) for name, each in found.items() if name not in OF_HELM}
    return [without_helm(each) for each in found] if isinstance(found, list) else found


def comparable(objects: list[Json]) -> dict[Key, Json]:
    """Return objects without what a chart alone has, and with the settings as data."""
    found = by_key(without_helm(objects))
    for (kind, _, _), each in found.items():
        if kind in ("CustomResourceDefinition", "Namespace"):
            each["metadata"].pop("labels", None)
            kept = each["metadata"].pop("annotations", {})
            assert kept in ({}, {"helm.sh/resource-policy": "keep"})
        if kind == "ConfigMap":
            each["data"] = {name: yaml.safe_load(text) for name, text in each["data"].items()}
        if kind == "Deployment":
            each["spec"]["template"]["metadata"].pop("annotations", None)
            each["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy", None)
        if kind == "ValidatingAdmissionPolicy" or kind == "ValidatingAdmissionPolicyBinding":
            each["metadata"].pop("labels")
    return found


def settings(values: Json) -> Json:
    """Return the haulout.yaml of a release."""
    text = by_key(rendered(CHART, values))["ConfigMap", "haulout-system", "haulout"]["data"]["haulout.yaml"]
    found: Json = yaml.safe_load(text)
    return found


def operator(values: Json) -> Json:
    """Return the spec of the operator's pods."""
    found: Json = by_key(rendered(CHART, values))["Deployment", "haulout-system", "haulout"]
    spec: Json = found["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: str(chart.name))
def test_helm_finds_nothing_wrong_with_it(chart: Path) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", chart, "--namespace", "somewhere")


class TestTheSameAsManifests:
    """`haulout manifests` and the chart install the same objects."""

    @pytest.mark.parametrize(
        "names", [(), *((name,) for name in BUILT_IN), BUILT_IN], ids=lambda names: "+".join(names) or "as it is"
    )
    def test_with_surfaces(self, names: tuple[str, ...]) -> None:
        values = {"surfaces": only(*names)} if names else {}
        expected = printed("manifests", "--without-namespace", *names)
        assert comparable(rendered(CHART, values)) == comparable(expected)

    def test_with_one_replica_another_image_and_secrets(self) -> None:
        values: Json = {
            "replicas": 1,
            "image": {"repository": "registry.test/haulout", "tag": "1"},
            "profiles": {"configSecret": "mine"},
            "envFrom": [{"secretRef": {"name": "words"}}],
        }
        words = ("--replicas=1", "--image=registry.test/haulout:1", "--config-secret=mine", "--env-from-secret=words")
        assert comparable(rendered(CHART, values)) == comparable(printed("manifests", "--without-namespace", *words))

    def test_in_another_namespace(self) -> None:
        expected = printed("manifests", "--without-namespace", "-n", "there")
        assert comparable(rendered(CHART, namespace="there")) == comparable(expected)


OPTIONS: dict[str, Json] = {
    "--delete-pods": {"deletePods": True},
    "--hypervisors": {"hypervisors": True},
    "--stagger=a/x-0": {"stagger": {"a": ["x-0"]}},
    "--slack-thread=a/y": {"slackThread": {"a": ["y"]}},
    "--cloud-secret=b/z": {"cloudSecret": {"b": ["z"]}},
    "--failure-logs": {"failureLogs": True},
    "--node-conditions": {"nodeConditions": True},
    "--eviction-requests": {"evictionRequests": True},
    "--no-own-certificates": {"webhooks": {"certificates": "provided", "caBundle": "AAAA"}},
    "--metal3": {"metal3": True},
    "--kubeconfigs=c": {"kubeconfigs": ["c"]},
    "--original-lease=d": {"originalLease": ["d"]},
    "--leader-lease=e": {"leaderLease": "e"},
    "--notify-scheduler": {"notifyScheduler": True},
    "--notify-drainer": {"notifyDrainer": True},
    "--notify-jobs=h": {"notifyJobs": ["h"]},
    "--notify-configmaps=i": {"notifyConfigmaps": ["i"]},
    "--notify-secret=h/x": {"notifySecret": {"h": ["x"]}},
    "--webhook-secret=f": {"webhookSecret": "f"},
    "--lease-namespace=g": {"leaseNamespace": "g"},
    "--packages-namespace=p": {"packagesNamespace": "p"},
}


@pytest.mark.parametrize("words", [*([word] for word in OPTIONS), list(OPTIONS)], ids=" ".join)
def test_what_an_option_grants_and_switches_on_is_that_of_manifests(words: list[str]) -> None:
    values = {name: each for word in words for name, each in OPTIONS[word].items()}
    found = comparable(rendered(CHART, {"surfaces": ALL, **values}))
    expected = comparable(printed("manifests", "--without-namespace", *BUILT_IN, *words))
    compared = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Namespace", "Secret", "ConfigMap")
    made = {key: each for key, each in found.items() if key[0] in compared}
    # Only the chart says in the settings who makes the certificate.
    made["ConfigMap", "haulout-system", "haulout"]["data"]["haulout.yaml"].get("webhooks", {}).pop("certificates", None)
    _drop_empty(made["ConfigMap", "haulout-system", "haulout"]["data"]["haulout.yaml"], "webhooks")
    assert made == {key: each for key, each in expected.items() if key[0] in compared}


def _drop_empty(found: Json, name: str) -> None:
    if not found.get(name, True):
        del found[name]


class TestNames:
    """Names and labels follow Helm's conventions."""

    @pytest.mark.parametrize(
        ("release", "values", "name"),
        [
            ("haulout", {}, "haulout"),
            ("my-haulout", {}, "my-haulout"),
            ("nodes", {}, "nodes-haulout"),
            ("nodes", {"nameOverride": "care"}, "nodes-care"),
            ("nodes", {"fullnameOverride": "care"}, "care"),
        ],
        ids=["as the chart", "with the chart's name", "another", "another name", "another full name"],
    )
    def test_objects_begin_with_the_release(self, release: str, values: Json, name: str) -> None:
        given = {"surfaces": ALL, "console": {"enabled": True, "tlsSecret": "tls"}, **values}
        found = by_key(rendered(CHART, given, release=release, namespace="x"))
        assert {("Deployment", "x", name), ("Deployment", "x", f"{name}-console")} <= found.keys()
        assert ("ClusterRole", "", f"{name}-nodemaintenance") in found
        bindings = [
            each for (kind, _, _), each in found.items() if kind.endswith("RoleBinding") or kind == "RoleBinding"
        ]
        accounts = {each["subjects"][0]["name"] for each in bindings}
        assert accounts == {name, f"{name}-console"}
        assert {each["roleRef"]["name"] for each in bindings} <= {named for kind, _, named in found if "Role" in kind}
        service = found[
            "ValidatingWebhookConfiguration", "", "node-maintenance-operator-validating-webhook-configuration"
        ]
        assert service["webhooks"][0]["clientConfig"]["service"]["name"] == f"{name}-webhook"
        assert ("Service", "x", f"{name}-webhook") in found
        told = yaml.safe_load(found["ConfigMap", "x", name]["data"]["haulout.yaml"])
        assert told.get("webhooks", {}).get("service", "haulout-webhook") == f"{name}-webhook"

    def test_every_object_has_the_labels_of_the_release(self) -> None:
        given = {"surfaces": ALL, "commonLabels": {"team": "nodes"}, **EVERYTHING}
        expected = {
            "app.kubernetes.io/instance": "haulout",
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/part-of": "haulout",
            "app.kubernetes.io/version": "0.1.0",
            "helm.sh/chart": "haulout-0.1.0",
            "team": "nodes",
        }
        for key, found in by_key(rendered(CHART, given)).items():
            assert expected.items() <= found["metadata"]["labels"].items(), key
            assert found["metadata"]["labels"]["app.kubernetes.io/name"] in ("haulout", "haulout-console")

    def test_a_digest_wins_over_a_tag(self) -> None:
        digest = f"sha256:{'0' * 64}"
        image = {"repository": "r.test/h", "tag": "1", "digest": digest, "pullPolicy": "Always"}
        container = operator({"image": image})["containers"][0]
        assert (container["image"], container["imagePullPolicy"]) == (f"r.test/h@{digest}", "Always")


EVERYTHING: Json = {
    "console": {"enabled": True, "tlsSecret": "tls"},
    "networkPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
    "profiles": {"config": {"profiles": []}},
    "limitRange": {"default": {"cpu": "500m"}},
}


class TestSurfaces:
    """One value switches a surface on: its rights, its definitions, its webhooks, and serving it."""

    @pytest.mark.parametrize("name", BUILT_IN)
    def test_a_surface_is_granted_and_served(self, name: str) -> None:
        found = by_key(rendered(CHART, {"surfaces": only(name)}))
        assert set(settings({"surfaces": only(name)})["surfaces"]) == {name}
        assert ("ClusterRole", "", f"haulout-{name}") in found
        others = {("ClusterRole", "", f"haulout-{each}") for each in BUILT_IN if each != name}
        assert not others & found.keys()

    def test_settings_are_merged_into_what_is_served(self) -> None:
        given = {
            "log": {"level": "debug"},
            "leader": {"elect": False},
            "logbook": {"retention": {"records": 5000000}},
            "surfaces": {"nodemaintenance": {"quorumOnKubernetes": False}},
        }
        found = settings({"replicas": 1, "settings": given, "nodeConditions": True})
        assert found == {
            "log": {"format": "json", "level": "debug"},
            "leader": {"elect": False},
            "logbook": {"retention": {"records": 5000000}},
            "surfaces": {
                "profiles": {"config": "/etc/haulout/profiles/maintenance.yaml"},
                "nodemaintenance": {"nodeConditions": True, "quorumOnKubernetes": False},
            },
        }

    def test_the_operator_takes_the_settings_as_they_are(self, tmp_path: Path) -> None:
        path = tmp_path / "haulout.yaml"
        path.write_text(yaml.safe_dump(settings({"surfaces": ALL, **OPTIONS["--metal3"], "ports": {"http": 8090}})))
        done = CliRunner().invoke(root, ["lint", str(path)])
        # The configuration files of surfaces are only there in a pod.
        problems = [line for line in done.output.splitlines() if line.startswith(str(path))]
        assert [line for line in problems if "is named in it and does not exist" not in line] == []
        assert len(problems) == 2

    def test_a_definition_is_upgraded_with_the_release_and_kept(self) -> None:
        definitions = [
            each for each in rendered(CHART, {"surfaces": ALL}) if each["kind"] == "CustomResourceDefinition"
        ]
        assert len(definitions) == 10
        for each in definitions:
            assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        loose = rendered(CHART, {"surfaces": ALL, "crds": {"keep": False}})
        assert not [
            each
            for each in loose
            if each["kind"] == "CustomResourceDefinition"
            and "helm.sh/resource-policy" in each["metadata"].get("annotations", {})
        ]
        bare = rendered(CHART, {"surfaces": ALL, "crds": {"install": False}})
        assert not [each for each in bare if each["kind"] == "CustomResourceDefinition"]

    def test_a_configuration_file_may_be_a_value(self) -> None:
        config = {"intervals": {"requeue": "200ms"}, "profiles": [{"name": "x"}]}
        found = by_key(rendered(CHART, {"profiles": {"config": config}}))
        text = found["ConfigMap", "haulout-system", "haulout-profiles"]["data"]["maintenance.yaml"]
        assert yaml.safe_load(text) == config

    def test_namespaces_of_surfaces_are_kept_and_may_exist(self) -> None:
        found = by_key(rendered(CHART, {"surfaces": ALL}))
        made = {name for kind, _, name in found if kind == "Namespace"}
        assert made == {"medik8s-leases", "skyhook"}
        assert not [each for each in rendered(CHART, {"createNamespaces": False}) if each["kind"] == "Namespace"]

    @pytest.mark.parametrize("namespace", ["skyhook", "medik8s-leases", "default"])
    def test_the_release_may_be_in_the_namespace_of_a_surface(self, namespace: str) -> None:
        found = by_key(rendered(CHART, {"surfaces": ALL}, namespace=namespace))
        made = {name for kind, _, name in found if kind == "Namespace"}
        assert made == {"medik8s-leases", "skyhook"} - {namespace}


class TestPods:
    """Where the operator's pods run, and what they may do."""

    def test_replicas_prefer_different_nodes_and_zones(self) -> None:
        spec = operator({})
        (apart,) = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert apart["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
        assert apart["podAffinityTerm"]["labelSelector"] == {"matchLabels": SELECTED}
        (spread,) = spec["topologySpreadConstraints"]
        assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")
        assert spread["labelSelector"] == {"matchLabels": SELECTED}

    def test_placement_is_replaced(self) -> None:
        affinity: Json = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
        taint = {"key": "pool", "operator": "Exists"}
        spec = operator(
            {
                "affinity": affinity,
                "topologySpreadConstraints": [],
                "tolerations": [taint],
                "nodeSelector": {"pool": "system"},
                "priorityClassName": "mine",
                "hostNetwork": True,
                "imagePullSecrets": [{"name": "pull"}],
            }
        )
        assert (spec["affinity"], spec["tolerations"]) == (affinity, [taint])
        assert "topologySpreadConstraints" not in spec
        assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"pool": "system"}, "mine")
        assert (spec["hostNetwork"], spec["imagePullSecrets"]) == (True, [{"name": "pull"}])
        assert "affinity" not in operator({"affinity": {}})

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ({}, {"maxUnavailable": 1}),
            ({"replicas": 3, "podDisruptionBudget": {"minAvailable": 2}}, {"minAvailable": 2}),
            ({"replicas": 3, "podDisruptionBudget": {"maxUnavailable": "50%"}}, {"maxUnavailable": "50%"}),
            ({"replicas": 1}, None),
            ({"podDisruptionBudget": {"enabled": False}}, None),
        ],
        ids=["two replicas", "at least", "at most", "one replica", "switched off"],
    )
    def test_a_disruption_budget_leaves_room_for_drains(self, values: Json, expected: Json | None) -> None:
        found = by_key(rendered(CHART, values)).get(("PodDisruptionBudget", "haulout-system", "haulout"))
        limits = found and {name: each for name, each in found["spec"].items() if name.endswith("vailable")}
        assert limits == expected

    @pytest.mark.parametrize("values", [{}, {"surfaces": ALL, **EVERYTHING}], ids=["as it is", "with everything"])
    def test_pods_have_no_privileges_and_no_fixed_user(self, values: Json) -> None:
        specs = pod_specs(rendered(CHART, values))
        assert [excesses(spec) for spec in specs] == [[]] * len(specs)
        assert "runAsUser" not in json.dumps(specs)

    def test_passwords_may_come_from_secrets(self) -> None:
        spec = operator(
            {
                "profiles": {"configSecret": "mine"},
                "env": [{"name": "HAULOUT_LOG__LEVEL", "value": "debug"}],
                "envFrom": [{"secretRef": {"name": "words"}}],
                "extraVolumes": [{"name": "esx", "secret": {"secretName": "vcenter"}}],
                "extraVolumeMounts": [{"name": "esx", "mountPath": "/etc/esx", "readOnly": True}],
            }
        )
        container = spec["containers"][0]
        assert spec["volumes"][1:] == [
            {"name": "profiles", "secret": {"secretName": "mine", "optional": True}},
            {"name": "esx", "secret": {"secretName": "vcenter"}},
        ]
        assert container["volumeMounts"][-1] == {"name": "esx", "mountPath": "/etc/esx", "readOnly": True}
        assert container["env"] == [{"name": "HAULOUT_LOG__LEVEL", "value": "debug"}]
        assert container["envFrom"] == [{"secretRef": {"name": "words"}}]

    def test_they_restart_with_new_settings_alone(self) -> None:
        def checksum(values: Json) -> str:
            found = by_key(rendered(CHART, values))["Deployment", "haulout-system", "haulout"]
            text: str = found["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]
            return text

        assert checksum({}) == checksum({"service": {"port": 80}})
        assert checksum({}) != checksum({"settings": {"log": {"level": "debug"}}})

    def test_another_account(self) -> None:
        values = {"serviceAccount": {"create": False, "name": "mine"}}
        found = by_key(rendered(CHART, values))
        assert not [key for key in found if key[0] == "ServiceAccount"]
        assert found["ClusterRoleBinding", "", "haulout-kernel"]["subjects"][0]["name"] == "mine"
        assert operator(values)["serviceAccountName"] == "mine"


class TestNetwork:
    """Ports, policies, certificates and what others read."""

    def test_ports_are_the_same_everywhere(self) -> None:
        values = {"ports": {"http": 8090, "probes": 8091, "webhooks": 9444}, "networkPolicy": {"enabled": True}}
        found = by_key(rendered(CHART, values))
        assert settings(values)["listen"] == {"http": ":8090", "health": ":8091", "webhooks": ":9444"}
        ports = {each["name"]: each["containerPort"] for each in operator(values)["containers"][0]["ports"]}
        assert ports == {"http": 8090, "probes": 8091, "webhooks": 9444}
        assert found["Service", "haulout-system", "haulout-webhook"]["spec"]["ports"][0]["targetPort"] == 9444
        policy = found["NetworkPolicy", "haulout-system", "haulout"]["spec"]
        assert [each["ports"] for each in policy["ingress"]] == [[{"port": 8090}], [{"port": 9444}]]

    def test_a_policy_lets_only_prometheus_and_api_servers_through(self) -> None:
        servers = [{"ipBlock": {"cidr": "10.0.0.0/28"}}]
        values = {"networkPolicy": {"enabled": True, "webhooksFrom": servers}}
        policy = by_key(rendered(CHART, values))["NetworkPolicy", "haulout-system", "haulout"]["spec"]
        metrics, webhooks = policy["ingress"]
        assert metrics["from"][0]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
        assert webhooks["from"] == servers
        assert policy["podSelector"]["matchLabels"] == SELECTED

    def test_without_webhooks_nothing_is_registered_or_served(self) -> None:
        values = {"surfaces": ALL, "webhooks": {"enabled": False}}
        found = by_key(rendered(CHART, values))
        assert not [key for key in found if key[0].endswith("WebhookConfiguration") or key[2].endswith("-webhook")]
        assert not [key for key in found if key[0] == "Secret"]
        assert settings(values)["listen"] == {"webhooks": "0"}
        rules = [rule for (kind, _, _), each in found.items() if kind == "Role" for rule in each["rules"]]
        assert not [rule for rule in rules if rule.get("resourceNames") == ["haulout-webhook-cert"]]

    def test_cert_manager_makes_the_certificate(self) -> None:
        values = {"webhooks": {"certificates": "cert-manager"}, "webhookSecret": "hooks"}
        found = by_key(rendered(CHART, values))
        certificate = found["Certificate", "haulout-system", "hooks"]["spec"]
        assert (certificate["secretName"], certificate["issuerRef"]["name"]) == ("hooks", "haulout-webhook")
        assert ("Issuer", "haulout-system", "haulout-webhook") in found
        hook = found["ValidatingWebhookConfiguration", "", "node-maintenance-operator-validating-webhook-configuration"]
        assert hook["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "haulout-system/hooks"}
        assert settings(values)["webhooks"] == {"certificates": "cert-manager", "secret": "hooks"}
        spec = operator(values)
        assert {"name": "webhook-certificate", "secret": {"secretName": "hooks"}} in spec["volumes"]
        mounts = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
        assert mounts["webhook-certificate"] == "/tmp/k8s-webhook-server/serving-certs"

    @pytest.mark.parametrize(
        ("release", "values", "name"),
        [
            ("haulout", {}, "haulout"),
            ("nodes", {}, "nodes-haulout"),
            ("nodes", {"fullnameOverride": "care"}, "care"),
        ],
        ids=["as the chart", "another", "another full name"],
    )
    def test_cert_manager_issues_for_the_service_of_the_release(self, release: str, values: Json, name: str) -> None:
        given = {"webhooks": {"certificates": "cert-manager"}, **values}
        found = by_key(rendered(CHART, given, release=release, namespace="x"))
        certificate = found["Certificate", "x", "haulout-webhook-cert"]["spec"]
        hosts = [f"{name}-webhook.x.svc", f"{name}-webhook.x.svc.cluster.local"]
        assert (certificate["dnsNames"], certificate["issuerRef"]["name"]) == (hosts, f"{name}-webhook")
        assert {("Issuer", "x", f"{name}-webhook"), ("Service", "x", f"{name}-webhook")} <= found.keys()

    def test_a_provided_certificate_is_mounted_and_trusted(self) -> None:
        values = {"webhooks": {"certificates": "provided", "caBundle": "AAAA"}}
        hook = by_key(rendered(CHART, values))[
            "ValidatingWebhookConfiguration", "", "node-maintenance-operator-validating-webhook-configuration"
        ]
        assert hook["webhooks"][0]["clientConfig"]["caBundle"] == "AAAA"
        mounts = {each["name"]: each["mountPath"] for each in operator(values)["containers"][0]["volumeMounts"]}
        assert settings(values)["webhooks"]["certificates"] == mounts["webhook-certificate"]

    def test_monitoring_is_what_the_repository_has(self) -> None:
        found = by_key(
            rendered(
                CHART,
                {**EVERYTHING, "limitRange": None, "serviceMonitor": {"enabled": True, "labels": {"release": "x"}}},
            )
        )
        place = CHART.parent / "monitoring"
        rules = yaml.safe_load((place / "prometheus-rule.yaml").read_text())
        assert found["PrometheusRule", "haulout-system", "haulout"]["spec"] == rules["spec"]
        board = found["ConfigMap", "haulout-system", "haulout-dashboards"]
        assert json.loads(board["data"]["haulout.json"]) == json.loads((place / "dashboard.json").read_text())
        assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
        monitor = found["ServiceMonitor", "haulout-system", "haulout"]
        assert (monitor["metadata"]["labels"]["release"], monitor["spec"]["selector"]["matchLabels"]) == ("x", SELECTED)

    def test_the_console_speaks_tls_itself_or_by_a_proxy(self) -> None:
        def console(values: Json) -> tuple[list[str], Any]:
            found = by_key(rendered(CHART, {"console": {"enabled": True, **values}}))
            spec = found["Deployment", "haulout-system", "haulout-console"]["spec"]["template"]["spec"]
            service = found["Service", "haulout-system", "haulout-console"]["spec"]["ports"][0]
            return spec["containers"][-1]["args"], service["targetPort"]

        arguments, port = console({"tlsSecret": "tls"})
        assert (arguments[5:6], port) == ([":8443"], "console")
        arguments, port = console({"extraContainers": [{"name": "proxy", "image": "p"}], "proxyPort": 4181})
        assert (arguments[5:], port) == (["127.0.0.1:8443", "--behind-proxy"], 4181)


MISTAKES: dict[str, tuple[Json, str]] = {
    "an unknown value": ({"replica": 3}, "additional properties 'replica' not allowed"),
    "an unknown value within": ({"console": {"tls": "x"}}, "additional properties 'tls' not allowed"),
    "an unknown surface": ({"surfaces": {"profile": True}}, "additional properties 'profile' not allowed"),
    "a wrong type": ({"replicas": "two"}, "at '/replicas': got string, want integer"),
    "settings as a text": ({"settings": "log: {}"}, "at '/settings': got string, want object"),
    "an unknown setting": ({"settings": {"leader": {"elects": False}}}, "additional properties 'elects' not allowed"),
    "an unknown setting of a surface": (
        {"settings": {"surfaces": {"nodemaintenance": {"quorum": True}}}},
        "additional properties 'quorum' not allowed",
    ),
    "a wrong pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "must be one of 'Always', 'IfNotPresent', 'Never'"),
    "a value that must be there": ({"service": {"port": None}}, "missing property 'port'"),
    "a label that is no text": ({"podLabels": {"a": 1}}, "at '/podLabels/a': got number, want string"),
    "settings of a surface that is off": (
        {"settings": {"surfaces": {"packages": {}}}},
        "settings.surfaces.packages is set, but the surface is off: set surfaces.packages: true as well",
    ),
    "settings of no surface": (
        {"settings": {"surfaces": {"profile": {}}}},
        "settings.surfaces.profile: there is no such",
    ),
    "an option of a surface that is off": (
        {"metal3": True},
        "metal3 has no effect without its surface: set surfaces.clusterapi: true",
    ),
    "a setting without its rights": (
        {"settings": {"surfaces": {"nodemaintenance": {"nodeConditions": True}}}},
        "settings.surfaces.nodemaintenance.nodeConditions needs rights: set nodeConditions: true instead",
    ),
    "a name that roles need": (
        {"settings": {"surfaces": {"nodemaintenance": {"leaseNamespace": "x"}}}},
        "settings.surfaces.nodemaintenance.leaseNamespace: set leaseNamespace instead",
    ),
    "addresses in the settings": ({"settings": {"listen": {"http": ":1"}}}, "settings.listen: set ports"),
    "no surface": ({"surfaces": NONE}, "no surface is on: set one of surfaces.profiles"),
    "two files": (
        {"profiles": {"config": {"a": 1}, "configSecret": "x"}},
        "profiles.config and profiles.configSecret exclude",
    ),
    "a file of a surface that is off": (
        {"notify": {"configSecret": "x"}},
        "notify has a configuration file, but the surface",
    ),
    "a budget without room": (
        {"podDisruptionBudget": {"minAvailable": 2}},
        "minAvailable (2, that is 2 pods) must be below replicas (2)",
    ),
    "a percentage that is rounded up": (
        {"podDisruptionBudget": {"minAvailable": "60%"}},
        "minAvailable (60%, that is 2 pods) must be below replicas (2)",
    ),
    "all of many": (
        {"replicas": 7, "podDisruptionBudget": {"minAvailable": "90%"}},
        "minAvailable (90%, that is 7 pods) must be below replicas (7)",
    ),
    "more than all": ({"podDisruptionBudget": {"minAvailable": "150%"}}, "at '/podDisruptionBudget/minAvailable'"),
    "a percentage of nothing": ({"podDisruptionBudget": {"maxUnavailable": "0%"}}, "allows no eviction at all"),
    "a budget of nothing": ({"podDisruptionBudget": {"maxUnavailable": 0}}, "allows no eviction at all"),
    "two budgets": ({"podDisruptionBudget": {"maxUnavailable": 1, "minAvailable": 1}}, "exclude each other"),
    "two that act": ({"settings": {"leader": {"elect": False}}}, "settings.leader.elect: false with 2 replicas"),
    "no account": ({"serviceAccount": {"create": False}}, "serviceAccount.create: false needs serviceAccount.name"),
    "no authority": ({"webhooks": {"certificates": "provided"}}, "needs webhooks.caBundle"),
    "an authority too many": ({"webhooks": {"caBundle": "AAAA"}}, "webhooks.caBundle is for"),
    "a port twice": ({"ports": {"http": 8081}}, "must differ"),
    "a label of the chart": (
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        "the label app.kubernetes.io/name is the chart's own",
    ),
    "a namespace twice": ({"leaseNamespace": "skyhook"}, "leaseNamespace and packagesNamespace must differ"),
    "a console in clear": ({"console": {"enabled": True}}, "tokens do not travel in clear"),
    "a certificate of no webhook": (
        {"webhooks": {"enabled": False, "certificates": "cert-manager"}},
        "webhooks.certificates: cert-manager has no effect without webhooks",
    ),
    "a file beside its mount": (
        {"settings": {"surfaces": {"profiles": {"config": "/x"}}}},
        "settings.surfaces.profiles.config: leave it out",
    ),
    "a name with capitals": ({"fullnameOverride": "ABC_x"}, "at '/fullnameOverride': 'ABC_x' does not match"),
    "no image": ({"image": {"repository": ""}}, "at '/image/repository': '' does not match"),
    "an image with its tag": ({"image": {"repository": "r.test/h:1"}}, "at '/image/repository': 'r.test/h:1' does not"),
    "a tag of two words": ({"image": {"tag": "a b"}}, "at '/image/tag': 'a b' does not match"),
    "a priority class with capitals": ({"priorityClassName": "Foo_Bar"}, "at '/priorityClassName': 'Foo_Bar' does not"),
    "an authority that is not base64": (
        {"webhooks": {"certificates": "provided", "caBundle": "!!!"}},
        "at '/webhooks/caBundle': '!!!' does not match",
    ),
    "an interval of fruit": (
        {"serviceMonitor": {"interval": "banana"}},
        "at '/serviceMonitor/interval': 'banana' does",
    ),
    "a truth that is none": (
        {"podSecurityContext": {"runAsNonRoot": "maybe"}},
        "at '/podSecurityContext/runAsNonRoot': got string, want boolean",
    ),
    "an unknown word of security": ({"securityContext": {"runAsRoot": True}}, "additional properties 'runAsRoot' not"),
    "a variable without a name": ({"env": [{"value": "x"}]}, "at '/env/0': missing property 'name'"),
    "a variable that is a number": ({"env": [{"name": "A", "value": 1}]}, "at '/env/0/value': got number, want string"),
    "a source of another kind": ({"envFrom": [{"secret": {}}]}, "at '/envFrom/0': additional properties 'secret' not"),
    "a volume without a name": ({"extraVolumes": [{"secret": {}}]}, "at '/extraVolumes/0': missing property 'name'"),
    "a mount without a path": ({"extraVolumeMounts": [{"name": "a"}]}, "missing property 'mountPath'"),
    "a peer of another kind": (
        {"networkPolicy": {"webhooksFrom": [{"cidr": "10.0.0.0/8"}]}},
        "at '/networkPolicy/webhooksFrom/0': additional properties 'cidr' not allowed",
    ),
    "a surface of ours as one of others": ({"foreignSurfaces": ["profiles"]}, "at '/foreignSurfaces/0'"),
    "a quantity of words": (
        {"resources": {"limits": {"memory": "lots"}}},
        "at '/resources/limits/memory': 'lots' does not match",
    ),
    "a namespace with capitals": (
        {"surfaces": ALL, "notifyJobs": ["BAD_NS"]},
        "at '/notifyJobs/0': 'BAD_NS' does not match",
    ),
    "names in a namespace with capitals": (
        {"surfaces": ALL, "stagger": {"A": ["x"]}},
        "at '/stagger': additional properties 'A'",
    ),
    "no map of surfaces": ({"surfaces": None}, "missing property 'surfaces'"),
    "no map of images": ({"image": None}, "missing property 'image'"),
    "no service of the console": ({"console": {"service": None}}, "at '/console': missing property 'service'"),
    "limits of no packages": ({"limitRange": {"default": {"cpu": 1}}}, "limitRange is for the namespace of packages"),
}


@pytest.mark.parametrize(("values", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused_with_a_sentence(values: Json, sentence: str) -> None:
    with pytest.raises(HelmError) as caught:
        rendered(CHART, values)
    assert sentence in str(caught.value)


def test_the_notes_say_what_to_do_next(plane: ControlPlane) -> None:
    def notes(values: Json) -> str:
        words = ("install", "nodes", CHART, "--namespace", "there", "--dry-run=client", "--take-ownership")
        return helm(*words, values=values, kubeconfig=plane.kubeconfig("test")).partition("NOTES:\n")[2]

    text = notes({"replicas": 1, "surfaces": only("profiles")})
    assert "kubectl -n there rollout status deployment/nodes-haulout" in text
    assert "create configmap nodes-haulout-profiles --from-file=maintenance.yaml" in text
    assert "replicas: 2" in text
    assert "kind: NodeMaintenance" not in text
    given = {"profiles": {"config": {"profiles": []}}, "console": {"enabled": True, "tlsSecret": "x"}}
    text = notes(given)
    assert "kind: NodeMaintenance" in text
    assert "create configmap" not in text
    assert "port-forward service/nodes-haulout-console 8443:443" in text


def test_the_package_has_everything_and_no_links(tmp_path: Path) -> None:
    helm("package", CHART, "--destination", tmp_path)
    package = tmp_path / "haulout-0.1.0.tgz"
    with tarfile.open(package) as archive:
        members = archive.getmembers()
    assert all(member.isfile() for member in members)
    assert not [path for chart in CHARTS for path in chart.rglob("*") if path.is_symlink()]
    assert rendered(package, {"surfaces": ALL}) == rendered(CHART, {"surfaces": ALL})


def test_a_release_brings_the_chart_that_helm_reads(tmp_path: Path) -> None:
    """The archive that `make release` writes, which names neither folders nor instants."""
    package = tmp_path / "chart.tgz"
    package.write_bytes(archive(tracked_files(CHART, "haulout"), 0))
    assert rendered(package, {"surfaces": ALL}) == rendered(CHART, {"surfaces": ALL})


def test_older_versions_of_kubernetes_get_what_they_know_or_a_refusal() -> None:
    assert "kind: ValidatingAdmissionPolicy" in helm("template", "haulout", CHART, "--kube-version", "1.30.0")
    assert "kind: ValidatingAdmissionPolicy" not in helm("template", "haulout", CHART, "--kube-version", "1.29.0")
    with pytest.raises(HelmError, match=r"chart requires kubeVersion: >=1\.29\.0"):
        helm("template", "haulout", CHART, "--kube-version", "1.28.0")


# Sets of values that the API server has to accept as they are rendered. `@` is a prefix of the test.
SETS: dict[str, Json] = {
    "as it is": {},
    "all surfaces": {"surfaces": ALL},
    **{f"only {name}": {"surfaces": only(name)} for name in BUILT_IN},
    "every option": {
        "surfaces": ALL,
        **{
            name: each
            for word, values in OPTIONS.items()
            if "lists" not in word
            for name, each in values.items()
            if isinstance(each, bool)
        },
    },
    "names in namespaces": {
        "surfaces": ALL,
        **{name: {"@": ["x"]} for name in ("stagger", "slackThread", "cloudSecret", "notifySecret")},
        **{name: ["@"] for name in ("kubeconfigs", "originalLease", "notifyJobs", "notifyConfigmaps")},
    },
    "other names": {"surfaces": ALL, "leaderLease": "mine", "webhookSecret": "hooks"},
    "another full name": {"fullnameOverride": "care", "surfaces": ALL},
    "one replica": {"replicas": 1},
    "five replicas": {"replicas": 5, "podDisruptionBudget": {"maxUnavailable": "40%"}},
    "no budget": {"podDisruptionBudget": {"enabled": False}},
    "an image by digest": {
        "image": {"repository": "r.test:5000/h", "digest": f"sha256:{'a' * 64}"},
        "imagePullSecrets": [{"name": "p"}],
    },
    "labels and annotations": {
        "commonLabels": {"team": "nodes"},
        "podLabels": {"a": "b"},
        "podAnnotations": {"c": "d"},
        "service": {"annotations": {"e": "f"}, "type": "NodePort", "port": 80},
        "serviceAccount": {"annotations": {"g": "h"}},
    },
    "another account": {"serviceAccount": {"create": False, "name": "mine"}},
    "placement": {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        "priorityClassName": "",
        "hostNetwork": True,
        "ports": {"http": 8090, "probes": 8091, "webhooks": 9444},
    },
    "no placement": {"affinity": {}, "topologySpreadConstraints": [], "tolerations": []},
    "resources": {"resources": {"requests": {"cpu": 1}, "limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"}}},
    "a fixed user": {"podSecurityContext": {"runAsNonRoot": True, "runAsUser": 65532, "fsGroup": 65532}},
    "secrets": {
        "profiles": {"configSecret": "mine"},
        "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        "envFrom": [{"secretRef": {"name": "words"}}, {"configMapRef": {"name": "more"}}],
        "extraVolumes": [{"name": "esx", "secret": {"secretName": "vcenter"}}],
        "extraVolumeMounts": [{"name": "esx", "mountPath": "/etc/esx", "readOnly": True}],
    },
    "configuration files": {
        "surfaces": only("profiles", "notify"),
        "profiles": {"config": {"profiles": [{"name": "x"}]}},
        "notify": {"config": {"slaMinutes": 5}},
    },
    "settings": {
        "settings": {"log": {"level": "debug"}, "logbook": {"people": "none"}, "surfaces": {"nodemaintenance": {}}},
        "foreignSurfaces": ["theirs"],
    },
    "no definitions": {"crds": {"install": False}},
    "definitions that go": {"surfaces": ALL, "crds": {"keep": False}},
    "no webhooks": {"surfaces": ALL, "webhooks": {"enabled": False}},
    "cert-manager": {"surfaces": ALL, "webhooks": {"certificates": "cert-manager"}},
    "a provided certificate": {"surfaces": ALL, "webhooks": {"certificates": "provided", "caBundle": "AAAA"}},
    "policies": {"networkPolicy": {"enabled": True, "webhooksFrom": [{"ipBlock": {"cidr": "10.0.0.0/28"}}]}},
    "policies for nobody": {"networkPolicy": {"enabled": True, "metricsFrom": []}, "webhooks": {"enabled": False}},
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "x"}},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True, "annotations": {"folder": "x"}},
    },
    "a console": {"console": {"enabled": True, "tlsSecret": "tls", "replicas": 2}, "networkPolicy": {"enabled": True}},
    "a console behind a proxy": {
        "console": {
            "enabled": True,
            "extraContainers": [{"name": "proxy", "image": "p:1"}],
            "extraVolumes": [{"name": "proxy", "secret": {"secretName": "x"}}],
            "service": {"type": "LoadBalancer", "port": 8443, "annotations": {"a": "b"}},
        }
    },
    "everything": {"surfaces": ALL, **EVERYTHING},
}
# Kinds of others, of which the API server gets definitions without a schema.
FOREIGN = {
    "monitoring.coreos.com/v1": {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"},
    "cert-manager.io/v1": {"Issuer": "issuers", "Certificate": "certificates"},
}


def with_prefix(found: Any, prefix: str) -> Any:
    if isinstance(found, dict):
        return {name.replace("@", prefix): with_prefix(each, prefix) for name, each in found.items()}
    if isinstance(found, list):
        return [with_prefix(each, prefix) for each in found]
    return found.replace("@", prefix) if isinstance(found, str) else found


@pytest.fixture(scope="module")
def judge(plane: ControlPlane) -> Iterator[Judge]:
    api, prefix = plane.api(), "tchart"
    for name in (prefix, f"{prefix}-leases", f"{prefix}-packages"):
        api.create("namespaces", {"metadata": {"name": name}})
    made = [definition(version, kind, plural) for version, kinds in FOREIGN.items() for kind, plural in kinds.items()]
    for each in made:
        api.create(CRDS, each)
    for version, kinds in FOREIGN.items():
        await_kinds(api, version, {*kinds})
    yield Judge(api, prefix)
    for each in made:
        api.delete(CRDS, each["metadata"]["name"])
    plane.wipe(prefix)


@pytest.mark.parametrize("name", SETS)
def test_the_api_server_accepts_what_is_rendered(judge: Judge, name: str) -> None:
    places = {"leaseNamespace": "@-leases", "packagesNamespace": "@-packages"}
    values = with_prefix({**places, **SETS[name]}, judge.prefix)
    assert judge.refusals(rendered(CHART, values, namespace=judge.prefix)) == []


@pytest.fixture(scope="module")
def cluster(scratch: Scratch) -> Iterator[ControlPlane]:
    """A control plane of its own: a release registers webhooks and an admission policy for the whole cluster."""
    require_tools("etcd", "kube-apiserver", "helm")
    with ControlPlane(scratch.directory("chart-plane")) as made:
        yield made


def before(tmp_path: Path) -> Path:
    """Return a chart of the version before this one, whose NodeMaintenances have no short name."""
    made = tmp_path / "haulout"
    shutil.copytree(CHART, made)
    description = made / "Chart.yaml"
    description.write_text(description.read_text().replace("0.1.0", "0.0.9"))
    definition = made / "templates" / "crds" / "nodemaintenances.yaml"
    text = definition.read_text()
    assert "    shortNames:\n    - nm\n" in text
    definition.write_text(text.replace("    shortNames:\n    - nm\n", ""))
    return made


class Release:
    """A release in a namespace of its own."""

    def __init__(self, cluster: ControlPlane, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        self.kubeconfig = cluster.kubeconfig("test")
        self.api = cluster.api()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.run("uninstall", "--ignore-not-found", "--no-hooks")

    def run(self, verb: str, *words: str | Path, values: Json | None = None) -> str:
        place = ("--namespace", self.namespace)
        return helm(verb, self.name, *words, *place, values=values, kubeconfig=self.kubeconfig)

    def short_names(self) -> list[str]:
        names: list[str] = self.api.get(CRDS, NMS_CRD)["spec"]["names"].get("shortNames", [])
        return names

    def deployment(self) -> Json:
        return self.api.get(DEPLOYMENTS, self.name, self.namespace)

    def remains(self) -> list[str]:
        """Return what of the release is in the cluster: everything that has its label, by kind and name."""
        selector = {"labelSelector": f"app.kubernetes.io/instance={self.name}"}
        kinds = {
            **dict.fromkeys(
                ("configmaps", "services", "serviceaccounts", "secrets", DEPLOYMENTS, PDBS), self.namespace
            ),
            **{f"rbac.authorization.k8s.io/v1/{each}": self.namespace for each in ("roles", "rolebindings")},
        }
        everywhere = (
            *(f"rbac.authorization.k8s.io/v1/{each}" for each in ("clusterroles", "clusterrolebindings")),
            *(f"admissionregistration.k8s.io/v1/{each}" for each in REGISTRATIONS),
            *(CRDS, "namespaces"),
        )
        found = [(kind, each) for kind, place in kinds.items() for each in self.api.items(kind, place, **selector)]
        found += [(kind, each) for kind in everywhere for each in self.api.items(kind, **selector)]
        return sorted(f"{kind.rpartition('/')[2]} {each['metadata']['name']}" for kind, each in found)


Releases = Callable[[str, str], Release]


@pytest.fixture
def releases(cluster: ControlPlane) -> Iterator[Releases]:
    """Makes releases, which are uninstalled at the end: a failed test leaves no webhooks to the next one."""
    with contextlib.ExitStack() as stack:
        yield lambda namespace, name: stack.enter_context(Release(cluster, namespace, name))


NMS_CRD = "nodemaintenances.nodemaintenance.medik8s.io"
REGISTRATIONS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies")
KEPT = [
    "customresourcedefinitions maintenancerecords.haulout.dev",
    "customresourcedefinitions nodedisruptionbudgets.haulout.dev",
    f"customresourcedefinitions {NMS_CRD}",
    "customresourcedefinitions nodemaintenancesets.haulout.dev",
    "namespaces medik8s-leases",
]
NDBS = "haulout.dev/v1alpha1/nodedisruptionbudgets"
SKYHOOKS = "skyhook.nvidia.com/v1alpha1/skyhooks"
SKYHOOKS_CRD = "skyhooks.skyhook.nvidia.com"


def test_a_release_is_installed_upgraded_rolled_back_removed_and_installed_again(
    releases: Releases, tmp_path: Path
) -> None:
    release = releases("haulout-system", "haulout")
    release.run("install", before(tmp_path), "--create-namespace")
    assert release.short_names() == []
    kind = {"apiVersion": "haulout.dev/v1alpha1", "kind": "NodeDisruptionBudget"}
    budget = {**kind, "metadata": {"name": "mine"}, "spec": {"maxUnavailable": 1}}
    eventually(lambda: release.api.create(NDBS, budget), "budgets are served", refused=(ApiError,))

    release.run("upgrade", CHART, values={"replicas": 3, "surfaces": {"packages": True}})
    assert release.short_names() == ["nm"]
    assert release.deployment()["spec"]["replicas"] == 3
    assert release.deployment()["metadata"]["labels"]["helm.sh/chart"] == "haulout-0.1.0"
    assert release.api.find(CRDS, SKYHOOKS_CRD)
    assert "clusterroles haulout-packages" in release.remains()

    release.run("upgrade", CHART, values={"surfaces": {"packages": False}})
    assert "clusterroles haulout-packages" not in release.remains()
    assert release.api.find(CRDS, SKYHOOKS_CRD)

    release.run("rollback", "1")
    assert release.short_names() == []
    assert release.deployment()["metadata"]["labels"]["helm.sh/chart"] == "haulout-0.0.9"
    release.run("upgrade", CHART)
    assert release.short_names() == ["nm"]
    assert release.api.get(NDBS, "mine")["spec"] == budget["spec"]

    release.run("uninstall")
    left = [each for each in release.remains() if not each.endswith("nvidia.com")]
    assert [each for each in left if each != "namespaces skyhook"] == KEPT
    assert release.api.get(NDBS, "mine")["spec"] == budget["spec"]

    release.run("install", CHART)
    assert release.api.get(NDBS, "mine")["spec"] == budget["spec"]
    release.run("uninstall")


def test_definitions_that_were_applied_before_are_taken_over(cluster: ControlPlane, releases: Releases) -> None:
    cluster.kubectl(
        "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(printed("crds", "clusterapi", "notify"))
    )
    release = releases("taken", "taken")
    with pytest.raises(HelmError, match="cannot be imported into the current release"):
        release.run("install", CHART, "--create-namespace", values={"surfaces": only("notify")})
    release.run("install", CHART, "--create-namespace", "--take-ownership", values={"surfaces": only("notify")})
    assert (
        release.api.get(CRDS, "notifymaintenances.ngn2.nvidia.com")["metadata"]["labels"]["app.kubernetes.io/instance"]
        == "taken"
    )
    release.run("uninstall")


def test_an_installed_surface_is_served_with_the_rights_of_the_release(
    cluster: ControlPlane, releases: Releases, tmp_path: Path
) -> None:
    """The operator runs as the account of the release, with the settings of its ConfigMap."""
    release, port = releases("served", "care"), free_port()
    values = {
        "surfaces": only("nodemaintenance", "packages"),
        "ports": {"http": free_port(), "probes": port, "webhooks": free_port()},
        "webhooks": {"enabled": False},
        "leaseNamespace": "served-leases",
        "packagesNamespace": "served-packages",
        "settings": {"logbook": {"people": "none"}},
    }
    release.run("install", CHART, "--create-namespace", "--take-ownership", values=values)
    account, api = "care-haulout", release.api
    asked = f"/api/v1/namespaces/served/serviceaccounts/{account}/token"
    token = api.request("POST", asked, {"spec": {}})["status"]["token"]
    access = yaml.safe_load(cluster.kubeconfig("test").read_text())
    access["users"][0]["user"] = {"token": token}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(access))
    written = api.get("configmaps", account, "served")["data"]["haulout.yaml"]
    (tmp_path / "haulout.yaml").write_text(f"namespace: served\n{written}")
    api.create("nodes", node_object("served-node"))
    told = environment(KUBECONFIG=str(tmp_path / "kubeconfig"))
    argv: list[str | Path] = [HAULOUT, "run", "--config", tmp_path / "haulout.yaml"]
    with Process("operator", argv, tmp_path, env=told, cwd=tmp_path):
        api.create(NMS, maintenance("served", "served-node"))
        eventually(lambda: phase(api, "served") == "Succeeded", "the node is in maintenance")
        assert api.get("nodes", "served-node")["spec"]["unschedulable"]
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10).status == 200
        api.delete(NMS, "served")
        eventually(lambda: not api.get("nodes", "served-node")["spec"].get("unschedulable"), "the node is back")
    user = f"system:serviceaccount:served:{account}"
    refused = [each for each in cluster.audit.entries() if each.user == user and each.code == 403]
    assert refused == []
    release.run("uninstall")


@pytest.mark.parametrize("chart", [SKYHOOK_CHART, NODEWRIGHT_CHART], ids=lambda chart: str(chart.name))
def test_an_upgrade_from_the_chart_of_the_original_keeps_the_skyhooks(
    releases: Releases, tmp_path: Path, chart: Path
) -> None:
    """That chart has its definitions among its templates, and Helm deletes what the next chart does not have."""
    original = tmp_path / chart.name
    (original / "templates").mkdir(parents=True)
    (original / "Chart.yaml").write_text(f"apiVersion: v2\nname: {chart.name}\nversion: v0.15.1\n")
    for each in printed("crds", "packages"):
        name = each["metadata"]["name"]
        (original / "templates" / f"{name}.yaml").write_text(yaml.safe_dump(each).replace("{{", '{{ "{{" }}'))
    release = releases(chart.name, chart.name)
    release.run("install", original, "--create-namespace", "--take-ownership")
    kind = {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook"}
    skyhook = {**kind, "metadata": {"name": "mine"}, "spec": {"packages": {}}}
    eventually(
        lambda: release.api.find(SKYHOOKS, "mine") or release.api.create(SKYHOOKS, skyhook),
        "Skyhooks are served",
        refused=(ApiError,),
    )
    release.run("upgrade", chart, "--take-ownership")
    assert "deletionTimestamp" not in release.api.get(CRDS, SKYHOOKS_CRD)["metadata"]
    assert release.api.get(SKYHOOKS, "mine")["metadata"]["name"] == "mine"
    release.run("uninstall", "--no-hooks")
    assert release.api.get(SKYHOOKS, "mine")["metadata"]["name"] == "mine"


def test_haulout_uninstall_and_helm_uninstall_leave_only_definitions(cluster: ControlPlane, releases: Releases) -> None:
    release = releases("gone", "nodes")
    release.run("install", CHART, "--create-namespace", "--take-ownership", values={"surfaces": ALL})
    argv = [str(HAULOUT), "uninstall", "--yes", "-n", "gone", "--kubeconfig", str(release.kubeconfig)]

    def removed() -> str:
        done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False, timeout=120)
        return "" if "storage is (re)initializing" in done.stderr else done.stdout + done.stderr

    assert "helm uninstall nodes" in eventually(removed, "the new definitions are served, and Haulout is removed")
    release.run("uninstall")
    assert {each.partition(" ")[0] for each in release.remains()} == {"customresourcedefinitions", "namespaces"}
