"""How the agent is started, what it imports, its arguments and its environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from haulout import __version__
from tests.build.agent import UID, AgentHost, step

HAULOUT = Path(sys.executable).parent / "haulout"
# The start of an interpreter in a virtual environment imports these; the agent needs no more than the standard library.
FOREIGN = (
    "haulout.authoring",
    "click",
    "rich",
    "msgspec",
    "aiohttp",
    "yaml",
    "asyncio",
    "haulout.cli",
    "haulout.kube",
    "haulout.runtime",
)
HEAVY = ("argparse", "subprocess", "threading", "pathlib", "logging", "hashlib", "socket", "tempfile", "shutil")


def imported(argv: list[str], env: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv], env=env, capture_output=True, text=True, check=False
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def of_this(name: str, modules: set[str]) -> list[str]:
    return [module for module in modules if module == name or module.startswith(f"{name}.")]


@pytest.mark.parametrize("name", ["as", "link", "module"])
def test_nothing_but_the_agent_is_imported(local: AgentHost, tmp_path: Path, name: str) -> None:
    local.applying(step("a.sh"))
    link = tmp_path / "skyhook-agent"
    link.symlink_to(HAULOUT)
    start = {"as": [str(HAULOUT), "as", "skyhook-agent"], "link": [str(link)], "module": ["-m", "haulout.agent"]}[name]
    modules = imported([*start, "apply", str(local.root), local.copy_dir], local.env)
    assert "haulout.agent.step_mode" in modules
    assert [found for foreign in FOREIGN for found in of_this(foreign, modules)] == []
    assert modules & set(HEAVY) == set()
    assert local.flags == ["a.sh_W11fWzBd"]


@pytest.mark.parametrize("name", ["as", "link"])
def test_the_program_is_the_agent_by_either_name(local: AgentHost, tmp_path: Path, name: str) -> None:
    link = tmp_path / "skyhook-agent"
    link.symlink_to(HAULOUT)
    start = {"as": [str(HAULOUT), "as", "skyhook-agent"], "link": [str(link)]}[name]
    done = subprocess.run([*start, "--version"], env=local.env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n")
    wrong = subprocess.run([*start, "--version", "x"], env=local.env, capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("--version takes no arguments\nUsage: ")


def test_memory_stays_small(local: AgentHost) -> None:
    """The step asks for the peak of its parent: the agent's own figures would count the process that started it."""
    local.script(
        "a.sh",
        f"while read -r name size _; do [ $name = VmHWM: ] && echo $size; done < /proc/$PPID/status > {local.root}/trace; true",
    )
    local.applying(step("a.sh"))
    assert local.run("apply").code == 0
    assert 0 < int(local.trace[0]) < 20 * 1024


BANNER = """\
--------------------
-CLI CONFIGURATION--
mode: apply
root_mount: {root}
copy_dir: {copy}
interrupt_data: None
always_run_step: False
-ENV CONFIGURATION--
COPY_RESOLV: False
OVERLAY_ALWAYS_RUN_STEP: False
SKYHOOK_RESOURCE_ID: {id}
SKYHOOK_DATA_DIR: /skyhook-package
SKYHOOK_ROOT_DIR: /var/lib/skyhook/sk
SKYHOOK_LOG_DIR: /var/log/skyhook/sk
SKYHOOK_AGENT_BUFFER_LIMIT: 8192
SKYHOOK_AGENT_WRITE_LOGS: True
Directory CONFIGURATION
flag_dir: /var/lib/skyhook/sk/flags/demo/1.0.0
log_dir: /var/log/skyhook/sk/demo/1.0.0
history_file: /var/lib/skyhook/sk/history/demo.json
--------------------
"""


def test_the_banner(local: AgentHost) -> None:
    local.applying(step("a.sh"))
    wanted = BANNER.format(root=local.root, copy=local.copy_dir, id=local.env["SKYHOOK_RESOURCE_ID"])
    assert local.run("apply").out.startswith(wanted)


def test_an_unknown_mode_warns_and_succeeds_without_the_package(local: AgentHost) -> None:
    done = local.run("frobnicate")
    assert done.code == 0
    assert done.err == (
        "WARNING:root:This version of the Agent doesn't support the frobnicate mode. Options are: uninstall,"
        "uninstall-check,upgrade,upgrade-check,apply,apply-check,config,config-check,interrupt,post-interrupt,"
        "post-interrupt-check.\n"
    )
    assert local.record["result"] == "noop"


def test_an_unknown_mode_touches_nothing_on_the_host(local: AgentHost) -> None:
    (local.root / "etc").mkdir(exist_ok=True)
    (local.root / "etc/resolv.conf").write_text("old")
    assert local.run("future-stage", env={"COPY_RESOLV": "true"}).code == 0
    assert (local.root / "etc/resolv.conf").read_text() == "old"
    assert local.agent("future-stage", "/no/such/root", local.copy_dir, env={"COPY_RESOLV": "true"}).code == 0


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["apply"],
        ["apply", "/r", "/c", "data", "more"],
        ["apply", "relative", "/copy"],
        ["apply", "{root}", "copy"],
        ["apply", "{root}", "/a/../b"],
        ["apply", "{root}/../x", "/copy"],
    ],
    ids=["none", "one", "five", "relative root", "relative copy", "dots in copy", "dots in root"],
)
def test_wrong_usage_ends_with_2_and_writes_nothing(local: AgentHost, words: list[str]) -> None:
    before = local.tree()
    done = local.agent(*[word.format(root=local.root) for word in words])
    assert done.code == 2
    assert "Usage: skyhook-agent MODE" in done.err
    assert local.tree() == before
    assert not local.record_file.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "{copy}"],
        ["digest", "{copy}"],
        ["new", "{root}/new"],
        ["test", "{copy}"],
        ["apply", "{root}", "{copy}", "--dry-run"],
        ["--dry-run", "apply", "{root}", "{copy}"],
        ["apply", "{copy}", "--dry-run"],
    ],
    ids=" ".join,
)
def test_the_program_for_hosts_has_no_tools_for_authors(local: AgentHost, words: list[str]) -> None:
    """By the rule for modes of later versions these would warn and end with 0, and a dry run would really run."""
    local.tracing("a.sh")
    local.applying(step("a.sh"))
    before = local.tree()
    done = local.agent(*[word.format(root=local.root, copy=local.copy_dir) for word in words])
    word = "--dry-run" if "--dry-run" in words else words[0]
    assert done.code == 2
    assert done.err.startswith(f"{word} is for authors of packages, and not part of the program for hosts\nUsage: ")
    assert "haulout package --help" in done.err
    assert local.tree() == before


def test_the_tools_for_authors_are_commands_of_haulout(local: AgentHost, tmp_path: Path) -> None:
    """By `haulout package`, and as before by the name of the agent."""
    link = tmp_path / "skyhook-agent"
    link.symlink_to(HAULOUT)
    local.applying(step("a.sh"))
    package = tmp_path / "made"

    def run(*argv: object) -> tuple[int, str]:
        done = subprocess.run(list(map(str, argv)), env=local.env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert run(HAULOUT, "package", "new", package)[0] == 0
    tried = run(HAULOUT, "package", "test", package)
    assert tried[0] == 0 or "throw-away root" in tried[1]
    for words in (["validate", package], ["validate", "--format", "json", package], ["digest", package]):
        first = run(HAULOUT, "package", *words)
        assert first[0] == 0
        assert run(HAULOUT, "as", "skyhook-agent", *words) == run(link, *words) == first
    call = ["apply", local.root, local.copy_dir]
    first = run(HAULOUT, "package", "dry-run", *call)
    assert "would run a.sh: it has no flag\n" in first[1]
    assert run(HAULOUT, "as", "skyhook-agent", *call, "--dry-run") == run(link, "--dry-run", *call) == first
    assert run(HAULOUT, "package", "unknown")[0] == 2
    assert run(HAULOUT, "package")[1].startswith("Usage: haulout package new NAME\n")


@pytest.mark.parametrize("name", ["SKYHOOK_ROOT_DIR", "SKYHOOK_LOG_DIR"])
@pytest.mark.parametrize("value", ["state", "/a/../b", ""])
def test_bad_roots_are_wrong_usage(local: AgentHost, name: str, value: str) -> None:
    local.applying(step("a.sh"))
    before = local.tree()
    assert local.run("apply", env={name: value}).code == 2
    assert local.tree() == before


@pytest.mark.parametrize("value", ["", "a_b", "a_b_c_d", "a__c", "a_../x_c", "a_b/c_d", "a_x..y_c"])
@pytest.mark.parametrize("mode", ["apply", "interrupt", "unknown"])
def test_a_bad_resource_id_fails_every_mode(local: AgentHost, value: str, mode: str) -> None:
    before = local.tree()
    done = local.run(mode, env={"SKYHOOK_RESOURCE_ID": value})
    assert (done.code, done.err) == (1, "Invalid SKYHOOK_RESOURCE_ID\n")
    assert local.tree() == before


@pytest.mark.parametrize(
    "name",
    [
        "SKYHOOK_AGENT_BUFFER_LIMIT",
        "SKYHOOK_AGENT_STEP_DELAY",
        "SKYHOOK_AGENT_STEP_TIMEOUT",
        "SKYHOOK_AGENT_LOG_KEEP",
        "SKYHOOK_AGENT_LOG_BYTES",
        "SKYHOOK_AGENT_LOG_LINES",
        "SKYHOOK_AGENT_KEEP_COPIES",
        "SKYHOOK_AGENT_COPY_MODE",
        "SKYHOOK_AGENT_EXEC_MODE",
        "SKYHOOK_AGENT_OVERLAY",
        "SKYHOOK_AGENT_OVERLAY_OWNERS",
        "SKYHOOK_AGENT_REBOOT_CONFIRM",
        "SKYHOOK_AGENT_REBOOT_WAIT",
    ],
)
def test_a_bad_setting_is_named_without_its_value(local: AgentHost, name: str) -> None:
    local.applying(step("a.sh"))
    done = local.run("apply", env={name: "s3cret"})
    assert done.code == 1
    assert done.err.startswith(f"{name} must be ")
    assert "s3cret" not in done.out + done.err


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("SKYHOOK_AGENT_LOG_KEEP", "9" * 5000, "a whole number of at most 9 digits"),
        ("SKYHOOK_AGENT_BUFFER_LIMIT", "9" * 20, "a whole number of at most 9 digits"),
        ("SKYHOOK_AGENT_STEP_DELAY", "1e300", "a number of seconds, at most 1e+06"),
        ("SKYHOOK_AGENT_STEP_TIMEOUT", "9" * 5000, "a number of seconds, at most 1e+06"),
        ("SKYHOOK_AGENT_REBOOT_WAIT", "nan", "a number of seconds, at most 1e+06"),
    ],
)
def test_a_number_that_is_too_large_is_refused(local: AgentHost, name: str, value: str, rule: str) -> None:
    local.tracing("a.sh")
    local.applying(step("a.sh"))
    done = local.run("apply", env={name: value})
    assert (done.code, done.err, local.trace) == (1, f"{name} must be {rule}\n", [])


def test_a_generation_with_too_many_digits_removes_no_copies(local: AgentHost) -> None:
    local.config(config=[step("a.sh")], config_check=[step("ok_check.sh")])
    done = local.run("config-check", env={"SKYHOOK_RESOURCE_ID": f"sk-{UID}-{'9' * 5000}_demo_1.0.0"})
    assert (done.code, "unexpected" in done.err) == (0, False)
