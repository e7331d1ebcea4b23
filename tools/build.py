"""Builds the real control plane for tests from pinned Go modules, once per version, outside the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GO_DIR = Path(__file__).parent / "go"

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


def pinned(family: str, module: str) -> str:
    """Return the version of a module in a family's go.mod."""
    path = GO_DIR / family / "go.mod"
    for line in path.read_text().splitlines():
        words = line.removeprefix("require ").split()
        if words[:1] == [module] and len(words) > 1:
            return words[1]
    message = f"{path}: no line requires {module}"
    raise SystemExit(message)


def kube_version() -> str:
    return pinned("kube", "k8s.io/kubernetes")


def version_flags(family: str) -> list[str]:
    """Return the flags that tell a program its own version, and helm the version of Kubernetes that it is made for."""
    if family == "kube":
        version = kube_version()
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


def ldflags(family: str) -> str:
    return " ".join(["-s -w", *version_flags(family)])


def family_key(family: str) -> str:
    """Return a hash that changes with a pinned version, a checksum or a build flag."""
    content = hashlib.sha256()
    for part in ("go.mod", "go.sum"):
        content.update((GO_DIR / family / part).read_bytes())
    content.update(repr((TOOLS[family], ldflags(family))).encode())
    return content.hexdigest()[:12]


def family_dir(family: str) -> Path:
    return cache_root() / f"{family}-{family_key(family)}"


def find_tool(name: str) -> Path | None:
    """Return the path of a tool in KUBEBUILDER_ASSETS, else in our cache; None if it has not been built."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).is_file():
        return Path(assets) / name
    for family, tools in TOOLS.items():
        for _, binary in tools:
            path = family_dir(family) / binary
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
            cwd=GO_DIR / family,
            env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"},
            check=True,
        )
        made.rename(target)
    print(f"built {binary} in {time.monotonic() - started:.0f} s", flush=True)


def main() -> int:
    if sys.argv[1:] == ["--missing"]:
        print(" ".join(missing()))
        return 0
    if sys.argv[1:2] == ["--where"]:
        path = find_tool(sys.argv[2])
        print(path or "")
        return 0 if path else 1
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for family, tools in TOOLS.items():
            for package, binary in tools:
                if find_tool(binary) is None:
                    build(family, package, binary)
    print("tools are ready:", cache_root(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
