"""`haulout console`: serves the web console until it is interrupted."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.cli.options import cluster_options, config_option


@click.command("console", short_help="Serve the web console.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    show_default=True,
    help="The address; port 0 is any free one.",
)
@click.option(
    "--door",
    type=click.Choice(["local", "bearer"]),
    default="local",
    show_default=True,
    help="local: one person, with the kubeconfig's credential. bearer: each caller with a token of the cluster.",
)
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
@click.option(
    "--tls-certificate",
    default="",
    metavar="FILE",
    shell_complete=completions.files,
    help="Certificate of the server (PEM). It may be replaced at any time.",
)
@click.option("--tls-key", default="", metavar="FILE", shell_complete=completions.files, help="Its private key (PEM).")
@click.option("--behind-proxy", is_flag=True, help="A proxy in the same pod ends TLS; allows --door bearer without it.")
@config_option
@cluster_options
def command(
    listen: str,
    door: str,
    no_open: bool,
    tls_certificate: str,
    tls_key: str,
    behind_proxy: bool,
    config: str,
    **cluster: str,
) -> int:
    """Serves the web console: the fleet, what blocks it and why, budgets, timeline, rollouts and acts.

    It prints its address and opens it in the browser. It reads the cluster with the credential of the kubeconfig
    and writes nothing on its own; actions are sent with the credential of the person who takes them. It uses the
    operator's settings and shows what the operator decides.
    """
    from haulout.console.process import Request, run_console

    request = Request(listen, door, config, not no_open, behind_proxy, tls_certificate, tls_key)
    return run_console(request, cluster)
