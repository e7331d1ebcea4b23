"""`haulout lint`: everything that is wrong with configuration files and manifests, at once and with its place."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from haulout.cli import completions
from haulout.surfaces.registry import surfaces

HERE = "haulout.yaml"


def _help() -> str:
    files = ", ".join((HERE, *(f"{lint.stem}.yaml of {each.name}" for each in surfaces() for lint in each.lint)))
    return (
        f"Checks each FILE, which it recognizes by its content: {files}, or a manifest with objects of Haulout's kinds, such as "
        "NodeMaintenance, NodeDisruptionBudget, Skyhook and NotifyMaintenance; - is standard input. "
        f"Without a FILE: ./{HERE} and the files that it names.\n\n"
        "Exits with 1 if there is an error, with 0 if there are only warnings."
    )


@click.command("lint", help=_help(), short_help="Check configuration files and manifests without a cluster.")
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=completions.files)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    help="Output format. Code scanners read sarif.",
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "--skip-others",
    is_flag=True,
    help="Skip files that hold nothing of Haulout: other manifests, other YAML, templates of charts.",
)
def command(files: tuple[str, ...], output: str, strict: bool, skip_others: bool) -> int:
    """Check configuration files and manifests. Return 1 if there is an error, 0 if there are only warnings."""
    from haulout.settings.lint import Finding, is_of_others, lint_file, named_files

    if not files and not Path(HERE).exists():
        raise click.ClickException(f"there is no {HERE} here (`haulout init` writes one to begin with)")
    files = files or (HERE, *(name for name in named_files(Path(HERE).read_bytes(), HERE) if Path(name).exists()))
    found: list[Finding] = []
    for name in files:
        try:
            data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        except OSError as error:
            found.append(Finding(name, 1, 1, "", error.strerror or str(error), "", "error"))
            continue
        if skip_others and (_is_template(Path(name)) or is_of_others(data, name)):
            continue
        found += lint_file(data, name, os.environ)
        found += [
            Finding(
                name,
                *_place(data, each),
                "",
                f"{each} is named in it and does not exist",
                "relative names count from here",
                "warning",
            )
            for each in named_files(data, name)
            if not Path(each).exists()
        ]
    if output != "text":
        import msgspec

        from haulout.settings.sarif import sarif

        document = sarif(found) if output == "sarif" else found
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        from haulout.explain.paint import echo_lines

        if found:
            echo_lines(map(str, found))
    failing = ("error", "warning") if strict else ("error",)
    return 1 if any(finding.severity in failing for finding in found) else 0


def _is_template(path: Path) -> bool:
    """Whether a file is a template of a Helm chart, which has objects only when Helm has rendered it."""
    return any(each.name == "templates" and (each.parent / "Chart.yaml").is_file() for each in path.parents)


def _place(data: bytes, name: str) -> tuple[int, int]:
    """Return line and column at which `haulout.yaml` names another file; 1, 1 if that file is a default."""
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        if name in line.partition("#")[0]:
            return number, line.index(name) + 1
    return 1, 1
