"""Stand-ins for commands of a node's host that would change the machine under it: they note how they were called.

Where a test restarts a service for real, `tests/rig/services.py` takes the place of `systemctl`.
"""

from __future__ import annotations

from pathlib import Path

from tests.rig.node import Node

FILE = "var/commands-of-the-test"


def stand_in(node: Node, *commands: str) -> Path:
    """Replace commands of the host. Return the file in which each call becomes a line."""
    for command in commands:
        file = node.root / "usr/local/sbin" / command
        file.unlink(missing_ok=True)
        file.write_text(f'#!/bin/sh\necho "{command} $*" >> /{FILE}\n')
        file.chmod(0o755)
    calls = node.root / FILE
    calls.write_text("")
    return calls
