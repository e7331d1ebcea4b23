"""The environment of steps and interrupts, made from the agent's own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

IMAGE_ENV = "/usr/share/skyhook-agent/image-env"
KEPT = ("PATH", "HOME", "LANG", "TERM")
HOST_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def own_environment() -> dict[str, str]:
    """Return the environment with which the agent was started.

    In a C locale Python sets LC_CTYPE in its own environment. Steps must not inherit it, so it is removed here.
    """
    environ = dict(os.environ)
    if environ.get("LC_CTYPE") == "C.UTF-8":
        with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
            if not any(pair.startswith(b"LC_CTYPE=") for pair in file.read().split(b"\0")):
                del environ["LC_CTYPE"]
    return environ


def read_image_environment(path: str = IMAGE_ENV) -> dict[str, str]:
    """Return the variables that the agent's image sets. Steps do not get these."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            pairs = [line.rstrip("\n").partition("=") for line in file]
    except OSError:
        return {}
    return {name: text for name, _, text in pairs}


def base_environment(own: Mapping[str, str], image: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that steps and interrupts inherit from the agent: those that its image does not set."""
    base = {name: text for name, text in own.items() if name in KEPT or image.get(name) != text}
    return {**base, "PATH": with_host_folders(base.get("PATH", ""))}


def with_host_folders(path: str) -> str:
    folders = path.split(":") if path else []
    return ":".join([*folders, *(folder for folder in HOST_FOLDERS if folder not in folders)])
