"""`haulout schema`: the JSON schema of a surface's configuration file, for editors."""

from __future__ import annotations

import click
import msgspec

from haulout.surfaces.registry import load, surfaces


def _schemas() -> dict[str, str]:
    """Return the path of the function that makes the schema, by surface."""
    return {each.name: file.schema for each in surfaces() for file in each.lint if file.schema}


@click.command("schema", short_help="Print the JSON schema of a configuration file.")
@click.argument("surface", type=click.Choice(list(_schemas())), default=next(iter(_schemas())))
def command(surface: str) -> None:
    """Prints the JSON schema of a SURFACE's configuration file, with the plugins that are installed, for editors.

    In an editor that knows YAML language servers, save it beside the file and begin that with
    `# yaml-language-server: $schema=maintenance.schema.json`.
    """
    made = load(_schemas()[surface])()
    click.echo(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
