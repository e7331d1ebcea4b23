"""The interrupt that the operator asks for, and the commands that carry it out."""

from __future__ import annotations

import binascii
import json
import re
from dataclasses import dataclass
from typing import Any

from haulout.agent.errors import AgentError

REBOOT = "node_restart"
NO_OP = "no_op"
KINDS = (NO_OP, REBOOT, "restart_all_services", "script_interrupt", "service_restart")
MALFORMED = "Serialized interrupt must be base64 encoded {'type': str, **kwargs: dict[str, any]}"
SERVICE = re.compile(r"[A-Za-z0-9:_.@\\-]{1,256}")


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An interrupt and its commands. `warnings`: about keys of the payload that have no meaning."""

    kind: str
    commands: tuple[tuple[str, ...], ...] = ()
    warnings: tuple[str, ...] = ()


def parse_interrupt(data: str | None) -> Interrupt:
    document = _decode(data)
    kind = document["type"]
    if kind not in KINDS:
        raise AgentError(f"Unknown interrupt {kind} must be one of: {', '.join(KINDS)}")
    known = {"type", "services"} if kind == "service_restart" else {"type"}
    warnings = [f"WARNING: {key} means nothing to a {kind} interrupt and is ignored" for key in document.keys() - known]
    return Interrupt(kind, _commands(kind, document), tuple(sorted(warnings)))


def _decode(data: str | None) -> dict[str, Any]:
    try:
        document = json.loads(binascii.a2b_base64((data or "").encode()))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        raise AgentError(MALFORMED)
    return document


def _commands(kind: str, document: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    match kind:
        case "node_restart":
            return (("reboot",),)
        case "restart_all_services":
            return (("service", "procps", "force-reload"),)
        case "service_restart":
            restarts = tuple(("systemctl", "restart", name) for name in _services(document.get("services")))
            return (("systemctl", "daemon-reload"), *restarts)
        case _:
            return ()


def _services(services: Any) -> list[str]:
    if not isinstance(services, list):
        raise AgentError("A service_restart interrupt needs services: a list of names")
    for name in services:
        if not isinstance(name, str) or not SERVICE.fullmatch(name) or name.startswith("-"):
            raise AgentError(f"Invalid service name: {name}")
    return services
