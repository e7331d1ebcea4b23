"""`haulout init`: writes a first `haulout.yaml` and `maintenance.yaml`, with comments."""

from __future__ import annotations

from pathlib import Path

import click

# The path of each file that is written, and the packaged file that it is a copy of.
FILES = {"haulout.yaml": "haulout.yaml", "config/maintenance.yaml": "maintenance.yaml"}
NEXT = """\
Next:
  haulout lint                                   # check both files
  haulout run                                    # serve them, in the cluster of your kubeconfig
  kubectl label node NODE cloud.sap/maintenance-profile=reboot example.com/reboot=wanted
  haulout status -w                              # watch it go
  kubectl label node NODE example.com/reboot=done --overwrite
"""


@click.command("init", short_help="Write starter settings.")
@click.argument("folder", default=".", metavar="[FOLDER]")
def command(folder: str) -> int:
    """Writes haulout.yaml and config/maintenance.yaml, with comments, into FOLDER (default: the current directory).

    If one of the files exists, it writes nothing.
    """
    # Imported here: the list of commands does not need it.
    from importlib.resources import files

    top = Path(folder)
    try:
        there = [str(top / name) for name in FILES if (top / name).exists()]
        if there:
            raise click.ClickException(f"{', '.join(there)}: there already; nothing was written")
        for name, source in FILES.items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x") as file:
                file.write(files("haulout.settings").joinpath("starters", source).read_text())
            click.echo(f"wrote {path}")
    except (OSError, ValueError) as error:
        # ValueError is raised for a path that contains a zero byte.
        raise click.ClickException(f"{folder}: {getattr(error, 'strerror', None) or error}") from None
    click.echo(NEXT, nl=False)
    return 0
