"""`haulout schema`: the JSON schema of a `maintenance.yaml`, for editors."""

from __future__ import annotations

import click


@click.command("schema", short_help="Print the JSON schema of a configuration file.")
@click.argument("surface", type=click.Choice(["profiles", "notify"]), default="profiles")
def command(surface: str) -> None:
    """Prints the JSON schema of a maintenance.yaml with the plugins that are installed, for editors.

    With `notify` it is that of a notifyMaintenanceConfig.yaml.

    In an editor that knows YAML language servers, save it beside the file and begin that with
    `# yaml-language-server: $schema=maintenance.schema.json`.
    """
    import msgspec

    if surface == "notify":
        from haulout.surfaces.notify.load import schema as notify_schema

        click.echo(msgspec.json.format(msgspec.json.encode(notify_schema()), indent=2).decode())
        return
    from haulout.surfaces.profiles.reference import schema
    from haulout.surfaces.profiles.surface import known_plugins

    click.echo(msgspec.json.format(msgspec.json.encode(schema(known_plugins())), indent=2).decode())
