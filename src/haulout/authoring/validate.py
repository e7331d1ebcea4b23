"""`haulout package validate PATH`: checks that a package follows all rules, for authors and their CI."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from haulout.agent import console
from haulout.agent.config import InvalidJson, load
from haulout.agent.errors import AgentError, UsageError, reason
from haulout.agent.hostroot import HostRoot
from haulout.agent.migrations import SchemaError
from haulout.agent.package import Package
from haulout.agent.sources import PackageFolder

FORMATS = ("text", "json")
PASSED = (
    "✓ Schema validation: passed",
    "✓ Step files validation: passed",
    "✓ Executable bit validation: passed",
)


@dataclass(slots=True)
class Findings:
    """The errors and warnings about a package."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def main(words: Sequence[str]) -> int:
    path, style = _options(words[1:])
    findings = validate(path)
    if style == "json":
        document = {"valid": not findings.errors, "errors": findings.errors, "warnings": findings.warnings}
        console.say(json.dumps(document, ensure_ascii=False))
        return 1 if findings.errors else 0
    for warning in findings.warnings:
        console.say(warning, is_error=True)
    for error in findings.errors:
        console.say(f"ERROR: {error}", is_error=True)
    for line in () if findings.errors else (*PASSED, f"✓ Validation successful: {path}"):
        console.say(line)
    return 1 if findings.errors else 0


def _options(words: Sequence[str]) -> tuple[str, str]:
    match [*words]:
        case [path]:
            return path, "text"
        case ["--format", style, path] | [path, "--format", style] if style in FORMATS:
            return path, style
        case [path, one] | [one, path] if one.removeprefix("--format=") in FORMATS and one.startswith("--format="):
            return path, one.removeprefix("--format=")
        case _:
            raise UsageError("validate takes one path, and --format text or json")


def validate(path: str) -> Findings:
    """Check a config.json or the package directory that holds one."""
    findings = Findings()
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    if not os.path.isfile(file):
        findings.errors.append(f"Config file not found: {file}")
        return findings
    folder = os.path.dirname(os.path.realpath(file))
    try:
        with open(file, "rb") as opened:
            text = opened.read()
        package = load(text, PackageFolder(HostRoot("/"), folder).find_step, findings.warnings.append)
    except (AgentError, OSError) as error:
        findings.errors.append(_message(file, error))
        return findings
    lines = list(unexecutable(folder, package))
    if lines:
        findings.errors.append("\n  ".join(["Executable bit validation failed:", *lines]))
    return findings


def load_directory(path: str) -> Package:
    """Return the package in a directory. Raises an AgentError with all its errors if it is not valid."""
    findings = validate(path)
    if findings.errors:
        raise AgentError("\n".join(f"ERROR: {error}" for error in findings.errors))
    folder = os.path.realpath(path if os.path.isdir(path) else os.path.dirname(path))
    with open(f"{folder}/config.json", "rb") as opened:
        return load(opened.read(), PackageFolder(HostRoot("/"), folder).find_step, lambda _: None)


def _message(file: str, error: AgentError | OSError) -> str:
    match error:
        case InvalidJson():
            return f"Invalid JSON in {file}: {error}"
        case SchemaError():
            path = ".".join(map(str, error.path)) or "(top level)"
            return f"Schema validation failed for {file}:\n  {error}\n  Path: {path}"
        case OSError():
            return f"Validation failed for {file}: {reason(error)}"
        case _:
            return f"Validation failed for {file}: {error}"


def unexecutable(folder: str, package: Package) -> Iterator[str]:
    """Yield a line for each step and each shell script without an x bit."""
    steps = dict.fromkeys(f"skyhook_dir/{step.path}" for steps in package.modes.values() for step in steps)
    for path in steps:
        if not _is_executable(f"{folder}/{path}"):
            yield f"Script referenced in config.json is not executable: {path} (full path: {folder}/{path})"
    for path in _shell_scripts(folder):
        if path not in steps and not _is_executable(f"{folder}/{path}"):
            yield f"Shell script is not executable: {path} (full path: {folder}/{path})"


def _shell_scripts(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = os.path.join(here, name)
            if name.endswith(".sh") and os.path.isfile(path):
                yield os.path.relpath(path, folder)


def _is_executable(path: str) -> bool:
    return bool(os.stat(path).st_mode & 0o111)
