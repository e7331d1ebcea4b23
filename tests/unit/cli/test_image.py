"""The images as data: the container file makes what `python -m tools.images` makes, from pinned parts with allowed licenses."""

from __future__ import annotations

import importlib.metadata
import io
import json
import re
import subprocess
import sys
import tarfile
from email.message import Message
from pathlib import Path

import pytest

from haulout.app.main import AGENT as AGENT_PROGRAM
from haulout.surfaces.registry import programs
from tools.images import debian, licenses, pack, trees, wheels
from tools.images.__main__ import DEFAULT, names_of_packages
from tools.images.spec import AGENT, LOADER, OPERATOR, PATH, image, wants_of_wheel

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "deploy" / "Dockerfile").read_text()
DROP_IN = "node-maintenance-operator"
# The stages of the container file that are images, and the images that they make.
STAGES = {"haulout": OPERATOR, "agent": AGENT, "original": DROP_IN}


def stage(name: str) -> list[str]:
    (found,) = re.findall(rf"^FROM \S+ AS {name}\n(.*?)(?:\n\n|\Z)", RECIPE, re.MULTILINE | re.DOTALL)
    return str(found).strip().splitlines()


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [match[1] for match in re.finditer(r"^COPY (?!--from)(\S+) ", RECIPE, re.MULTILINE)]
    assert {f"!{source}" for source in sources} == {line for line in ignored if line.startswith("!")}
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"COPY {source} /src/{source}" in RECIPE


@pytest.mark.parametrize(("name", "made"), STAGES.items(), ids=STAGES)
def test_a_stage_of_the_container_file_is_the_image_of_that_name(name: str, made: str) -> None:
    wanted = image(made)
    assert stage(name) == [
        f"COPY --from={name}-files /image /",
        f"ENV {PATH}",
        f"USER {wanted.user}",
        f"ENTRYPOINT {json.dumps(list(wanted.entrypoint))}",
        *([] if name == "agent" else [f"CMD {json.dumps(list(wanted.command))}"]),
    ]


@pytest.mark.parametrize(("name", "made"), STAGES.items(), ids=STAGES)
def test_the_files_of_a_stage_are_collected_by_the_program_that_makes_images(name: str, made: str) -> None:
    (words,) = re.findall(r"python -m tools\.images (.*)", "\n".join(stage(f"{name}-files")))
    assert words == f"--root /image {made}".replace(DROP_IN, '"$ORIGINAL"')


def test_every_base_is_named_by_its_digest() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", RECIPE, re.MULTILINE)
    assert re.fullmatch(r"[\w.:/-]+@sha256:[0-9a-f]{64}", base)
    bases = re.findall(r"^FROM (?:--\S+ )?(\S+)", RECIPE, re.MULTILINE)
    stages = re.findall(r"^FROM .*?AS (\S+)", RECIPE, re.MULTILINE)
    assert {each for each in bases if each not in stages} == {"$BASE", "scratch"}


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


def test_the_entry_point_starts_the_agent_under_its_declared_name() -> None:
    assert AGENT_PROGRAM in programs()


def test_manager_starts_its_original_whatever_it_is_called_by(tmp_path: Path) -> None:
    """The very program, with another Haulout in the place of ours."""
    package = tmp_path / "haulout" / "app"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "main.py").write_text("import sys\n\ndef main():\n    print(sys.argv)\n    return 3\n")
    manager = tmp_path / "manager"
    manager.write_text(trees.MANAGER.format(name=DROP_IN))
    done = subprocess.run(
        [sys.executable, str(manager), "--leader-elect", "a b"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (3, f"['haulout', 'as', '{DROP_IN}', '--leader-elect', 'a b']\n")


def test_every_package_of_an_image_is_pinned_and_no_other() -> None:
    lock = debian.read()
    assert {package.name for package in lock.packages} == names_of_packages()
    assert lock.text() == debian.LOCK.read_text()
    assert lock.epoch > 1_700_000_000


def test_a_line_that_pins_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "debian.lock"
    path.write_text("snapshot 20260101T000000Z\nlibc6 2.36 sha256:0 debian/pool/libc6.deb\n")
    with pytest.raises(SystemExit, match=r"debian\.lock:2: not a package"):
        debian.read(path)


def test_licenses_of_all_debian_packages_are_known_and_allowed() -> None:
    assert licenses.DEBIAN.keys() == names_of_packages()
    assert {name: licenses.refused(name, found) for name, found in licenses.DEBIAN.items()} == {
        name: [] for name in licenses.DEBIAN
    }


def test_licenses_of_all_locked_dependencies_are_allowed() -> None:
    names = re.findall(r"^([\w.-]+)==", wheels.REQUIREMENTS.read_text(), re.MULTILINE)
    assert len(names) > 20
    for name in names:
        metadata = importlib.metadata.metadata(name)
        assert isinstance(metadata, Message)
        assert licenses.refused(name, licenses.license_of(metadata)) == [], name


@pytest.mark.parametrize(
    ("name", "expression", "expected"),
    [
        ("a", "MIT", []),
        ("a", "Apache-2.0 AND MIT", []),
        ("a", "GPL-3.0-only OR MIT", []),
        ("a", "(GPL-3.0-only OR MIT) AND AGPL-3.0-only", ["AGPL-3.0-only"]),
        ("a", "GPL-2.0-or-later", ["GPL-2.0-or-later"]),
        ("base-files", "GPL-2.0-or-later", []),
        ("a", "", ["no license is declared"]),
    ],
)
def test_a_license_that_is_not_allowed_is_refused(name: str, expression: str, expected: list[str]) -> None:
    assert licenses.refused(name, expression) == expected


def test_images_have_no_shell_and_no_unused_modules() -> None:
    for name in DEFAULT:
        assert not {"dash", "bash", "busybox", "coreutils", "dpkg", "apt"} & set(image(name).packages)
        assert not image(name).wants("usr/lib/python3.11/idlelib/run.py")
        assert image(name).wants("usr/share/doc/libc6/copyright")
        assert not image(name).wants("usr/share/doc/libc6/changelog.gz")
    assert image(OPERATOR).wants("usr/lib/python3.11/asyncio/events.py")
    assert not image(AGENT).wants("usr/lib/python3.11/asyncio/events.py")


def test_of_the_services_of_aws_only_those_for_messages_are_in_an_image() -> None:
    assert wants_of_wheel("botocore/data/sns/2010-03-31/service-2.json.gz")
    assert wants_of_wheel("botocore/data/endpoints.json")
    assert not wants_of_wheel("botocore/data/ec2/2016-11-15/service-2.json.gz")


def deb(path: Path, files: dict[str, bytes], links: dict[str, str]) -> Path:
    """Write a Debian package."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if "bin/" in name else 0o600
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    content = b"!<arch>\n"
    for name, member in (("debian-binary", b"2.0\n"), ("data.tar.xz", data.getvalue())):
        content += f"{name:<16}{0:<12}{0:<6}{0:<6}{0o100644:<8}{len(member):<10}`\n".encode()
        content += member + b"\n" * (len(member) % 2)
    path.write_bytes(content)
    return path


def test_the_files_of_a_package_are_laid_out_as_in_a_merged_system(tmp_path: Path) -> None:
    files = {"./bin/tool": b"#!", "./lib/libc.so": b"1", "./etc/shadow": b"2", "./usr/share/man/x": b"3"}
    made = deb(tmp_path / "x.deb", files, {"./lib64/ld.so": "/lib/ld.so"})
    debian.unpack(made, tmp_path / "root", lambda path: "man" not in path)
    root = tmp_path / "root"
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if not path.is_dir()}
    assert found.keys() == {"usr/bin/tool", "usr/lib/libc.so", "etc/shadow", "usr/lib64/ld.so"}
    assert str(found["usr/lib64/ld.so"].readlink()) == "/lib/ld.so"
    assert [oct(found[name].stat().st_mode)[-3:] for name in ("usr/bin/tool", "etc/shadow")] == ["755", "644"]


def test_a_package_with_a_file_outside_of_the_root_is_refused(tmp_path: Path) -> None:
    made = deb(tmp_path / "x.deb", {"./../outside": b"1"}, {})
    with pytest.raises(SystemExit, match="outside of the root"):
        debian.unpack(made, tmp_path / "root", lambda path: True)


def test_the_same_files_make_the_same_layer_whenever_and_wherever(tmp_path: Path) -> None:
    made = []
    for number, name in enumerate(("first", "a/second")):
        root = tmp_path / name
        for file in ("module/b.py", "module/a.py") if number else ("module/a.py", "module/b.py"):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("WORDS = {'one', 'two', 'three'}\nif 1 in {'x', 'y', 'z', 'w'}:\n    pass\n")
            (root / file).chmod(0o640 if number else 0o644)
        request = {"root": str(root), "compile": ["module"], "epoch": 1, "into": str(tmp_path / f"{number}.tar.gz")}
        done = subprocess.run(
            [sys.executable, "-s", "-S", "-B", pack.__file__],
            input=json.dumps(request),
            env={"PYTHONHASHSEED": "0"},
            check=True,
            capture_output=True,
            text=True,
        )
        made.append(json.loads(done.stdout))
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "0.tar.gz") as tar:
        owners = {(entry.uid, entry.gid, entry.mtime) for entry in tar}
        names = [entry.name for entry in tar]
    assert owners == {(0, 0, 1)}
    assert names == sorted(names)


def test_the_loader_is_where_the_c_library_puts_it() -> None:
    assert debian.merged("./lib/x86_64-linux-gnu/ld-linux-x86-64.so.2") == LOADER
