"""A real node on this machine: kubelet and containerd in namespaces of their own, on a copy of its file system.

The node's first process owns a PID namespace and a mount namespace. Its root is an overlay over this machine's root, so
whatever pods do to "the host" stays with the node; and when it ends, even by a kill of the test run, the kernel takes
every process and every mount of the node with it. What is left, a bridge and cgroups, carries the PID of the test run
in its name and is removed at the end, or by the next run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.rig.api import Json
from tests.rig.image import BUSYBOX, busybox_image, write_image
from tests.rig.plane import ControlPlane, tool
from tests.rig.process import Process, free_port
from tests.rig.wait import eventually

IMAGE = "haulout.test/busybox:1"
PLUGINS = Path("/usr/lib/cni")
CGROUPS = Path("/sys/fs/cgroup")
INSTALL = Path(__file__).parent / "install-node.sh"
OURS = re.compile(r"hlt(\d+)-\d+")

_numbers = itertools.count(1)

BOOT_ID = "kernel/random/boot_id"
# The kubelet wants these kernel settings, and would set them for the whole machine. It sees files that contain them
# already. The boot id is the node's own, so that a test can change it.
SETTINGS = {
    BOOT_ID: "00000000-0000-4000-8000-000000000001",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
    "net/ipv4/ip_forward": "1",
}

# Arguments: the scratch directory, then directories that must be seen at their own paths.
FIRST_PROCESS = """
scratch=$1; shift
mount --make-rprivate /
mkdir "$scratch/rootfs" "$scratch/host"
mount -t tmpfs node "$scratch/host"
mkdir "$scratch/host/upper" "$scratch/host/work"
mount -t overlay node -o "lowerdir=/,upperdir=$scratch/host/upper,workdir=$scratch/host/work" "$scratch/rootfs"
cd "$scratch/rootfs"
mount --rbind /dev ./dev
mount --rbind /sys ./sys
mount -t proc node ./proc
mount -t tmpfs node ./run
for dir in "$scratch" "$@"; do
    mkdir -p ".$dir"
    mount --bind "$dir" ".$dir"
done
(cd "$scratch/settings" && find . -type f) | while read -r setting; do
    mount --bind "$scratch/settings/$setting" "./proc/sys/$setting"
done
mkdir old-root
pivot_root . old-root
umount -l /old-root
rmdir /old-root
mount --make-rshared /
: > "$scratch/ready"
while :; do sleep 3600 & wait; done
"""

CONTAINERD = """
version = 2
root = "{scratch}/containerd"
state = "{scratch}/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{scratch}/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{scratch}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def lacking() -> str:
    """Return what a node needs and this machine lacks."""
    if os.geteuid() != 0 or platform.system() != "Linux":
        return "root on Linux"
    programs = [
        name for name in ("containerd", "ctr", "runc", "unshare", "nsenter", "ip") if shutil.which(name) is None
    ]
    files = [str(path) for path in (PLUGINS / "bridge", PLUGINS / "loopback", BUSYBOX) if not path.exists()]
    return ", ".join([*programs, *files])


def install() -> None:
    """Run the install script for Debian. A machine that cannot run it goes on lacking what it lacks."""
    done = subprocess.run([INSTALL], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{INSTALL} ended with {done.returncode}: {done.stderr[-1000:]}")


class Node:
    """A real node, ready when `start` returns. `root`: the files of its host, which pods can change."""

    def __init__(self, plane: ControlPlane, directory: Path, name: str) -> None:
        self.plane = plane
        self.directory = directory
        self.name = name
        number = next(_numbers)
        self.mark = f"hlt{os.getpid()}-{number}"
        self.subnet = f"198.18.{(os.getpid() + number) % 256}"
        self._inner: list[Process] = []
        self._kubelet_port = free_port()
        self.socket = directory / "containerd.sock"
        self._first = Process(
            "node",
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--"),
                *("sh", "-eu", "-c", FIRST_PROCESS, "sh", directory, tool("kubelet").parent, plane.directory),
            ],
            directory,
        )

    def start(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        sweep()
        self._write_inputs()
        make_cgroups(self.mark)
        make_bridge(self.mark, f"{self.subnet}.1/24")
        self._first.start()
        self._wait(self._first, (self.directory / "ready").exists)
        self._pid = only_child(self._first.pid)
        self.containerd = self._inside("containerd", ["containerd", "--config", self.directory / "containerd.toml"])
        self._wait(self.containerd, lambda: self._ctr("version").returncode == 0)
        self.load_image(IMAGE)
        self.kubelet = self._inside(
            "kubelet",
            [
                tool("kubelet"),
                f"--config={self.directory / 'kubelet.json'}",
                f"--kubeconfig={self.plane.kubeconfig('kubelet')}",
                f"--root-dir={self.directory / 'kubelet'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.subnet}.1",
            ],
        )
        self._wait(self.kubelet, self.ready)

    def stop(self) -> None:
        """Stop all of the node at once, as a power failure does, and remove what the kernel does not clean up by itself."""
        self._first.kill()
        eventually(lambda: not processes(self.mark), "the node's processes are gone")
        for process in self._inner:
            process.kill()
        remove(self.mark)

    @property
    def root(self) -> Path:
        """The node's root directory, as a path on this machine."""
        return Path(f"/proc/{self._pid}/root")

    def ready(self) -> bool:
        node = self.plane.api().find("nodes", self.name)
        conditions = node["status"].get("conditions", []) if node else []
        return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)

    def load_image(self, tag: str, files: Mapping[str, bytes | Path] | None = None) -> None:
        """Load a busybox image with these files in it. Pods must not ask for it to be pulled."""
        archive = self.directory / "image.tar"
        write_image(archive, tag, busybox_image(files))
        self.load(archive)

    def load(self, archive: Path) -> None:
        """Load the image in an archive. Pods must not ask for it to be pulled."""
        done = self._ctr("images", "import", str(archive))
        if done.returncode != 0:
            raise RuntimeError(f"ctr images import {archive}: {done.stderr.strip()}")

    def boot(self, boot_id: str) -> None:
        """Give the node another boot id, as after a reboot."""
        (self.directory / "settings" / BOOT_ID).write_text(f"{boot_id}\n")

    def reboot(self, boot_id: str) -> None:
        """End the kubelet and everything in containers, and start the kubelet with another boot id."""
        self.kill_kubelet()
        self.kill("")
        self.boot(boot_id)
        self.kubelet.start()
        self._wait(self.kubelet, lambda: self._boot_id() == boot_id)

    def kill_kubelet(self) -> None:
        """Kill the kubelet, and wait until another one can be started in its place."""
        self._kill(self.kubelet)

    @staticmethod
    def _kill(process: Process) -> None:
        child = only_child(process.pid)
        process.kill()
        # The program that we have waited for is nsenter, whose child may take a little longer to end.
        eventually(lambda: not Path(f"/proc/{child}").exists(), f"{process.name} is gone")

    def _boot_id(self) -> str:
        found: str = self.plane.api().get("nodes", self.name)["status"]["nodeInfo"]["bootID"]
        return found

    def containers(self) -> list[str]:
        """Return the command lines of the processes in the node's containers."""
        return processes(self.mark)

    def statuses_of(self, words: str) -> list[str]:
        """Return what the kernel says of the processes in the node's containers whose command lines hold these words."""
        return [Path(f"/proc/{pid}/status").read_text() for pid in members(self.mark) if words in command_of(pid)]

    def kill(self, words: str) -> None:
        """Kill the processes in the node's containers whose command lines hold these words."""
        for pid in members(self.mark):
            if words in command_of(pid):
                os.kill(pid, signal.SIGKILL)

    def leftovers(self) -> list[str]:
        """Return what a stopped node has left on this machine, which should be nothing."""
        mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.directory) in line]
        links = [str(path) for path in Path("/sys/class/net").glob(self.mark)]
        return [*processes(self.mark), *mounts, *links, *map(str, cgroups(self.mark))]

    def restart(self, process: Process, argv: list[str]) -> None:
        """End a program of the node, and start it with this command line."""
        self._kill(process)
        process.argv = [*self._enter, *argv]
        process.start()
        self._wait(process, lambda: self._ctr("version").returncode == 0)

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self._pid), "--mount", "--pid", "--"]

    def _inside(self, name: str, argv: list[str | Path]) -> Process:
        process = Process(name, [*self._enter, *argv], self.directory)
        self._inner.append(process)
        return process.start()

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *words]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)

    def _wait(self, process: Process, probe: Callable[[], bool]) -> None:
        def up() -> bool:
            process.check()
            return probe()

        eventually(up, f"{process.name} is up")

    def _write_inputs(self) -> None:
        for setting, value in SETTINGS.items():
            file = self.directory / "settings" / setting
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
        values = {"scratch": self.directory, "socket": self.socket, "image": IMAGE, "plugins": PLUGINS}
        (self.directory / "containerd.toml").write_text(CONTAINERD.format(**values))
        (self.directory / "cni").mkdir()
        (self.directory / "cni" / "10-bridge.conflist").write_text(json.dumps(self._network()))
        (self.directory / "kubelet.json").write_text(json.dumps(self._kubelet_config()))

    def _network(self) -> Json:
        addresses = {
            "type": "host-local",
            "dataDir": str(self.directory / "addresses"),
            "ranges": [[{"subnet": f"{self.subnet}.0/24", "gateway": f"{self.subnet}.1"}]],
        }
        bridge = {"type": "bridge", "bridge": self.mark, "isGateway": True, "ipMasq": False, "ipam": addresses}
        return {"cniVersion": "0.4.0", "name": self.mark, "plugins": [bridge]}

    def _kubelet_config(self) -> Json:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self.plane.ca)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.mark}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "port": self._kubelet_port,
            "healthzPort": 0,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            # However full this machine is, the node must not be under pressure.
            "evictionHard": {f"{what}.available": "0%" for what in ("memory", "nodefs", "imagefs")},
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "2s",
            "volumeStatsAggPeriod": "-1s",
            "podLogsDir": str(self.directory / "pod-logs"),
        }

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def only_child(pid: int) -> int:
    (child,) = (other for other in pids() if parent_of(other) == pid)
    return child


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def processes(mark: str) -> list[str]:
    """Return the command lines of all processes in cgroups with this mark."""
    return [command_of(pid) for pid in members(mark)]


def members(mark: str) -> list[int]:
    """Return all processes in cgroups with this mark."""
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            if f"/{mark}/" in Path(f"/proc/{pid}/cgroup").read_text():
                found.append(pid)
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def cgroups(mark: str) -> list[Path]:
    """Return the top directories of this mark: one on a machine with the unified hierarchy, else one per controller."""
    unified = (CGROUPS / "cgroup.controllers").exists()
    return sorted(CGROUPS.glob(mark if unified else f"*/{mark}"))


def make_cgroups(mark: str) -> None:
    """Make the top cgroups, in which the kubelet makes its own."""
    if (CGROUPS / "cgroup.controllers").exists():
        (CGROUPS / mark).mkdir()
        wanted = " ".join(f"+{name}" for name in (CGROUPS / "cgroup.controllers").read_text().split())
        for group in (CGROUPS, CGROUPS / mark):
            (group / "cgroup.subtree_control").write_text(wanted)
        return
    for hierarchy in CGROUPS.iterdir():
        if hierarchy.is_dir() and not hierarchy.is_symlink():
            (hierarchy / mark).mkdir()


def make_bridge(name: str, address: str) -> None:
    for words in (
        ["link", "add", name, "type", "bridge"],
        ["addr", "add", address, "dev", name],
        ["link", "set", name, "up"],
    ):
        subprocess.run(["ip", *words], check=True)


def remove(mark: str) -> None:
    """Remove the bridge and the cgroups. The addresses and interfaces of pods are gone with their namespaces."""
    if (Path("/sys/class/net") / mark).exists():
        subprocess.run(["ip", "link", "delete", mark], check=True)
    for top in cgroups(mark):
        for path, _, _ in os.walk(top, topdown=False):
            # A dead process leaves its cgroup a moment after it has left /proc.
            eventually(partial(removed, Path(path)), f"{path} removed", refused=(OSError,))


def removed(group: Path) -> bool:
    group.rmdir()
    return True


def sweep() -> None:
    """Remove what a killed test run has left behind."""
    found = [*Path("/sys/class/net").glob("hlt*"), *CGROUPS.glob("hlt*"), *CGROUPS.glob("*/hlt*")]
    for mark in {path.name for path in found}:
        match = OURS.fullmatch(mark)
        if match and not Path(f"/proc/{match[1]}").exists():
            remove(mark)
