"""Stand-ins for commands of a node's host that would change the machine under it: they note how they were called.

`systemctl` is one of them: no service is really restarted. systemd manages services only as the first process of a PID namespace,
which is the rig's own on a test node; it writes into the cgroups that the node shares with the machine; and as the root of the node
is an overlay over that of the machine, it would start whatever services are enabled there, the one that sets the clock among them.
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
