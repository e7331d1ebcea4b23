"""Addresses to listen on, written as Go programs take them: `:8080`, `127.0.0.1:0`, `0` for none."""

from __future__ import annotations

from haulout.base.number import digits

OFF = ("", "0")


class AddressError(ValueError):
    """The address cannot be listened on."""


def split_address(address: str) -> tuple[str | None, int]:
    """Return the host, None for every interface, and the port."""
    host, _, port = address.rpartition(":")
    number = digits(port, 5)
    if number is None or number > 65535:
        raise AddressError(f"{address!r} is not an address to listen on (HOST:PORT, :PORT, or 0 for none)")
    return host.strip("[]") or None, number
