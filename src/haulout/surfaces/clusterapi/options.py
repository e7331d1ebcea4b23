"""What the surface is told: by flags of the drop-in, or by its block in haulout.yaml."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.cluster.view import View
from haulout.surfaces.clusterapi.wire import SURFACE


class Options(msgspec.Struct, frozen=True):
    """The settings of the clusterapi surface, as decisions read them.

    `approve_within`: how long a deletion waits for its approval at most.

    `server_ranges`, `allow_http`: which servers kubeconfigs may name. `owned_hosts_only`: a host is switched off only
    for the Machine that uses it, in its own namespace.
    """

    metal3: bool = False
    allow_exec: bool = False
    guard_remediation: bool = False
    approval_hygiene: bool = False
    approve_within_for: timedelta | None = None
    prefer_limited: bool = False
    reboot_mode: bool = False
    workload_requests: bool = False
    server_ranges: tuple[str, ...] = ()
    allow_http: bool = False
    owned_hosts_only: bool = False


def options_of(view: View) -> Options:
    row = view.config(SURFACE)
    return row.value if row is not None and isinstance(row.value, Options) else Options()
