"""The options of profiles: what `maintenance.yaml` holds, and how the surface is served."""

from __future__ import annotations

import msgspec

from haulout.core.declaration import Context, OptionsProblem
from haulout.plugins.config import ConfigProblem
from haulout.surfaces.profiles.load import examined, known_plugins
from haulout.surfaces.profiles.passes.result import Config, Mode
from haulout.surfaces.profiles.settings import ProfilesSettings


class Options(msgspec.Struct, frozen=True):
    """The configuration that maintenance.yaml holds, and how it is served."""

    config: Config
    mode: Mode = Mode()


def served(settings: ProfilesSettings, context: Context) -> Options:
    """Return what decisions read: what stands in `maintenance.yaml`, and the rules of drains."""
    source, environment = settings.config, context.environment
    config, found = examined(context.files[source], known_plugins(), source=source, environment=environment)
    if isinstance(config, ConfigProblem):
        raise OptionsProblem([str(line) for line in found if line.is_error])
    return Options(config, Mode(alone=context.alone, rules=context.rules))
