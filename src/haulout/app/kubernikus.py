"""The part of the process for Kubernikus: the probe of versions, and the deletion of servers."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.app.parts import Part
from haulout.clients.kubernikus import CloudAccess, Servers, ServerVersion
from haulout.kube.transport import Transport
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.surfaces.kubernikus.surface import KUBERNIKUS
from haulout.surfaces.kubernikus.wire import CHANNEL, VERSION_PROBE
from haulout.surfaces.profiles.settings import ProfilesSettings


class Kubernikus(Part):
    """Kubernikus as a part of the process.

    While `kubernikus.yaml` is invalid, Kubernikus does nothing; the other surfaces go on.
    """

    declaration = KUBERNIKUS

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {VERSION_PROBE: ServerVersion(transport)}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        profiles = self.settings.of(ProfilesSettings) or ProfilesSettings()
        return {CHANNEL: Servers(CloudAccess(transport, profiles.kubernikus.credentials))}
