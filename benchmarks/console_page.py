"""Measures the map of 5,000 nodes in a browser while nodes change: from the change to the pixel, frames, and heap."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness import Report, options, percentile
from tests.web.conftest import FLAGS
from tests.web.stage import SECRET, StageServer
from tests.web.stage_data import Stage
from tools import browser

CHANGES_A_SECOND = 50
# The corner of the map in which the first node is drawn. Reading more of it would slow the frames that are measured.
WATCH = """() => {
    window.frames_ms = []; window.seen = [];
    const canvas = document.querySelector('canvas');
    let last = performance.now(), before = '';
    const frame = now => {
        window.frames_ms.push(now - last);
        last = now;
        const found = canvas.getContext('2d', {willReadFrequently: true}).getImageData(72, 40, 14, 14).data.join();
        if (found !== before) { before = found; window.seen.push(Date.now()); }
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}"""


def main() -> None:
    parser = options("console_page", __doc__, runs=1, peers=False)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=60)
    chosen = parser.parse_args()
    if why := browser.prepare():
        raise SystemExit(why)
    from playwright.sync_api import sync_playwright

    report = Report("console_page: the map in a browser while nodes change", chosen)
    with StageServer(Stage(chosen.nodes)) as server, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(browser.CHROMIUM), args=list(FLAGS))
        page = chromium.new_page(viewport={"width": 1920, "height": 1080})
        page.goto(f"{server.url}/#{SECRET}")
        page.locator(".live", has_text="live").wait_for()
        page.goto(f"{server.url}/fleet")
        page.get_by_role("grid").wait_for(state="attached")
        page.wait_for_timeout(2000)
        before = heap(page)
        page.evaluate(WATCH)
        page.wait_for_timeout(500)
        sent = changes(server, page, chosen.seconds)
        page.wait_for_timeout(2000)
        seen = [at / 1000 for at in page.evaluate("window.seen")][1:]
        frames = [ms for ms in page.evaluate("window.frames_ms") if ms > 0]
        after = heap(page)
        chromium.close()
    waits = [min((at for at in seen if at >= begun), default=float("inf")) - begun for begun in sent]
    row = {
        "nodes": chosen.nodes,
        "changes": len(sent) * CHANGES_A_SECOND,
        "change to pixel p50 ms": percentile(waits, 0.5) * 1000,
        "p99 ms": percentile(waits, 0.99) * 1000,
        "frame p50 ms": percentile(frames, 0.5),
        "frame p95 ms": percentile(frames, 0.95),
        "heap before MB": before,
        "heap after MB": after,
    }
    report.table(f"{CHANGES_A_SECOND} nodes change each second, for {chosen.seconds} s", [row])
    report.goal("from the change to the pixel, p99", percentile(waits, 0.99), 1.5, " s")
    report.goal("a frame, p95", percentile(frames, 0.95), 17.0, " ms")
    report.goal("heap of the page", after, 80.0, " MB")
    report.finish()


def changes(server: StageServer, page: Any, seconds: int) -> list[float]:
    """Change the first node and others once a second. Return when."""
    sent = []
    rows = server.stage.nodes[:CHANGES_A_SECOND]
    for number in range(seconds):
        state = "cordoned" if number % 2 else "in service"
        changed = [{**row, "state": state, "cause": "", "holders": [], "safeToWork": False} for row in rows]
        sent.append(time.time())
        server.change(*changed)
        page.wait_for_timeout(1000)
    return sent


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
