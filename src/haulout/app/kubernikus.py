"""The part of the process for Kubernikus: `kubernikus.yaml` as a row, the probe of versions, and the deletion of servers."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from haulout.app.configuration_file import ConfigurationRow
from haulout.app.parts import Part, Surroundings
from haulout.clients.kubernikus import CloudAccess, Servers, ServerVersion
from haulout.kube.transport import Transport
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.settings.context import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.kubernikus.options import Options, load
from haulout.surfaces.kubernikus.surface import CONFIG_KEY, KUBERNIKUS
from haulout.surfaces.kubernikus.wire import CHANNEL, VERSION_PROBE
from haulout.surfaces.profiles.settings import KubernikusSettings, ProfilesSettings


def _block(settings: Settings) -> KubernikusSettings:
    return (settings.of(ProfilesSettings) or ProfilesSettings()).kubernikus


class Kubernikus(Part):
    """Kubernikus as a part of the process: it follows `kubernikus.yaml`.

    While the file is invalid, Kubernikus does nothing; the other surfaces go on.
    """

    declaration = KUBERNIKUS

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._settings = around.settings
        path = _block(around.settings).config
        self._file = ConfigurationRow(around, CONFIG_KEY, path, load=self._load, value=self._value)

    def look(self, *, closely: bool = False) -> None:
        self._file.look(closely=closely)

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        self._file.refresh()

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {VERSION_PROBE: ServerVersion(transport)}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        return {CHANNEL: Servers(CloudAccess(transport, _block(self._settings).credentials))}

    def _load(self, content: bytes, source: str) -> Options:
        return load(content, source=source, environment=os.environ)

    def _value(self, options: Options) -> Options:
        alone, rules = self._settings.alone, pod_rules(self._settings)
        return msgspec.structs.replace(options, alone=alone, rules=rules)
