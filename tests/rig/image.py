"""Container images made from files at hand, for a machine without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.rig.api import Json

BUSYBOX = Path("/bin/busybox")
CHECKOUT = Path(__file__).parents[2]


def layer(files: Mapping[str, bytes | Path], links: Mapping[str, str]) -> bytes:
    """Return an uncompressed layer: contents, files of this machine with their mode, and symbolic links."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, source in sorted(files.items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            data = source.read_bytes() if isinstance(source, Path) else source
            entry.size = len(data)
            entry.mode = source.stat().st_mode & 0o777 if isinstance(source, Path) else 0o755
            tar.addfile(entry, io.BytesIO(data))
        for name, target in sorted(links.items()):
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return content.getvalue()


@dataclass(frozen=True)
class Image:
    """An image: the bytes of its configuration and of its layers, as a registry keeps them."""

    config: bytes
    layers: tuple[bytes, ...]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def make_image(
    files: Mapping[str, bytes | Path],
    *,
    links: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Image:
    content = layer(files, links or {})
    config: Json = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(command), "Env": [f"{key}={value}" for key, value in (env or {}).items()]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(content)}"]},
    }
    return Image(json.dumps(config).encode(), (content,))


def write_image(path: Path, tag: str, image: Image) -> None:
    """Write the archive that `docker save` would write, for `ctr images import`."""
    name, layers = f"{digest(image.config)}.json", {f"{digest(each)}.tar": each for each in image.layers}
    manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": list(layers)}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in {name: image.config, **layers, "manifest.json": manifest}.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def busybox_image(files: Mapping[str, bytes | Path] | None = None) -> Image:
    """Return an image with a shell, the usual tools and the given files.

    It sleeps unless a pod has a command of its own.
    """
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    return make_image(
        {"bin/busybox": BUSYBOX, "etc/passwd": b"root:x:0:0:root:/:/bin/sh\n", **(files or {})},
        links={f"bin/{applet}": "busybox" for applet in applets if applet != "busybox"},
        command=["/bin/busybox", "sleep", "1000000000"],
        env={"PATH": "/bin"},
    )


def tree(root: Path) -> dict[str, bytes | Path]:
    """Return the files below a directory, for a layer."""
    return {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
