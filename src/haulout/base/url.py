"""Removes logins, and parameters that look like secrets, from URLs in texts that people read."""

from __future__ import annotations

import re

HIDDEN = "..."
_SECRET_PARAMETER = re.compile(
    r"(pass|pwd|token|secret|credential|key|auth|bearer|cookie|session|signature|sig$|code$)", re.IGNORECASE
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31}://)([^\s\"'<>`]+)")
_PARAMETER = re.compile(r"([^?&#;=]+)=([^&#;]*)")


def without_secrets(text: str) -> str:
    """Return the text with `...` in the place of each login and each secret parameter of the URLs in it."""
    return _URL.sub(_hidden, text) if "://" in text else text


def _hidden(found: re.Match[str]) -> str:
    # A password may contain unescaped characters, so everything before the last @ counts as the login.
    login, at, rest = found[2].rpartition("@")
    return f"{found[1]}{HIDDEN if login else ''}{at}{_PARAMETER.sub(_value, rest)}"


def _value(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if found[2] and is_secret(found[1]) else found[0]


def is_secret(parameter: str) -> bool:
    """Whether the name of a URL's parameter looks like that of a secret."""
    return _SECRET_PARAMETER.search(parameter) is not None
