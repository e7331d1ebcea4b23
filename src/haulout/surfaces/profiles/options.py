"""The options of the profiles surface: the content of `maintenance.yaml`, and the mode of the surface."""

from __future__ import annotations

import msgspec

from haulout.core.declaration import Context, OptionsProblem
from haulout.plugins.config import ConfigProblem
from haulout.surfaces.profiles.load import known_plugins, load_and_check
from haulout.surfaces.profiles.passes.result import Config, Mode
from haulout.surfaces.profiles.settings import ProfilesSettings


class Options(msgspec.Struct, frozen=True):
    """The content of `maintenance.yaml`, and the mode in which the surface is served.

    `warnings`: what is odd in the file, with places.
    """

    config: Config
    mode: Mode = Mode()
    warnings: tuple[str, ...] = ()


def make_options(settings: ProfilesSettings, context: Context) -> Options:
    """Return the options from `maintenance.yaml` and from the context in which the surface is served."""
    source, environment = settings.config, context.environment
    config, found = load_and_check(context.files[source], known_plugins(), source=source, environment=environment)
    if isinstance(config, ConfigProblem):
        lines = [str(line) for line in found if line.is_error]
        raise OptionsProblem(lines, error=config.text, is_syntax=config.is_syntax)
    return Options(config, mode_of(context), tuple(str(line) for line in found))


def mode_of(context: Context) -> Mode:
    """Return the mode in which the surface is served. A running process counts the pods that were moved."""
    return Mode(alone=context.alone, rules=context.rules, counts=context.is_running)
