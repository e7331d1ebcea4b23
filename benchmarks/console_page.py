"""Measures the map of 5,000 nodes in a browser while nodes of an embedded cluster change, and an hour that passes quickly."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.harness import Report, load_average, options, percentile
from haulout.base import yaml as strict_yaml
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NODES, Json
from haulout.surfaces.registry import definition
from tests.build.console import ConsoleCaller, running_console
from tests.build.served import Served
from tests.build.workloads import node
from tests.web.conftest import FLAGS
from tools import browser

CHANGES_A_SECOND = 50
SETTINGS: Json = {"surfaces": {"nodemaintenance": {}}}
KINDS = ("nodedisruptionbudgets", "maintenancerecords", "nodemaintenances")
RACK = "topology.kubernetes.io/rack"
MINUTE_MS = 60_000
# The corner of the map in which the first node is drawn. Reading more of it would slow the frames that are measured.
WATCH = """() => {
    window.frames_ms = []; window.seen = [];
    const canvas = document.querySelector('canvas');
    let last = performance.now(), before = -1;
    const frame = now => {
        window.frames_ms.push(now - last);
        last = now;
        const data = canvas.getContext('2d', {willReadFrequently: true}).getImageData(60, 30, 60, 30).data;
        let found = 0;
        for (let i = 0; i < data.length; i++) found = (found * 31 + data[i]) | 0;
        if (found !== before) { before = found; window.seen.push(Date.now()); }
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}"""


def main() -> None:
    parser = options("console_page", __doc__, runs=1, peers=False)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--minutes", type=int, default=60, help="of the hour that passes quickly (default %(default)s)")
    chosen = parser.parse_args()
    if why := browser.prepare():
        raise SystemExit(why)
    report = Report("console_page: the map in a browser while nodes change", chosen)
    with fleet(chosen.nodes) as (served, names), running_console(served) as console:
        assert console.login().status == 204
        console.until(lambda: len(console.rows()) >= chosen.nodes)
        look(report, served, console, names, chosen.seconds, chosen.minutes)
    report.finish()


@contextmanager
def fleet(count: int) -> Iterator[tuple[Served, list[str]]]:
    """Run an embedded cluster with so many nodes in zones and racks."""
    with tempfile.TemporaryDirectory(prefix="haulout-bench-") as folder, Served(Path(folder)) as served:
        (Path(folder) / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        definitions = [strict_yaml.load(definition(name)) for name in KINDS]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        nodes = [placed(number) for number in range(count)]
        for some in batches(nodes, 500):
            served.make(*some)
        yield served, [each["metadata"]["name"] for each in nodes]


def placed(number: int) -> Json:
    made = node(f"n{number:04}", zone=f"zone-{number % 3}")
    made["metadata"]["labels"][RACK] = f"r{number // 3 % 28:02}"
    return made


def batches(items: list[Json], length: int) -> Iterator[list[Json]]:
    for start in range(0, len(items), length):
        yield items[start : start + length]


def look(report: Report, served: Served, console: ConsoleCaller, names: list[str], seconds: int, minutes: int) -> None:
    """Measure the map in a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(browser.CHROMIUM), args=list(FLAGS))
        page = chromium.new_page(viewport={"width": 1920, "height": 1080})
        page.set_default_timeout(120_000)
        enter(page, console)
        page.wait_for_timeout(3000)
        before = heap(page)
        page.evaluate(WATCH)
        page.wait_for_timeout(500)
        sent = changes(served, page, names, seconds)
        page.wait_for_timeout(3000)
        seen = [at / 1000 for at in page.evaluate("window.seen")][1:]
        frames = [ms for ms in page.evaluate("window.frames_ms") if ms > 0]
        after = heap(page)
        page.close()
        hour = an_hour(chromium, served, console, names, minutes)
        chromium.close()
    waits = [min((at for at in seen if at >= begun), default=float("inf")) - begun for begun in sent]
    report.table(
        f"{CHANGES_A_SECOND} nodes change each second, for {seconds} s",
        [
            {
                "nodes": len(names),
                "changes": seconds * CHANGES_A_SECOND,
                "change to pixel p50 ms": percentile(waits, 0.5) * 1000,
                "p99 ms": percentile(waits, 0.99) * 1000,
                "frame p50 ms": percentile(frames, 0.5),
                "frame p95 ms": percentile(frames, 0.95),
                "heap before MB": before,
                "heap after MB": after,
                "load": load_average(),
            }
        ],
    )
    quarters = {f"after {number * minutes // 4} min, MB": each for number, each in enumerate(hour)}
    report.table(f"The heap of the page while {minutes} minutes pass quickly", [quarters])
    report.goal("from the change to the pixel, p99", percentile(waits, 0.99), 1.5, " s")
    report.goal("a frame, p95", percentile(frames, 0.95), 17.0, " ms")
    report.goal("heap of the page", max(after, *hour), 80.0, " MB")
    report.goal("heap after the hour, as a ratio to that after its first quarter", hour[-1] / hour[1], 1.1)


def enter(page: Any, console: ConsoleCaller) -> None:
    page.goto(f"http://{console.host}/fleet#{console.secret}")
    page.locator(".live", has_text="live").wait_for()
    page.get_by_role("grid").wait_for(state="attached")


def changes(served: Served, page: Any, names: list[str], seconds: int) -> list[float]:
    """Change nodes evenly, and the first one once a second. Return when the first one was changed."""
    sent, others = [], itertools.cycle(names[1:])
    began = time.monotonic()
    for number in range(seconds * CHANGES_A_SECOND):
        if number % CHANGES_A_SECOND == 0:
            sent.append(time.time())
            turn(served, names[0])
        else:
            turn(served, next(others))
        page.wait_for_timeout(max(0.0, began + (number + 1) / CHANGES_A_SECOND - time.monotonic()) * 1000)
    return sent


def turn(served: Served, name: str) -> None:
    """Cordon a node, or uncordon it."""
    is_cordoned = served.node(name).get("spec", {}).get("unschedulable")
    served.change(NODES, name, {"spec": {"unschedulable": None if is_cordoned else True}})


def an_hour(chromium: Any, served: Served, console: ConsoleCaller, names: list[str], minutes: int) -> list[float]:
    """Let a page live for some minutes of its own clock, with changes in each. Return its heap five times."""
    page = chromium.new_page(viewport={"width": 1920, "height": 1080})
    page.set_default_timeout(120_000)
    page.clock.install()
    enter(page, console)
    found = [heap(page)]
    for minute in range(minutes):
        for name in names[minute % 7 :: max(1, len(names) // CHANGES_A_SECOND)]:
            turn(served, name)
        page.clock.fast_forward(MINUTE_MS)
        page.wait_for_timeout(500)
        if (minute + 1) % max(1, minutes // 4) == 0:
            found.append(heap(page))
    page.close()
    return found


def heap(page: Any) -> float:
    """Return the heap of the page after a collection, in MB."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    session.detach()
    return used


if __name__ == "__main__":
    main()
