"""Writes the records anew, from a real control plane: `python -m tests.contract.refresh`, or `make records`."""

from __future__ import annotations

import sys

from tests.contract.cases import CASES
from tests.contract.compare import failed
from tests.contract.hooks import Hooks
from tests.contract.real import real_site
from tests.contract.records import write
from tests.contract.runs import Runs
from tests.rig.process import Scratch


def main() -> int:
    cases = list(CASES.values())
    scratch = Scratch("records")
    with Hooks() as hooks, real_site(scratch, hooks) as site, Runs(site, cases) as runs:
        transcripts = {case.name: runs.transcript(case) for case in cases}
    scratch.close()
    broken = sorted(name for name, steps in transcripts.items() if any(failed(step) for step in steps))
    if broken:
        print(f"nothing written: these cases do not work on the real server: {', '.join(broken)}", file=sys.stderr)
        return 1
    write(cases, transcripts)
    print(f"wrote the answers to {len(cases)} cases; `git diff tests/contract/records` shows what changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
