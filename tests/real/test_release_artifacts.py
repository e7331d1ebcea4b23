"""What `make release` writes is taken by the real API server as it is: manifests, definitions and the bundle for OLM."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout import __version__
from haulout.core.surface_names import BUILT_IN
from tests.rig.api import CRDS, Json
from tests.rig.judge import Judge, await_kinds
from tests.rig.plane import ControlPlane
from tests.rig.session import lack
from tools.olm import definition
from tools.release.__main__ import ROOT, manifests, packages
from tools.release.olm import bundle

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kubectl")

IMAGE = f"registry.test/haulout:{__version__}"
PREFIX = "trelease"
# The namespaces of the artifacts. They are renamed, because other tests use them on the same server.
SPACES = {"haulout-system": PREFIX, "medik8s-leases": f"{PREFIX}-leases", "skyhook": f"{PREFIX}-packages"}
KINDS = ("crds", "manifests", *BUILT_IN)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifacts")
    manifests(folder, IMAGE)
    return folder


@pytest.fixture(scope="module")
def judge(plane: ControlPlane) -> Iterator[Judge]:
    api = plane.api()
    for name in SPACES.values():
        api.create("namespaces", {"metadata": {"name": name}})
    yield Judge(api, PREFIX)
    plane.wipe(PREFIX)


def placed(found: Any) -> Any:
    """Return an object with the namespaces of this test."""
    if isinstance(found, dict):
        return {name: _renamed(each) if name == "namespace" else placed(each) for name, each in found.items()}
    return [placed(each) for each in found] if isinstance(found, list) else found


def _renamed(name: Any) -> Any:
    return SPACES.get(name, name) if isinstance(name, str) else placed(name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_printed_manifest_is_taken(artifacts: Path, judge: Judge, kind: str) -> None:
    text = (artifacts / f"haulout-{__version__}-{kind}.yaml").read_text()
    objects = [placed(each) for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each]
    assert len(objects) >= 5
    assert judge.refusals(objects) == []


@pytest.fixture(scope="module")
def files(artifacts: Path) -> dict[str, Json]:
    """The documents of the bundle by path."""
    text = (artifacts / f"haulout-{__version__}-nodemaintenance.yaml").read_text()
    icon = base64.b64encode((ROOT / "web/src/icon.svg").read_bytes()).decode()
    made = bundle(yaml.safe_load_all(text), __version__, "2026-01-01T00:00:00Z", icon)
    return {path: yaml.safe_load(content) for path, content in made.items() if path.startswith("manifests/")}


@pytest.fixture
def service_versions(plane: ControlPlane) -> Iterator[None]:
    """OLM's definition of ClusterServiceVersions, with its whole schema."""
    path = definition()
    if path is None:
        lack("no go: apt-get install golang-go")
        return
    api, made = plane.api(), yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    api.create(CRDS, made)
    await_kinds(api, "operators.coreos.com/v1alpha1", {"ClusterServiceVersion"})
    yield
    api.delete(CRDS, made["metadata"]["name"])


@pytest.mark.usefixtures("service_versions")
def test_the_bundle_is_taken_with_the_schema_of_its_service_version(files: dict[str, Json], judge: Judge) -> None:
    version = files["manifests/haulout.clusterserviceversion.yaml"]
    version["metadata"]["namespace"] = PREFIX
    settings = files["manifests/haulout_v1_configmap.yaml"]
    settings["metadata"]["namespace"] = PREFIX
    assert judge.refusals([placed(each) for each in files.values()]) == []
    wrong = json.loads(json.dumps(version))
    wrong["spec"]["installModes"][0]["type"] = "Anywhere"
    wrong["spec"]["icons"] = []
    (refusal,) = judge.refusals([wrong])
    assert "spec.icons" in refusal or "installModes" in refusal


def test_the_wheel_runs_in_an_empty_environment_with_the_locked_dependencies(tmp_path: Path) -> None:
    """As docs/install.md wants it where there is no image: nothing of this checkout or of its environment is used."""
    packages(tmp_path, 0, "1970-01-01T00:00:00Z")
    (wheel,) = tmp_path.glob("*.whl")
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PIP_CACHE_DIR": str(Path.home() / ".cache/pip")}
    environment = {**{name: each for name, each in os.environ.items() if name.startswith("PIP_")}, **home}

    def run(*words: str | Path) -> str:
        done = subprocess.run(words, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "empty")
    python = tmp_path / "empty/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", ROOT / "requirements/run.txt")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    assert run(python, "-m", "pip", "check") == "No broken requirements found.\n"
    assert run(tmp_path / "empty/bin/haulout", "version").startswith(f"haulout {__version__}\ncommit ")
    names = run(python, "-c", "import haulout.app.main, sys; print(haulout.__file__, *sys.path)")
    assert str(ROOT) not in names
    assert "kind: Deployment" in run(tmp_path / "empty/bin/kubectl-haulout", "manifests")
    assert "skyhook" in run(tmp_path / "empty/bin/haulout", "as", "--names")
