"""Builds the real control plane for tests from pinned Go modules, once per version, outside the checkout.

HAULOUT_KUBE chooses a minor version of Kubernetes (1.35, or 1.35.4), both for building and for finding: its modules are
pinned in `go/kube-1.35`. Without it, the version in `go/kube` is meant. `--pin 1.35.4` pins another version.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GO_DIR = Path(__file__).parent / "go"
# The variable that chooses a version of Kubernetes.
CHOSEN = "HAULOUT_KUBE"
KUBERNETES = "k8s.io/kubernetes"

# Module folder -> (Go package, binary name). Families have modules of their own because their dependencies disagree.
TOOLS: dict[str, list[tuple[str, str]]] = {
    "etcd": [("go.etcd.io/etcd/server/v3", "etcd")],
    "kube": [
        (f"k8s.io/kubernetes/cmd/{name}", name)
        for name in ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kubelet")
    ],
    "kwok": [("sigs.k8s.io/kwok/cmd/kwok", "kwok")],
    "vcsim": [("github.com/vmware/govmomi/vcsim", "vcsim")],
    "helm": [("helm.sh/helm/v3/cmd/helm", "helm")],
}

# Without these a control plane built outside its repository calls itself v0.0.0-master, and helm takes Kubernetes 1.20
# for the version of a cluster that it cannot ask.
KUBE_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
HELM = "helm.sh/helm/v3"
HELM_KUBE_PACKAGES = (f"{HELM}/pkg/chartutil", f"{HELM}/pkg/lint/rules")


def cache_root() -> Path:
    chosen = os.environ.get("HAULOUT_TOOLS")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "haulout" / "tools"


def pinned_minors() -> tuple[str, ...]:
    """Return the minor versions of Kubernetes that are pinned beside the usual one, the newest first."""
    found = (path.name.removeprefix("kube-") for path in GO_DIR.glob("kube-*"))
    return tuple(sorted(found, key=lambda minor: tuple(map(int, minor.split("."))), reverse=True))


def minor_of(version: str) -> str:
    return ".".join(version.removeprefix("v").split(".")[:2])


def module_dir(family: str, kube: str = "") -> Path:
    """Return the folder with the pinned modules of a family. `kube`: a version of Kubernetes; else the chosen one."""
    wanted = (kube or os.environ.get(CHOSEN, "")).removeprefix("v")
    if family != "kube" or not wanted or minor_of(wanted) == minor_of(required(GO_DIR / "kube", KUBERNETES)):
        return GO_DIR / family
    found = GO_DIR / f"kube-{minor_of(wanted)}"
    if not found.is_dir():
        known = ", ".join((minor_of(required(GO_DIR / "kube", KUBERNETES)), *pinned_minors()))
        message = f"Kubernetes {wanted} is not pinned (there are: {known}): python tools/build.py --pin {wanted}"
        raise SystemExit(message)
    return found


def pinned(family: str, module: str) -> str:
    """Return the version of a module in a family's go.mod."""
    return required(module_dir(family), module)


def required(folder: Path, module: str) -> str:
    """Return the version of a module that the go.mod of a folder requires."""
    path = folder / "go.mod"
    for line in path.read_text().splitlines():
        words = line.removeprefix("require ").split()
        if words[:1] == [module] and len(words) > 1:
            return words[1]
    message = f"{path}: no line requires {module}"
    raise SystemExit(message)


def kube_version(kube: str = "") -> str:
    """Return a version of Kubernetes that is pinned, by its minor version; else the chosen one."""
    found, wanted = required(module_dir("kube", kube), KUBERNETES), os.environ.get(CHOSEN, "").removeprefix("v")
    if wanted.count(".") > 1 and found != f"v{wanted}":
        raise SystemExit(f"Kubernetes {wanted} is not pinned, but {found[1:]}: python tools/build.py --pin {wanted}")
    return found


def version_flags(family: str, kube: str = "") -> list[str]:
    """Return the flags that tell a program its own version, and helm the version of Kubernetes that it is made for."""
    if family == "kube":
        version = kube_version(kube)
        major, minor, _ = version.removeprefix("v").split(".", 2)
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        return [f"-X {package}.{name}={value}" for package in KUBE_VERSION_PACKAGES for name, value in values.items()]
    if family == "helm":
        # The version 0.N of client-go belongs to Kubernetes 1.N.
        minor = pinned(family, "k8s.io/client-go").split(".")[1]
        values = {"k8sVersionMajor": "1", "k8sVersionMinor": minor}
        made_for = [f"-X {package}.{name}={value}" for package in HELM_KUBE_PACKAGES for name, value in values.items()]
        return [f"-X {HELM}/internal/version.version={pinned(family, HELM)}", *made_for]
    return []


def ldflags(family: str, kube: str = "") -> str:
    return " ".join(["-s -w", *version_flags(family, kube)])


def family_key(family: str, kube: str = "") -> str:
    """Return a hash that changes with a pinned version, a checksum or a build flag."""
    content = hashlib.sha256()
    for part in ("go.mod", "go.sum"):
        content.update((module_dir(family, kube) / part).read_bytes())
    content.update(repr((TOOLS[family], ldflags(family, kube))).encode())
    return content.hexdigest()[:12]


def family_dir(family: str, kube: str = "") -> Path:
    return cache_root() / f"{family}-{family_key(family, kube)}"


def find_tool(name: str, kube: str = "") -> Path | None:
    """Return the path of a tool in KUBEBUILDER_ASSETS, else in our cache; None if it has not been built.

    `kube`: the version of Kubernetes. KUBEBUILDER_ASSETS has one version only, so another one is in our cache.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and not kube and not os.environ.get(CHOSEN) and (Path(assets) / name).is_file():
        return Path(assets) / name
    for family, tools in TOOLS.items():
        for _, binary in tools:
            path = family_dir(family, kube) / binary
            if binary == name and path.is_file():
                return path
    return None


def missing() -> list[str]:
    return [binary for tools in TOOLS.values() for _, binary in tools if find_tool(binary) is None]


def go_command() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise SystemExit(
            "make tools: Go is not installed; the control plane is compiled from Go modules.\n"
            "Install Go 1.26 or newer, or point KUBEBUILDER_ASSETS at a directory with the binaries."
        )
    return found


def build(family: str, package: str, binary: str) -> None:
    target = family_dir(family) / binary
    target.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    print(f"building {binary} ...", flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        # The binary is renamed when it is complete, so that an interrupted build leaves no half-written binary.
        made = Path(scratch) / binary
        subprocess.run(
            [
                go_command(),
                "build",
                "-mod=readonly",
                "-trimpath",
                "-ldflags",
                ldflags(family),
                "-o",
                str(made),
                package,
            ],
            cwd=module_dir(family),
            env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
            check=True,
        )
        made.rename(target)
    print(f"built {binary} in {time.monotonic() - started:.0f} s", flush=True)


def pin(version: str) -> None:
    """Write the modules of a version of Kubernetes into a folder for its minor version, with their checksums."""
    version = version.removeprefix("v")
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    asked = (go_command(), "mod", "download", "-json", f"k8s.io/kubernetes@v{version}")
    done = subprocess.run(asked, env=env, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"Kubernetes {version} cannot be downloaded: {(done.stdout + done.stderr).strip()}")
    # Within its repository, Kubernetes takes these modules from a folder. Outside they have versions of their own.
    text = Path(json.loads(done.stdout)["GoMod"]).read_text()
    staged = re.findall(r"^\s*(k8s\.io/[a-z0-9-]+) => \./staging", text, re.MULTILINE)
    usual = (GO_DIR / "kube" / "go.mod").read_text()
    head = usual[: usual.index("require (")]
    lines = [f"\t{name} => {name} v0.{version.partition('.')[2]}" for name in staged]
    folder = GO_DIR / f"kube-{minor_of(version)}"
    folder.mkdir(exist_ok=True)
    body = "\n".join((f"require k8s.io/kubernetes v{version}", "", "replace (", *lines, ")", ""))
    (folder / "go.mod").write_text(head + body)
    subprocess.run([go_command(), "mod", "tidy"], cwd=folder, env=env, check=True)
    print(f"pinned Kubernetes {version} in {folder}", flush=True)


def main() -> int:
    if sys.argv[1:2] == ["--pin"] and len(sys.argv) == 3:
        pin(sys.argv[2])
        return 0
    if sys.argv[1:] == ["--all"]:
        for minor in ("", *pinned_minors()):
            subprocess.run([sys.executable, __file__], env={**os.environ, CHOSEN: minor}, check=True)
        return 0
    if sys.argv[1:] == ["--missing"]:
        print(" ".join(missing()))
        return 0
    if sys.argv[1:2] == ["--where"]:
        path = find_tool(sys.argv[2])
        print(path or "")
        return 0 if path else 1
    cache_root().mkdir(parents=True, exist_ok=True)
    # The build of one version does not wait for that of another.
    name = ".lock" if module_dir("kube") == GO_DIR / "kube" else f".lock-{minor_of(kube_version())}"
    with (cache_root() / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for family, tools in TOOLS.items():
            for package, binary in tools:
                if find_tool(binary) is None:
                    build(family, package, binary)
    print("tools are ready:", cache_root(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
