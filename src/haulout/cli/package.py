"""`haulout package`: the tools for authors of packages. They parse their own words, as `skyhook-agent` does."""

from __future__ import annotations

import click

# The backspace keeps click from filling the lines after it.
HELP = """Makes and tries packages, which the package agent runs on hosts.

\b
new NAME                        make a package directory to start from
validate PATH [--format json]   check every rule of config.json, the x bits and the paths
test DIR [--exec local]         run all modes on a throw-away root
digest DIR                      print the digest for SKYHOOK_PACKAGE_TREE_DIGEST
dry-run MODE ROOT_MOUNT COPY_DIR [INTERRUPT_DATA]
                                print what a call of the agent would do on a host
"""


@click.command(
    "package",
    help=HELP,
    short_help="Make, validate, test and digest packages for hosts.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND ...")
def command(words: tuple[str, ...]) -> int:
    """Run one of the tools. Return its exit code."""
    from haulout.authoring.main import main

    return main(words)
