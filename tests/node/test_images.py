"""Haulout's images: they are built twice alike, hold what they should, and run on a real node under a cluster's restrictions."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from haulout import __version__
from tests.rig.haulout_images import DROP_IN, HauloutImages
from tests.rig.process import CHECKOUT, Scratch
from tools.images import layout
from tools.release import plugin

pytestmark = [pytest.mark.root, pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kubelet")]

RECIPE = (CHECKOUT / "deploy" / "Dockerfile").read_text()
ANY_USER = 1000680000
SHELLS = {"sh", "bash", "dash", "busybox", "env", "apt", "dpkg", "pip", "gcc"}


@pytest.fixture(scope="module")
def operator_root(images: HauloutImages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.extract("operator", tmp_path_factory.mktemp("operator"))


@pytest.fixture(scope="module")
def agent_root(images: HauloutImages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.extract("agent", tmp_path_factory.mktemp("agent"))


def inside(root: Path, *words: str, user: int = ANY_USER) -> subprocess.CompletedProcess[str]:
    """Run a program in an image, as any user, without variables."""

    def enter() -> None:
        os.chroot(root)
        os.chdir("/")
        os.setgroups([])
        os.setgid(0)
        os.setuid(user)

    return subprocess.run(words, preexec_fn=enter, env={}, check=False, capture_output=True, text=True)


def listing(root: Path) -> dict[str, tuple[int, str]]:
    """Return mode and content of every file below a directory."""
    found = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(root))] = (0, str(path.readlink()))
        elif path.is_file():
            found[str(path.relative_to(root))] = (path.stat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def test_two_builds_give_the_same_digests(images: HauloutImages, scratch: Scratch) -> None:
    """In another process, with another order, time zone, mask and seed."""
    again = scratch.directory("again")
    words = ["--output", str(again), *reversed(images.built)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.rig.haulout_images", *words],
        cwd=CHECKOUT,
        env={**os.environ, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "LC_ALL": "C"},
        preexec_fn=lambda: os.umask(0o077) and None,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name in ("digests.txt", *(f"{each}.{kind}.json" for each in images.built for kind in ("spdx", "cdx"))):
        assert sorted((again / name).read_text().splitlines()) == sorted(
            (images.directory / name).read_text().splitlines()
        )


def test_the_container_file_collects_the_same_files(images: HauloutImages, tmp_path: Path, agent_root: Path) -> None:
    """Its very words, in a directory that holds what it copies and nothing else."""
    context = tmp_path / "src"
    for source in re.findall(r"^COPY (\S+) /src/", RECIPE, re.MULTILINE):
        target = context / source
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", CHECKOUT / source, target], check=True)
    (context / "requirements/debian.lock").write_text(images.lock.text())
    (words,) = re.findall(r"^RUN /opt/build/bin/python (.*) agent$", RECIPE, re.MULTILINE)
    made, source = tmp_path / "image", images.source()
    done = subprocess.run(
        [sys.executable, *words.replace("/image", str(made)).split(), "agent"],
        cwd=context,
        env={
            **os.environ,
            "PYTHONPATH": str(context / "src"),
            "COMMIT": source.commit,
            "SOURCE_DATE_EPOCH": str(source.epoch),
        },
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert listing(made) == listing(agent_root)


def test_images_have_no_shell_no_pip_no_compiler_and_need_no_library_that_is_not_there(
    operator_root: Path, agent_root: Path
) -> None:
    for root in (operator_root, agent_root):
        programs = {path.name for path in root.rglob("bin/*")}
        assert programs & SHELLS == set()
        for pattern in ("pip", "*.whl", "ensurepip", "dist-packages", "*.a"):
            assert list(root.rglob(pattern)) == []
        libraries = [path for path in root.rglob("*.so*") if path.is_file() and not path.is_symlink()]
        assert len(libraries) > 20
        for path in libraries:
            # The loader itself says what it would load.
            done = inside(root, "/lib64/ld-linux-x86-64.so.2", "--list", f"/{path.relative_to(root)}")
            assert "not found" not in done.stdout, (path, done.stdout)


def test_every_file_of_an_image_can_be_read_by_any_user_and_written_by_none(operator_root: Path) -> None:
    for path in operator_root.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o7777
            assert mode in {0o644, 0o755} or (path.is_dir() and path.name == "tmp" and mode == 0o1777), path


def test_the_operators_image_answers_to_every_name(operator_root: Path) -> None:
    names = inside(operator_root, "/usr/local/bin/haulout", "as", "--names").stdout.split()
    assert {"pika", "skyhook-agent", DROP_IN} <= set(names)
    for name in names:
        for path in (f"/{name}", f"/usr/local/bin/{name}"):
            assert str((operator_root / path.lstrip("/")).readlink()) == "/opt/haulout/bin/haulout"


def test_the_interpreter_has_all_that_haulout_imports_and_trusts_the_usual_authorities(operator_root: Path) -> None:
    script = (
        "import asyncio, ssl, botocore.session, cryptography.x509, pyVmomi, uvloop, zoneinfo\n"
        "zoneinfo.ZoneInfo('Europe/Berlin')\n"
        "print(len(ssl.create_default_context().get_ca_certs()))"
    )
    done = inside(operator_root, "/opt/haulout/bin/python", "-c", script)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_an_image_says_what_it_was_made_of(images: HauloutImages, operator_root: Path) -> None:
    source = images.source()
    module = (operator_root / "opt/haulout/lib/python3.11/site-packages/haulout/__init__.py").read_text()
    assert module.endswith(f'COMMIT = "{source.commit}"\nBUILT = "{source.committed_at}"\n')
    labels = images.config("operator")["config"]["Labels"]
    assert labels["org.opencontainers.image.revision"] == source.commit
    assert labels["org.opencontainers.image.version"] == __version__


def test_the_agents_image_has_nothing_else_of_haulout_and_starts_by_itself(agent_root: Path) -> None:
    programs = {path.name for path in agent_root.rglob("bin/*")}
    assert {re.sub(r"[\d.]+$", "", name) for name in programs} == {"python", "skyhook-agent"}
    haulout = {path.name for path in (agent_root / "opt/haulout/haulout").iterdir()}
    assert haulout == {"__init__.py", "__pycache__", "agent"}
    names = {path.stem for path in agent_root.rglob("*.py")}
    assert names & {"authoring", "new", "trial", "sandbox", "validate", "dry_run"} == set()
    folders = {path.name for path in agent_root.rglob("*") if path.is_dir()}
    assert folders & {"asyncio", "email", "http", "multiprocessing", "unittest", "urllib", "xmlrpc", "venv"} == set()
    done = inside(agent_root, "/usr/bin/skyhook-agent", "--version")
    assert (done.stdout, done.stderr) == (f"{__version__}\n", "")


def test_bills_name_every_package_with_its_license(images: HauloutImages) -> None:
    for name in images.built:
        spdx = json.loads((images.directory / f"{name}.spdx.json").read_text())
        cyclonedx = json.loads((images.directory / f"{name}.cdx.json").read_text())
        assert (spdx["spdxVersion"], cyclonedx["specVersion"]) == ("SPDX-2.3", "1.6")
        whole, *parts = spdx["packages"]
        assert whole["versionInfo"] == images.built[name].digest
        assert all(part["licenseDeclared"] and part["checksums"] for part in parts)
        purls = {part["externalRefs"][0]["referenceLocator"] for part in parts}
        assert purls == {part["purl"] for part in cyclonedx["components"]}
        assert f"pkg:pypi/haulout@{__version__}" in purls
        assert len({part["SPDXID"] for part in parts}) == len(parts)
    assert any(purl.startswith("pkg:npm/preact@") for purl in purls)


def test_the_plugin_for_kubectl_runs_with_its_own_interpreter_from_a_link(
    images: HauloutImages, scratch: Scratch
) -> None:
    """As Krew installs it: unpacked somewhere, and linked from a folder of the path. Nothing of this machine's Python is used."""
    output, place = scratch.directory("krew"), scratch.directory("store")
    names = plugin.write(images.directory, output, "https://example.com/releases")
    (packed,) = output.glob("*.tar.gz")
    manifest = yaml.safe_load((output / "haulout.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    assert names == [packed.name, "haulout.yaml", "SHA256SUMS"]
    assert platform["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert platform["uri"] == f"https://example.com/releases/v{__version__}/{packed.name}"
    layout.extract(packed, place / "files")
    (place / "kubectl-haulout").symlink_to(place / "files" / platform["bin"])

    def answered(*words: str) -> str:
        done = subprocess.run(
            [place / "kubectl-haulout", *words],
            env={"PATH": "/usr/bin:/bin", "HOME": str(place)},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    assert answered("version").startswith(f"haulout {__version__}\ncommit {images.source().commit}")
    assert "kind: CustomResourceDefinition" in answered("crds", "packages")
