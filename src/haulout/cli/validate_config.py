"""`maintenance-controller validate-config`: a command of an original that charts run before they install it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

CONFIG_FILE = "./config/maintenance.yaml"


def validate_config(words: Sequence[str]) -> int:
    """Check a `maintenance.yaml`. Return 0 if it loads, and print its warnings; else print the original's first error."""
    from haulout.plugins.config import ConfigProblem
    from haulout.plugins.load import PluginProblem
    from haulout.surfaces.profiles.load import known_plugins, load_and_check

    path = words[0] if words else CONFIG_FILE
    source = path.removeprefix("./")
    try:
        config, lines = load_and_check(Path(path).read_bytes(), known_plugins(), source=source, environment=os.environ)
    except OSError as error:
        click.echo(f"{path}: {error.strerror}", err=True)
        return 1
    except PluginProblem as error:
        click.echo(str(error), err=True)
        return 1
    if isinstance(config, ConfigProblem):
        place = f"{source}:{config.place.line}:{config.place.column}: " if config.place else f"{source}: "
        right = f" ({config.right})" if config.right else ""
        click.echo(f"{place}{config.text}{right}", err=True)
        return 1
    for line in lines:
        click.echo(str(line), err=True)
    return 0
