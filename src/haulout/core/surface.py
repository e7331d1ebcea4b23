"""All that the rest of Haulout knows of a surface before it serves it: data, and the paths of what is imported then."""

from __future__ import annotations

from typing import Any

import msgspec

from haulout.core.rights import Name, Option, Role


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The program that a surface can take the place of.

    `name`: by which charts start it. `lease`: the name of its leader election Lease.
    """

    name: str
    lease: str


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """How the API server is told to ask a webhook of a surface.

    `configuration`: the name of the object that registers it, which `mutating` decides the kind of.
    `rules`: for which writes the webhook is asked, as the API has it.
    """

    configuration: str
    name: str
    path: str
    rules: tuple[dict[str, Any], ...]
    mutating: bool = False
    timeout_seconds: int = 15


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration file of a surface that an installation mounts, and the setting that names its path."""

    name: str
    setting: str = "config"


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """A surface, declared in `declare.py` of its folder as `SURFACE`.

    Paths are `module:name`. What they name is imported when the surface is served, explained or planned.

    `package`: the folder of the surface as a Python package, `__package__` of its declare.py.
    `summary`: what the surface does, in one line for people.
    `settings`: its block in `haulout.yaml`, which is also what its decisions read. None: it cannot be served yet.
    `within`: the surface whose block holds this one's, under this one's name and with a field `enabled`.
    `decisions`: path of its `Declaration`. `part`: path of the `Part` that serves it in a process.
    `crds`: the CustomResourceDefinitions that it brings, by the names of the files in `crds` in its package.
    `roles`, `options`, `names`: what it has to be allowed, and what an installation chooses of that.
    `workload_roles`: what it has to be allowed in other clusters than its own.
    `is_installed_by_name`: `haulout manifests` prints it only where it is named.
    """

    name: str
    package: str
    summary: str
    settings: type[msgspec.Struct] | None = None
    within: str = ""
    decisions: str = ""
    part: str = ""
    original: Original | None = None
    crds: tuple[str, ...] = ()
    webhooks: tuple[Registration, ...] = ()
    roles: tuple[Role, ...] = ()
    options: tuple[Option, ...] = ()
    names: tuple[Name, ...] = ()
    workload_roles: tuple[Role, ...] = ()
    config_file: ConfigFile | None = None
    is_installed_by_name: bool = False

    def definition(self, name: str) -> str:
        """Return the YAML of one of its CustomResourceDefinitions."""
        from importlib import resources

        return (resources.files(self.package) / "crds" / f"{name}.yaml").read_text()
