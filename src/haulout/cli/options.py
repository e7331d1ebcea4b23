"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(command: F) -> F:
    """Where the cluster is and as whom to talk to it, named as kubectl names them."""
    options = (
        click.option("--kubeconfig", default="", metavar="FILE", help="Kubeconfig to use instead of KUBECONFIG."),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig to use."),
        click.option(
            "-n", "--namespace", default="", metavar="NAME", help="Namespace to use instead of the context's."
        ),
        click.option("--as", "as_user", default="", metavar="USER", help="Act as this user (impersonation)."),
        click.option("--as-group", "as_groups", multiple=True, metavar="GROUP", help="Act as a member of this group."),
    )
    for option in reversed(options):
        command = option(command)
    return command
