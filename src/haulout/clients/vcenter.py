"""A client for one vCenter: finds hosts and virtual machines by name. Its calls block, so they need a thread."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable
from typing import Any

import pyVmomi
from yarl import URL

from haulout.clients.cutoff import Cutoff
from haulout.clients.vcenter_zones import ToolsUnavailable, VCenterError
from haulout.surfaces.esx.vcenter import HostState

# pyVmomi makes its types at run time. The types that it declares are incomplete and partly wrong.
library: Any = pyVmomi
vim, vmodl = library.vim, library.vmodl

# vSphere 6.0. Everything that is used here is older, and every later vCenter understands this version.
API_VERSION = "vim.version.version10"
ANSWER_WITHIN = 30
# The descriptionId of the task that puts a host into maintenance. The task's name differs between versions of the API.
ENTERING = "HostSystem.enterMaintenanceMode"
RUNNING = ("running", "queued")
# More than a vCenter can manage. It bounds our memory if a server always announces another page.
MOST_OBJECTS = 100_000

Properties = vmodl.query.PropertyCollector


class VCenter:
    """A signed-in session with one vCenter. It is short, so the names of objects are listed only once in it."""

    def __init__(self, url: URL, username: str, password: str, cutoff: Cutoff, *, insecure: bool) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if insecure else ssl.create_default_context()
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        port = url.port or 443
        stub = library.SoapStubAdapter(
            host=url.host,
            # A negative port makes the library use plain HTTP.
            port=port if url.scheme == "https" else -port,
            path=url.path,
            version=API_VERSION,
            sslContext=context,
            httpConnectionTimeout=ANSWER_WITHIN,
            acceptCompressedResponses=False,
        )
        stub.scheme = cutoff.scheme(stub.scheme)
        self._stub, self._cutoff = stub, cutoff
        try:
            self._content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
            self._content.sessionManager.Login(username, password, None)
        except BaseException:
            self.drop()
            raise
        self._names: dict[Any, dict[str, list[Any]]] = {}

    def drop(self) -> None:
        """Close the connections without signing out."""
        self._stub.DropConnections()
        self._cutoff.close()

    def close(self) -> None:
        """Sign out, and ignore errors: the server may be gone."""
        with contextlib.suppress(Exception):
            self._content.sessionManager.Logout()
        self.drop()

    def host(self, name: str) -> HostState:
        host = self._find(vim.HostSystem, name)
        paths = ("config.product.version", "runtime.inMaintenanceMode", "triggeredAlarmState", "recentTask")
        known = self._read(host, vim.HostSystem, paths)
        if "runtime.inMaintenanceMode" not in known:
            raise VCenterError(f"whether host {name} is in maintenance may not be read")
        alarms = {state.alarm for state in known.get("triggeredAlarmState") or ()}
        return HostState(
            version=known.get("config.product.version") or "",
            in_maintenance=bool(known["runtime.inMaintenanceMode"]),
            entering=any(self._is_entering(task) for task in known.get("recentTask") or ()),
            alarms=self._alarm_names(alarms) if alarms else (),
        )

    def _alarm_names(self, alarms: Iterable[Any]) -> tuple[str, ...]:
        """Return the names of alarms. They are read in one request, because a host may have thousands of them."""
        starts = [Properties.ObjectSpec(obj=alarm) for alarm in alarms]
        found = [known for _, known in self._retrieve(starts, vim.alarm.Alarm, ("info.name",)) if "info.name" in known]
        if len(found) < len(starts):
            raise VCenterError("the name of an alarm may not be read")
        return tuple(sorted({str(known["info.name"]) for known in found}))

    def is_on(self, name: str) -> bool:
        found = self._find(vim.VirtualMachine, name)
        known = self._read(found, vim.VirtualMachine, ("runtime.powerState",))
        return str(known.get("runtime.powerState")) != "poweredOff"

    def shut_down_guest(self, name: str) -> None:
        try:
            self._find(vim.VirtualMachine, name).ShutdownGuest()
        except vim.fault.ToolsUnavailable as fault:
            raise ToolsUnavailable(f"the guest of {name} cannot be asked: {fault.msg}") from None

    def switch(self, name: str, *, on: bool) -> object:
        """Start to switch a virtual machine on or off. Return the vCenter's task."""
        found = self._find(vim.VirtualMachine, name)
        return found.PowerOnVM_Task(None) if on else found.PowerOffVM_Task()

    def is_done(self, task: object) -> bool:
        known = self._read(task, vim.Task, ("info.state", "info.error"))
        state = str(known.get("info.state"))
        if state not in RUNNING and state != "success":
            raise VCenterError(f"the task failed: {getattr(known.get('info.error'), 'msg', None) or state}")
        return state == "success"

    def _is_entering(self, task: Any) -> bool:
        try:
            known = self._read(task, vim.Task, ("info.descriptionId", "info.state"))
        except vmodl.fault.ManagedObjectNotFound:
            # The vCenter has removed this old task from its list meanwhile.
            return False
        return known.get("info.descriptionId") == ENTERING and str(known.get("info.state")) == "running"

    def _find(self, kind: Any, name: str) -> Any:
        if kind not in self._names:
            self._names[kind] = self._named(kind)
        found = self._names[kind].get(name, [])
        if len(found) != 1:
            what = "hosts" if kind is vim.HostSystem else "virtual machines"
            raise VCenterError(f"expected 1 of the {what} to be named {name}, but found {len(found)}")
        return found[0]

    def _named(self, kind: Any) -> dict[str, list[Any]]:
        view = self._content.viewManager.CreateContainerView(self._content.rootFolder, [kind], True)
        try:
            step = Properties.TraversalSpec(name="view", path="view", skip=False, type=vim.view.ContainerView)
            start = Properties.ObjectSpec(obj=view, skip=True, selectSet=[step])
            named: dict[str, list[Any]] = {}
            for obj, known in self._retrieve([start], kind, ("name",)):
                named.setdefault(str(known.get("name", "")), []).append(obj)
            return named
        finally:
            view.Destroy()

    def _read(self, obj: Any, kind: Any, paths: Iterable[str]) -> dict[str, Any]:
        """Return the values of an object's properties, without those that we may not read."""
        return next((known for _, known in self._retrieve([Properties.ObjectSpec(obj=obj)], kind, paths)), {})

    def _retrieve(self, starts: list[Any], kind: Any, paths: Iterable[str]) -> list[tuple[Any, dict[str, Any]]]:
        collector = self._content.propertyCollector
        wanted = Properties.FilterSpec(
            objectSet=starts, propSet=[Properties.PropertySpec(type=kind, pathSet=list(paths))]
        )
        page = collector.RetrievePropertiesEx([wanted], Properties.RetrieveOptions())
        found: list[tuple[Any, dict[str, Any]]] = []
        while page is not None:
            found += [(each.obj, {one.name: one.val for one in each.propSet}) for each in page.objects]
            if len(found) > MOST_OBJECTS:
                raise VCenterError(f"it has more than {MOST_OBJECTS} objects of one kind")
            page = collector.ContinueRetrievePropertiesEx(page.token) if page.token else None
        return found
