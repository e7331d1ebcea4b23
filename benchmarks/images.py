"""The container images: their size, and how long their programs take to start from them, as root in a chroot."""

from __future__ import annotations

import contextlib
import http.client
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from benchmarks.harness import Cell, Report, load_average, median, options, percentile
from tests.rig.haulout_images import HauloutImages
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port

ANY_USER = 1000680000
# What is started, by the image that it is started from.
STARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("operator", ("/opt/haulout/bin/python", "-c", "pass")),
    ("operator", ("/usr/local/bin/haulout", "version")),
    ("operator", ("/usr/local/bin/haulout", "--help")),
    ("agent", ("/usr/bin/skyhook-agent", "--version")),
)
SETTINGS = """\
kubeconfig: /tmp/kubeconfig
listen: {{http: "127.0.0.1:{http}", health: "127.0.0.1:{health}", webhooks: "0"}}
surfaces: {{nodemaintenance: {{}}}}
"""


def begin(root: Path, words: Sequence[str], output: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a program in an image, as any user, without variables."""
    argv = ["/usr/sbin/chroot", f"--userspec={ANY_USER}:0", "--groups=", str(root), *words]
    return subprocess.Popen(argv, env={}, stdout=output, stderr=output)


def seconds(root: Path, words: Sequence[str]) -> float:
    began = time.perf_counter()
    if begin(root, words).wait():
        raise SystemExit(f"{' '.join(words)} failed in {root}")
    return time.perf_counter() - began


def seconds_until_healthy(root: Path, plane: ControlPlane) -> float:
    """Return how long `haulout run` takes until its probe answers."""
    health = free_port()
    shutil.copy(plane.ca, root / "tmp/ca.crt")
    kubeconfig = plane.kubeconfig().read_text().replace(str(plane.ca), "/tmp/ca.crt")
    for name, text in (("kubeconfig", kubeconfig), ("haulout.yaml", SETTINGS.format(http=free_port(), health=health))):
        (root / "tmp" / name).write_text(text)
    log = root.with_name("haulout.log")
    began = time.perf_counter()
    with log.open("wb") as output:
        process = begin(root, ("/usr/local/bin/haulout", "run", "--config", "/tmp/haulout.yaml"), output)
    try:
        while not healthy(health):
            if process.poll() is not None or time.perf_counter() - began > 120:
                raise SystemExit(
                    f"haulout run ended with {process.poll()} before its probe answered:\n{log.read_text()}"
                )
            time.sleep(0.005)
        return time.perf_counter() - began
    finally:
        process.terminate()
        process.wait()


def healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False


def main() -> None:
    chosen = options("images", __doc__, runs=20, peers=False).parse_args()
    report = Report("images: size and start", chosen)
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        directory.chmod(0o755)
        began = time.perf_counter()
        images = HauloutImages(directory / "images")
        built_for = time.perf_counter() - began
        report.table(
            f"Size; built in {built_for:.0f} s (operator, console, agent and a drop-in, downloads in the cache)",
            [
                {
                    "image": name,
                    "compressed, MB": each.size / 1e6,
                    "unpacked, MB": each.unpacked / 1e6,
                    "layers": len(each.layers),
                }
                for name, each in images.built.items()
            ],
        )
        roots = {name: images.extract(name, directory / name) for name in ("operator", "agent")}
        taken: dict[tuple[str, tuple[str, ...]], list[float]] = {start: [] for start in STARTS}
        for _ in range(chosen.runs):
            for start, values in taken.items():
                values.append(seconds(roots[start[0]], start[1]) * 1000)
        report.table(
            f"From start to end, {chosen.runs} runs each, in turn",
            [row(f"{name}: {' '.join(words)}", values) for (name, words), values in taken.items()],
        )
        (directory / "plane").mkdir()
        with ControlPlane(directory / "plane") as plane:
            until = [seconds_until_healthy(roots["operator"], plane) * 1000 for _ in range(min(chosen.runs, 10))]
        report.table("`haulout run`, until /healthz answers", [row("operator: haulout run", until)])
    report.goal("operator, compressed", images.built["operator"].size / 1e6, 60, " MB")
    report.goal("agent, compressed", images.built["agent"].size / 1e6, 20, " MB")
    report.finish()


def row(name: str, values: Sequence[float]) -> dict[str, Cell]:
    return {
        "program": name,
        "min, ms": min(values),
        "median, ms": median(values),
        "p90, ms": percentile(values, 0.9),
        "load": load_average(),
    }


if __name__ == "__main__":
    main()
