"""Commands by their arguments: what they print, where, and with which exit code."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from haulout import __version__
from haulout.base import interpreter
from haulout.cli.original import flags_of
from haulout.cli.root import COMMANDS, main
from haulout.runtime.logs import TIMES
from haulout.settings.settings import Lease, PodRules, Settings
from haulout.surfaces.clusterapi.declare import SURFACE as CLUSTERAPI
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.profiles.settings import EsxSettings, KubernikusSettings, ProfilesSettings

LEASE = "maintenance-controller-leader-election.cloud.sap"
GOOD = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: go, config: {key: go, value: "${VALUE:x}"}}
profiles:
- name: p
  operational: {transitions: [{check: go, next: maintenance-required}]}
"""

WHERE = "config/maintenance.yaml"
UNQUOTED = 'an unquoted boolean is read as the text "true" (put it in quotes)'

Capture = pytest.CaptureFixture[str]


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"haulout {__version__}\n"


def test_the_version_comes_with_the_python_that_runs_it(capsys: Capture) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"haulout {__version__}\n{interpreter.description()}\n"


class TestHelp:
    @pytest.mark.parametrize("words", [["-h"], ["--help"]], ids=" ".join)
    def test_of_all_names_each_command(self, words: list[str], capsys: Capture) -> None:
        assert main(words) == 0
        out = capsys.readouterr().out
        assert all(f"\n  {name} " in out for name in COMMANDS)

    @pytest.mark.parametrize("name", sorted(COMMANDS))
    def test_of_each(self, name: str, capsys: Capture) -> None:
        assert main([name, "--help"]) == 0
        assert f"haulout {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(["nope"], 2, "No such command 'nope'", id="an unknown command"),
        pytest.param(["--nope"], 2, "No such option", id="an unknown flag"),
        pytest.param(["crds", "ghosts"], 2, "there is no surface 'ghosts'; there are: ", id="crds of nobody"),
        pytest.param(["completion"], 2, "Missing argument", id="completion of no shell"),
        pytest.param(["completion", "csh"], 2, "'csh' is not one of 'bash', 'zsh', 'fish'", id="an unknown shell"),
        pytest.param(["explain"], 2, "Missing argument 'NODE'", id="explain nobody"),
        pytest.param(["explain", "n", "-o", "xml"], 2, "'xml' is not one of", id="an unknown format"),
        pytest.param(["explain", "n", "--as-group", "g"], 2, "--as-group needs --as", id="a group without a user"),
        pytest.param(["as"], 2, "Names: maintenance-controller", id="as nobody"),
        pytest.param(["as", "ghosts"], 2, "there is no original named 'ghosts'", id="as an unknown one"),
    ],
)
def test_wrong_command_lines(words: list[str], code: int, said: str, capsys: Capture) -> None:
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_program(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "haulout" in out
    assert "_HAULOUT_COMPLETE" in out


def test_completion_knows_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("_HAULOUT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "haulout ex")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit) as done:
        main([])
    assert done.value.code == 0
    assert capsys.readouterr().out == "plain,explain\n"


@pytest.mark.parametrize(
    "words",
    [["version"], ["--help"], ["crds"], ["webhooks"], ["rbac"], ["as", "maintenance-controller", "-h"]],
    ids=" ".join,
)
def test_small_commands_import_no_machinery(words: list[str]) -> None:
    code = (
        "import sys\nfrom haulout.cli.root import main\nmain(sys.argv[1:])\n"
        "heavy = {'aiohttp', 'asyncio', 'haulout.runtime', 'haulout.cluster', 'prometheus_client'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_plan_for_no_node_is_refused(capsys: Capture) -> None:
    assert main(["plan", "--nodes", "0"]) == 2
    assert "0 is not in the range" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["plan", "-h"], ["as", "node-maintenance-operator", "-h"]], ids=" ".join)
def test_a_usage_text_is_printed_without_yaml_and_without_the_metadata_of_packages(words: list[str]) -> None:
    code = (
        "import sys\nfrom haulout.cli.root import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "slow = {'yaml', 'importlib.metadata', 'email.message'} & set(sys.modules)\n"
        "sys.exit(f'imported: {sorted(slow)}' if slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


class TestAsMaintenanceController:
    def settings(self, *words: str) -> Settings:
        made = main(["as", "maintenance-controller", *words])
        assert isinstance(made, Settings)
        return made

    def profiles(self, *words: str) -> ProfilesSettings:
        made = self.settings(*words).of(ProfilesSettings)
        assert made is not None
        return made

    def test_without_flags_it_is_as_the_original(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("KUBECONTEXT", raising=False)
        assert self.settings() == Settings(
            http=":8080",
            health=":8081",
            lease=None,
            turns=False,
            alone=True,
            ready_at_once=True,
            optional_kinds=("PodDisruptionBudget",),
            log_format="console",
            log_level=logging.DEBUG,
            blocks={"profiles": ProfilesSettings(config="./config/maintenance.yaml")},
        )

    def test_kubernikus(self) -> None:
        files = KubernikusSettings(
            enabled=True, config="config/kubernikus.yaml", credentials="provider/cloudprovider.conf"
        )
        assert self.profiles("--enable-kubernikus-maintenance").kubernikus == files
        assert not self.profiles("--enable-kubernikus-maintenance=false").kubernikus.enabled

    def test_esx(self) -> None:
        assert self.profiles("--enable-esx-maintenance").esx == EsxSettings(enabled=True, config="config/esx.yaml")

    def test_the_label_of_cluster_api(self) -> None:
        assert self.settings("--honor-cluster-api-label").pod_rules == PodRules(cluster_api_label=True)
        assert self.settings().pod_rules == PodRules()

    def test_an_address_for_profiling_is_accepted(self) -> None:
        assert self.settings("--pprof-addr=:6060") == self.settings()

    def test_the_lease_is_the_originals(self) -> None:
        lease = self.settings("--enable-leader-election").lease
        assert lease == Lease(LEASE, duration=15, renew_within=10, retry=5, release=False)

    def test_where_the_cluster_is(self) -> None:
        made = self.settings("-kubeconfig", "/k", "--kubecontext=c")
        assert (made.kubeconfig, made.context) == ("/k", "c")

    def test_the_context_may_stand_in_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONTEXT", "from-environment")
        assert self.settings().context == "from-environment"
        assert self.settings("--kubecontext", "c").context == "c"

    @pytest.mark.parametrize(
        ("words", "style", "level"),
        [
            pytest.param(["--zap-devel=false"], "json", logging.INFO, id="for machines"),
            pytest.param(["--zap-devel=false", "--zap-encoder=console"], "console", logging.INFO, id="readable"),
            pytest.param(["--zap-log-level=error"], "console", logging.ERROR, id="errors"),
            pytest.param(["--zap-log-level=INFO"], "console", logging.INFO, id="in any case"),
            pytest.param(["--zap-devel=0", "--zap-log-level=3"], "json", logging.DEBUG, id="a number"),
        ],
    )
    def test_logs(self, words: list[str], style: str, level: int) -> None:
        made = self.settings(*words)
        assert (made.log_format, made.log_level) == (style, level)

    @pytest.mark.parametrize("times", ["epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"])
    def test_how_logs_write_instants(self, times: str) -> None:
        assert self.settings(f"--zap-time-encoding={times.upper()}").log_times == times
        assert times in TIMES

    def test_words_after_the_flags_are_ignored(self) -> None:
        assert self.settings("--metrics-timeout=0s", "whatever", "--nope").of(ProfilesSettings) == ProfilesSettings(
            config="./config/maintenance.yaml", metrics_timeout=timedelta()
        )

    @pytest.mark.parametrize("word", ["-h", "--help"])
    def test_help_is_on_stderr_as_go_has_it(self, word: str, capsys: Capture) -> None:
        assert main(["as", "maintenance-controller", word]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("Usage of maintenance-controller:\n")
        assert "-metrics-timeout duration\n" in err

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            pytest.param(["--nope"], "flag provided but not defined: -nope", id="unknown"),
            pytest.param(
                ["--metrics-timeout=soon"], 'invalid value "soon" for flag -metrics-timeout:', id="a duration"
            ),
            pytest.param(["--enable-leader-election=x"], 'invalid boolean value "x"', id="a truth"),
            pytest.param(["--zap-encoder=xml"], 'invalid value "xml" for flag -zap-encoder:', id="an encoder"),
            pytest.param(["--zap-log-level=loud"], 'invalid value "loud" for flag -zap-log-level:', id="a level"),
            pytest.param(["--zap-log-level=0"], 'invalid value "0" for flag -zap-log-level:', id="a number"),
            pytest.param(
                ["--zap-stacktrace-level=x"], 'invalid value "x" for flag -zap-stacktrace-level:', id="a trace level"
            ),
            pytest.param(["--zap-time-encoding=x"], 'invalid value "x" for flag -zap-time-encoding:', id="a time"),
        ],
    )
    def test_wrong_flags_end_with_2_and_the_usage(self, words: list[str], problem: str, capsys: Capture) -> None:
        assert main(["as", "maintenance-controller", *words]) == 2
        first, second, *_ = capsys.readouterr().err.splitlines()
        assert first.startswith(problem)
        assert second == "Usage of maintenance-controller:"


class TestAsRuntimeExtensionMaintenanceController:
    NAME = "runtime-extension-maintenance-controller"

    @pytest.fixture(autouse=True)
    def _no_context(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("KUBECONTEXT", raising=False)

    def settings(self, *words: str) -> Settings:
        made = main(["as", self.NAME, *words])
        assert isinstance(made, Settings)
        return made

    def clusterapi(self, *words: str) -> ClusterApiSettings:
        made = self.settings(*words).of(ClusterApiSettings)
        assert made is not None
        return made

    def test_without_flags_it_is_as_the_original(self) -> None:
        assert self.settings() == Settings(
            pod_first=True,
            http=":8080",
            health="0",
            lease=Lease(self.NAME, namespace="", outside="", duration=15, renew_within=10, retry=2),
            turns=False,
            alone=True,
            log_format="console",
            log_level=logging.DEBUG,
            blocks={"clusterapi": ClusterApiSettings()},
        )

    @pytest.mark.parametrize(
        ("flag", "name"),
        [
            ("enable-metal3-maintenance", "enable_metal3_maintenance"),
            ("allow-exec-kubeconfigs", "allow_exec_kubeconfigs"),
            ("guard-remediation", "guard_remediation"),
            ("approval-hygiene", "approval_hygiene"),
            ("prefer-limited-kubeconfigs", "prefer_limited_kubeconfigs"),
            ("reboot-mode-annotation", "reboot_mode_annotation"),
            ("workload-requests", "workload_requests"),
            ("allow-http-kubeconfigs", "allow_http_kubeconfigs"),
        ],
    )
    def test_each_switch_turns_one_thing_on(self, flag: str, name: str) -> None:
        assert self.clusterapi(f"--{flag}") == self.clusterapi(f"-{flag}=T") == ClusterApiSettings(**{name: True})  # type: ignore[arg-type]
        assert self.clusterapi(f"--{flag}=false") == ClusterApiSettings()

    def test_ranges_of_servers(self) -> None:
        given = self.clusterapi("--allowed-server-ranges", "10.0.0.0/8, fd00::/8")
        assert given.allowed_server_ranges == ("10.0.0.0/8", "fd00::/8")

    def test_how_long_deletions_wait_for_approval(self) -> None:
        assert self.clusterapi("--deletion-approval-timeout", "1h30m").deletion_approval_timeout == timedelta(
            minutes=90
        )
        assert self.clusterapi("--deletion-approval-timeout=0").deletion_approval_timeout == timedelta()

    def test_addresses(self) -> None:
        made = self.settings("--metrics-bind-address=0", "-health-probe-bind-address", ":8081")
        assert (made.http, made.health) == ("0", ":8081")

    def test_the_lease_may_be_elsewhere_or_left_out(self) -> None:
        assert self.settings("--leader-election-namespace=ops").lease == Lease(self.NAME, "ops")
        assert self.settings("--leader-elect=0").lease is None

    def test_where_the_cluster_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONTEXT", "from-environment")
        made = self.settings("-kubeconfig", "/k", "--kubecontext=c")
        assert (made.kubeconfig, made.context) == ("/k", "c")
        assert self.settings("--kubecontext=").context == "from-environment"

    def test_logs_for_machines(self) -> None:
        made = self.settings("--zap-devel=false", "--zap-time-encoding=epoch", "--zap-stacktrace-level=panic")
        assert (made.log_format, made.log_level, made.log_times) == ("json", logging.INFO, "epoch")

    @pytest.mark.parametrize("words", [["whatever", "--nope"], ["-", "--nope"], ["--", "--nope"]], ids=" ".join)
    def test_what_follows_the_flags_is_ignored_without_a_word(self, words: list[str], capsys: Capture) -> None:
        assert self.clusterapi("--guard-remediation", *words) == ClusterApiSettings(guard_remediation=True)
        assert capsys.readouterr() == ("", "")

    def test_a_truth_that_stands_apart_ends_the_flags(self) -> None:
        made = self.clusterapi("--enable-metal3-maintenance", "false", "--guard-remediation")
        assert made == ClusterApiSettings(enable_metal3_maintenance=True)

    @pytest.mark.parametrize("word", ["-h", "--help"])
    def test_help_is_on_stderr_as_go_has_it(self, word: str, capsys: Capture) -> None:
        assert main(["as", self.NAME, word]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"Usage of {self.NAME}:\n")
        assert "-deletion-approval-timeout duration\n" in err

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            pytest.param(["--nope"], "flag provided but not defined: -nope", id="unknown"),
            pytest.param(["--kubecontext"], "flag needs an argument: -kubecontext", id="no value"),
            pytest.param(["--enable-metal3-maintenance=yes"], 'invalid boolean value "yes"', id="a truth"),
            pytest.param(
                ["--deletion-approval-timeout=90"],
                'invalid value "90" for flag -deletion-approval-timeout:',
                id="a duration without a unit",
            ),
            pytest.param(
                ["--deletion-approval-timeout=-1m"],
                'invalid value "-1m0s" for flag -deletion-approval-timeout: ',
                id="a negative duration",
            ),
            pytest.param(["--zap-log-level=0"], 'invalid value "0" for flag -zap-log-level:', id="a level"),
            pytest.param(["--zap-time-encoding=x"], 'invalid value "x" for flag -zap-time-encoding:', id="a time"),
        ],
    )
    def test_wrong_flags_end_with_2_and_the_usage(self, words: list[str], problem: str, capsys: Capture) -> None:
        assert main(["as", self.NAME, *words]) == 2
        first, second, *_ = capsys.readouterr().err.splitlines()
        assert first.startswith(problem)
        assert second == f"Usage of {self.NAME}:"


class TestPageAboutClusterApi:
    PAGE = (Path(__file__).parents[3] / "docs" / "clusterapi.md").read_text()

    def test_every_flag_and_setting_is_described(self) -> None:
        flags = {f"`--{flag.name}`" for flag in flags_of(CLUSTERAPI) if not flag.name.startswith("zap-")}
        settings = {f"`{field.encode_name}`" for field in msgspec.structs.fields(ClusterApiSettings)}
        assert [name for name in sorted(flags | settings) if name not in self.PAGE] == []

    def test_the_example_for_workload_clusters_is_right(self, tmp_path: Path, capsys: Capture) -> None:
        example = tmp_path / "maintenance.yaml"
        example.write_text(self.PAGE.partition("```yaml\n")[2].partition("```")[0])
        assert main(["lint", str(example)]) == 0
        # On purpose: a node that leaves does not come back.
        (said,) = capsys.readouterr().out.splitlines()
        assert said.endswith("profiles.0: a node never leaves in-maintenance (add a transition)")


class TestValidateConfig:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "config").mkdir()
        return tmp_path / "config"

    def run(self, text: str | bytes | None, folder: Path, *words: str) -> int:
        if text is not None:
            (folder / "maintenance.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        code = main(["as", "maintenance-controller", "validate-config", *words])
        assert isinstance(code, int)
        return code

    def test_a_good_file_ends_with_0_and_no_word(self, folder: Path, capsys: Capture) -> None:
        assert self.run(GOOD, folder) == 0
        assert capsys.readouterr() == ("", "")

    def test_another_file_may_be_named(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "other.yaml").write_text(GOOD)
        assert self.run("broken", folder, "other.yaml") == 0

    def test_variables_are_taken_from_the_environment(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ) -> None:
        text = GOOD.replace("${VALUE:x}", "${VALUE}")
        assert self.run(text, folder) == 1
        assert "missing field accessing 'instances.check.0.config.value'" in capsys.readouterr().err
        monkeypatch.setenv("VALUE", "x")
        assert self.run(text, folder) == 0

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            pytest.param(None, "./config/maintenance.yaml: No such file or directory", id="no file"),
            pytest.param("", "config/maintenance.yaml: missing required field accessing 'requeue'", id="an empty file"),
            pytest.param(
                "[unclosed",
                "config/maintenance.yaml:2:1: yaml: line 2: did not find expected ',' or ']'",
                id="no YAML",
            ),
            pytest.param(b"\xff\xff\xff", "config/maintenance.yaml:1:1: yaml: ", id="no text"),
            pytest.param(
                "hello",
                "config/maintenance.yaml:1:1: type 'string' is not supported on top level of config, "
                "only dictionary or list (source:'config/maintenance.yaml')",
                id="a word",
            ),
            pytest.param(
                GOOD.replace("requeue: 30s", "requeue: soon"),
                'config/maintenance.yaml:2:22: time: invalid duration "soon" accessing '
                "'intervals.requeue' (source:'config/maintenance.yaml') (a duration such as 90s or 1h30m, ",
                id="no duration",
            ),
            pytest.param(
                GOOD.replace("hasLabel", "hasLable"),
                'config/maintenance.yaml:5:12: the requested check plugin type "hasLable" is not known to the '
                'registry (did you mean "hasLabel"?)',
                id="an unknown plugin",
            ),
            pytest.param(
                GOOD.replace("check: go", "check: gone"),
                'config/maintenance.yaml:8:39: the requested check instance "gone" is not known to the registry '
                '(did you mean "go"?)',
                id="an unknown instance",
            ),
            pytest.param(
                GOOD.replace("check: go", 'check: "go && (go"'),
                "config/maintenance.yaml:8:39: parsing error: unexpected end instead of ')' at column 10",
                id="an expression",
            ),
            pytest.param(
                GOOD.replace("next: maintenance-required", "next: rebooting"),
                "config/maintenance.yaml:8:49: 'rebooting' is not a valid NodeStateLabel "
                "(operational, maintenance-required, in-maintenance)",
                id="an unknown state",
            ),
            pytest.param(
                GOOD.replace("${VALUE:x}", "${VALUE"),
                "config/maintenance.yaml:5:57: missing '}' parsing splice",
                id="a variable without an end",
            ),
        ],
    )
    def test_the_first_error_in_the_originals_words_with_its_place(
        self, text: str | None, said: str, folder: Path, capsys: Capture
    ) -> None:
        assert self.run(text, folder) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(said), err
        assert len(err.splitlines()) == 1

    def test_what_loads_otherwise_than_meant_is_said_and_no_error(self, folder: Path, capsys: Capture) -> None:
        text = GOOD.replace('value: "${VALUE:x}"', "value: on, vale: x").replace("- name: p", "- name: p\n  enterr: x")
        assert self.run(text, folder) == 0
        ignored = "warning: this key is not known, and ignored"
        assert capsys.readouterr().err.splitlines() == [
            f"{WHERE}:5:57: instances.check.0.config.value: warning: {UNQUOTED}",
            f"{WHERE}:5:61: instances.check.0.config.vale: {ignored} (known: key, value)",
            f"{WHERE}:8:3: profiles.0.enterr: {ignored} (known: in-maintenance, maintenance-required, name, operational)",
        ]
