"""The settings of the notify surface in haulout.yaml. Its behaviour is configured in a file of its own."""

from __future__ import annotations

from typing import Annotated

import msgspec

from haulout.core.setting import OriginalLease, Setting, not_empty


class NotifySettings(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.notify` of `haulout.yaml`."""

    config: Annotated[
        str, Setting(help="Path of the configuration file.", check=not_empty, right="the path of a file")
    ] = "/etc/config/notifyMaintenanceConfig.yaml"
    lease: OriginalLease | None = None
