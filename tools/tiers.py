"""Runs the test tiers that are possible on this machine, and prints which ran and which did not.

    python -m tools.tiers [--quick] [TIER...]

They run one after another, except for a tier that waits more than it works or works on one core: it runs beside the others.
With `--quick`, files of tests that take long (tests/slow.txt) are left out. Unless CI asks for all, the branches that tests take
are measured and printed.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools import browser, build, measured, promtool

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
# With "long", everything runs whose samples are otherwise smaller (tests/build/examples.py).
FULL = os.environ.get("HAULOUT_TEST") in {"full", "long"}
# Measuring takes 1.7 times the CPU of pure code, which CI spends on four times as many examples.
MEASURES = os.environ.get("HAULOUT_TEST") != "full"
# The files whose tests take more than about a second in all. A file that is as slow belongs into it.
SLOW = ROOT / "tests" / "slow.txt"
LONG = os.environ.get("HAULOUT_TEST") == "long"
# The tests of the real tier that run on each pinned version of Kubernetes: installation, webhooks, policies, drains, all
# surfaces together, elections, and the way out.
SMOKE = tuple(
    f"tests/real/test_{name}.py"
    for name in ("first_hour", "webhooks", "overrides", "surfaces_together", "leadership", "uninstall")
)


@dataclasses.dataclass(frozen=True)
class Tier:
    """A group of checks that runs as one: a command, or the tests of some folders.

    `workers`: the processes that share the tests; "0" runs them in one.
    `needs`: the programs that have to be on the machine.
    `root`: whether it has to run as root.
    `beside`: whether it runs beside the others. Its output is shown in its place.
    `measured`: whether the branches that its tests take are measured.
    `prepare`: installs what it needs, and returns what is still missing; empty if nothing is.
    `kube`: the minor version of Kubernetes that it runs on; empty: the usual one.
    """

    name: str
    command: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    workers: str = "0"
    needs: tuple[str, ...] = ()
    root: bool = False
    beside: bool = False
    measured: bool = False
    prepare: Callable[[], str] | None = None
    kube: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a tier. `why`: the reason why it did not run, or failed."""

    tier: Tier
    ran: bool
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    why: str = ""
    output: str = ""


TIERS = (
    Tier("style", (str(BIN / "python"), "tools/style.py")),
    Tier("types", (str(BIN / "mypy"),), beside=True),
    Tier("imports", (str(BIN / "lint-imports"), "--no-logo")),
    Tier("docs", ("make", "--no-print-directory", "docs"), beside=True),
    Tier("unit", tests=("tests/unit",), workers="2", measured=True),
    Tier("property", tests=("tests/property",), workers="2", measured=True),
    Tier("scenario", tests=("tests/scenario",), workers="2", measured=True, prepare=promtool.prepare),
    Tier("contract", tests=("tests/contract/test_embedded.py",), measured=True),
    Tier(
        "server",
        tests=("tests/contract/test_real.py",),
        needs=("etcd", "kube-apiserver", "kube-controller-manager"),
        beside=True,
    ),
    Tier(
        "real",
        tests=("tests/real",),
        # Each worker has its own control planes, and most tests wait more than they work.
        workers="3",
        needs=("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kwok"),
        beside=True,
    ),
    Tier("web", tests=("tests/web",), prepare=browser.prepare),
    Tier("node", tests=("tests/node",), needs=("etcd", "kube-apiserver", "kubelet"), root=True, beside=True),
)
# What `make test-long` runs besides.
OTHER_VERSIONS = tuple(
    Tier(
        f"kube-{minor}",
        tests=SMOKE,
        workers="2",
        needs=("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"),
        kube=minor,
    )
    for minor in build.pinned_minors()
)


def obstacle(tier: Tier) -> str:
    """Return why a tier cannot run here, and what would make it run; empty if it can."""
    lacking = [name for name in tier.needs if build.find_tool(name, tier.kube) is None]
    if lacking:
        return f"no {', '.join(lacking)}: run `make tools{f' KUBE={tier.kube}' if tier.kube else ''}` (needs Go)"
    if tier.root and os.geteuid() != 0:
        return "needs root: run `sudo make test`"
    return tier.prepare() if tier.prepare is not None else ""


def run(tier: Tier, *, is_quick: bool = False, folder: Path | None = None) -> Result:
    """Run a tier. `folder`: for what is measured; None if nothing is."""
    why = obstacle(tier)
    if why:
        return Result(tier, ran=False, ok=not FULL, why=why)
    if not tier.beside:
        print(f"\n--- {tier.name}", flush=True)
    started = time.monotonic()
    if tier.command:
        ended = subprocess.run(tier.command, cwd=ROOT, check=False, **_output_of(tier))
        code = ended.returncode
        return Result(
            tier,
            ran=True,
            ok=code == 0,
            passed=code == 0,
            failed=code != 0,
            seconds=time.monotonic() - started,
            output=ended.stdout or "",
        )
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        # A few tests take seconds, thousands take milliseconds. So a worker that has finished takes over tests of others.
        spread = ("-n", tier.workers, "--dist", "worksteal")
        slowest = ("--durations=15", "--durations-min=2")
        left_out = [f"--ignore={path}" for path in SLOW.read_text().split()] if is_quick else []
        is_measured = tier.measured and folder is not None
        plugin = ["-p", "tools.measured"] if is_measured else []
        argv = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *plugin,
            *tier.tests,
            *left_out,
            f"--junit-xml={report}",
            *spread,
            *slowest,
        ]
        env = {**os.environ, **chosen_kube(tier), **({measured.FOLDER: str(folder)} if is_measured else {})}
        done = subprocess.run(argv, cwd=ROOT, check=False, env=env, **_output_of(tier))
        code, output = done.returncode, done.stdout or ""
        passed, failed, skipped = count(report)
    # A test may be skipped on a machine that lacks something. In a full run that counts as a failure.
    ok = code == 0 and passed > 0 and not (FULL and skipped)
    return Result(
        tier,
        ran=True,
        ok=ok,
        passed=passed,
        failed=failed,
        skipped=skipped,
        seconds=time.monotonic() - started,
        why="" if ok else f"pytest ended with {code}",
        output=output,
    )


def _output_of(tier: Tier) -> dict[str, Any]:
    """Return how a tier's program is run: one that runs beside others says nothing until its place has come."""
    return {"text": True, **({"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if tier.beside else {})}


def chosen_kube(tier: Tier) -> dict[str, str]:
    return {build.CHOSEN: tier.kube} if tier.kube else {}


def run_all(tiers: list[Tier], *, is_quick: bool = False, folder: Path | None = None) -> list[Result]:
    """Run the tiers in their order. A tier that runs beside the others is started first, and its output shown in its place."""
    with ThreadPoolExecutor() as pool:
        begun = {tier.name: pool.submit(run, tier, is_quick=is_quick, folder=folder) for tier in tiers if tier.beside}
        return [
            shown(begun[tier.name].result()) if tier.beside else run(tier, is_quick=is_quick, folder=folder)
            for tier in tiers
        ]


def shown(done: Result) -> Result:
    """Print the output of a tier that ran beside others."""
    if done.ran:
        print(f"\n--- {done.tier.name}\n{done.output}", flush=True)
    return done


def count(report: Path) -> tuple[int, int, int]:
    if not report.exists():
        return 0, 1, 0
    suites = [suite.attrib for suite in ET.parse(report).getroot().iter("testsuite")]
    total, bad, skipped = (
        sum(int(suite.get(field, 0)) for suite in suites for field in fields)
        for fields in (("tests",), ("failures", "errors"), ("skipped",))
    )
    return total - bad - skipped, bad, skipped


def table(results: list[Result]) -> str:
    lines = [f"{'tier':<10} {'ran':<4} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}  why not"]
    for done in results:
        lines.append(
            f"{done.tier.name:<10} {'yes' if done.ran else 'no':<4} {done.passed:>7} {done.failed:>7}"
            f" {done.skipped:>8} {done.seconds:>8.1f}  {done.why}"
        )
    return "\n".join(lines)


def main() -> int:
    is_quick = "--quick" in sys.argv
    wanted = set(sys.argv[1:]) - {"--quick"}
    known = (*TIERS, *OTHER_VERSIONS)
    unknown = wanted - {tier.name for tier in known}
    if unknown:
        print(
            f"unknown tier {', '.join(sorted(unknown))}; there are: {', '.join(tier.name for tier in known)}",
            file=sys.stderr,
        )
        return 2
    usual = known if LONG else TIERS
    chosen = [tier for tier in known if (tier.name in wanted if wanted else tier in usual)]
    with tempfile.TemporaryDirectory() as scratch:
        # A part of the tiers says little about what is not covered.
        folder = Path(scratch) if MEASURES and not wanted else None
        results = run_all(chosen, is_quick=is_quick, folder=folder)
        if folder is not None:
            print("\n" + measured.table(folder))
    print("\n" + table(results))
    if is_quick:
        print(f"left out: {len(SLOW.read_text().split())} files that take long (tests/slow.txt); `make test` runs them")
    passed, failed, skipped = (
        sum(getattr(done, field) for done in results) for field in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if all(done.ok for done in results) else 1


if __name__ == "__main__":
    sys.exit(main())
