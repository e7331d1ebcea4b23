"""A package as its config.json describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One program of a package, run in one mode."""

    name: str
    path: str  # relative to skyhook_dir
    arguments: tuple[str, ...]
    returncodes: tuple[float, ...]  # as written: 1.0 counts as an integer and is printed as 1.0
    on_host: bool
    idempotence: bool  # true: the step itself can be repeated without harm, so the agent always runs it
    upgrade_step: bool
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def document(self) -> dict[str, Any]:
        """Return the step as config.json spells it."""
        fields: dict[str, Any] = {
            "name": self.name,
            "path": self.path,
            "arguments": list(self.arguments),
            "returncodes": list(self.returncodes),
            "on_host": self.on_host,
            "idempotence": self.idempotence,
            "upgrade_step": self.upgrade_step,
        }
        return {**fields, "env": dict(self.env)} if self.env else fields


@dataclass(frozen=True, slots=True)
class Package:
    """A package as config.json describes it, with the steps of each mode in the order of the file."""

    name: str
    version: str
    expected_config_files: tuple[str, ...]
    modes: Mapping[str, tuple[Step, ...]]

    def steps(self, mode: str) -> tuple[Step, ...]:
        return self.modes.get(mode, ())

    def document(self, root_dir: str = "") -> dict[str, Any]:
        """Return the package as config.json spells it, in the order of keys that builders of packages expect."""
        return {
            "schema_version": "v1",
            "root_dir": root_dir,
            "expected_config_files": list(self.expected_config_files),
            "package_name": self.name,
            "package_version": self.version,
            "modes": {mode: [step.document() for step in steps] for mode, steps in self.modes.items()},
        }
