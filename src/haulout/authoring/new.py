"""`haulout package new NAME`: a package directory to start from, which validates as it is."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from haulout.agent import console
from haulout.agent.config import PACKAGE_NAME
from haulout.agent.errors import AgentError, UsageError, doing
from haulout.agent.package import Package, Step

APPLY = """\
#!/bin/sh
# Runs once for each version of the package on a host, as root, in the host's own file system.
set -eu
echo "hello from {name}" > /etc/{name}.conf
"""
APPLY_CHECK = """\
#!/bin/sh
# Runs after apply.sh. The exit code says whether the work is really done.
set -eu
grep -q "hello from {name}" /etc/{name}.conf
"""
CONFIG = """\
#!/bin/sh
# Runs whenever the configMap of the package changes. Its keys are files in $SKYHOOK_DIR/configmaps.
set -eu
if [ -e "$SKYHOOK_DIR/configmaps/greeting" ]; then
    cp "$SKYHOOK_DIR/configmaps/greeting" /etc/{name}.greeting
fi
"""
CONFIG_CHECK = """\
#!/bin/sh
set -eu
if [ -e "$SKYHOOK_DIR/configmaps/greeting" ]; then
    cmp "$SKYHOOK_DIR/configmaps/greeting" /etc/{name}.greeting
fi
"""
UNINSTALL = """\
#!/bin/sh
set -eu
rm -f /etc/{name}.conf /etc/{name}.greeting
"""
UNINSTALL_CHECK = """\
#!/bin/sh
set -eu
test ! -e /etc/{name}.conf
"""
SCRIPTS = {
    "apply": APPLY,
    "apply_check": APPLY_CHECK,
    "config": CONFIG,
    "config_check": CONFIG_CHECK,
    "uninstall": UNINSTALL,
    "uninstall_check": UNINSTALL_CHECK,
}
DOCKERFILE = """\
# Build it with the version of config.json as its tag: docker build -t REGISTRY/{name}:0.1.0 .
# What is in configmaps/ is for tests: on a host without a configMap it would count as one.
FROM busybox:stable
COPY config.json /skyhook-package/config.json
COPY skyhook_dir /skyhook-package/skyhook_dir
"""


def main(words: Sequence[str]) -> int:
    if len(words) != 2:
        raise UsageError("new takes the name of the package, or the path of its directory to be")
    make(words[1])
    console.say(f"{words[1]}: made; try `haulout package validate {words[1]}` and `haulout package test {words[1]}`")
    return 0


def make(path: str) -> None:
    name = os.path.basename(path.rstrip("/"))
    if not PACKAGE_NAME.fullmatch(name) or ".." in name:
        raise AgentError(f"Invalid package_name: {name}")
    with doing(f"create {path}"):
        os.makedirs(f"{path}/skyhook_dir")
        for stem, text in SCRIPTS.items():
            _write(f"{path}/skyhook_dir/{stem}.sh", text.replace("{name}", name), 0o755)
        document = package(name).document()
        del document["root_dir"]
        _write(f"{path}/config.json", json.dumps(document, indent=2) + "\n", 0o644)
        _write(f"{path}/Dockerfile", DOCKERFILE.replace("{name}", name), 0o644)


def package(name: str) -> Package:
    modes = {stem.replace("_", "-"): (_step(stem),) for stem in SCRIPTS}
    return Package(name, "0.1.0", (), modes)


def _step(stem: str) -> Step:
    is_check = stem.endswith("_check")
    name = stem.replace("_", "-")
    return Step(name, f"{stem}.sh", (), (0,), on_host=True, idempotence=is_check, upgrade_step=False)


def _write(path: str, text: str, mode: int) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
