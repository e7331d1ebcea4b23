"""The Helm chart installs what `haulout manifests` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from haulout import __version__
from haulout.base.gotemplate import Map, render
from haulout.base.gotemplate.functions import FUNCTIONS
from haulout.base.gotemplate.values import Func
from haulout.cli.root import main
from haulout.manifests.rights import default_names, options
from haulout.surfaces.packages.settings import PackagesSettings
from tests.build.restricted import excesses, pod_specs
from tools.chart import CHART, definitions, templates, value, values

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def helm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the template functions of helm that the chart uses beside Go's own."""
    monkeypatch.setitem(FUNCTIONS, "toJson", Func(_to_json, ["any"]))
    monkeypatch.setitem(FUNCTIONS, "int", Func(int, ["any"]))
    monkeypatch.setitem(FUNCTIONS, "fail", Func(_fail, ["any"]))


def _to_json(value: Any) -> str:
    return json.dumps(value, default=lambda each: dict(each.entries))


def _fail(text: str) -> str:
    raise ValueError(text)


def as_go(value: Any) -> Any:
    return Map({name: as_go(each) for name, each in value.items()}) if isinstance(value, dict) else value


def installed(**values: Any) -> list[Json]:
    """Return the objects of a release, as helm renders them; it takes the definitions as they are."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    data = as_go({"Release": {"Namespace": "haulout-system"}, "Values": {**defaults, **values}})
    texts = [render(path.read_text(), data) for path in sorted((CHART / "templates").iterdir())]
    documents = [each for text in texts for each in yaml.safe_load_all(text) if each]
    return [*documents, *(yaml.safe_load(path.read_text()) for path in sorted((CHART / "crds").iterdir()))]


def by_name(documents: list[Json]) -> dict[tuple[str, str], Json]:
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Json]:
    assert main(["manifests", "--without-namespace", *words]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def roles(documents: list[Json]) -> dict[tuple[str, str, str], Json]:
    """Return the roles by kind, namespace and name."""
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in documents
        if each["apiVersion"].startswith("rbac.")
    }


def test_the_templates_are_current() -> None:
    """`python -m tools.chart` makes them so."""
    assert {path.name: path.read_text() for path in (CHART / "templates").iterdir()} == dict(templates())


def test_it_installs_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found, expected = installed(), printed(capsys)
    # Others keep Leases in that namespace, too: it outlives a release.
    kept = by_name(found)["Namespace", "medik8s-leases"]["metadata"].pop("annotations")
    assert kept == {"helm.sh/resource-policy": "keep"}
    assert by_name(found) == by_name(expected)
    assert roles(found) == roles(expected)


EVERY_SURFACE = {"profiles": True, "nodemaintenance": True, "clusterapi": True, "notify": True, "packages": True}
EVERY_OPTION: dict[str, tuple[str, Any]] = {
    "--delete-pods": ("deletePods", True),
    "--hypervisors": ("hypervisors", True),
    "--stagger=a/x-0": ("stagger", {"a": ["x-0"]}),
    "--slack-thread=a/y": ("slackThread", {"a": ["y"]}),
    "--cloud-secret=b/z": ("cloudSecret", {"b": ["z"]}),
    "--failure-logs": ("failureLogs", True),
    "--node-conditions": ("nodeConditions", True),
    "--eviction-requests": ("evictionRequests", True),
    "--no-own-certificates": ("ownCertificates", False),
    "--metal3": ("metal3", True),
    "--kubeconfigs=c": ("kubeconfigs", ["c"]),
    "--original-lease=d": ("originalLease", ["d"]),
    "--leader-lease=e": ("leaderLease", "e"),
    "--notify-scheduler": ("notifyScheduler", True),
    "--notify-drainer": ("notifyDrainer", True),
    "--notify-jobs=h": ("notifyJobs", ["h"]),
    "--notify-configmaps=i": ("notifyConfigmaps", ["i"]),
    "--notify-secret=h/x": ("notifySecret", {"h": ["x"]}),
    "--webhook-secret=f": ("webhookSecret", "f"),
    "--lease-namespace=g": ("leaseNamespace", "g"),
}


@pytest.mark.parametrize("words", [*([word] for word in EVERY_OPTION), list(EVERY_OPTION), []], ids=" ".join)
def test_its_roles_are_those_that_are_printed(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    values = dict(EVERY_OPTION[word] for word in words)
    assert main(["rbac", *words]) == 0
    assert main(["rbac", "viewer", *words]) == 0
    expected = list(yaml.safe_load_all(capsys.readouterr().out))
    assert roles(installed(surfaces=EVERY_SURFACE, **values)) == roles(expected)


def test_the_values_are_current() -> None:
    """`python -m tools.chart` makes them so."""
    assert (CHART / "values.yaml").read_text() == values()


def test_every_option_has_a_value() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in (*options(), *default_names()):
        assert value(name).removeprefix(".Values.") in defaults


def test_the_definitions_are_those_of_the_surfaces_that_are_installed_without_being_named() -> None:
    found = {path.name: str(path.readlink()) for path in (CHART / "crds").iterdir()}
    assert found == definitions()


def test_each_surface_reads_its_own_configuration_file(capsys: pytest.CaptureFixture[str]) -> None:
    pod = by_name(installed(surfaces={"notify": True}))["Deployment", "haulout"]["spec"]["template"]["spec"]
    assert pod["volumes"][1:] == [{"name": "notify", "configMap": {"name": "haulout-notify", "optional": True}}]
    assert pod["containers"][0]["volumeMounts"][1]["mountPath"] == "/etc/haulout/notify"
    expected = by_name(printed(capsys, "notify"))["Deployment", "haulout"]["spec"]["template"]["spec"]
    assert pod == expected


def test_the_namespace_of_leases_may_be_there_already() -> None:
    assert not [each for each in installed(createLeaseNamespace=False) if each["kind"] == "Namespace"]


def test_passwords_may_come_from_secrets() -> None:
    found = by_name(
        installed(
            profiles={"configSecret": "mine"},
            env=[{"name": "HAULOUT_LOG__LEVEL", "value": "debug"}],
            envFrom=[{"secretRef": {"name": "words"}}],
            extraVolumes=[{"name": "esx", "secret": {"secretName": "vcenter"}}],
            extraVolumeMounts=[{"name": "esx", "mountPath": "/etc/esx", "readOnly": True}],
        )
    )
    pod = found["Deployment", "haulout"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["volumes"][1:] == [
        {"name": "profiles", "secret": {"secretName": "mine", "optional": True}},
        {"name": "esx", "secret": {"secretName": "vcenter"}},
    ]
    assert container["volumeMounts"][-1] == {"name": "esx", "mountPath": "/etc/esx", "readOnly": True}
    assert container["env"] == [{"name": "HAULOUT_LOG__LEVEL", "value": "debug"}]
    assert container["envFrom"] == [{"secretRef": {"name": "words"}}]


def test_values_are_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    settings = 'log: {format: "json"}\nsurfaces:\n  nodemaintenance: {}\n'
    found = by_name(installed(image="here:1", replicas=3, settings=settings, surfaces={"nodemaintenance": True}))
    assert ("ClusterRole", "haulout-profiles") not in found
    assert found["ConfigMap", "haulout"]["data"]["haulout.yaml"] == settings
    deployment = found["Deployment", "haulout"]["spec"]
    assert (deployment["replicas"], deployment["template"]["spec"]["containers"][0]["image"]) == (3, "here:1")


def test_it_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert all(Path(path).is_file() for path in (CHART / "crds").iterdir())


@pytest.mark.parametrize("values", [{}, {"profiles": {"configSecret": "secret"}}], ids=["as it is", "with a Secret"])
def test_the_pods_have_no_privileges(values: Json) -> None:
    (spec,) = pod_specs(installed(**values))
    assert excesses(spec) == []


class TestValuesOfTheOriginal:
    """What the values of the Skyhook operator's chart can say, said with ours."""

    def test_where_the_operator_runs_and_what_it_may_use(self) -> None:
        selector, resources = {"pool": "system"}, {"requests": {"cpu": "640m"}, "limits": {"cpu": "1280m"}}
        taint = {"key": "pool", "operator": "Exists"}
        affinity: Json = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
        found = installed(
            nodeSelector=selector,
            tolerations=[taint],
            affinity=affinity,
            resources=resources,
            imagePullSecrets=[{"name": "pull"}],
            hostNetwork=True,
            replicas=3,
        )
        deployment = by_name(found)["Deployment", "haulout"]["spec"]
        spec = deployment["template"]["spec"]
        assert (deployment["replicas"], spec["nodeSelector"], spec["affinity"]) == (3, selector, affinity)
        assert (spec["tolerations"][-1], len(spec["tolerations"])) == (taint, 3)
        assert (spec["imagePullSecrets"], spec["hostNetwork"]) == ([{"name": "pull"}], True)
        assert spec["containers"][0]["resources"] == resources

    def test_a_disruption_budget_leaves_room_for_drains(self) -> None:
        found = by_name(installed(podDisruptionBudget={"minAvailable": 1}))
        made = found["PodDisruptionBudget", "haulout"]["spec"]
        pods = found["Deployment", "haulout"]["spec"]["template"]["metadata"]["labels"]
        assert (made["minAvailable"], made["selector"]["matchLabels"].items() <= pods.items()) == (1, True)
        with pytest.raises(Exception, match="must be below replicas"):
            installed(podDisruptionBudget={"minAvailable": 2})

    def test_packages_get_limits_where_they_set_none(self) -> None:
        limits = {"default": {"cpu": "500m"}, "defaultRequest": {"cpu": "250m"}}
        found = by_name(installed(surfaces=EVERY_SURFACE, limitRange=limits, packagesNamespace="elsewhere"))
        made = found["LimitRange", "haulout-packages"]
        assert made["metadata"]["namespace"] == "elsewhere"
        assert made["spec"]["limits"] == [{"type": "Container", **limits}]
        assert not [kind for kind, _ in by_name(installed(limitRange=limits)) if kind == "LimitRange"]

    def test_people_may_look_at_skyhooks_and_edit_them(self) -> None:
        names = {name for kind, name in by_name(installed(surfaces=EVERY_SURFACE)) if kind == "ClusterRole"}
        assert {"skyhook-viewer-role", "skyhook-editor-role"} <= names

    def test_every_setting_that_stands_for_a_value_is_one(self) -> None:
        """The table of docs/packages.md names settings by which the chart's values are told."""
        page = (CHART.parent.parent / "docs" / "packages.md").read_text().partition("## The values of its chart")[2]
        rows = [line for line in page.splitlines() if line.startswith("| `")]
        told = {word for line in rows for word in line.split("|")[2].split("`")[1::2]}
        settings = {word.removeprefix("surfaces.packages.") for word in told if word.startswith("surfaces.")}
        assert settings <= {field.encode_name for field in msgspec.structs.fields(PackagesSettings)}
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        assert {word.split(".")[0] for word in told if not word.startswith("surfaces.")} <= values.keys()
        assert (len(rows), len(settings)) == (16, 7)
