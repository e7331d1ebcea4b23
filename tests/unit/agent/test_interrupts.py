"""Interrupts: payloads, commands, markers, and reboots that the boot id confirms."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.build.agent import UID, AgentHost, encoded, ended, furnish

REBOOT = {"type": "node_restart"}


def marker(host: AgentHost, name: str) -> Path:
    return host.state / "interrupts/flags" / host.env["SKYHOOK_RESOURCE_ID"] / name


@pytest.mark.parametrize(
    ("payload", "commands", "markers"),
    [
        ({"type": "no_op"}, [], ["no_op.complete"]),
        ({"type": "script_interrupt"}, [], []),
        ({"type": "restart_all_services"}, ["service procps force-reload"], ["restart_all_services_0.complete"]),
        (
            {"type": "service_restart", "services": ["a", "b@1.service"]},
            ["systemctl daemon-reload", "systemctl restart a", "systemctl restart b@1.service"],
            [f"service_restart_{index}.complete" for index in range(3)],
        ),
    ],
    ids=["no_op", "script", "all services", "services"],
)
def test_commands_and_markers(host: AgentHost, payload: Any, commands: list[str], markers: list[str]) -> None:
    shutil.rmtree(host.package)  # interrupts need no copy of the package
    done = host.interrupt(payload)
    assert done.code == 0
    assert (host.commands, host.markers) == (commands, markers)
    assert set(commands) <= set(done.lines)
    for name in markers:
        assert float(marker(host, name).read_text()) > 1e9
    again = host.interrupt(payload)
    assert (again.code, host.commands) == (0, commands)
    resource = host.env["SKYHOOK_RESOURCE_ID"]
    for index in range(len(commands)):
        line = f"Skipping interrupt {payload['type']}_{index} because it was already run for {resource}"
        assert line in again.lines
    # Another generation is another interrupt.
    assert host.interrupt(payload, env={"SKYHOOK_RESOURCE_ID": f"sk-{UID}-2_demo_1.0.0"}).code == 0
    assert host.commands == commands * 2


def test_the_log_begins_with_the_command(host: AgentHost) -> None:
    host.fake("systemctl", "echo hello")
    assert host.interrupt({"type": "service_restart", "services": []}).code == 0
    (log,) = (host.logs / "interrupts").glob("service_restart_0-*.log")
    first, second, _ = log.read_text().split("\n")
    assert (first, second[:5], second[-5:]) == ("systemctl daemon-reload", "[out]", "hello")
    assert Path(f"{log}.err").exists()


def test_a_command_that_fails_is_tried_again(host: AgentHost) -> None:
    host.fake("systemctl", 'test "$2" != bad')
    payload = {"type": "service_restart", "services": ["good", "bad", "never"]}
    done = host.interrupt(payload)
    assert done.code == 1
    text = "INTERRUPT FAILED: ['systemctl', 'restart', 'bad'] return_code: 1"
    assert text in done.lines
    assert host.record["error"] == text
    assert host.markers == ["service_restart_0.complete", "service_restart_1.complete"]
    host.fake("systemctl")
    assert host.interrupt(payload).code == 0
    assert host.commands[-2:] == ["systemctl restart bad", "systemctl restart never"]
    assert len(host.commands) == 5


MALFORMED = "Serialized interrupt must be base64 encoded {'type': str, **kwargs: dict[str, any]}"
UNKNOWN = (
    "Unknown interrupt foo must be one of: no_op, node_restart, restart_all_services, script_interrupt, service_restart"
)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("%%%", MALFORMED),
        (base64.b64encode(b"\xff").decode(), MALFORMED),
        (encoded([]), MALFORMED),
        (encoded({}), MALFORMED),
        (encoded({"type": 5}), MALFORMED),
        (encoded({"type": "foo"}), UNKNOWN),
        (encoded({"type": "service_restart"}), "A service_restart interrupt needs services: a list of names"),
        (encoded({"type": "service_restart", "services": ["-x"]}), "Invalid service name: -x"),
        (encoded({"type": "service_restart", "services": ["ok", "a b"]}), "Invalid service name: a b"),
        (encoded({"type": "service_restart", "services": ["a/b"]}), "Invalid service name: a/b"),
        (encoded({"type": "service_restart", "services": [""]}), "Invalid service name: "),
        (encoded({"type": "service_restart", "services": ["a\n"]}), "Invalid service name: a\n"),
    ],
)
def test_a_bad_payload_runs_and_writes_nothing(host: AgentHost, data: str, words: str) -> None:
    done = host.run("interrupt", data)
    assert (done.code, done.err) == (1, f"{words}\n")
    assert host.commands == []
    assert not (host.state / "interrupts").exists()


def test_keys_without_meaning_are_ignored_with_a_warning(host: AgentHost) -> None:
    done = host.interrupt({**REBOOT, "services": ["x"]}, env={"SKYHOOK_AGENT_REBOOT_CONFIRM": "legacy"})
    assert (done.code, host.commands) == (0, ["reboot "])
    assert "WARNING: services means nothing to a node_restart interrupt and is ignored" in done.err


def test_a_reboot_from_the_marker_to_its_confirmation(host: AgentHost) -> None:
    """The whole chain: pending, command, death, next start, done."""
    host.fake("reboot", f"while :; do sleep 0.05; [ -e {host.inside}/down ] && exit 0; done")
    process = host.start("interrupt", str(host.root), host.copy_dir, encoded(REBOOT))
    while not host.commands:
        time.sleep(0.01)
    assert host.markers == ["node_restart_0.pending"]
    assert '"boot_id": "boot-1"' in marker(host, "node_restart_0.pending").read_text()
    process.kill()
    process.communicate()
    (host.root / "down").touch()
    host.boot("boot-2")
    done = host.interrupt(REBOOT)
    assert done.code == 0
    line = f"Skipping interrupt node_restart_0 because it was already run for {host.env['SKYHOOK_RESOURCE_ID']}"
    assert line in done.lines
    assert (host.markers, host.commands) == (["node_restart_0.complete"], ["reboot "])
    float(marker(host, "node_restart_0.complete").read_text())
    assert (host.interrupt(REBOOT).code, host.commands) == (0, ["reboot "])


def test_a_host_that_does_not_go_down_is_a_failure_and_is_asked_again(host: AgentHost) -> None:
    for count in (1, 2):
        done = host.interrupt(REBOOT, env={"SKYHOOK_AGENT_REBOOT_WAIT": "0.2"})
        assert done.code == 1
        line = "INTERRUPT FAILED: reboot was accepted but the host did not restart within 0.2s"
        assert line in done.lines
        assert (host.markers, len(host.commands)) == (["node_restart_0.pending"], count)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"boot_id":' * 100_000, "{", '{"boot_id": 1}', "[]"])
def test_a_reboot_whose_marker_cannot_be_read_is_asked_for_again(host: AgentHost, text: str) -> None:
    path = marker(host, "node_restart_0.pending")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = host.interrupt(REBOOT)
    assert (done.code, host.commands) == (1, ["reboot "])
    assert '"boot_id": "boot-1"' in path.read_text()


BOOTS = ("00000000-0000-4000-8000-000000000011", "00000000-0000-4000-8000-000000000012")


@pytest.mark.parametrize(
    "form", ["{}", '{{"bootID":"{}","at":1}}', "boot {} 2026-10-01\n"], ids=["plain", "JSON", "text"]
)
@pytest.mark.parametrize(("boot", "reboots"), [(BOOTS[0], 1), (BOOTS[1], 0)], ids=["same boot", "another boot"])
def test_the_boot_id_is_found_in_the_marker_of_another_agent(
    host: AgentHost, form: str, boot: str, reboots: int
) -> None:
    path = marker(host, "node_restart_0.pending")
    path.parent.mkdir(parents=True)
    path.write_text(form.format(BOOTS[0]))
    host.boot(boot)
    done = host.interrupt(REBOOT)
    assert (len(host.commands), done.code) == (reboots, reboots)
    assert host.markers == [f"node_restart_0.{'pending' if reboots else 'complete'}"]


@pytest.mark.parametrize(
    ("body", "code", "markers"),
    [
        ("exit 1", 1, []),
        ("kill -TERM $$", -15, ["node_restart_0.pending"]),
        ("kill -KILL $$", -9, ["node_restart_0.pending"]),
    ],
)
def test_a_reboot_that_fails_and_one_that_is_killed(host: AgentHost, body: str, code: int, markers: list[str]) -> None:
    host.fake("reboot", body)
    done = host.interrupt(REBOOT)
    assert done.code == 1
    assert f"INTERRUPT FAILED: ['reboot'] return_code: {code}" in done.lines
    assert host.markers == markers


def test_sigterm_while_waiting_keeps_the_marker(host: AgentHost) -> None:
    env = {"SKYHOOK_AGENT_REBOOT_WAIT": "600"}
    process = host.start("interrupt", str(host.root), host.copy_dir, encoded(REBOOT), env=env)
    while not host.commands:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert ended(process).code == 1
    assert host.markers == ["node_restart_0.pending"]
    assert host.record["result"] == "terminated"


def test_without_a_boot_id_nothing_reboots(host: AgentHost) -> None:
    done = host.interrupt(REBOOT, env={"SKYHOOK_AGENT_BOOT_ID_FILE": "/no/such/file"})
    assert done.code == 1
    assert done.err.startswith("cannot read the host's boot id")
    assert (host.commands, host.markers) == ([], [])


def test_the_boot_id_may_be_the_agents_own(host: AgentHost, tmp_path: Path) -> None:
    own = tmp_path / "boot"
    own.write_text("own-boot\n")
    host.interrupt(REBOOT, env={"SKYHOOK_AGENT_BOOT_ID_FILE": str(own)})
    assert '"boot_id": "own-boot"' in marker(host, "node_restart_0.pending").read_text()


def test_a_reboot_of_the_originals_agent_is_honoured(host: AgentHost) -> None:
    file = marker(host, "node_restart_0.complete")
    file.parent.mkdir(parents=True)
    file.write_text("1700000000.5")
    assert (host.interrupt(REBOOT).code, host.commands) == (0, [])


@pytest.mark.parametrize(
    ("body", "code", "markers"),
    [("exit 0", 0, ["node_restart_0.complete"]), ("exit 1", 1, []), ("kill -15 $$", 1, ["node_restart_0.complete"])],
)
def test_legacy_bookkeeping(host: AgentHost, body: str, code: int, markers: list[str]) -> None:
    host.fake("reboot", body)
    done = host.interrupt(REBOOT, env={"SKYHOOK_AGENT_REBOOT_CONFIRM": "legacy"})
    assert (done.code, host.markers) == (code, markers)


@pytest.mark.skipif(os.geteuid() != 0, reason="outside of a chroot the machine's own command would be found")
def test_a_command_that_does_not_exist_has_failed(tmp_path: Path, tools: Path) -> None:
    host = AgentHost(tmp_path / "host", is_local=False)
    furnish(host.root, tools)
    (host.root / "fake/service").unlink()
    done = host.interrupt({"type": "restart_all_services"}, env={"PATH": "/fake:relative::"})
    assert done.code == 1
    assert "cannot start service procps force-reload: No such file or directory" in done.err
    assert "INTERRUPT FAILED: ['service', 'procps', 'force-reload'] return_code: 127" in done.lines


def test_the_legacy_form_of_the_arguments() -> None:
    from haulout.agent.arguments import Arguments, parse_arguments

    assert parse_arguments(["interrupt", "/copy", "data"]) == Arguments("interrupt", "/root", "/copy", "data")
    assert parse_arguments(["apply", "/copy"]) == Arguments("apply", "/root", "/copy")
