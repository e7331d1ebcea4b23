"""The settings of the profiles surface: its block in haulout.yaml, and the flags of its original."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from haulout.core.setting import OriginalLease, Setting, not_empty, not_negative


def _file(text: str, right: str = "the path of a file") -> Setting:
    return Setting(help=text, has_flag=False, check=not_empty, right=right)


class KubernikusSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.profiles.kubernikus` of `haulout.yaml`: whether Kubernikus is served, and its files.

    `credentials`: the file with credentials if no Secret is named. A check may need it even if Kubernikus is not
    served.
    """

    enabled: Annotated[
        bool,
        Setting(
            help="Label outdated kubelets, and delete the servers of nodes to go.", flag="enable-kubernikus-maintenance"
        ),
    ] = False
    config: Annotated[str, _file("Path of kubernikus.yaml.")] = "config/kubernikus.yaml"
    credentials: Annotated[str, _file("Path of the credentials of the cloud, where no Secret is named.")] = (
        "provider/cloudprovider.conf"
    )


class EsxSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.profiles.esx` of `haulout.yaml`: whether ESX hosts are served, and their file."""

    enabled: Annotated[
        bool,
        Setting(
            help="Take virtual machines down and up again around the maintenance of their ESX hosts.",
            flag="enable-esx-maintenance",
        ),
    ] = False
    config: Annotated[str, _file("Path of esx.yaml.")] = "config/esx.yaml"


class ProfilesSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The block `surfaces.profiles` of `haulout.yaml`.

    `metrics_timeout`: how long a process that ends waits for one more scrape of its metrics.
    `lease`: set if the original's Lease has to be held as well.
    """

    config: Annotated[str, _file("Path of the profiles' file.", "the path of a maintenance.yaml")] = (
        "config/maintenance.yaml"
    )
    kubernikus: KubernikusSettings = KubernikusSettings()
    esx: EsxSettings = EsxSettings()
    metrics_timeout: Annotated[
        timedelta,
        Setting(
            help="At the end, wait so long for one more scrape.",
            check=not_negative,
            right="a duration such as 65s; 0s for none",
        ),
    ] = timedelta(seconds=65)
    lease: OriginalLease | None = None
