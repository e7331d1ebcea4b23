"""The example packages: valid, tried by `skyhook-agent test`, and effective on a host."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from haulout.authoring.trial import STAGES
from tests.build.agent import AgentHost
from tests.rig.wait import eventually

PACKAGES = Path(__file__).parents[3] / "examples/packages"
NAMES = sorted(path.parent.name for path in PACKAGES.glob("*/config.json"))
V2, V3 = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images"


def carry(host: AgentHost, name: str, **keys: str) -> AgentHost:
    """Copy a package to a host, as its pod would, with a configMap."""
    shutil.copytree(PACKAGES / name, host.package, dirs_exist_ok=True)
    shutil.rmtree(host.package / "configmaps", ignore_errors=True)
    for key, text in keys.items():
        write(host.package / "configmaps" / key.replace("_", "."), text)
    host.fake("containerd")
    host.fake("update-grub")
    return host


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def stage(host: AgentHost, mode: str) -> None:
    """Run a mode and its check."""
    for each in (mode, f"{mode}-check"):
        done = host.run(each)
        assert done.code == 0, done.out + done.err


def booted(host: AgentHost) -> None:
    """Let the host look as if systemd had booted it."""
    (host.root / "run/systemd/system").mkdir(parents=True)


def test_all_are_known() -> None:
    assert NAMES == ["agentless", "kernel-tuning", "node-hardening", "registry-mirror"]


@pytest.mark.parametrize("name", NAMES)
def test_package_is_valid(local: AgentHost, name: str) -> None:
    done = local.author("validate", str(PACKAGES / name))
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_package_passes_all_modes_twice_without_changing_the_host_again(local: AgentHost, name: str) -> None:
    done = local.author("test", str(PACKAGES / name))
    if "cannot make a throw-away root" in done.err:
        done = local.author("test", str(PACKAGES / name), "--exec", "local")
    assert (done.code, done.err) == (0, ""), done.out
    assert "changes the host again" not in done.out
    modes = [line.split()[0] for line in done.out.splitlines()[1:]]
    assert list(dict.fromkeys(mode.removesuffix("-check") for mode in modes)) == list(STAGES)


@pytest.mark.parametrize("name", [*NAMES, "new"])
def test_image_has_the_layout_of_packages(local: AgentHost, tmp_path: Path, name: str) -> None:
    """And no `configmaps`: an example for tests must not become what hosts use."""
    folder = PACKAGES / name
    if name == "new":
        folder = tmp_path / "new"
        assert local.author("new", str(folder)).code == 0
    copied = dict(re.findall(r"^COPY (\S+) (/skyhook-package\S*)$", (folder / "Dockerfile").read_text(), re.MULTILINE))
    parts = [part for part in ("config.json", "root_dir", "skyhook_dir") if (folder / part).exists()]
    assert copied == {part: f"/skyhook-package/{part}" for part in parts}


def test_kernel_tuning_writes_what_the_next_boot_uses(local: AgentHost) -> None:
    host = carry(local, "kernel-tuning", sysctl_conf="# why\nvm.swappiness = 1\n", cmdline="quiet\nhugepages=8 # all\n")
    stage(host, "config")
    assert (host.root / "etc/sysctl.d/95-kernel-tuning.conf").read_text() == "vm.swappiness=1\n"
    grub = host.root / "etc/default/grub.d/95-kernel-tuning.cfg"
    assert grub.read_text() == 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX quiet hugepages=8"\n'
    assert host.commands == ["update-grub "]

    write(host.package / "configmaps/cmdline", "")
    stage(host, "config")
    assert not grub.exists()
    stage(host, "uninstall")
    assert list((host.root / "etc/sysctl.d").iterdir()) == []


@pytest.mark.parametrize(
    ("swappiness", "arguments", "complaint"),
    [
        ("1", "BOOT_IMAGE=/vmlinuz quiet", ""),
        ("60", "quiet", "vm.swappiness is 60, not 1"),
        ("1", "quieter", "the kernel was started without quiet"),
    ],
    ids=["in force", "another value", "an argument is missing"],
)
def test_kernel_tuning_compares_the_booted_kernel(
    local: AgentHost, swappiness: str, arguments: str, complaint: str
) -> None:
    settings = "vm.swappiness = 1\nnet.ipv4.tcp_rmem = 1 2  3\n"
    host = carry(local, "kernel-tuning", sysctl_conf=settings, cmdline="quiet")
    booted(host)
    write(host.root / "proc/sys/vm/swappiness", f"{swappiness}\n")
    write(host.root / "proc/sys/net/ipv4/tcp_rmem", "1\t2\t3\n")
    write(host.root / "proc/cmdline", f"{arguments}\n")
    done = host.run("post-interrupt-check")
    assert done.code == bool(complaint)
    assert complaint in done.out + done.err


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [("vm.swappiness 1", ""), ("", 'quiet"; reboot; "'), ("", "$(reboot)")],
)
def test_kernel_tuning_refuses_what_is_no_setting_before_it_writes(
    local: AgentHost, settings: str, arguments: str
) -> None:
    host = carry(local, "kernel-tuning", sysctl_conf=settings, cmdline=arguments)
    assert host.run("apply").code == 1
    assert not (host.root / "etc/sysctl.d").exists()
    assert host.commands == []


@pytest.mark.parametrize(
    ("before", "table"),
    [
        (None, V2),
        ("version = 2\n[plugins]\n", V2),
        (f'version = 2\n[plugins."{V2}".registry]\n  config_path = ""\n\n[other]\nx = 1\n', V2),
        (f"version = 3\n[plugins.'{V3}'.registry]\nconfig_path = ''\n", V3),
        (f'version = 3\n[plugins."{V2}".registry]\nconfig_path = "/elsewhere"\n', V3),
    ],
    ids=["no file", "no table", "empty in version 2", "empty in version 3", "a table of the other version"],
)
def test_registry_mirror_sets_config_path_once(local: AgentHost, before: str | None, table: str) -> None:
    host = carry(local, "registry-mirror", mirrors="")
    config = host.root / "etc/containerd/config.toml"
    if before is not None:
        write(config, before)
    stage(host, "apply")
    text = config.read_text()
    ours = re.findall(rf"^\[plugins\.['\"]{table}['\"]\.registry\]\n\s*config_path = \"(.*)\"$", text, re.MULTILINE)
    assert ours == ["/etc/containerd/certs.d"]
    assert len(re.findall(rf"{table}['\"]\.registry\]", text)) == 1, "TOML forbids a second table of that name"
    kept = [line for line in (before or "").splitlines() if "config_path" not in line]
    assert [line for line in kept if line not in text.splitlines()] == []


@pytest.mark.parametrize(
    ("before", "containerd", "complaint"),
    [
        (f'[plugins."{V2}".registry]\nconfig_path = "/elsewhere"\n', "", "looks for mirrors in /elsewhere"),
        (f'[plugins."{V2}".registry.mirrors."docker.io"]\nendpoint = []\n', "", "has registry.mirrors"),
        ("version = 2\n", "exit 1", "containerd refuses the new configuration"),
    ],
    ids=["elsewhere", "mirrors of old", "containerd refuses"],
)
def test_registry_mirror_leaves_a_configuration_alone_that_it_would_break(
    local: AgentHost, before: str, containerd: str, complaint: str
) -> None:
    host = carry(local, "registry-mirror", mirrors="")
    host.fake("containerd", containerd)
    config = write(host.root / "etc/containerd/config.toml", before)
    done = host.run("apply")
    assert (done.code, config.read_text()) == (1, before)
    assert complaint in done.err


def test_registry_mirror_names_mirrors_and_forgets_them(local: AgentHost) -> None:
    host = carry(
        local, "registry-mirror", mirrors="docker.io https://a.example https://b.example\nquay.io https://a.example\n"
    )
    write(host.package / "configmaps/ca.crt", "authority\n")
    folder = host.root / "etc/containerd/certs.d"
    write(folder / "quay.io/hosts.toml", "theirs\n")
    stage(host, "config")
    text = (folder / "docker.io/hosts.toml").read_text()
    assert re.findall(r'^\[host\."(.*)"\]$', text, re.MULTILINE) == ["https://a.example", "https://b.example"]
    assert 'ca = "/etc/containerd/certs.d/registry-mirror.crt"' in text
    assert (folder / "registry-mirror.crt").read_text() == "authority\n"
    assert "a.example" in (folder / "quay.io/hosts.toml").read_text()

    write(host.package / "configmaps/mirrors", "quay.io https://c.example\n")
    stage(host, "config")
    assert not (folder / "docker.io").exists()
    stage(host, "uninstall")
    assert (folder / "quay.io/hosts.toml").read_text() == "theirs\n"
    assert not (folder / "registry-mirror.crt").exists()


def test_registry_mirror_needs_its_config_file_and_refuses_nonsense_in_it(local: AgentHost) -> None:
    host = carry(local, "registry-mirror")
    assert "Expected config file mirrors not found" in host.run("config").err
    write(host.package / "configmaps/mirrors", "../etc https://a.example\n")
    assert "not a registry and the addresses of its mirrors" in host.run("config").err


def test_node_hardening_is_taken_back(local: AgentHost) -> None:
    host = carry(local, "node-hardening")
    crontab = write(host.root / "etc/crontab", "")
    crontab.chmod(0o644)
    stage(host, "apply")
    assert crontab.stat().st_mode & 0o777 == 0o600
    sshd, modules = host.root / "etc/ssh/sshd_config.d", host.root / "etc/modprobe.d"
    assert "PermitRootLogin" in (sshd / "60-node-hardening.conf").read_text()

    # The next version no longer brings a file.
    (host.package / "root_dir/etc/modprobe.d/60-node-hardening.conf").unlink()
    stage(host, "upgrade")
    assert list(modules.iterdir()) == []

    (sshd / "60-node-hardening.conf").write_text("by hand\n")
    stage(host, "uninstall")
    assert crontab.stat().st_mode & 0o777 == 0o644
    assert list((host.root / "etc/sysctl.d").iterdir()) == []
    assert [(path.name, path.read_text()) for path in sshd.iterdir()] == [
        ("60-node-hardening.conf.changed", "by hand\n")
    ]
    assert not (host.root / "var/lib/node-hardening").exists()


def test_node_hardening_tests_sshd_on_a_booted_host(local: AgentHost) -> None:
    host = carry(local, "node-hardening")
    booted(host)
    host.fake("sysctl")
    host.fake("sshd", "exit 255")
    assert host.run("apply").code == 1
    host.fake("sshd")
    stage(host, "apply")
    assert host.commands == ["sshd -t", "sshd -t", f"sysctl -q -p {host.root}/etc/sysctl.d/60-node-hardening.conf"]


def agentless(host: AgentHost, **env: str) -> subprocess.Popen[str]:
    """Start the agentless image's program, with a `sleep` that writes down its call and sleeps if it is long."""
    host.fake("sleep", 'if [ "$1" -gt 99 ]; then exec /bin/sleep "$1"; fi')
    argv = [str(PACKAGES / "agentless/entrypoint.sh"), "apply", "/root", "/copy"]
    return subprocess.Popen(argv, env={**host.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("env", "code", "slept"),
    [({}, 0, "[5-9]"), ({"SLEEP_LEN": "2"}, 0, "2"), ({"SLEEP_LEN": "0", "EXIT_CODE": "3"}, 3, "0")],
)
def test_agentless_sleeps_and_ends(local: AgentHost, env: dict[str, str], code: int, slept: str) -> None:
    process = agentless(local, **env)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "", "")
    (command,) = local.commands
    assert re.fullmatch(f"sleep {slept}", command)


def test_agentless_takes_three_more_seconds_when_it_is_told_to_end(local: AgentHost) -> None:
    process = agentless(local, SLEEP_LEN="1000", EXIT_CODE="3")
    eventually(lambda: local.commands, "it sleeps")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert (process.returncode, local.commands) == (0, ["sleep 1000", "sleep 3"])
