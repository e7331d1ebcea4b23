"""The part of the process for ESX: `esx.yaml` as a row, the probe of hosts, and the channel to virtual machines."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from haulout.app.configuration_file import ConfigurationRow
from haulout.app.parts import CannotStart, Part, Surroundings
from haulout.clients.esx import Hosts, VirtualMachines
from haulout.clients.vcenter_zones import VCenters
from haulout.kube.transport import Transport
from haulout.plugins.config import ConfigProblem
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.settings.context import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.esx.options import Options, VCenterSettings, load
from haulout.surfaces.esx.surface import CONFIG_KEY, ESX
from haulout.surfaces.esx.vcenter import CHANNEL, HOST_PROBE
from haulout.surfaces.profiles.settings import EsxSettings, ProfilesSettings

LIBRARY = "pyVmomi"


def _block(settings: Settings) -> EsxSettings:
    return (settings.of(ProfilesSettings) or ProfilesSettings()).esx


class Esx(Part):
    """ESX as a part of the process: it follows `esx.yaml`.

    The process does not start with an invalid file. If the file becomes invalid later, the surface does nothing until
    it is valid again.
    """

    declaration = ESX

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        if importlib.util.find_spec(LIBRARY) is None:
            raise CannotStart("ESX needs a library that is not installed: pip install 'haulout[vsphere]'")
        self._settings = around.settings
        self._vcenters: VCenterSettings | None = None
        self._centers = VCenters(lambda: self._vcenters)
        path = _block(around.settings).config
        self._first = _read_first(path)
        self._file = ConfigurationRow(around, CONFIG_KEY, path, load=self._load, value=self._value)

    def look(self, *, closely: bool = False) -> None:
        self._file.look(closely=closely)

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        self._file.refresh()

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {HOST_PROBE: Hosts(self._centers)}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        return {CHANNEL: VirtualMachines(self._centers)}

    def _load(self, content: bytes, source: str) -> Options:
        options, self._vcenters = load(content, source=source, environment=os.environ)
        return options

    def _value(self, options: Options) -> Options:
        return msgspec.structs.replace(
            options,
            # How often hosts are probed is settled at the start: a change of the file needs a restart.
            pace_for=self._first.pace_for,
            jitter=self._first.jitter,
            alone=self._settings.alone,
            rules=pod_rules(self._settings),
        )


def _read_first(path: str) -> Options:
    try:
        options, _ = load(Path(path).read_bytes(), source=path, environment=os.environ)
    except OSError as error:
        raise CannotStart(f"{path}: {error.strerror}") from None
    except ConfigProblem as problem:
        raise CannotStart(f"{path}: {problem.text}") from None
    return options
