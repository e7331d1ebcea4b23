"""Images as the Open Container Initiative lays them out in a directory: blobs by digest, and an index of names."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from haulout import __version__
from tools.images.spec import PATH, Image
from tools.images.trees import Layer, Source

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"
LABEL = "org.opencontainers.image"
REFERENCE = f"{LABEL}.ref.name"
# The name under which containerd lists what it imports.
CONTAINERD_NAME = "io.containerd.image.name"

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Built:
    """An image in a layout. `digest`: that of its manifest, by which registries and signatures name it."""

    image: Image
    digest: str
    size: int
    unpacked: int
    layers: tuple[Layer, ...]


class Layout:
    """A directory of images, in which the same layer is there once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.blobs = directory / "blobs" / "sha256"
        self.blobs.mkdir(parents=True, exist_ok=True)
        self._entries: list[Json] = []

    def add(self, image: Image, layers: Sequence[Layer], source: Source) -> Built:
        """Write an image and its name in the index."""
        for layer in layers:
            shutil.copyfile(layer.path, self._blob(layer.digest))
        config = self._put(CONFIG, config_of(image, layers, source))
        parts = [{"mediaType": LAYER, "digest": layer.digest, "size": layer.size} for layer in layers]
        manifest = self._put(MANIFEST, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": parts})
        self._entries.append({**manifest, "annotations": {REFERENCE: image.name}})
        write_index(self.directory, self._entries)
        sizes = sum(layer.size for layer in layers), sum(layer.unpacked for layer in layers)
        return Built(image, manifest["digest"], *sizes, tuple(layers))

    def _put(self, kind: str, content: Json) -> Json:
        data = encoded(content)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._blob(digest).write_bytes(data)
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def _blob(self, digest: str) -> Path:
        return self.blobs / digest.partition(":")[2]


def config_of(image: Image, layers: Sequence[Layer], source: Source) -> Json:
    """Return what a runtime and people know of an image: its user, its program, its layers and where it comes from."""
    labels = {
        f"{LABEL}.title": image.title,
        f"{LABEL}.version": __version__,
        f"{LABEL}.revision": source.commit,
        f"{LABEL}.created": source.committed_at,
        f"{LABEL}.licenses": "Apache-2.0",
    }
    config: Json = {"User": image.user, "Env": [PATH], "Entrypoint": list(image.entrypoint), "Labels": labels}
    if image.command:
        config["Cmd"] = list(image.command)
    return {
        "created": source.committed_at,
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": source.committed_at, "created_by": layer.made_of} for layer in layers],
    }


def write_index(directory: Path, entries: Sequence[Json]) -> None:
    (directory / "oci-layout").write_bytes(encoded({"imageLayoutVersion": "1.0.0"}))
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)}
    (directory / "index.json").write_bytes(encoded(index))


def archive(directory: Path, name: str, tag: str, into: Path) -> None:
    """Write one image of a layout into a file for `ctr images import` and `docker load`, under a tag."""
    index = json.loads((directory / "index.json").read_text())
    (entry,) = (each for each in index["manifests"] if each["annotations"][REFERENCE] == name)
    blobs = directory / "blobs" / "sha256"
    manifest = json.loads((blobs / entry["digest"].partition(":")[2]).read_text())
    parts = [entry, manifest["config"], *manifest["layers"]]
    named = {**entry, "annotations": {CONTAINERD_NAME: tag, REFERENCE: tag.rpartition(":")[2]}}
    scratch = into.with_name(f"{into.name}.index")
    scratch.mkdir()
    write_index(scratch, [named])
    with tarfile.open(into, "w") as tar:
        for part in parts:
            digest = part["digest"].partition(":")[2]
            tar.add(blobs / digest, f"blobs/sha256/{digest}")
        for file in ("oci-layout", "index.json"):
            tar.add(scratch / file, file)
    shutil.rmtree(scratch)


def extract(layer: Path, into: Path) -> None:
    """Write the files of a packed layer into a directory, over those of the layers below."""
    into.mkdir(parents=True, exist_ok=True)
    with tarfile.open(layer) as tar:
        # Newer interpreters refuse absolute links otherwise; older ones have no argument for it.
        tar.extraction_filter = lambda member, _: member
        tar.extractall(into)


def encoded(content: Json) -> bytes:
    return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"
