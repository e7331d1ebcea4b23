"""The container file: what it copies exists, and programs that charts start by name have that name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import agent_image
from haulout import __version__
from haulout.app.main import AGENT
from haulout.surfaces.registry import originals, programs
from tests.rig.image import collect_agent

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "deploy" / "Dockerfile").read_text()


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [match[1] for match in re.finditer(r"^COPY (?!--from)(\S+) ", RECIPE, re.MULTILINE)]
    assert set(sources) == {"requirements/run.txt", "src/haulout", "deploy/haulout", "deploy/agent_image.py"}
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored


def test_every_original_is_there_by_its_name(tmp_path: Path) -> None:
    """The very words that make the links, with another root."""
    (words,) = re.findall(r"^RUN (ln -s /opt/haulout/bin/haulout .*?\n    done)$", RECIPE, re.MULTILINE | re.DOTALL)
    program, links = tmp_path / "opt/haulout/bin/haulout", tmp_path / "usr/local/bin"
    program.parent.mkdir(parents=True)
    links.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m haulout.app.main "$@"\n')
    program.chmod(0o755)
    made = re.sub(r'(?<=[ "(])/(?=opt|usr|\$)', f"{tmp_path}/", words)
    subprocess.run(["sh", "-c", made], check=True)
    expected = {*originals(), *programs()}
    assert {path.name for path in links.iterdir()} == {*expected, "haulout"}
    assert {path.name for path in tmp_path.iterdir() if path.is_symlink()} == expected
    assert {path.readlink() for path in links.iterdir()} == {program}


def test_no_link_is_made_where_the_names_cannot_be_had(tmp_path: Path) -> None:
    (words,) = re.findall(r"names=\$.*?\n    done", RECIPE, re.DOTALL)
    done = subprocess.run(
        ["sh", "-c", words.replace("/opt/haulout/bin/haulout as", "false")], check=False, cwd=tmp_path
    )
    assert done.returncode == 1


def test_the_entry_point_starts_the_agent_under_its_declared_name() -> None:
    assert AGENT in programs()


def test_the_image_of_one_original_starts_it_whatever_it_is_called_by(tmp_path: Path) -> None:
    """The very words that make its program, with another program in the place of ours."""
    (words,) = re.findall(r"printf .*? > /manager", RECIPE)
    manager, seen = tmp_path / "manager", tmp_path / "seen"
    seen.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    seen.chmod(0o755)
    made = words.replace("/usr/local/bin/haulout", str(seen)).replace("> /manager", f"> {manager}")
    subprocess.run(["sh", "-c", made], check=True, env={"ORIGINAL": "node-maintenance-operator"})
    done = subprocess.run(["sh", str(manager), "--leader-elect", "a b"], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["as", "node-maintenance-operator", "--leader-elect", "a b"]


def test_what_it_was_made_of_is_known_to_it(tmp_path: Path) -> None:
    (words,) = re.findall(r"printf 'COMMIT.*", RECIPE)
    module = tmp_path / "made.py"
    made = re.sub(r">> \S+", f">> {module}", words)
    subprocess.run(["sh", "-c", made], check=True, env={"COMMIT": "c0ffee", "BUILT": "2026-01-01"})
    assert module.read_text() == 'COMMIT = "c0ffee"\nBUILT = "2026-01-01"\n'


def test_every_base_is_named_by_its_digest() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", RECIPE, re.MULTILINE)
    assert re.fullmatch(r"[\w.:/-]+@sha256:[0-9a-f]{64}", base)
    bases = re.findall(r"^FROM (\S+)", RECIPE, re.MULTILINE)
    stages = re.findall(r"^FROM \S+ AS (\S+)", RECIPE, re.MULTILINE)
    assert {each for each in bases if each not in stages} == {"$BASE", "scratch"}


def test_the_agents_image_holds_what_was_collected_and_runs_nothing_to_get_it() -> None:
    (stage,) = re.findall(r"^FROM scratch AS agent\n(.*?)\n\n", RECIPE, re.MULTILINE | re.DOTALL)
    assert stage.splitlines() == [
        "COPY --from=agent-files /image /",
        f"ENV {agent_image.IMAGE_ENV.strip()}",
        "USER 0:0",
        'ENTRYPOINT ["/usr/bin/skyhook-agent"]',
    ]


@pytest.fixture(scope="module")
def agents_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the agent's image, made by this machine's interpreter."""
    return collect_agent(tmp_path_factory.mktemp("agent") / "image")


def test_the_agents_image_has_no_shell_no_pip_no_compiler_and_nothing_else_of_haulout(agents_root: Path) -> None:
    programs = {path.name for path in agents_root.rglob("bin/*")}
    assert {re.sub(r"[\d.]+$", "", name) for name in programs} == {"python", "skyhook-agent"}
    for pattern in ("pip", "*.whl", "ensurepip", "*-packages", "*.a"):
        assert list(agents_root.rglob(pattern)) == []
    haulout = {path.name for path in (agents_root / "opt/haulout/haulout").iterdir()}
    assert haulout == {"__init__.py", "__pycache__", "agent"}


def test_the_agents_image_has_no_tools_for_authors_and_no_network_or_test_library(agents_root: Path) -> None:
    names = {path.stem for path in agents_root.rglob("*.py")}
    assert names & {"authoring", "new", "trial", "sandbox", "validate", "dry_run"} == set()
    folders = {path.name for path in agents_root.rglob("*") if path.is_dir()}
    assert folders & {"asyncio", "email", "http", "multiprocessing", "unittest", "urllib", "xmlrpc", "venv"} == set()


def test_the_agents_image_starts_by_itself(agents_root: Path) -> None:
    launcher = agents_root / "usr/bin/skyhook-agent"
    (python,) = re.findall(r"^#!(\S+) -IS$", launcher.read_text(), re.MULTILINE)
    assert (agents_root / python[1:]).stat().st_mode & 0o111
    if os.geteuid() != 0:
        pytest.skip("a chroot needs root")
    done = subprocess.run(
        ["/usr/bin/skyhook-agent", "--version"],
        preexec_fn=lambda: os.chroot(agents_root),
        cwd="/",
        env={},
        check=True,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == (f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("base", "code"),
    [
        (f"debian:12@sha256:{'0' * 64}", 0),
        ("debian:12", 1),
        ("debian:12@sha256:0", 1),
        ("", 1),
    ],
)
def test_a_base_without_a_digest_is_refused(base: str, code: int) -> None:
    """The very words of the recipe."""
    (words,) = re.findall(r"^RUN (case \"\$BASE\".*?esac)$", RECIPE, re.MULTILINE | re.DOTALL)
    done = subprocess.run(["sh", "-c", words], check=False, capture_output=True, text=True, env={"BASE": base})
    assert (done.returncode, "by its digest" in done.stderr) == (code, code == 1)
