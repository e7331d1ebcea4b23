"""The package agent in pods on a real node: packages change its host, interrupts restart it, state has the known layout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from haulout.agent.digest import digest_of
from tests.build.agent import step
from tests.build.agent_table import MODES, ROWS, TRACE
from tests.rig.api import Json
from tests.rig.haulout_images import HauloutImages
from tests.rig.host_commands import stand_in
from tests.rig.image import tree
from tests.rig.node import Node
from tests.rig.package_pods import AGENT, UID, PackagePods, told
from tests.rig.packages import ship_example
from tests.rig.wait import eventually

pytestmark = [pytest.mark.root, pytest.mark.tools("etcd", "kube-apiserver", "kubectl", "kubelet")]

QUICK = {"SKYHOOK_AGENT_STEP_DELAY": "0"}
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?"
FIRST_BOOT, SECOND_BOOT = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))


@pytest.fixture(scope="module")
def host(node: Node, images: HauloutImages) -> Path:
    """The host's root directory, on a node that has the agent's image."""
    node.load(images.archive("agent", AGENT))
    return node.root


@pytest.fixture(autouse=True)
def commands(node: Node, host: Path) -> Path:
    return stand_in(node, "reboot", "systemctl")


def load_example(node: Node, name: str, shipped: Path) -> str:
    """Make the image of an example from the files that its container file ships. Return their digest."""
    ship_example(name, shipped)
    files = {f"skyhook-package/{path}": source for path, source in tree(shipped).items()}
    node.load_image(f"haulout.test/{name}:1.0.0", files)
    return digest_of(str(shipped))


def load_package(node: Node, name: str, version: str, scripts: dict[str, str], **modes: list[Json]) -> None:
    config = {
        "schema_version": "v1",
        "package_name": name,
        "package_version": version,
        "expected_config_files": [],
        "modes": {mode.replace("_", "-"): steps for mode, steps in modes.items()},
    }
    files: dict[str, bytes | Path] = {
        "skyhook-package/config.json": json.dumps(config).encode(),
        f"skyhook-package/root_dir/etc/{name}.conf": f"of {name}\n".encode(),
    }
    for path, body in scripts.items():
        files[f"skyhook-package/skyhook_dir/{path}"] = f"#!/bin/sh\n{body}\n".encode()
    node.load_image(f"haulout.test/{name}:{version}", files)


def results(told_results: list[Json]) -> list[tuple[str, str, int, int]]:
    return [(each["mode"], each["result"], each["ran"], each["skipped"]) for each in told_results]


def test_package_goes_through_all_its_stages(
    node: Node, host: Path, namespace: str, commands: Path, tmp_path: Path
) -> None:
    """Files appear on the host, a service is restarted, and uninstall takes back what the package wrote."""
    digest = load_example(node, "registry-mirror", tmp_path)
    config = host / "etc/containerd/config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("version = 2\n")
    (host / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    mirrors = {"mirrors": "docker.io https://mirror.example.com\n"}
    env = {**QUICK, "SKYHOOK_PACKAGE_TREE_DIGEST": digest}
    pods = PackagePods(node.plane.api(), namespace, node.name, "registry-mirror", env=env, config=mirrors)

    assert results(pods.run("apply")) == [("apply", "succeeded", 1, 0), ("apply-check", "succeeded", 1, 0)]
    assert 'config_path = "/etc/containerd/certs.d"' in config.read_text()
    # The second stage copies over the links that the first one's ConfigMap volume has left in the copy.
    assert results(pods.run("config")) == [("config", "succeeded", 1, 0), ("config-check", "succeeded", 1, 0)]
    hosts = host / "etc/containerd/certs.d/docker.io/hosts.toml"
    assert '[host."https://mirror.example.com"]' in hosts.read_text()
    assert not Path("/", hosts.relative_to(host)).exists(), "the machine under the node is as it was"

    assert results(pods.interrupt("service", services=["containerd"])) == [("interrupt", "succeeded", 2, 0)]
    assert commands.read_text().splitlines() == ["systemctl daemon-reload", "systemctl restart containerd"]
    assert results(pods.run("post-interrupt"))[1] == ("post-interrupt-check", "succeeded", 1, 0)
    assert commands.read_text().splitlines()[2:] == ["systemctl is-active containerd"]

    assert results(pods.run("uninstall"))[1] == ("uninstall-check", "succeeded", 1, 0)
    assert not hosts.exists()
    (log,) = (host / "var/log/skyhook" / namespace / "registry-mirror/1.0.0").glob("remove.sh-*.log")
    assert log.stat().st_mode & 0o777 == 0o640
    history = json.loads((host / "var/lib/skyhook" / namespace / "history/registry-mirror.json").read_text())
    assert [entry["version"] for entry in history["history"]] == ["uninstalled", "1.0.0"]


def test_reboot_is_confirmed_by_the_boot_id(
    node: Node, host: Path, namespace: str, commands: Path, tmp_path: Path
) -> None:
    load_example(node, "kernel-tuning", tmp_path)
    (host / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    node.boot(FIRST_BOOT)
    pods = PackagePods(
        node.plane.api(),
        namespace,
        node.name,
        "kernel-tuning",
        env=QUICK,
        # The one setting that every kernel is booted with.
        config={"sysctl.conf": "kernel.ostype = Linux\n", "cmdline": ""},
    )
    pods.run("apply")
    assert (host / "etc/sysctl.d/95-kernel-tuning.conf").read_text() == "kernel.ostype=Linux\n"

    pod = pods.start_interrupt("reboot")
    eventually(commands.read_text, "the host is asked to reboot")
    markers = host / "var/lib/skyhook" / namespace / "interrupts/flags" / pods.resource_id
    assert [path.name for path in markers.iterdir()] == ["node_restart_0.pending"]
    assert json.loads((markers / "node_restart_0.pending").read_text())["boot_id"] == FIRST_BOOT
    # The host goes down with the agent, and comes back.
    node.boot(SECOND_BOOT)
    node.kill("skyhook-agent interrupt")
    status = eventually(lambda: done(pods.statuses(pod)), "the reboot is confirmed")
    assert (status["restartCount"], told(status)["result"]) == (1, "succeeded")
    assert [path.name for path in markers.iterdir()] == ["node_restart_0.complete"]
    assert commands.read_text() == "reboot \n", "once"
    pods.delete(pod)

    # The same pod again, as after any loss of its status: nothing is rebooted for it.
    assert results(pods.interrupt("reboot")) == [("interrupt", "succeeded", 0, 1)]
    assert commands.read_text() == "reboot \n"
    assert results(pods.run("post-interrupt"))[1] == ("post-interrupt-check", "succeeded", 1, 0)


def done(statuses: list[Json]) -> Json | None:
    return next((each for each in statuses if each["state"].get("terminated", {}).get("exitCode") == 0), None)


def test_state_of_the_original_is_honoured_and_ours_is_laid_out_alike(
    node: Node, host: Path, namespace: str, commands: Path
) -> None:
    scripts = {
        "once.sh": "echo once >> /var/once",
        "once_check.sh": "true",
        "versions.sh": 'echo "$@" "$PREVIOUS_VERSION" "$CURRENT_VERSION" > /var/versions',
        "versions_check.sh": "true",
    }
    load_package(
        node,
        "carried",
        "1.2.0",
        scripts,
        apply=[step("once.sh"), step("once.sh", "a", "b", codes=(0, 1))],
        apply_check=[step("once_check.sh")],
        upgrade=[step("versions.sh", upgrade_step=True)],
        upgrade_check=[step("versions_check.sh")],
    )
    pods = PackagePods(node.plane.api(), namespace, node.name, "carried", "1.2.0", env=QUICK)
    state = host / "var/lib/skyhook" / namespace
    left = {
        "flags/START": "",
        "flags/carried/1.2.0/once.sh_W11fWzBd": "last_run: 2026-01-31T10:00:00.123456\nstep_always_runs: False",
        "history/carried.json": '{"current-version": "1.1.0", "history": '
        '[{"version": "1.1.0", "time": "2026-01-31T10:00:00.123456+00:00"}]}',
        f"interrupts/flags/{pods.resource_id}/service_restart_0.complete": "1769853600.123456",
    }
    for path, text in left.items():
        (state / path).parent.mkdir(parents=True, exist_ok=True)
        (state / path).write_text(text)

    (host / "etc/carried.conf").write_text("of an administrator\n")
    etc = (host / "etc").stat().st_mode
    assert results(pods.run("upgrade"))[0] == ("upgrade", "succeeded", 1, 0)
    assert (host / "var/versions").read_text() == "1.1.0 1.2.0 1.1.0 1.2.0\n"
    assert ((host / "etc/carried.conf").read_text(), (host / "etc").stat().st_mode) == ("of carried\n", etc)
    assert results(pods.run("apply"))[0] == ("apply", "succeeded", 1, 1)
    assert (host / "var/once").read_text() == "once\n", "the other one has run under the original"
    assert results(pods.interrupt("service", services=["cron"])) == [("interrupt", "succeeded", 1, 1)]
    assert commands.read_text().splitlines() == ["systemctl restart cron"]

    entry = rf'{{"version": "1\.2\.0", "time": "{STAMP}\+00:00"}}'
    flag = rf"last_run: {STAMP}\nstep_always_runs: False"
    golden = {
        **{path: re.escape(text) for path, text in left.items()},
        "flags/carried/1.2.0/once.sh_WydhJywgJ2InXV9bMCwgMV0=": flag,
        "flags/carried/1.2.0/versions.sh_W11fWzBd": flag,
        "flags/check_results": r"once_check\.sh False",
        "flags/apply-check_ALL_CHECKED": "",
        "flags/upgrade-check_ALL_CHECKED": "",
        "history/carried.json": rf'{{"current-version": "1\.2\.0", "history": \[{entry}, {entry}, '
        r'{"version": "1\.1\.0", "time": "2026-01-31T10:00:00\.123456\+00:00"}\]}',
        f"interrupts/flags/{pods.resource_id}/service_restart_1.complete": r"\d+\.\d+",
    }
    found = {
        str(path.relative_to(state)): path.read_text()
        for folder in ("flags", "history", "interrupts")
        for path in (state / folder).rglob("*")
        if path.is_file()
    }
    assert found.keys() == golden.keys()
    assert [path for path, text in found.items() if not re.fullmatch(golden[path], text)] == []
    assert (state / f"carried-1.2.0-{UID}-1/config.json").exists()


def test_steps_run_and_are_skipped_as_the_table_says(node: Node, host: Path, namespace: str) -> None:
    load_package(node, "table", "1.0.0", {"trace.sh": TRACE}, **MODES)
    pods = PackagePods(node.plane.api(), namespace, node.name, "table", env=QUICK)
    # One pod for all rows: its containers run one after another, each with a file of its own to trace to.
    runs = [
        (row.mode, {"TRACE": f"/var/trace-{number}", "OVERLAY_ALWAYS_RUN_STEP": str(row.always_run_step)})
        for number, row in enumerate(ROWS)
    ]
    for number, (row, result) in enumerate(zip(ROWS, pods.run_all(runs), strict=True)):
        trace = host / f"var/trace-{number}"
        traced = tuple(trace.read_text().split()) if trace.exists() else ()
        assert (result["result"], result["skipped"], traced) == (row.result, row.skipped, row.traced), row


def test_failed_step_is_named_in_the_status_of_the_pod(node: Node, host: Path, namespace: str) -> None:
    scripts = {"bad.sh": 'echo "$SECRET"; exit 5', "bad_check.sh": "true"}
    load_package(
        node, "bad", "1.0.0", scripts, apply=[step("bad.sh", "env:SECRET")], apply_check=[step("bad_check.sh")]
    )
    pods = PackagePods(node.plane.api(), namespace, node.name, "bad", env={**QUICK, "SECRET": "hunter2"})
    pod = pods.start("apply")

    def failure() -> Json | None:
        states = [
            each.get(key, {}).get("terminated", {}) for each in pods.statuses(pod) for key in ("state", "lastState")
        ]
        return next((state for state in states if state.get("exitCode")), None)

    state = eventually(failure, "the step has failed")
    result = json.loads(state["message"])
    assert (state["exitCode"], result["result"]) == (1, "failed")
    assert (result["failedStep"]["path"], result["failedStep"]["exitCode"]) == ("bad.sh", 5)
    assert "hunter2" not in state["message"]


def test_the_step_of_a_killed_agent_does_not_run_beside_its_repetition(node: Node, host: Path, namespace: str) -> None:
    """Both attempts write their process ids down, and the second looks for the first."""
    look = "for pid in $(cat /var/alone 2>/dev/null); do kill -0 $pid 2>/dev/null && echo $pid >> /var/beside; done"
    work = "echo $$ >> /var/alone; until [ -e /var/go ]; do sleep 0.1; done"
    scripts = {"alone.sh": f"{look}\n{work}", "alone_check.sh": "true"}
    load_package(node, "alone", "1.0.0", scripts, apply=[step("alone.sh")], apply_check=[step("alone_check.sh")])
    pods = PackagePods(node.plane.api(), namespace, node.name, "alone", env=QUICK)
    pod = pods.start("apply")
    attempts = host / "var/alone"
    eventually(attempts.exists, "the step runs")
    node.kill("skyhook-agent apply")
    eventually(lambda: len(attempts.read_text().split()) == 2, "the step runs again")
    assert not (host / "var/beside").exists()
    (host / "var/go").touch()
    status = eventually(lambda: done(pods.statuses(pod)[1:2]), "the step succeeds")
    assert (status["restartCount"], told(status)["result"]) == (1, "succeeded")
    assert list((host / "var/lib/skyhook" / namespace / "locks").glob("*.step")) == []
