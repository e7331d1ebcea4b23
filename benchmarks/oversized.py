"""What pods that are small in etcd and large in JSON cost a client that holds all pods, from a real API server."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from benchmarks.fixture import control_plane, fresh_directory
from benchmarks.harness import MIB, OURS, Cell, Report, load_average, options, until_quiet, usage
from benchmarks.sync import CLIENT, listed
from tests.rig.api import Json
from tests.rig.faults import Answer, FaultProxy
from tests.rig.fleet import fleet, node_object
from tests.rig.operator import environment
from tests.rig.plane import ControlPlane
from tests.rig.process import CHECKOUT, Process

NODE = "tenants"
WAYS = ("streaming list", "pages")


def fat_pod(name: str, length: int) -> Json:
    """Return a pod that is small in etcd and six times as long in JSON, because Go's encoder escapes `<`."""
    container = {"name": "c", "image": "i", "args": ["<" * length]}
    return {"metadata": {"name": name}, "spec": {"nodeName": NODE, "containers": [container]}}


@contextlib.contextmanager
def way_to(plane: ControlPlane, way: str) -> Iterator[str | None]:
    """Yield None for the server itself, or for "pages" the address of a proxy that refuses streaming lists."""
    if way == "streaming list":
        yield None
        return
    with FaultProxy(plane) as proxy:
        for kind in ("nodes", "pods"):
            proxy.rule(Answer(400), path=f"/{kind}$", watch=True, times=1)
        yield proxy.url


def run(plane: ControlPlane, way: str, pods: int) -> dict[str, Cell]:
    since = plane.audit.mark()
    with way_to(plane, way) as server:
        env = environment(KUBECONFIG=str(plane.kubeconfig("operator", server=server)))
        argv = [sys.executable, "-m", CLIENT]
        with Process(OURS, argv, fresh_directory(plane, OURS), env=env, cwd=CHECKOUT) as process:
            wall = until_quiet(process.pid, may_rest=lambda: bool(listed(process.text())))
            process.check()
            used, told = usage(process.pid), listed(process.text())
    if told.get("Pod") != pods:
        raise AssertionError(f"{pods} pods were created, it has {told.get('Pod')}:\n{process.text()[-2000:]}")
    requests = plane.audit.counts(since=since, user="operator")
    return {
        "list": way,
        "wall, s": wall,
        "CPU, s": used.cpu,
        "peak RSS, MiB": used.peak,
        "RSS at rest, MiB": used.rss,
        "requests": ", ".join(f"{count} {act}" for act, count in sorted(requests.items())),
        "load": load_average(),
    }


def main() -> None:
    parser = options("oversized", __doc__, runs=1, peers=False)
    parser.add_argument("--fat", type=int, default=60, help="how many such pods (default %(default)s)")
    parser.add_argument("--length", type=int, default=1_200_000, help="characters of an argument (default %(default)s)")
    parser.add_argument("--goal", type=float, default=150.0, help="peak RSS in MiB (default %(default)s)")
    chosen = parser.parse_args()
    report = Report("oversized: pods that are small in etcd and large in JSON", chosen)
    rows: list[dict[str, Cell]] = []
    with control_plane("oversized", [*fleet("bench", 10, pods_per_node=50), node_object(NODE)]) as plane:
        for number in range(chosen.fat):
            plane.api().create("pods", fat_pod(f"fat-{number}", chosen.length), "default")
        for _ in range(chosen.runs):
            rows += [run(plane, way, 500 + chosen.fat) for way in WAYS]
    size = chosen.length * 6 / MIB
    report.table(f"{chosen.fat} pods of {size:.1f} MiB each among 500 ordinary ones", rows)
    peak = max(float(row["peak RSS, MiB"] or 0) for row in rows)
    report.goal(f"peak RSS of {OURS}", peak, chosen.goal, " MiB")
    report.finish()


if __name__ == "__main__":
    main()
