"""`haulout webhooks`: prints the webhook configurations by which the API server calls our webhooks, as YAML."""

from __future__ import annotations

import click

from haulout.cli import completions
from haulout.cli.manifests import namespace_option, say, surfaces_in_order
from haulout.manifests.webhooks import SERVICE, registrations


@click.command("webhooks", short_help="Print the webhook registrations of surfaces.")
@click.argument("surfaces", nargs=-1, metavar="[SURFACE]...", shell_complete=completions.surfaces)
@namespace_option
@click.option("--service", default=SERVICE, metavar="NAME", show_default=True, help="The Service in front of it.")
@click.option("--url", default="", metavar="URL", help="Call this address instead of a Service, as https://HOST:PORT.")
@click.option(
    "--certificates",
    type=click.Choice(["self", "cert-manager", "mounted"]),
    default="self",
    show_default=True,
    help="Who makes the certificate and registers its authority.",
)
def command(surfaces: tuple[str, ...], namespace: str, service: str, url: str, certificates: str) -> None:
    """Prints, as YAML for `kubectl apply -f -`, the registrations of the webhooks of the SURFACEs (default: all).

    With `self`, Haulout creates the certificate and writes its CA into the registration. With `cert-manager`,
    cert-manager does both. With `mounted`, you fill in the CA.
    """
    if url and not url.startswith("https://"):
        raise click.UsageError("--url: webhooks are called over TLS alone: it begins with https://")
    say(registrations(surfaces_in_order(surfaces), namespace, service, url, certificates))
