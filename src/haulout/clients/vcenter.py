"""A vCenter, as far as hosts and virtual machines of known names go. Calls block, and run in a thread of their own."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable
from typing import Any

import pyVmomi
from yarl import URL

from haulout.clients.vcenters import ToolsUnavailable, VCenterError
from haulout.surfaces.esx.vcenter import HostState

# Its types are made at run time, and those that it declares are neither complete nor right.
library: Any = pyVmomi
vim, vmodl = library.vim, library.vmodl

# vSphere 6.0: all that is asked for here is older, and every vCenter since understands it.
API_VERSION = "vim.version.version10"
ANSWER_WITHIN = 30
# The task by which a host goes into maintenance; its name in the API is spelled differently from version to version.
ENTERING = "HostSystem.enterMaintenanceMode"
RUNNING = ("running", "queued")

Properties = vmodl.query.PropertyCollector


class VCenter:
    """A signed-in session with one vCenter.

    Names are looked up once in a session, which is short.
    """

    def __init__(self, url: URL, username: str, password: str, *, insecure: bool) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if insecure else ssl.create_default_context()
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        port = url.port or 443
        stub = library.SoapStubAdapter(
            host=url.host,
            # How the library is told to speak plainly.
            port=port if url.scheme == "https" else -port,
            path=url.path,
            version=API_VERSION,
            sslContext=context,
            httpConnectionTimeout=ANSWER_WITHIN,
        )
        self.drop = stub.DropConnections
        try:
            self._content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
            self._content.sessionManager.Login(username, password, None)
        except BaseException:
            self.drop()
            raise
        self._names: dict[Any, dict[str, list[Any]]] = {}

    def close(self) -> None:
        """Sign out. Whether the server is still there to hear it does not matter."""
        with contextlib.suppress(Exception):
            self._content.sessionManager.Logout()
        self.drop()

    def host(self, name: str) -> HostState:
        host = self._find(vim.HostSystem, name)
        paths = ("config.product.version", "runtime.inMaintenanceMode", "triggeredAlarmState", "recentTask")
        known = self._read(host, vim.HostSystem, paths)
        if "runtime.inMaintenanceMode" not in known:
            raise VCenterError(f"whether host {name} is in maintenance may not be read")
        alarms = [state.alarm for state in known.get("triggeredAlarmState") or ()]
        return HostState(
            version=known.get("config.product.version") or "",
            in_maintenance=bool(known["runtime.inMaintenanceMode"]),
            entering=any(self._is_entering(task) for task in known.get("recentTask") or ()),
            alarms=tuple(sorted({self._read(alarm, vim.alarm.Alarm, ("info.name",))["info.name"] for alarm in alarms})),
        )

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
        """Begin to switch a virtual machine on or off. Return the task that does it."""
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
            # Tasks are recent for a while only.
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
            for obj, known in self._retrieve(start, kind, ("name",)):
                named.setdefault(str(known.get("name", "")), []).append(obj)
            return named
        finally:
            view.Destroy()

    def _read(self, obj: Any, kind: Any, paths: Iterable[str]) -> dict[str, Any]:
        """Return the properties that may be read; the others are absent."""
        return next((known for _, known in self._retrieve(Properties.ObjectSpec(obj=obj), kind, paths)), {})

    def _retrieve(self, start: Any, kind: Any, paths: Iterable[str]) -> list[tuple[Any, dict[str, Any]]]:
        collector = self._content.propertyCollector
        wanted = Properties.FilterSpec(
            objectSet=[start], propSet=[Properties.PropertySpec(type=kind, pathSet=list(paths))]
        )
        page = collector.RetrievePropertiesEx([wanted], Properties.RetrieveOptions())
        found: list[tuple[Any, dict[str, Any]]] = []
        while page is not None:
            found += [(each.obj, {one.name: one.val for one in each.propSet}) for each in page.objects]
            page = collector.ContinueRetrievePropertiesEx(page.token) if page.token else None
        return found
