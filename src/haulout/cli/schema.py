"""`haulout schema`: prints the JSON schema of a surface's configuration file, or of a command's JSON output."""

from __future__ import annotations

import click
import msgspec

from haulout.surfaces.registry import load, surfaces

# The functions that make the schemas of commands' JSON output, by command.
DOCUMENTS = {
    "plan": "haulout.plan.document:schema",
    "status": "haulout.explain.documents:status_schema",
    "explain": "haulout.explain.documents:explain_schema",
    "history": "haulout.explain.history:history_schema",
    "report": "haulout.explain.report:report_schema",
}


def _schemas() -> dict[str, str]:
    """Return the import path of the function that makes a schema, by surface or command."""
    return {each.name: file.schema for each in surfaces() for file in each.lint if file.schema} | DOCUMENTS


@click.command("schema", short_help="Print the JSON schema of a configuration file or of a command's output.")
@click.argument(
    "of", metavar=f"[{'|'.join(_schemas())}]", type=click.Choice(list(_schemas())), default=next(iter(_schemas()))
)
def command(of: str) -> None:
    """Prints the JSON schema of a surface's configuration file, with the plugins that are installed, for editors;
    `plan`, `status`, `explain`, `history` and `report` are the documents that these commands print with `-o json`.

    In an editor that knows YAML language servers, save it beside the file and begin that with
    `# yaml-language-server: $schema=maintenance.schema.json`.
    """
    made = load(_schemas()[of])()
    click.echo(msgspec.json.format(msgspec.json.encode(made), indent=2).decode())
