"""Networks as text, such as 10.0.0.0/8."""

from __future__ import annotations

import ipaddress


def is_network(text: str) -> bool:
    """Whether a text is a network or a single address, with no bits set beyond its prefix."""
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True
