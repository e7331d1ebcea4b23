"""config.json: what is accepted, what is refused with which message, and `validate` and `new`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from haulout.agent.config import StepFile, check_path, load
from haulout.agent.errors import AgentError
from haulout.agent.migrations import migrate
from haulout.agent.schema import SEMVER, Violation
from tests.build.agent import AgentHost, step

Document = dict[str, Any]
GOOD: Document = {
    "schema_version": "v1",
    "package_name": "demo",
    "package_version": "1.0.0",
    "expected_config_files": [],
    "modes": {"apply": [step("a.sh")], "apply-check": [step("a_check.sh")]},
}


def accept(document: Any, *, missing: tuple[str, ...] = ()) -> list[str]:
    """Load a document whose steps exist but for some. Return the warnings."""
    warnings: list[str] = []
    load(
        json.dumps(document).encode(),
        lambda path: StepFile.MISSING if path in missing else StepFile.REGULAR,
        warnings.append,
    )
    return warnings


def changed(*path: str | int, to: Any = None, without: bool = False) -> Document:
    document = copy.deepcopy(GOOD)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    if without:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return document


A = ("modes", "apply", 0)
REFUSED: dict[str, tuple[Document, str]] = {
    "no schema_version": (changed("schema_version", without=True), "'schema_version' is a required property"),
    "latest": (changed("schema_version", to="latest"), "Unknown skyhook-agent schema version: latest"),
    "no package_name": (changed("package_name", without=True), "'package_name' is a required property"),
    "no modes": (changed("modes", without=True), "'modes' is a required property"),
    "number as name": (changed("package_name", to=5), "5 is not of type 'string'"),
    "short version": (changed("package_version", to="1.0"), f"'1.0' does not match {SEMVER!r}"),
    "leading zero": (changed("package_version", to="2024.01.01"), f"'2024.01.01' does not match {SEMVER!r}"),
    "line break after version": (changed("package_version", to="1.0.0\n"), f"'1.0.0\\n' does not match {SEMVER!r}"),
    "mode as object": (changed("modes", "apply", to={}), "{} is not of type 'array'"),
    "step name": (changed(*A, "name", to="a b"), "'a b' does not match '^[a-zA-Z0-9_\\\\-.]+$'"),
    "no on_host": (changed(*A, "on_host", without=True), "'on_host' is a required property"),
    "no returncodes": (changed(*A, "returncodes", to=[]), "[] should be non-empty"),
    "half a returncode": (changed(*A, "returncodes", to=[0.5]), "0.5 is not of type 'integer'"),
    "truth as returncode": (changed(*A, "returncodes", to=[True]), "True is not of type 'integer'"),
    "number as argument": (changed(*A, "arguments", to=[1]), "1 is not of type 'string'"),
    "number as boolean": (changed(*A, "on_host", to=1), "1 is not of type 'boolean'"),
    "null as env": (changed(*A, "env", to=None), "None is not of type 'object'"),
    "secret in env": (changed(*A, "env", to={"TOKEN": 12345}), "a value of env is not of type 'string'"),
    "the shallowest wins": (
        {**changed(*A, "name", to=5), "package_version": "1"},
        f"'1' does not match {SEMVER!r}",
    ),
    "unknown mode": (changed("modes", "foo", to=[]), "'foo' is not a valid Mode"),
    "unknown key": (changed(*A, "foo", to=1), "Step.__init__() got an unexpected keyword argument 'foo'"),
    "upgrade with arguments": (
        changed(*A, to=step("a.sh", "x", upgrade_step=True)),
        "UpgradeStep a.sh can not have any arguments, but found: ['x']",
    ),
    "no steps": (changed("modes", to={"apply": []}), "There are no defined steps."),
    "only checks": (
        changed("modes", "apply", without=True),
        (
            "There are only check modes defined. You must define at least one of UNINSTALL, UPGRADE, APPLY, CONFIG,"
            " POST_INTERRUPT"
        ),
    ),
    "no checks": (
        changed("modes", "apply-check", without=True),
        "Couldn't validate steps. There are no checks for any of the apply steps.",
    ),
    "upgrade step in apply": (
        changed(*A, "upgrade_step", to=True),
        "UpgradeStep a.sh defined in the apply mode but can only be defined in the UPGRADE or UPGRADE_CHECK modes.",
    ),
    "name with slash": (changed("package_name", to="a/b"), "Invalid package_name: a/b"),
    "name with dots": (changed("package_name", to="a..b"), "Invalid package_name: a..b"),
    "long name": (changed("package_name", to="a" * 129), f"Invalid package_name: {'a' * 129}"),
    "config file with slash": (
        changed("expected_config_files", to=["../x"]),
        "Invalid name in expected_config_files: '../x'",
    ),
    "NUL in path": (changed(*A, "path", to="a\0"), "Step path escapes the package: a\0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    document, message = REFUSED[name]
    with pytest.raises(AgentError) as caught:
        accept(document)
    assert str(caught.value) == message


@pytest.mark.parametrize("document", ["[]", "5", '"x"', "null"])
def test_what_is_no_object_is_refused(document: str) -> None:
    with pytest.raises(AgentError, match="is not of type 'object'"):
        accept(json.loads(document))


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(AgentError):
        load(text, lambda _: StepFile.REGULAR, lambda _: None)


def test_missing_steps_are_named_together() -> None:
    with pytest.raises(AgentError) as caught:
        accept(GOOD, missing=("a.sh", "a_check.sh"))
    assert str(caught.value) == "Following steps did not exist:a.sh, a_check.sh"


@pytest.mark.parametrize(
    "document",
    [
        GOOD,
        changed("more", to=1),
        changed("root_dir", to=5),
        changed(*A, "requires_interrupt", to="whatever"),
        changed(*A, "returncodes", to=[1.0]),
        changed(*A, "env", to={"A": ""}),
        changed("modes", "config", to=[]),
        changed("modes", "interrupt", to=[]),
        changed("modes", "post-interrupt-check", to=[step("x_check.sh")]),
        changed("package_version", to="1.0.0-dev+build1"),
        changed("package_version", to="2024.12.19"),
    ],
)
def test_accepted(document: Document) -> None:
    assert accept(document) == []


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a.sh", "a_check.sh"),
        ("x", "x_check"),
        ("a.d/x", "a_check.d/x"),
        ("x.", "x_check"),
        ("d/a.b.c", "d/a.b_check.c"),
    ],
)
def test_a_step_without_a_check_of_its_name_is_warned_of(path: str, target: str) -> None:
    assert check_path(path) == target
    words = f"WARNING:root: {target} doesn't exist. Checks ensure that all tasks in the step will complete."
    assert accept(changed(*A, "path", to=path)) == ([] if target == "a_check.sh" else [words])


def test_documents_are_validated_before_and_after_every_hop() -> None:
    seen: list[str] = []

    def validator(name: str) -> Callable[[Any], Violation | None]:
        return lambda document: seen.append(f"{name} {document['n']}")

    def grow(document: Document) -> Document:
        return {**document, "n": document["n"] + 1}

    validators = {name: validator(name) for name in ("v1", "v2", "v3")}
    hops = {"v1": ("v2", grow), "v2": ("v3", grow)}
    document = {"schema_version": "v1", "n": 0}
    assert migrate(document, "v3", validators, hops)["n"] == 2
    assert seen == ["v1 0", "v2 1", "v3 2"]
    with pytest.raises(AgentError, match="Unknown skyhook-agent schema version: v2"):
        migrate(document, "v3", validators, {"v1": ("v2", grow)})


def test_a_package_is_dumped_as_builders_expect_it() -> None:
    document = changed(*A, "env", to={"A": "1"})
    package = load(json.dumps(document).encode(), lambda _: StepFile.REGULAR, lambda _: None)
    dumped = package.document("/root")
    assert list(dumped) == [
        "schema_version",
        "root_dir",
        "expected_config_files",
        "package_name",
        "package_version",
        "modes",
    ]
    assert dumped == {**document, "root_dir": "/root"}
    assert list(dumped["modes"]["apply"][0]) == [
        "name",
        "path",
        "arguments",
        "returncodes",
        "on_host",
        "idempotence",
        "upgrade_step",
        "env",
    ]


def test_a_new_package_validates(local: AgentHost, tmp_path: Path) -> None:
    package = tmp_path / "tuning"
    assert local.author("new", str(package)).code == 0
    done = local.author("validate", str(package))
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "✓ Schema validation: passed\n✓ Step files validation: passed\n✓ Executable bit validation: passed\n"
        f"✓ Validation successful: {package}\n"
    )
    again = local.author("new", str(package))
    assert (again.code, again.err) == (1, f"cannot create {package}: File exists\n")
    assert local.author("new", str(tmp_path / "-bad")).code == 1


def spoiled(package: Path, how: str) -> None:
    config = package / "config.json"
    document = json.loads(config.read_text())
    match how:
        case "config":
            config.unlink()
        case "json":
            config.write_text("{")
        case "schema":
            document["modes"]["apply"][0]["name"] = "a b"
            config.write_text(json.dumps(document))
        case "bits":
            (package / "skyhook_dir/apply.sh").chmod(0o644)
            (package / "helper.sh").touch(0o644)
            (package / ".git").mkdir()
            (package / ".git/hook.sh").touch(0o644)
        case "path":
            document["modes"]["apply"][0]["path"] = "../config.json"
            config.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("config", "ERROR: Config file not found: {p}/config.json\n"),
        ("json", "ERROR: Invalid JSON in {p}/config.json: Expecting property name"),
        (
            "schema",
            (
                "ERROR: Schema validation failed for {p}/config.json:\n  'a b' does not match '^[a-zA-Z0-9_\\\\-.]+$'\n"
                "  Path: modes.apply.0.name\n"
            ),
        ),
        (
            "bits",
            (
                "ERROR: Executable bit validation failed:\n"
                "  Script referenced in config.json is not executable: skyhook_dir/apply.sh"
                " (full path: {p}/skyhook_dir/apply.sh)\n"
                "  Shell script is not executable: helper.sh (full path: {p}/helper.sh)\n"
            ),
        ),
        (
            "path",
            (
                "WARNING:root: ../config_check.json doesn't exist. Checks ensure that all tasks in the step will"
                " complete.\nERROR: Validation failed for {p}/config.json: Step path escapes the package: ../config.json\n"
            ),
        ),
    ],
)
def test_validate_says_what_is_wrong(local: AgentHost, tmp_path: Path, how: str, words: str) -> None:
    package = tmp_path / "tuning"
    assert local.author("new", str(package)).code == 0
    spoiled(package, how)
    done = local.author("validate", str(package))
    assert done.code == 1
    assert done.err.startswith(words.format(p=package))
    for argument in (str(package), str(package / "config.json")):
        told = local.author("validate", argument, "--format", "json")
        document = json.loads(told.out)
        assert (told.code, document["valid"], len(document["errors"])) == (1, False, 1)


@pytest.mark.parametrize(
    "words", [["validate"], ["validate", "a", "b"], ["validate", "--format", "xml", "a"], ["digest"]]
)
def test_wrong_words_are_wrong_usage(local: AgentHost, words: list[str]) -> None:
    assert local.author(*words).code == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"a": ' + b"9" * 5000 + b"}", "a number has more than 4300 digits"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
    ids=["digits", "bytes", "depth"],
)
def test_a_config_that_python_cannot_read_is_named(local: AgentHost, text: bytes, problem: str) -> None:
    (local.package / "config.json").write_bytes(text)
    done = local.run("apply")
    assert (done.code, done.err) == (1, f"Invalid JSON in {local.copy_dir}/config.json: {problem}\n")
