"""The rule for the addresses to which foreign URLs may lead, as in kubeconfigs of Secrets and in Prometheus gates.

See decision 0022.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# The size of the receive buffer for connections to other clusters, before decryption. The system doubles it.
RECEIVE_BUFFER = 2**14
REFUSED = "its address is not one that kubeconfigs in Secrets may name (allowedServerRanges would have to allow it)"


class Reach(msgspec.Struct, frozen=True):
    """A rule that says to which IP addresses connections may be opened.

    `ranges`: the only networks that are allowed, such as `10.0.0.0/8`. Without any, every address is allowed except
    loopback, link-local (where clouds serve credentials), multicast, reserved and unspecified ones.
    `loopback`: without `ranges`, loopback addresses are allowed, too.
    `plain_http`: servers without TLS are allowed.
    `refusal`: the error message for an address that is not allowed.
    """

    ranges: tuple[str, ...] = ()
    loopback: bool = False
    plain_http: bool = False
    refusal: str = REFUSED

    def allows(self, text: str) -> bool:
        """Whether an IP address, as a resolver returns it, may be connected to."""
        address = _unwrapped(ipaddress.ip_address(text.partition("%")[0]))
        if self.ranges:
            return any(address in ipaddress.ip_network(each) for each in self.ranges)
        if address.is_loopback:
            return self.loopback
        return not (address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved)

    def allows_host(self, host: str) -> bool:
        """Whether a host is an allowed address or a name. A name's address is checked when it is connected to."""
        try:
            return self.allows(host)
        except ValueError:
            return True


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address embeds (NAT64, mapped, 6to4); any other address as it is."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def socket_factory(reach: Reach | None) -> Callable[[Any], socket.socket]:
    """Return a function that makes sockets with small buffers, and raises OSError for addresses that `reach` does not allow.

    Without `reach`, every address is allowed. It gets the very address that is connected to next, so a later answer of a name server cannot get around the check.
    """

    def make(info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
        if reach is not None:
            check(reach, str(address[0]))
        made = socket.socket(family=family, type=kind, proto=protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        return made

    return make


async def is_local(server: str) -> bool:
    """Whether the host of a URL leads to this computer."""
    loop, host = asyncio.get_running_loop(), urlsplit(server).hostname or ""
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return all(ipaddress.ip_address(str(info[4][0]).partition("%")[0]).is_loopback for info in found)
    except (OSError, UnicodeError):
        return False


def check(reach: Reach, address: str) -> None:
    """Raise OSError if an address is not allowed. The message does not name it: it may come from a Secret."""
    if not reach.allows(address):
        raise OSError(0, reach.refusal)
