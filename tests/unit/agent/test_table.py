"""The table of steps that run and steps that are skipped, in local mode and in a chroot."""

from __future__ import annotations

from tests.build.agent import AgentHost
from tests.build.agent_table import MODES, ROWS, TRACE


def test_steps_run_and_are_skipped_as_the_table_says(host: AgentHost) -> None:
    host.script("trace.sh", TRACE)
    host.config(**MODES)
    for row in ROWS:
        (host.root / "trace").write_text("")
        env = {"TRACE": f"{host.inside}/trace", "OVERLAY_ALWAYS_RUN_STEP": str(row.always_run_step)}
        assert host.run(row.mode, env=env).code == 0
        told = host.record
        assert (told["result"], told["skipped"], tuple(host.trace)) == (row.result, row.skipped, row.traced), row
