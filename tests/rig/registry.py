"""A registry of container images from which a node can pull."""

from __future__ import annotations

import http.server
import json
import threading
from types import TracebackType
from typing import Self

from tests.rig.image import Image, digest
from tests.rig.process import free_port

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


class Registry:
    """A registry on a port of this machine, without encryption, which container runtimes accept on a loopback address."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        # The answers by path: the type and the content.
        self._answers: dict[str, tuple[str, bytes]] = {"/v2/": ("application/json", b"{}")}

    def add(self, name: str, tag: str, image: Image) -> str:
        """Offer an image. Return its name without the tag, as pods refer to it."""
        parts = [_part(CONFIG, image.config), *(_part(LAYER, each) for each in image.layers)]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": parts[0], "layers": parts[1:]}
        content = json.dumps(manifest).encode()
        for reference in (tag, f"sha256:{digest(content)}"):
            self._answers[f"/v2/{name}/manifests/{reference}"] = (MANIFEST, content)
        for blob in (image.config, *image.layers):
            self._answers[f"/v2/{name}/blobs/sha256:{digest(blob)}"] = ("application/octet-stream", blob)
        return f"{self.address}/{name}"

    def __enter__(self) -> Self:
        host, _, port = self.address.partition(":")
        self._server = http.server.ThreadingHTTPServer((host, int(port)), _handler(self._answers))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _part(kind: str, content: bytes) -> dict[str, str | int]:
    return {"mediaType": kind, "digest": f"sha256:{digest(content)}", "size": len(content)}


def _handler(answers: dict[str, tuple[str, bytes]]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._head()

        def do_GET(self) -> None:
            self.wfile.write(self._head())

        def _head(self) -> bytes:
            kind, content = answers.get(self.path.partition("?")[0], ("", b""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if kind:
                self.send_header("Docker-Content-Digest", f"sha256:{digest(content)}")
            self.end_headers()
            return content

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Log nothing, because the node's own log says what it pulled."""

    return Handler
