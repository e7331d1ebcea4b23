"""The part of the process for ESX: the credentials in `esx.yaml`, the probe of hosts, and the channel to virtual machines."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

import msgspec

from haulout.app.parts import CannotStart, Part, Surroundings
from haulout.clients.esx import Hosts, VirtualMachines
from haulout.clients.vcenter_zones import VCenters
from haulout.core.declaration import Context, OptionsProblem
from haulout.kube.transport import Transport
from haulout.plugins.config import ConfigProblem
from haulout.runtime.probes import Probe
from haulout.runtime.sender import Channel
from haulout.surfaces.esx.options import Options, VCenterSettings, load
from haulout.surfaces.esx.surface import ESX
from haulout.surfaces.esx.vcenter import CHANNEL, HOST_PROBE

LIBRARY = "pyVmomi"


class Esx(Part):
    """ESX as a part of the process: it follows `esx.yaml`.

    The process does not start with an invalid file. If the file becomes invalid later, the surface does nothing until
    it is valid again.
    """

    declaration = ESX

    def __init__(self, around: Surroundings) -> None:
        if importlib.util.find_spec(LIBRARY) is None:
            raise CannotStart("ESX needs a library that is not installed: pip install 'haulout[vsphere]'")
        self._vcenters: VCenterSettings | None = None
        self._centers = VCenters(lambda: self._vcenters)
        self._first: Options | None = None
        super().__init__(around)

    def complete(self, options: Options, context: Context) -> Options:
        """Read the credentials, too. How often hosts are probed is settled at the start: a change needs a restart."""
        ((source, content),) = context.files.items()
        try:
            _, self._vcenters = load(content, source=source, environment=context.environment)
        except ConfigProblem as problem:
            lines = [f"{source}: {problem.text}"]
            raise OptionsProblem(lines, error=problem.text, is_syntax=problem.is_syntax) from None
        first = self._first = self._first or options
        return msgspec.structs.replace(options, pace_for=first.pace_for, jitter=first.jitter)

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {HOST_PROBE: Hosts(self._centers)}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        return {CHANNEL: VirtualMachines(self._centers)}
