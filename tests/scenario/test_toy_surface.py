"""A surface of another package: Haulout does everything for it that it does for its own surfaces."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.embedded import Json, Resource
from tests.build.served import HAULOUT, PATIENCE, Served
from tests.build.workloads import node
from tests.rig.process import free_port

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS / "toysurface"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
# Without a network: the build backend is the one that built Haulout itself.
OFFLINE = ("--no-index", "--no-build-isolation", "--no-deps")
ONE = "lighthouse"
REGISTRATIONS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
LIT = "acme.test/lit"
SETTINGS = """
listen: {http: "127.0.0.1:%d", health: "0", webhooks: "127.0.0.1:%d"}
leader: {elect: false}
namespace: default
surfaces: {lighthouse: {lampColour: red}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip has installed the package, with nothing else in it."""
    made = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, *PIP, "install", *OFFLINE, "--target", made, PACKAGE], check=True, timeout=120)
    return made


@pytest.fixture
def served(site: Path, tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, PYTHONPATH=str(site)) as made:
        yield made


def beacon(name: str, on: str, **more: str) -> Json:
    body = {"nodeName": on, **more} if on else dict(more)
    return {"apiVersion": "acme.test/v1", "kind": "Beacon", "metadata": {"name": name}, "spec": body}


def review(url: str, authority: str, made: Json) -> Json:
    """Ask the webhook as the API server would: the embedded cluster calls none over the network."""
    request = {"uid": "1", "operation": "CREATE", "kind": {"kind": "Beacon"}, "object": made}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    trusting = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, context=trusting, timeout=PATIENCE) as reply:
        answer: Json = json.load(reply)["response"]
        return answer


def printed(served: Served, *words: str) -> list[Any]:
    done = served.run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def installed(served: Served, http: int = 0, webhooks: int = 0) -> None:
    (served.folder / "haulout.yaml").write_text(SETTINGS % (http, webhooks))
    served.make(*printed(served, "crds", ONE))


def test_no_other_file_names_it() -> None:
    folders = ("src", "tools", "deploy", "docs", "examples", "benchmarks", "tests")
    named = ["grep", "-rlE", "--exclude-dir=__pycache__", "[Ll]ighthouse|Beacon|beacons", *folders]
    found = subprocess.run(named, capture_output=True, text=True, check=False, cwd=TESTS.parent).stdout.splitlines()
    elsewhere = [path for path in found if not path.startswith("tests/toysurface/")]
    assert elsewhere == ["docs/deciding.md", f"tests/scenario/{Path(__file__).name}"]


def test_what_a_cluster_needs_for_it_is_printed(served: Served) -> None:
    (definition,) = printed(served, "crds", ONE)
    assert definition["metadata"]["name"] == "beacons.acme.test"
    registration = printed(served, "webhooks", ONE)[-1]
    assert registration["metadata"]["name"] == "acme-lighthouse"
    assert registration["webhooks"][0]["clientConfig"]["service"]["path"] == "/validate-beacon"
    roles = {each["metadata"]["name"] for each in printed(served, "rbac", ONE)}
    assert roles == {"haulout-lighthouse", "haulout-lighthouse-webhooks"}
    everything = printed(served, "manifests", ONE)
    (settings,) = [each["data"]["haulout.yaml"] for each in everything if each["kind"] == "ConfigMap"]
    assert yaml.safe_load(settings)["surfaces"] == {ONE: {}}
    assert {"beacons.acme.test", "haulout-lighthouse", "acme-lighthouse"} <= {
        each["metadata"]["name"] for each in everything
    }


def test_budgets_may_count_its_nodes(served: Served) -> None:
    definition = next(
        each
        for each in printed(served, "crds", "kernel")
        if each["metadata"]["name"].startswith("nodedisruptionbudgets")
    )
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert ONE in spec["properties"]["surfaces"]["items"]["enum"]


def test_its_settings_and_files_are_linted(served: Served) -> None:
    (served.folder / "haulout.yaml").write_text("surfaces: {lighthouse: {lampColour: blue, lamp: x}}\n")
    done = served.run("lint", "haulout.yaml")
    assert done.returncode == 1
    assert "surfaces.lighthouse.lampColour: 'blue' is not known here (one of white, red)" in done.stdout
    assert "surfaces.lighthouse.lamp: unknown setting (known are: lampColour)" in done.stdout
    (served.folder / "any.yaml").write_text("lamps: 3\n")
    assert served.run("lint", "any.yaml").stdout == "any.yaml:1:8: error: lamps: not a list (such as [north, south])\n"


def test_it_is_served_with_its_webhook_and_its_metric(served: Served) -> None:
    http, webhooks = free_port(), free_port()
    installed(served, http, webhooks)
    served.make(node("a"), *printed(served, "webhooks", ONE, "--url", f"https://127.0.0.1:{webhooks}"))
    operator = served.start("run")

    def client() -> Json:
        found = served.call(lambda world: world.server.get(REGISTRATIONS, "", "acme-lighthouse"))
        assert found is not None
        config: Json = found["webhooks"][0]["clientConfig"]
        return config

    try:
        served.until(lambda: bool(client().get("caBundle")))
        refused = review(client()["url"], client()["caBundle"], beacon("dark", ""))
        assert (refused["allowed"], refused["status"]["message"]) == (False, "a Beacon names a node")
        assert review(client()["url"], client()["caBundle"], beacon("one", "a"))["allowed"]
        served.make(beacon("one", "a"))
        served.until(lambda: served.node("a")["metadata"].get("labels", {}).get(LIT) == "red")
        scraped = f"http://127.0.0.1:{http}/metrics"
        wanted = b'lighthouse_beacons{lit="true"} 1\n'
        served.until(lambda: wanted in urllib.request.urlopen(scraped, timeout=PATIENCE).read())
        page = urllib.request.urlopen(scraped, timeout=PATIENCE).read()
        assert b"# HELP lighthouse_beacons Beacons by whether their node is lit.\n" in page
    finally:
        operator.send_signal(signal.SIGTERM)
        said = "".join(filter(None, operator.communicate(timeout=PATIENCE)))
    assert operator.returncode == 0, said


def test_its_objects_are_explained(served: Served) -> None:
    installed(served)
    served.has_leader()
    served.make(node("a"), beacon("one", "gone"), beacon("two", "a"))
    done = served.run("explain", "bc", "one")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "beacon one of node gone (not there)",
        "  settings: haulout.yaml",
        "  Beacon one shines on gone",
        "    there is no node gone to light",
        "blocked by:",
        "  there is no node gone to light",
        "look up: haulout help CODE [beacon-dark]",
    ]
    assert "  Beacon two shines on a\n" in served.run("explain", "a").stdout


def allowed(most: int) -> Json:
    spec = {"selector": {}, "maxUnavailable": most}
    return {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": spec,
    }


def test_its_claims_obey_budgets_and_its_reasons_tell_what_moves_from_what_is_stuck(served: Served) -> None:
    installed(served)
    served.has_leader()
    served.make(*printed(served, "crds", "kernel"), node("a"), beacon("one", "a"))
    assert "    its lamp warms up on a\n" in served.run("explain", "a").stdout
    assert json.loads(served.run("status", "-o", "json").stdout)["fleet"]["causes"] == []
    served.make(allowed(0))
    assert "wanted by lighthouse: waits" in served.run("explain", "a").stdout
    (cause,) = json.loads(served.run("status", "-o", "json").stdout)["fleet"]["causes"]
    assert (cause["code"], cause["nodes"]) == ("budget-full", ["a"])


def test_it_takes_the_place_of_its_original_with_the_flags_of_its_settings(served: Served) -> None:
    usage = served.run("as", "lighthouse-keeper", "--help")
    assert '-lamp-colour string\n    \tThe colour of the light. (default "white")' in usage.stderr + usage.stdout
    served.make(*printed(served, "crds", ONE), node("a"), beacon("one", "a"))
    operator = served.start("as", "lighthouse-keeper", "--lamp-colour=red", "--metrics-address=0")
    try:
        served.until(lambda: served.node("a")["metadata"].get("labels", {}).get(LIT) == "red")
    finally:
        operator.send_signal(signal.SIGTERM)
        output = "".join(filter(None, operator.communicate(timeout=PATIENCE)))
    assert operator.returncode == 0, output


def test_a_plan_follows_it(served: Served) -> None:
    installed(served)
    done = served.run("plan", "--nodes", "2", "--maintain", "node-1", "--days", "1", "--work-for", "2h", "-o", "json")
    assert done.returncode == 0, done.stderr
    courses = {each["name"]: [span["state"] for span in each["states"]] for each in json.loads(done.stdout)["nodes"]}
    assert courses["node-1"][-2:] == ["in-maintenance", "operational"]


def test_its_objects_are_bundled_without_what_may_not_leave(served: Served) -> None:
    installed(served)
    served.make(node("a"), node("b"), beacon("one", "a", secret="hunter2"))
    done = served.run("bundle", "-o", "b.tar.gz")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nodes looked at closely: a\n" in done.stdout
    with tarfile.open(served.folder / "b.tar.gz") as archive:
        files = {name.partition("/")[2]: archive.extractfile(name) for name in archive.getnames()}
        kept = files["cluster-scoped-resources/acme.test/beacons/one.json"]
        assert kept is not None
        assert json.load(kept)["spec"] == {"nodeName": "a", "secret": "(removed: 7 characters)"}
        assert "cluster-scoped-resources/apiextensions.k8s.io/customresourcedefinitions/beacons.acme.test.json" in files
        assert "explain/a.txt" in files


def test_a_surface_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "acme_broken-1.0.dist-info").mkdir(parents=True)
    (broken / "acme_broken-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-broken\nVersion: 1.0\n"
    )
    (broken / "acme_broken-1.0.dist-info" / "entry_points.txt").write_text(
        "[haulout.surfaces]\nbroken = acme_broken:X\n"
    )
    done = subprocess.run(
        [HAULOUT, "crds", "kernel"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(broken)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: surface broken (acme_broken:X) cannot be loaded: ModuleNotFoundError")
