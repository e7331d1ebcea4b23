"""What `make release` builds: the same bytes each time, and each artifact usable alone in a clean place."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout import __version__
from haulout.settings.lint import lint_file
from tools.images.spec import OPERATOR, reference
from tools.pypi_readme import published
from tools.release.__main__ import (
    CHARTS,
    HAULOUT,
    ROOT,
    Refused,
    archive,
    chart_file,
    notes,
    release,
    repository_in,
)
from tools.release.olm import ACCOUNT, ANNOTATIONS

REGISTRY = "registry.test:5000/team"
STAMP = Path(sys.executable).parents[1] / ".installed"
IMAGE = f"{REGISTRY}/haulout:{__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    release(folder, REGISTRY)
    return folder


def contents(tar: Path) -> dict[str, str]:
    with tarfile.open(tar) as opened:
        members = [(each.name, opened.extractfile(each)) for each in opened]
        return {name: file.read().decode() for name, file in members if file is not None}


def test_two_builds_are_the_same_and_the_checksums_are_right(built: Path, tmp_path: Path) -> None:
    release(tmp_path / "again", REGISTRY)
    sums = (built / "SHA256SUMS").read_text()
    assert (tmp_path / "again" / "SHA256SUMS").read_text() == sums
    listed = {name: digest for digest, name in (line.split("  ") for line in sums.splitlines())}
    files = {each.name for each in built.iterdir()} - {"SHA256SUMS"}
    assert listed == {name: hashlib.sha256((built / name).read_bytes()).hexdigest() for name in files}


def test_the_wheel_runs_without_the_tree(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from haulout.app.main import main; main()"
    for words in (("version",), ("crds", "packages"), ("console", "--help")):
        argv = (sys.executable, "-c", program, *words)
        done = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    told = subprocess.run(
        (sys.executable, "-c", program, "version"), cwd=tmp_path, capture_output=True, check=True, text=True
    )
    commit = subprocess.run(
        ("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.strip()
    assert f"\ncommit {commit}" in told.stdout
    pages = {each.name for each in (tmp_path / "haulout" / "console" / "static").iterdir()}
    assert "index.html" in pages


def test_the_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as opened:
        opened.extractall(tmp_path)
    argv = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    subprocess.run(argv, cwd=tmp_path / f"haulout-{__version__}", check=True, capture_output=True)
    wheels = [zipfile.ZipFile(next(folder.glob("*.whl"))) for folder in (built, tmp_path)]
    files, again = ({name: wheel.read(name) for name in wheel.namelist()} for wheel in wheels)
    assert files.keys() == again.keys()
    assert [name for name in files if files[name] != again[name]] == []


def test_the_readme_of_the_package_has_no_relative_link() -> None:
    readme = published((Path(__file__).parents[3] / "README.md").read_text())
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert links
    assert all(each.startswith("https://") for each in links)


@pytest.mark.parametrize("name", CHARTS.values())
def test_a_chart_archive_holds_one_chart(built: Path, name: str) -> None:
    files = contents(built / chart_file(name))
    chart = yaml.safe_load(files[f"{name}/Chart.yaml"])
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert {each.partition("/")[0] for each in files} == {name}


def test_everything_names_the_image_that_is_pushed(built: Path, bundle: dict[str, Any]) -> None:
    operator = reference(OPERATOR, f"{REGISTRY}/haulout", __version__)
    assert operator == IMAGE
    printed = [path for path in built.glob("*.yaml") if "\nkind: Deployment\n" in path.read_text()]
    assert len(printed) == 6
    assert {image for path in printed for image in images(list(yaml.safe_load_all(path.read_text())))} == {IMAGE}
    assert images(bundle["manifests/haulout.clusterserviceversion.yaml"]) == {IMAGE}
    values = yaml.safe_load(contents(built / chart_file("haulout"))["haulout/values.yaml"])["image"]
    # Without a tag, the chart takes its own version.
    assert (values["repository"], values["tag"]) == (f"{REGISTRY}/haulout", "")
    for name in ("skyhook-operator", "nodewright"):
        manager = yaml.safe_load(contents(built / chart_file(name))[f"{name}/values.yaml"])["controllerManager"][
            "manager"
        ]
        assert "{repository}:{tag}".format(**manager["image"]) == IMAGE


def images(found: Any) -> set[str]:
    """Return the images of all containers within objects."""
    inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    own = {each["image"] for each in found.get("containers", ())} if isinstance(found, dict) else set()
    return own.union(*map(images, inside))


def test_images_of_a_version_have_tags_of_their_own() -> None:
    assert [reference(name, "r.test/haulout", "1.2.3") for name in ("operator", "console", "pika")] == [
        "r.test/haulout:1.2.3",
        "r.test/haulout:1.2.3-console",
        "r.test/haulout:1.2.3-pika",
    ]


@pytest.mark.parametrize("registry", ["https://r.test", "r.test/", "R.test/Team", "r.test/team:1", "r.test//x", "-"])
def test_a_registry_that_no_image_could_have_is_refused(registry: str) -> None:
    with pytest.raises(Refused, match="is no registry"):
        repository_in(registry)
    assert repository_in("") == "haulout"


def test_the_health_checks_of_argo_cd_are_those_of_the_tree(built: Path) -> None:
    (path,) = built.glob("*-argocd-health.yaml")
    assert path.read_text() == (ROOT / "deploy/argocd/health.yaml").read_text()


@pytest.fixture(scope="module")
def bundle(built: Path) -> dict[str, Any]:
    files = contents(next(built.glob("*-olm-bundle.tgz")))
    return {path: yaml.safe_load(text) for path, text in files.items() if path.endswith(".yaml")}


def test_the_image_of_the_bundle_has_its_annotations_as_labels(built: Path, bundle: dict[str, Any]) -> None:
    lines = contents(next(built.glob("*-olm-bundle.tgz")))["bundle.Dockerfile"].splitlines()
    labels = dict(line.removeprefix("LABEL ").split("=") for line in lines if line.startswith("LABEL "))
    assert labels == bundle["metadata/annotations.yaml"]["annotations"]
    copied = {line.split()[1] for line in lines if line.startswith("COPY ")}
    assert copied == {path.partition("/")[0] for path in bundle}


def test_the_service_version_is_whole_in_itself(bundle: dict[str, Any]) -> None:
    """What `operator-sdk bundle validate` looks for beyond the schema."""
    version = bundle["manifests/haulout.clusterserviceversion.yaml"]
    spec, notes = version["spec"], version["metadata"]["annotations"]
    assert version["metadata"]["name"] == f"haulout.v{spec['version']}"
    assert notes["containerImage"] == IMAGE
    (deployment,) = spec["install"]["spec"]["deployments"]
    assert {each["deploymentName"] for each in spec["webhookdefinitions"]} == {deployment["name"]}
    pods = deployment["spec"]["template"]
    accounts = [
        each["serviceAccountName"]
        for name in ("permissions", "clusterPermissions")
        for each in spec["install"]["spec"][name]
    ]
    assert {*accounts} == {pods["spec"]["serviceAccountName"]}
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    definitions = {each["metadata"]["name"]: each["spec"] for each in bundle.values() if _is_definition(each)}
    for owned in spec["customresourcedefinitions"]["owned"]:
        found = definitions[owned["name"]]
        assert found["names"]["kind"] == owned["kind"]
        assert owned["version"] in {each["name"] for each in found["versions"] if each["served"]}


def test_each_kind_that_people_write_has_an_example_without_faults(bundle: dict[str, Any]) -> None:
    version = bundle["manifests/haulout.clusterserviceversion.yaml"]
    examples = json.loads(version["metadata"]["annotations"]["alm-examples"])
    owned = {each["kind"] for each in version["spec"]["customresourcedefinitions"]["owned"]}
    # MaintenanceRecords are written by the operator alone.
    assert {each["kind"] for each in examples} == owned - {"MaintenanceRecord"}
    assert [lint_file(yaml.safe_dump(each).encode(), each["kind"], {}) for each in examples] == [[]] * len(examples)


def test_the_bundle_owns_all_of_its_definitions(bundle: dict[str, Any]) -> None:
    version = bundle["manifests/haulout.clusterserviceversion.yaml"]
    definitions = {
        name.removeprefix("manifests/").removesuffix(".yaml") for name in bundle if _is_definition(bundle[name])
    }
    owned = version["spec"]["customresourcedefinitions"]["owned"]
    assert {each["name"] for each in owned} == definitions
    assert bundle["metadata/annotations.yaml"] == {"annotations": ANNOTATIONS}


def _is_definition(document: Any) -> bool:
    return bool(document.get("kind") == "CustomResourceDefinition")


def test_the_bundle_grants_each_right_of_the_manifests(bundle: dict[str, Any]) -> None:
    printed = subprocess.run(
        (HAULOUT, "manifests", "nodemaintenance"), check=True, capture_output=True, text=True
    ).stdout
    objects = list(yaml.safe_load_all(printed))
    bound = {
        (each["kind"].removesuffix("Binding"), each["metadata"].get("namespace"), each["roleRef"]["name"])
        for each in objects
        if "roleRef" in each and each["subjects"][0]["name"] == ACCOUNT
    }
    wanted = [
        rule
        for each in objects
        if (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) in bound
        for rule in each["rules"]
    ]
    install = bundle["manifests/haulout.clusterserviceversion.yaml"]["spec"]["install"]["spec"]
    granted = [*install["clusterPermissions"][0]["rules"], *install["permissions"][0]["rules"]]
    assert wanted
    assert all(rule in granted for rule in wanted)
    assert len(granted) == len(wanted)


def test_the_bundle_registers_no_webhook_for_every_write_of_nodes(bundle: dict[str, Any]) -> None:
    version = bundle["manifests/haulout.clusterserviceversion.yaml"]
    reviewed = [rule["resources"] for each in version["spec"]["webhookdefinitions"] for rule in each["rules"]]
    assert reviewed == [["nodemaintenances"]]


def test_names_of_bundle_objects_have_no_namespace_of_their_own(bundle: dict[str, Any]) -> None:
    others = [each for each in bundle.values() if each.get("kind") in {"ConfigMap", "ClusterRole"}]
    assert others
    assert all("namespace" not in each["metadata"] for each in others)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clean clone of this repository, with what is not committed here as a commit."""
    place = tmp_path / "clone"
    run("git", "clone", "--quiet", "--local", "--no-tags", str(ROOT), str(place), at=tmp_path)
    for name in run("git", "diff", "--name-only", "HEAD", at=ROOT).split():
        (place / name).write_bytes((ROOT / name).read_bytes())
    run("git", "add", "--all", at=place)
    commit(place, "as here")
    return place


def commit(place: Path, message: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@test.invalid")
    run("git", *identity, "commit", "--quiet", "--allow-empty", "--message", message, at=place)


def run(*words: str, at: Path) -> str:
    return subprocess.run(words, cwd=at, check=True, capture_output=True, text=True).stdout


def refusal(place: Path) -> str:
    """Return what `make release` of a clone says when it refuses, with the environment of these tests."""
    argv = ("make", "--no-print-directory", "-o", str(STAMP), f"VENV={STAMP.parent}", "release")
    done = subprocess.run(argv, cwd=place, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert not (place / "dist").exists()
    return done.stderr.splitlines()[0] if done.stderr else done.stdout


def test_a_tree_with_changes_is_refused(clone: Path) -> None:
    (clone / "notes.txt").write_text("mine\n")
    assert refusal(clone) == "release: the tree has changes that are not committed:"


def test_a_version_without_notes_is_refused(clone: Path) -> None:
    (clone / "CHANGELOG.md").write_text("# Changes\n\n## 9.9.9\n\n- later\n")
    run("git", "add", "--all", at=clone)
    commit(clone, "no notes")
    assert refusal(clone) == f"release: CHANGELOG.md has no section `## {__version__}`"


def test_a_tag_of_another_version_is_refused(clone: Path) -> None:
    run("git", "tag", "v9.9.9", at=clone)
    assert refusal(clone) == f"release: the tag of this commit is v9.9.9, and the version is {__version__}"


def test_a_registry_that_is_none_is_refused_before_anything_is_removed(clone: Path) -> None:
    argv = (sys.executable, "-m", "tools.release", "--registry", "https://r.test")
    (clone / "dist").mkdir()
    (clone / "dist" / "mine").touch()
    done = subprocess.run(argv, cwd=clone, check=False, capture_output=True, text=True)
    assert done.stderr.startswith("release: --registry 'https://r.test' is no registry")
    assert (done.returncode, (clone / "dist" / "mine").exists()) == (1, True)


def test_notes_are_the_section_of_the_version() -> None:
    changes = "# Changes\n\n## 0.2.0\n\n- two\n\n## 0.1.0\n\n- one\n"
    assert notes(changes, "0.1.0") == "# Haulout 0.1.0\n\n- one\n"
    assert notes(changes, "0.2.0") == "# Haulout 0.2.0\n\n- two\n"


def test_an_archive_depends_on_its_files_alone() -> None:
    files = [("b", b"2"), ("a", b"1")]
    assert archive(files, 7) == archive(reversed(files), 7)
