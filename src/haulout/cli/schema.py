"""`haulout schema`: the JSON schema of a `maintenance.yaml`, for editors."""

from __future__ import annotations

import click


@click.command("schema", short_help="Print the JSON schema of maintenance.yaml.")
def command() -> None:
    """Prints the JSON schema of a maintenance.yaml with the plugins that are installed, for editors.

    In an editor that knows YAML language servers, save it beside the file and begin that with
    `# yaml-language-server: $schema=maintenance.schema.json`.
    """
    import msgspec

    from haulout.surfaces.profiles.reference import schema
    from haulout.surfaces.profiles.surface import known_plugins

    click.echo(msgspec.json.format(msgspec.json.encode(schema(known_plugins())), indent=2).decode())
