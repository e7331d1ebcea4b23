"""The address by which a recipe reaches a node. Its kubelet writes it, so it may be that of another host."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Hashable

from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import View

_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_DNS_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
# A name whose last label is a number is an IP address to the C library: `127.1`, `0x7f000001`.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def address_of(node: NodeRow) -> str:
    """Return the address that a Node states for itself; without one, its name."""
    return (node.details.address if node.details else "") or node.key.name


def address_problem(view: View, node: NodeRow) -> str:
    """Return why the address of a node must not be used; empty if it may be."""
    address = address_of(node)
    if not _is_host(address):
        return (
            f"its address {address[:64]!r} is not an IP address or DNS name of another host: correct status.addresses"
        )
    others = [row.key.name for row in view.rows(NODES_OF_ADDRESS, _normal(address), NodeRow) if row.key != node.key]
    if not others:
        return ""
    named = f"node {others[0]}" if len(others) == 1 else f"{len(others)} other nodes, such as {others[0]}"
    return f"its address {address} is also in status.addresses of {named}: correct or delete one of the Nodes"


def _is_host(text: str) -> bool:
    """Whether a text is an address or name of a host, and not of the machine on which it is used or of its link."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        last = text.lower().rpartition(".")[2]
        return bool(_DNS_NAME.fullmatch(text)) and last != "localhost" and not _NUMBER.fullmatch(last)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    # A percent sign begins the name of an interface.
    return "%" not in text and not (
        found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast or found.is_reserved
    )


def _normal(text: str) -> str:
    """Return the same text for all spellings of an address."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text.lower()
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(found)


def _addresses(row: Row) -> tuple[Hashable, ...]:
    if not isinstance(row, NodeRow) or row.details is None:
        return ()
    return tuple({_normal(text): None for text in (row.key.name, *row.details.addresses)})


NODES_OF_ADDRESS = Index("nodes-of-address", "Node", _addresses)
