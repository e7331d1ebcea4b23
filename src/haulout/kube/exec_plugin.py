"""Exec plugins: programs that log in and print a token or a certificate (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from datetime import datetime
from typing import Annotated, Any, NoReturn

import msgspec

from haulout.kube.auth import AuthProof, Fetched, bearer, pem_bytes
from haulout.kube.endpoint import ClusterInfo, ExecPlugin
from haulout.kube.errors import UNFIT, ConfigInvalid, ConnectionFailed
from haulout.kube.tls import CertPair

# The program may call a cloud provider, and a person may have to confirm a login on their phone.
LIMIT_SECONDS = 60.0
INTERACTIVE_LIMIT_SECONDS = 300.0


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


_ANSWER = msgspec.json.Decoder(_ExecCredential)


class PluginRun:
    """A function that runs the exec plugin and returns the credential that it prints."""

    def __init__(self, plugin: ExecPlugin, where: str, *, limit: float | None = None) -> None:
        terminal = _has_terminal()
        self.interactive = terminal and plugin.interactive_mode != "Never"
        self._plugin = plugin
        self._where = f'{where}: exec plugin "{plugin.command}"'
        self._limit = limit or (INTERACTIVE_LIMIT_SECONDS if self.interactive else LIMIT_SECONDS)
        if plugin.interactive_mode == "Always" and not terminal:
            self._refuse("wants to ask on a terminal, and there is none (interactiveMode: Always)")

    async def __call__(self) -> Fetched:
        return self._judge(await self._output())

    async def _output(self) -> bytes:
        process = await self._start()
        try:
            async with asyncio.timeout(self._limit):
                output, _ = await process.communicate()
        except TimeoutError:
            raise ConnectionFailed(f"{self._where} did not end within {self._limit:g} s") from None
        finally:
            await self._end(process)
        if process.returncode:
            # The program has written the reason to our standard error, which it shares.
            raise ConnectionFailed(f"{self._where} failed with exit code {process.returncode}{self._hint()}")
        return output

    async def _start(self) -> Process:
        plugin = self._plugin
        env = os.environ | {name: value.text for name, value in plugin.env} | {"KUBERNETES_EXEC_INFO": self._info()}
        try:
            return await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=env,
                stdin=None if self.interactive else DEVNULL,
                stdout=PIPE,
                # Its child processes must not outlive it. On a terminal the program has to stay in the foreground.
                start_new_session=not self.interactive,
            )
        except OSError as error:
            self._refuse(f"cannot be run: {error.strerror}{self._hint()}")
        except ValueError as error:
            # Arguments and variables that cannot be passed to any program.
            self._refuse(f"cannot be run: {error}")

    async def _end(self, process: Process) -> None:
        if process.returncode is not None:
            return
        try:
            if self.interactive:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        await process.wait()

    def _info(self) -> str:
        plugin = self._plugin
        spec: dict[str, Any] = {"interactive": self.interactive}
        if plugin.cluster is not None:
            spec["cluster"] = _cluster(plugin.cluster, self._where)
        return msgspec.json.encode({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).decode()

    def _judge(self, output: bytes) -> Fetched:
        try:
            answer = _ANSWER.decode(output)
        except UNFIT as error:
            self._refuse(f"printed something else than an ExecCredential: {error}")
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            self._refuse(
                f'printed {answer.kind or "no kind"} of "{answer.api_version}" '
                f'(ExecCredential of "{self._plugin.api_version}" would be right)'
            )
        status = answer.status or _Status()
        if not status.token and not status.client_certificate_data:
            self._refuse("printed neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            self._refuse("printed a client certificate without its key, or the reverse")
        headers = (bearer(status.token, self._where),) if status.token else ()
        pair = None
        if status.client_certificate_data and status.client_key_data:
            pair = CertPair(status.client_certificate_data.encode(), status.client_key_data.encode())
        return Fetched(AuthProof(headers, pair), status.expiration_timestamp)

    def _hint(self) -> str:
        # One line, without control characters that a terminal would obey.
        hint = "".join(char if char.isprintable() else " " for char in self._plugin.install_hint)
        return f" ({' '.join(hint.split())})" if hint.strip() else ""

    def _refuse(self, message: str) -> NoReturn:
        raise ConfigInvalid(f"{self._where} {message}")


def _cluster(info: ClusterInfo, where: str) -> dict[str, Any]:
    ca = pem_bytes(info.ca, where) if info.ca is not None else b""
    fields = {
        "server": info.server,
        "tls-server-name": info.tls_server_name,
        "insecure-skip-tls-verify": info.insecure,
        "certificate-authority-data": base64.b64encode(ca).decode(),
        "proxy-url": info.proxy_url.text,
        "disable-compression": not info.compress,
        "config": info.config,
    }
    return {key: value for key, value in fields.items() if value}


def _has_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
