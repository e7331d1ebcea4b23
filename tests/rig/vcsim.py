"""vcsim, the simulator of a vCenter, and a proxy before it that knows what the simulator does not: alarms, stubborn guests."""

from __future__ import annotations

import http.client
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyVmomi

from tests.rig.plane import tool
from tests.rig.process import Process, free_port
from tests.rig.wait import eventually

library: Any = pyVmomi
vim = library.vim

ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope'
    ' xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>{}</soapenv:Body></soapenv:Envelope>'
)
FOUND = (
    '<RetrievePropertiesExResponse xmlns="urn:vim25"><returnval><objects><obj type="{kind}">{name}</obj>{props}'
    "</objects></returnval></RetrievePropertiesExResponse>"
)
PROPERTY = '<propSet><name>{}</name><val xsi:type="{}">{}</val></propSet>'
ALARM = (
    '<AlarmState><key>alarm-1.host</key><entity type="HostSystem">host-1</entity>'
    '<alarm type="Alarm">alarm-1</alarm><overallStatus>red</overallStatus><time>2026-01-01T00:00:00Z</time></AlarmState>'
)
TASK = '<ManagedObjectReference type="Task" xsi:type="ManagedObjectReference">task-entering</ManagedObjectReference>'
NO_TOOLS = (
    "<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>no tools are running</faultstring>"
    '<detail><ToolsUnavailableFault xmlns="urn:vim25" xsi:type="ToolsUnavailable"></ToolsUnavailableFault></detail>'
    "</soapenv:Fault>"
)


class VCenterSim:
    """A vCenter simulator behind a proxy. `url` is the address of the proxy.

    `alarm`: the name of an alarm that all hosts have. `entering`: whether hosts are about to enter maintenance.
    `guests`: whether guests that are asked to shut down do so, do not, or cannot be asked.
    """

    def __init__(self, logs: Path, *, hosts: int = 2, machines: int = 2) -> None:
        self.port = free_port()
        shape = ["-dc=1", "-cluster=1", "-standalone-host=0", f"-host={hosts}", f"-vm={machines}"]
        self.process = Process("vcsim", [tool("vcsim"), f"-httptest.serve=127.0.0.1:{self.port}", *shape], logs)
        self.alarm, self.entering, self.guests = "", False, "obedient"
        self.calls: list[str] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._proxy.server_address[1]}"

    def __enter__(self) -> Self:
        self.process.start()
        eventually(self._sign_in, "vcsim answers", refused=(OSError, http.client.HTTPException))
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stub.DropConnections()
        self._proxy.shutdown()
        self._proxy.server_close()
        self.process.stop()

    # What a test does and looks at

    def host(self, number: int) -> str:
        return f"DC0_C0_H{number}"

    def name_machine(self, number: int, name: str) -> None:
        """Give a virtual machine another name. The simulator's own names cannot be names of nodes."""
        self._all(vim.VirtualMachine)[f"DC0_C0_RP0_VM{number}"].ReconfigVM_Task(vim.vm.ConfigSpec(name=name))

    def maintain(self, host: str, *, is_on: bool) -> None:
        found = self._all(vim.HostSystem)[host]
        found.EnterMaintenanceMode_Task(0) if is_on else found.ExitMaintenanceMode_Task(0)

    def is_up(self, machine: str) -> bool:
        return str(self._values(vim.VirtualMachine, "runtime.powerState")[machine]) == "poweredOn"

    def _sign_in(self) -> bool:
        self.process.check()
        self._stub = stub = library.SoapStubAdapter(
            host="127.0.0.1", port=self.port, path="/sdk", version="vim.version.version10", sslContext=self._context
        )
        self._content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
        self._content.sessionManager.Login("test", "test", None)
        return True

    def _all(self, kind: Any) -> dict[str, Any]:
        return {name: obj for obj, name in self._properties(kind, "name")}

    def _values(self, kind: Any, path: str) -> dict[str, Any]:
        values = dict(self._properties(kind, path))
        return {name: values[obj] for obj, name in self._properties(kind, "name")}

    def _properties(self, kind: Any, path: str) -> list[tuple[Any, Any]]:
        parts = library.vmodl.query.PropertyCollector
        view = self._content.viewManager.CreateContainerView(self._content.rootFolder, [kind], True)
        step = parts.TraversalSpec(name="view", path="view", skip=False, type=vim.view.ContainerView)
        start = parts.ObjectSpec(obj=view, skip=True, selectSet=[step])
        wanted = parts.FilterSpec(objectSet=[start], propSet=[parts.PropertySpec(type=kind, pathSet=[path])])
        page = self._content.propertyCollector.RetrievePropertiesEx([wanted], parts.RetrieveOptions())
        view.Destroy()
        return [(each.obj, each.propSet[0].val) for each in page.objects]

    # The proxy

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sim = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body are sent separately. Without this option the client would wait 40 ms for the second half.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, content, headers = sim._answer(body, dict(self.headers))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None: ...

        return Handler

    def _answer(self, body: str, headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        found = re.search(r"<\w+:Body><(\w+)", body)
        self.calls.append(found[1] if found else "")
        made = self._own(body)
        if made is not None:
            return made[0], ENVELOPE.format(made[1]).encode(), {"Content-Type": "text/xml"}
        status, content, kept = self._forwarded(body, headers)
        return status, self._doctored(content.decode()).encode(), kept

    def _own(self, body: str) -> tuple[int, str] | None:
        """Return the proxy's own answer to a request that does not reach the simulator, or None."""
        if "ShutdownGuest" in body and self.guests == "stubborn":
            return 200, '<ShutdownGuestResponse xmlns="urn:vim25"></ShutdownGuestResponse>'
        if "ShutdownGuest" in body and self.guests == "without tools":
            return 500, NO_TOOLS
        if ">alarm-1<" in body:
            props = PROPERTY.format("info.name", "xsd:string", self.alarm)
            return 200, FOUND.format(kind="Alarm", name="alarm-1", props=props)
        if ">task-entering<" in body:
            props = PROPERTY.format("info.descriptionId", "xsd:string", "HostSystem.enterMaintenanceMode")
            props += PROPERTY.format("info.state", "TaskInfoState", "running")
            return 200, FOUND.format(kind="Task", name="task-entering", props=props)
        return None

    def _forwarded(self, body: str, headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self._context)
        passed = ("Cookie", "SOAPAction", "Content-Type")
        try:
            sent = {name: value for name, value in headers.items() if name in passed}
            connection.request("POST", "/sdk", body.encode(), sent)
            answer = connection.getresponse()
            kept = {name: answer.headers[name] for name in ("Content-Type", "Set-Cookie") if name in answer.headers}
            return answer.status, answer.read(), kept
        finally:
            connection.close()

    def _doctored(self, content: str) -> str:
        for name, more in (
            ("triggeredAlarmState", ALARM if self.alarm else ""),
            ("recentTask", TASK if self.entering else ""),
        ):
            content = re.sub(rf"(<name>{name}</name><val[^>]*>)(?=</val>)", rf"\g<1>{more}", content)
        return content
