"""Parses config.json into a Package, and checks all rules for packages. The caller reads the disk."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

from haulout.agent.errors import AgentError
from haulout.agent.migrations import migrate
from haulout.agent.modes import ACTIONS, MODES, WITH_VERSIONS, check_of, constant, is_check
from haulout.agent.package import Package, Step

PACKAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
STEP_KEYS = frozenset({field.name for field in fields(Step)} | {"requires_interrupt"})


class StepFile(Enum):
    """What a step's path in the package leads to: a regular file, nothing, a place outside of the package, or else."""

    REGULAR = "regular"
    MISSING = "missing"
    OUTSIDE = "outside"
    OTHER = "other"


FindStep = Callable[[str], StepFile]


class InvalidJson(AgentError):
    """A config.json that cannot be parsed."""


def load(text: bytes, find: FindStep, warn: Callable[[str], None]) -> Package:
    """Return the package, or raise an AgentError with the first rule that it breaks."""
    document = migrate(parse(text))
    modes = build_modes(document["modes"])
    _check_names(document["package_name"], document["expected_config_files"])
    check_steps(modes)
    for warning in unchecked(modes):
        warn(warning)
    check_files(modes, find)
    expected = tuple(document["expected_config_files"])
    return Package(document["package_name"], document["package_version"], expected, modes)


def parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InvalidJson("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise InvalidJson(str(error)) from None
    except UnicodeDecodeError:  # its message would quote the bytes
        raise InvalidJson("not UTF-8") from None
    except ValueError:  # the only one that is left: Python does not convert numbers of any length
        raise InvalidJson(f"a number has more than {sys.get_int_max_str_digits()} digits") from None


def build_modes(document: Mapping[str, list[dict[str, Any]]]) -> dict[str, tuple[Step, ...]]:
    modes: dict[str, tuple[Step, ...]] = {}
    for mode, steps in document.items():
        if mode not in MODES:
            raise AgentError(f"{mode!r} is not a valid Mode")
        modes[mode] = tuple(map(build_step, steps)) if mode != "interrupt" else ()
    return modes


def build_step(document: dict[str, Any]) -> Step:
    for key in document:
        if key not in STEP_KEYS:
            raise AgentError(f"Step.__init__() got an unexpected keyword argument {key!r}")
    arguments = document["arguments"]
    if document["upgrade_step"] and arguments:
        raise AgentError(f"UpgradeStep {document['name']} can not have any arguments, but found: {arguments}")
    return Step(
        name=document["name"],
        path=document["path"],
        arguments=tuple(arguments),
        returncodes=tuple(document["returncodes"]),
        on_host=document["on_host"],
        idempotence=document["idempotence"],
        upgrade_step=document["upgrade_step"],
        env=document.get("env", {}),
    )


def _check_names(name: str, expected: list[str]) -> None:
    """Check the names that become parts of paths on the host."""
    if not PACKAGE_NAME.fullmatch(name) or ".." in name:
        raise AgentError(f"Invalid package_name: {name}")
    for file in expected:
        if file in ("", ".", "..") or "/" in file or "\0" in file:
            raise AgentError(f"Invalid name in expected_config_files: {file!r}")


def check_steps(modes: Mapping[str, tuple[Step, ...]]) -> None:
    """Check the rules about all steps together that can be checked without the disk."""
    if not any(modes.values()):
        raise AgentError("There are no defined steps.")
    if not any(mode in modes for mode in ACTIONS):
        names = ", ".join(map(constant, ACTIONS))
        raise AgentError(f"There are only check modes defined. You must define at least one of {names}")
    for mode in ACTIONS:
        if modes.get(mode) and not modes.get(check_of(mode)):
            raise AgentError(f"Couldn't validate steps. There are no checks for any of the {mode} steps.")
    for mode, steps in modes.items():
        for step in steps:
            if step.upgrade_step and mode not in WITH_VERSIONS:
                raise AgentError(
                    f"UpgradeStep {step.path} defined in the {mode} mode but can only be defined in the UPGRADE or"
                    " UPGRADE_CHECK modes."
                )


def unchecked(modes: Mapping[str, tuple[Step, ...]]) -> Iterator[str]:
    """Yield a warning for each action step without a check step of the matching name (see `check_path`)."""
    checks = {step.path for mode, steps in modes.items() if is_check(mode) for step in steps}
    targets = {check_path(step.path): None for mode in ACTIONS for step in modes.get(mode, ())}
    for target in targets:
        if target not in checks:
            yield f"WARNING:root: {target} doesn't exist. Checks ensure that all tasks in the step will complete."


def check_path(path: str) -> str:
    """Return the path at which the check of a step is looked for: a/b.sh gives a/b_check.sh."""
    stem, dot, extension = path.rpartition(".")
    return f"{stem}_check.{extension}" if dot and extension else f"{stem if dot else path}_check"


def check_files(modes: Mapping[str, tuple[Step, ...]], find: FindStep) -> None:
    """Check that every step is a regular file of the package."""
    paths = [step.path for steps in modes.values() for step in steps]
    for path in paths:
        if escapes(path):
            raise AgentError(f"Step path escapes the package: {path}")
    kinds = {path: find(path) for path in paths}
    missing = [path for path in paths if kinds[path] is StepFile.MISSING]
    if missing:
        raise AgentError("Following steps did not exist:" + ", ".join(missing))
    for path, kind in kinds.items():
        if kind is StepFile.OUTSIDE:
            raise AgentError(f"Step path escapes the package: {path}")
        if kind is StepFile.OTHER:
            raise AgentError(f"Step is not a regular file: {path}")


def escapes(path: str) -> bool:
    """Whether a path is not plainly relative: absolute, or with empty, "." or ".." components, or with a NUL."""
    return "\0" in path or any(part in ("", ".", "..") for part in path.split("/"))
