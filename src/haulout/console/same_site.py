"""Which requests the console takes at all: by Host, by the site that sent them and by their form, before anything is read."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web

from haulout.console.problems import Refused

# What a browser sends in Sec-Fetch-Site for a request of our own page, or of a person who typed the address.
OWN_SITES = frozenset({"same-origin", "none"})
JSON = "application/json"


def check_host(request: web.Request, hosts: Collection[str]) -> None:
    """Refuse a request whose Host is not one of ours. Another name may be one that an attacker has pointed at loopback.

    `hosts`: with their ports; empty: every host is accepted, because the caller's token is not sent by a browser itself.
    """
    if hosts and request.headers.get("Host", "").lower() not in hosts:
        raise Refused("wrong-host", f"this console answers under {', '.join(sorted(hosts))}")


def check_site(request: web.Request) -> None:
    """Refuse a request that a page of another site has sent, and a POST that a plain form could send."""
    site = request.headers.get("Sec-Fetch-Site")
    if request.method not in ("GET", "HEAD"):
        if site is None and not _is_own_origin(request):
            raise Refused("cross-site", "a request that changes something has to come from the console's own page")
        if site not in (None, "same-origin"):
            raise Refused("cross-site", "this request came from the page of another site")
        if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
            raise Refused("not-json", f"send the body as {JSON}")
    elif site is not None and site not in OWN_SITES:
        raise Refused("cross-site", "this request came from the page of another site")


def _is_own_origin(request: web.Request) -> bool:
    origin = urlsplit(request.headers.get("Origin", ""))
    return origin.scheme in ("http", "https") and origin.netloc.lower() == request.headers.get("Host", "").lower() != ""
