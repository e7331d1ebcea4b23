"""Which addresses a URL that others choose may lead to: a foreign kubeconfig's, or that of a gate's Prometheus."""

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
    """The rule for addresses that are connected to.

    `ranges`: networks as `10.0.0.0/8`, the only ones that are allowed. Without any, every address is allowed except
    those of this computer, of its link (where clouds serve credentials), multicast and unspecified ones. `loopback`:
    addresses of this computer are allowed then, too. `plain_http`: servers without TLS are allowed. `refusal`: what is said
    of an address that is not allowed.
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
        """Whether a host may be tried: a name is checked again by the address that it leads to."""
        try:
            return self.allows(host)
        except ValueError:
            return True


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def socket_factory(reach: Reach) -> Callable[[Any], socket.socket]:
    """Return a maker of sockets that refuses wrong addresses.

    It is asked with the very address that is connected to next, so that no later answer of a name server matters.
    """

    def make(info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
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
    """Raise OSError where an address must not be connected to. The text does not say it: a name may be a secret's."""
    if not reach.allows(address):
        raise OSError(0, reach.refusal)
