"""Secrets that are planted wherever a package or its operator can put them reach no output, log, state or record."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build.agent import AgentHost, encoded, step

SECRET = "s3cr3t-Ünïcode"
BODIES = ("true", "exit 5", "kill -9 $$", "sleep 30", "kill -15 $PPID", "kill -9 $PPID")
PLACES: dict[str, dict[str, Any]] = {
    "argument": {},
    "step environment": {"env": {"PASSWORD": SECRET}},
    "environment of a wrong type": {"env": {"PASSWORD": [SECRET]}},
    "argument with a NUL": {"env": {"PASSWORD": f"{SECRET}\0"}},
    "name of a variable": {"env": {f"A={SECRET}": "x"}},
}
VARIABLES = (
    "OTHER",
    "SKYHOOK_AGENT_STEP_DELAY",
    "SKYHOOK_AGENT_BUFFER_LIMIT",
    "SKYHOOK_AGENT_COPY_MODE",
    "SKYHOOK_AGENT_EXEC_MODE",
    "SKYHOOK_AGENT_BOOT_ID_FILE",
    "COPY_RESOLV",
    "OVERLAY_ALWAYS_RUN_STEP",
)
MODES = ("apply", "apply-check", "upgrade", "uninstall", "--dry-run", "interrupt")


def leaks(host: AgentHost, texts: tuple[str, ...]) -> list[str]:
    """Return the places where the secret is found, except for the package and the steps' own environment."""
    found = [text for text in texts if SECRET in text]
    files = [*host.root.rglob("*"), host.record_file]
    for file in files:
        is_planted = host.package in file.parents
        if file.is_file() and not is_planted and SECRET.encode() in file.read_bytes():
            found.append(str(file))
    return found


@settings(max_examples=60)
@given(
    body=st.sampled_from(BODIES),
    place=st.sampled_from(sorted(PLACES)),
    variable=st.sampled_from(VARIABLES),
    mode=st.sampled_from(MODES),
    is_broken=st.booleans(),
)
def test_no_secret_leaves_the_agent(body: str, place: str, variable: str, mode: str, is_broken: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        host = AgentHost(Path(folder) / "host")
        for path in ("a.sh", "a_check.sh"):
            host.script(path, body)
        secretive = [step("a.sh", "env:TOKEN", **PLACES[place])]
        checks = [step("a_check.sh", "env:TOKEN")]
        modes = {"apply": secretive, "upgrade": secretive, "uninstall": secretive}
        host.config(**modes, **{f"{name}_check": checks for name in modes})
        if is_broken:
            text = json.dumps({"package_name": SECRET})
            (host.package / "config.json").write_text(text[:-1] + ',"env":')
        env = {"TOKEN": SECRET, variable: SECRET, "SKYHOOK_AGENT_STEP_TIMEOUT": "0.3"}
        words = [mode, str(host.root), host.copy_dir]
        if mode == "--dry-run":
            words = ["apply", str(host.root), host.copy_dir, mode]
        if mode == "interrupt":
            words.append(encoded({"type": "service_restart", "services": ["a"]}))
        done = host.agent(*words, env=env)
        assert leaks(host, (done.out, done.err)) == []
