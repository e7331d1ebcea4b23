"""The interrupts that packages need, and the one interrupt that serves all packages that run together on a node."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import msgspec

from haulout.base import glob
from haulout.surfaces.packages.entries.entry import go_json
from haulout.surfaces.packages.wire import INTERRUPTS, Interrupt, Package

STRENGTH = {kind: place for place, kind in enumerate(INTERRUPTS)}
SERVICE = "service"
REBOOT = "reboot"


class Group(msgspec.Struct, frozen=True):
    """The interrupt that serves several packages at once. `carrier`: the key of the entry that its pod belongs to."""

    carrier: str
    interrupt: Interrupt


def interrupts_of(package: Package, changed: Iterable[str]) -> tuple[Interrupt, ...]:
    """Return the interrupts that a package needs: those of its changed configuration keys, or else its own."""
    keys = tuple(changed)
    if not keys:
        return (package.interrupt,) if package.interrupt is not None else ()
    found = [interrupt for pattern, interrupt in package.config_interrupts.items() if _concerns(pattern, keys)]
    return tuple(dict.fromkeys(map(_plain, found)))


def group_of(wanted: Iterable[tuple[Package, tuple[Interrupt, ...]]]) -> Group | None:
    """Return the strongest of the interrupts, with the first package that needs it.

    If that is a restart of services, the services of all packages are restarted together.
    """
    needs = [(package.key, each) for package, several in sorted(wanted, key=_name) for each in several]
    if not needs:
        return None
    carrier, strongest = min(needs, key=lambda need: STRENGTH.get(need[1].type, len(STRENGTH)))
    if strongest.type == SERVICE:
        services = sorted({name for _, each in needs if each.type == SERVICE for name in each.services})
        strongest = Interrupt(SERVICE, tuple(services))
    return Group(carrier, strongest)


def argument(interrupt: Interrupt) -> str:
    """Return the interrupt as the agent reads it: Base64 of JSON."""
    body: dict[str, object] = {"type": INTERRUPTS.get(interrupt.type, interrupt.type)}
    body |= {"services": list(interrupt.services)} if interrupt.services else {}
    return base64.b64encode(go_json(body).encode()).decode()


def _name(need: tuple[Package, tuple[Interrupt, ...]]) -> str:
    return need[0].name


def _concerns(pattern: str, keys: tuple[str, ...]) -> bool:
    if "*" not in pattern:
        return pattern in keys
    try:
        return any(glob.matches(pattern, key) for key in keys)
    except glob.GlobError:
        return False


def _plain(interrupt: Interrupt) -> Interrupt:
    return Interrupt(interrupt.type, tuple(interrupt.services))
