"""`haulout.yaml`, environment variables and flags: the settings that they make, and all errors at once."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from haulout.cli.root import main
from haulout.settings.blocks import DrainBlock, File, LeaderBlock, ListenBlock, TracesBlock, WebhooksBlock
from haulout.settings.file import SettingsProblem, read_settings
from haulout.settings.lint import lint_file
from haulout.settings.settings import Lease, PodRule, PodRules, Settings, Webhooks
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.nodemaintenance.settings import DrainDefaults, NodeMaintenanceSettings
from haulout.surfaces.profiles.settings import EsxSettings, KubernikusSettings, ProfilesSettings

SOURCE = "haulout.yaml"
ON = "surfaces: {profiles: {}}\n"
NO_ADDRESS = 'is not an address to listen on (HOST:PORT, ":PORT", or "0" for none)'


def settings(
    text: str = ON, environment: Mapping[str, str] | None = None, surfaces: str = "", **flags: str
) -> Settings:
    """Return the settings of a text. Flags are named by their path, with two underscores for a dot."""
    given = {name.replace("__", "."): value for name, value in flags.items()}
    return read_settings(textwrap.dedent(text).encode(), SOURCE, environment or {}, given, surfaces)


def profiles(made: Settings) -> ProfilesSettings:
    block = made.of(ProfilesSettings)
    assert block is not None
    return block


def problems(text: str, environment: Mapping[str, str] | None = None, surfaces: str = "", **flags: str) -> list[str]:
    with pytest.raises(SettingsProblem) as caught:
        settings(text, environment, surfaces, **flags)
    return caught.value.lines


def test_a_file_that_only_switches_a_surface_on_has_the_defaults() -> None:
    assert settings() == Settings(
        http=":8080",
        health=":8081",
        webhooks=Webhooks(address=":9443", outside="haulout-system"),
        lease=Lease("haulout", outside="haulout-system", duration=15, renew_within=10, retry=2, release=True),
        turns=True,
        log_format="json",
        log_level=logging.INFO,
        blocks={"profiles": ProfilesSettings()},
        pod_rules=PodRules(annotation=True),
        file=SOURCE,
    )


def test_every_setting_of_the_file_arrives() -> None:
    made = settings(
        """
        namespace: maintenance
        kubeconfig: /etc/kube
        context: home
        log: {format: console, level: debug}
        listen: {http: "127.0.0.1:9000", health: "0"}
        leader: {elect: true, lease: other}
        surfaces:
          profiles: {config: /etc/maintenance.yaml}
        """
    )
    assert (made.namespace, made.kubeconfig, made.context) == ("maintenance", "/etc/kube", "home")
    assert (made.log_format, made.log_level) == ("console", logging.DEBUG)
    assert (made.http, made.health) == ("127.0.0.1:9000", "0")
    assert made.lease == Lease("other", "maintenance", "haulout-system")
    assert made.blocks == {"profiles": ProfilesSettings(config="/etc/maintenance.yaml")}


def test_kubernikus_is_switched_on_by_itself() -> None:
    made = settings("surfaces: {profiles: {kubernikus: {enabled: true, config: /k.yaml, credentials: /c.conf}}}")
    assert profiles(made).kubernikus == KubernikusSettings(enabled=True, config="/k.yaml", credentials="/c.conf")
    assert not profiles(settings()).kubernikus.enabled
    assert profiles(settings(ON, {"HAULOUT_SURFACES__PROFILES__KUBERNIKUS__ENABLED": "true"})).kubernikus.enabled
    assert problems("surfaces: {profiles: {kubernikus: {config: ''}}}") == [
        "haulout.yaml:1:36: surfaces.profiles.kubernikus.config: empty (the path of a file)"
    ]


def test_esx_is_switched_on_by_itself() -> None:
    assert profiles(settings("surfaces: {profiles: {esx: {enabled: true}}}")).esx == EsxSettings(
        enabled=True, config="config/esx.yaml"
    )
    assert profiles(settings("surfaces: {profiles: {esx: {config: /e.yaml}}}")).esx == EsxSettings(
        enabled=False, config="/e.yaml"
    )


def test_without_election_there_is_no_lease() -> None:
    assert settings(f"{ON}leader: {{elect: false}}").lease is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("surfaces:\n  profiles:\n", id="an empty block"),
        pytest.param("log:\nlisten:\nnamespace:\nsurfaces: {profiles: {config: }}\n", id="nulls are as good as absent"),
        pytest.param("---\nsurfaces: {profiles: {}}\n---\n", id="nothing in a second document"),
    ],
)
def test_defaults_stand_for_what_is_not_there(text: str) -> None:
    assert settings(text) == settings()


def test_nothing_in_the_file_is_passed_over() -> None:
    rules = "drain:\n  rules:\n  - {action: wait, action: evict}\n"
    more = "(write everything above the ---, or take it away)"
    assert problems(f"log: {{level: info}}\n{ON}{rules}log: {{levl: info}}\n---\na: 1\n") == [
        "haulout.yaml:5:20: drain.rules.0.action: set in line 5 already (keep one of them)",
        "haulout.yaml:6:1: log: set in line 1 already (keep one of them)",
        "haulout.yaml:6:7: log.levl: unknown setting (did you mean level?)",
        f"haulout.yaml:7:1: another document begins, and only the first one is read {more}",
    ]


WAYS = "self, cert-manager, or a directory with a slash in it, such as"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("selff", f"did you mean self? else {WAYS} ./selff"),
        ("certmanager", f"did you mean cert-manager? else {WAYS} ./certmanager"),
        ("original", f"{WAYS} ./original"),
    ],
)
def test_certificates_that_are_neither_known_nor_a_directory(text: str, right: str) -> None:
    said = f"webhooks.certificates: {text!r} is not known here ({right})"
    assert problems(f"{ON}webhooks: {{certificates: {text}}}") == [f"haulout.yaml:2:12: {said}"]
    variable = "HAULOUT_WEBHOOKS__CERTIFICATES"
    assert problems(ON, {variable: text}) == [f"{variable}: {said}"]


@pytest.mark.parametrize("text", ["self", "cert-manager", "/certs", "./certs", "certs/"])
def test_certificates(text: str) -> None:
    assert settings(f"{ON}webhooks: {{certificates: {text}}}").webhooks.certificates == text


ENVIRONMENT = {"HAULOUT_LOG__LEVEL": "warning", "HAULOUT_NAMESPACE": "environment"}


class TestWhoWins:
    FILE = f"{ON}log: {{level: error}}\nnamespace: file\nleader: {{elect: true}}\n"

    def test_the_environment_over_the_file(self) -> None:
        made = settings(self.FILE, ENVIRONMENT)
        assert (made.log_level, made.namespace) == (logging.WARNING, "environment")

    def test_flags_over_both(self) -> None:
        made = settings(self.FILE, ENVIRONMENT, log__level="debug")
        assert (made.log_level, made.namespace) == (logging.DEBUG, "environment")

    def test_a_wrong_value_that_is_overruled_does_no_harm(self) -> None:
        assert settings(f"{ON}log: {{level: loud}}", ENVIRONMENT).log_level == logging.WARNING

    @pytest.mark.parametrize(("text", "elected"), [("false", False), ("FALSE", False), ("true", True)])
    def test_truths_in_the_environment(self, text: str, elected: bool) -> None:
        assert (settings(self.FILE, {"HAULOUT_LEADER__ELECT": text}).lease is not None) is elected

    def test_a_setting_in_the_environment_switches_its_surface_on(self) -> None:
        made = settings("", {"HAULOUT_SURFACES__PROFILES__CONFIG": "/etc/m.yaml"})
        assert profiles(made).config == "/etc/m.yaml"

    def test_unknown_variables_are_not_ours_to_judge(self) -> None:
        """A Service called haulout makes some of these."""
        odd = {"HAULOUT_PORT": "tcp://10.0.0.1:8080", "HAULOUT_SERVICE_HOST": "10.0.0.1", "HAULOUT_LOG_LEVEL": "x"}
        assert settings(ON, odd) == settings()

    def test_names_with_capitals_in_a_row(self) -> None:
        assert settings(ON, {"HAULOUT_DRAIN__HONOR_CLUSTER_API_LABEL": "true"}).pod_rules.cluster_api_label

    def test_a_value_that_is_overridden_is_not_read(self) -> None:
        text = ON + "leader: {elect: [3]}\n"
        assert settings(text, {"HAULOUT_LEADER__ELECT": "true"}) == settings(ON)
        (problem,) = problems(text, {"HAULOUT_LEADER__ELECT": "perhaps"})
        assert problem.startswith("HAULOUT_LEADER__ELECT: leader.elect: 'perhaps' is neither true nor false")

    def test_a_block_around_an_overridden_value_is_read(self) -> None:
        (problem,) = problems(ON + "leader: 3\n", {"HAULOUT_LEADER__ELECT": "true"})
        assert problem == "haulout.yaml:2:9: leader: a map of settings belongs here (write name: value)"

    def test_rules_in_the_environment_are_refused(self) -> None:
        (problem,) = problems(ON, {"HAULOUT_DRAIN__RULES": "x"})
        assert problem.startswith("HAULOUT_DRAIN__RULES: drain.rules: rules can be given in the file alone")

    def test_picked_surfaces_need_no_block(self) -> None:
        assert profiles(settings("", surfaces="profiles")).config == "config/maintenance.yaml"

    def test_picked_surfaces_keep_their_block(self) -> None:
        made = settings("surfaces: {profiles: {config: x.yaml}}", surfaces=" profiles ,")
        assert profiles(made).config == "x.yaml"


def test_how_long_a_request_may_take() -> None:
    assert settings(f"requestTimeout: 1500ms\n{ON}").request_for == 1.5
    assert settings(ON, {"HAULOUT_REQUEST_TIMEOUT": "5s"}).request_for == 5.0


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("0s", "'0s' is no time for a request"),
        ("31s", "'31s' is no time for a request"),
        ("soon", 'time: invalid duration "soon"'),
    ],
)
def test_how_long_a_request_cannot_take(text: str, wrong: str) -> None:
    right = "a duration such as 10s, of at most 30s"
    assert problems(f"requestTimeout: {text}\n{ON}") == [f"haulout.yaml:1:1: requestTimeout: {wrong} ({right})"]


def test_the_last_scrape() -> None:
    made = settings("surfaces: {profiles: {metricsTimeout: 1m}}")
    assert made.of(ProfilesSettings) == ProfilesSettings(metrics_timeout=timedelta(minutes=1))
    (problem,) = problems("surfaces: {profiles: {metricsTimeout: -1s}}")
    assert problem.startswith("haulout.yaml:1:23: surfaces.profiles.metricsTimeout: '-1s' is negative (")


def test_leases_of_originals() -> None:
    made = settings(
        "surfaces: {profiles: {lease: {namespace: a}}, nodemaintenance: {}, clusterapi: {lease: {namespace: b}}}"
    )
    assert made.surface_leases == {"profiles": "a", "clusterapi": "b"}


class TestPage:
    PAGE = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()

    def test_it_shows_every_setting_with_its_default(self) -> None:
        example = self.PAGE.partition("```yaml\n")[2].partition("```")[0]
        picked = "profiles,nodemaintenance,clusterapi"
        assert settings(example, surfaces=picked) == settings("", surfaces=picked)
        blocks = (
            *(File, ListenBlock, LeaderBlock, WebhooksBlock, DrainBlock, TracesBlock),
            *(ProfilesSettings, NodeMaintenanceSettings),
        )
        names = {field.encode_name for block in blocks for field in msgspec.structs.fields(block)}
        assert [name for name in sorted(names) if f"{name}:" not in self.PAGE] == []


class TestLint:
    @pytest.mark.parametrize(
        ("name", "text", "found"),
        [
            ("a.yaml", "log: {level: loud}\n", "a.yaml:1:7: error: log.level: 'loud' is no log level"),
            ("haulout.yaml", "", "haulout.yaml:1:1: warning: surfaces: no surface is switched on"),
        ],
        ids=["by its keys", "by its name"],
    )
    def test_settings_are_known_without_surfaces(self, name: str, text: str, found: str) -> None:
        (finding,) = lint_file(text.encode(), name, {})
        assert str(finding).startswith(found)


def test_maintenances_and_rules_for_pods() -> None:
    made = settings(
        """
        drain:
          honorPodAnnotations: false
          honorClusterAPILabel: true
          rules:
          - {action: Wait, namespaces: [batch], controllerKinds: [Job], order: 2}
          - action: block
            selector: app in (a, b)
        surfaces:
          nodemaintenance:
            leaseDuration: 90s
            maxConcurrentMaintenances: 3
            restoreNodeState: false
            drain: {timeoutSeconds: 60, force: false, podSelector: a=b}
        """
    )
    assert made.pod_rules == PodRules(
        rules=(
            PodRule(action="wait", namespaces=("batch",), controller_kinds=("Job",), order=2),
            PodRule(action="block", selector="app in (a, b)"),
        ),
        cluster_api_label=True,
    )
    maintenances = NodeMaintenanceSettings(
        lease_duration=timedelta(seconds=90),
        max_concurrent_maintenances=3,
        restore_node_state=False,
        drain=DrainDefaults(force=False, timeout_seconds=60, pod_selector="a=b"),
    )
    assert made.blocks == {"nodemaintenance": maintenances}


class TestClusterApi:
    def test_a_block_switches_it_on_as_the_original_is(self) -> None:
        made = settings("surfaces: {clusterapi: {}}")
        assert made.blocks == settings("", surfaces="clusterapi").blocks == {"clusterapi": ClusterApiSettings()}
        assert settings().of(ClusterApiSettings) is None

    def test_every_setting_arrives(self) -> None:
        made = settings(
            """
            surfaces:
              clusterapi:
                enableMetal3Maintenance: true
                allowExecKubeconfigs: true
                guardRemediation: true
                approvalHygiene: true
                deletionApprovalTimeout: 90m
                preferLimitedKubeconfigs: true
                rebootModeAnnotation: true
                workloadRequests: true
            """
        )
        assert made.of(ClusterApiSettings) == ClusterApiSettings(
            enable_metal3_maintenance=True,
            allow_exec_kubeconfigs=True,
            guard_remediation=True,
            approval_hygiene=True,
            deletion_approval_timeout=timedelta(minutes=90),
            prefer_limited_kubeconfigs=True,
            reboot_mode_annotation=True,
            workload_requests=True,
        )

    @pytest.mark.parametrize(
        ("name", "text", "made"),
        [
            ("ENABLE_METAL3_MAINTENANCE", "true", ClusterApiSettings(enable_metal3_maintenance=True)),
            ("DELETION_APPROVAL_TIMEOUT", "1h", ClusterApiSettings(deletion_approval_timeout=timedelta(hours=1))),
        ],
    )
    def test_in_the_environment(self, name: str, text: str, made: ClusterApiSettings) -> None:
        assert settings("", {f"HAULOUT_SURFACES__CLUSTERAPI__{name}": text}).of(ClusterApiSettings) == made

    def test_problems(self) -> None:
        text = """\
        surfaces:
          clusterapi:
            enableMetal3Maintenance: yes please
            guardRemediaton: true
            deletionApprovalTimeout: -5m
        """
        path = "surfaces.clusterapi"
        assert problems(text) == [
            f"haulout.yaml:3:5: {path}.enableMetal3Maintenance: not a truth value (true or false)",
            f"haulout.yaml:4:5: {path}.guardRemediaton: unknown setting (did you mean guardRemediation?)",
            f"haulout.yaml:5:5: {path}.deletionApprovalTimeout: '-5m0s' is negative (a duration such as 90m; 0 for never)",
        ]

    def test_what_is_no_duration(self) -> None:
        (problem,) = problems("surfaces: {clusterapi: {deletionApprovalTimeout: 90}}")
        assert problem.startswith("haulout.yaml:1:25: surfaces.clusterapi.deletionApprovalTimeout: ")


class TestProblems:
    def test_all_are_told_at_once_from_top_to_bottom(self) -> None:
        text = """\
        log: {level: loud, format: xml, colour: red}
        listen:
          http: 80a
          helth: ":8081"
        leader: {elect: maybe, lease: [a]}
        namespace: {a: b}
        context: yes
        kubeconfig: 1.5
        surface: {}
        surfaces:
          profiles: {confg: x}
          machines: {}
        """
        environment = {"HAULOUT_LISTEN__HEALTH": "everywhere"}
        assert problems(text, environment, "profiles,ghosts") == [
            "--surfaces: there is no surface 'ghosts' (there are: profiles, nodemaintenance, clusterapi, notify, packages)",
            f"HAULOUT_LISTEN__HEALTH: listen.health: 'everywhere' {NO_ADDRESS}",
            "haulout.yaml:1:7: log.level: 'loud' is no log level (one of debug, info, warning, error)",
            "haulout.yaml:1:20: log.format: 'xml' is no log format (one of json, console)",
            "haulout.yaml:1:33: log.colour: unknown setting (known are: format, level)",
            f"haulout.yaml:3:3: listen.http: '80a' {NO_ADDRESS}",
            "haulout.yaml:4:3: listen.helth: unknown setting (did you mean health?)",
            "haulout.yaml:5:10: leader.elect: not a truth value (true or false)",
            "haulout.yaml:5:24: leader.lease: not a text (a single value, in quotes where in doubt)",
            "haulout.yaml:6:1: namespace: not a text (a single value, in quotes where in doubt)",
            "haulout.yaml:7:1: context: not a text (a single value, in quotes where in doubt)",
            "haulout.yaml:8:1: kubeconfig: not a text (a single value, in quotes where in doubt)",
            "haulout.yaml:9:1: surface: unknown setting (did you mean surfaces?)",
            "haulout.yaml:11:14: surfaces.profiles.confg: unknown setting (did you mean config?)",
            "haulout.yaml:12:3: surfaces.machines: unknown setting (known are: profiles, nodemaintenance, clusterapi, notify, packages)",
        ]

    @pytest.mark.parametrize(
        ("setting", "wrong"),
        [
            ("leaseDuration: 0s", "'0s' is too short"),
            ("leaseDuration: -1h", "'-1h0m0s' is too short"),
            ("skipUnreachableAfter: -1s", "'-1s' is negative"),
            ("maxConcurrentMaintenances: -1", "-1 is negative"),
            ("maxConcurrentMaintenances: 1.5", "not a whole number"),
            ("drain: {timeoutSeconds: -1}", "-1 is negative"),
            ("drain: {deadlineSeconds: -1}", "-1 is negative"),
            ("lease: {}", "empty"),
        ],
    )
    def test_what_is_out_of_bounds(self, setting: str, wrong: str) -> None:
        (problem,) = problems(f"surfaces: {{nodemaintenance: {{{setting}}}}}")
        assert problem.startswith("haulout.yaml")
        assert f": {wrong} (" in problem

    def test_a_restart_policy_that_there_is_not(self) -> None:
        (problem,) = problems(f"{ON}drain: {{rules: [{{action: wait, restartPolicies: [Never, Seldom]}}]}}")
        where = "haulout.yaml:2:57: drain.rules.0.restartPolicies.1"
        assert problem == f"{where}: 'Seldom' is not known here (one of Always, OnFailure, Never)"

    def test_a_grace_period_below_zero_is_the_pods_own(self) -> None:
        assert settings("surfaces: {nodemaintenance: {drain: {gracePeriodSeconds: -1}}}").of(NodeMaintenanceSettings)

    def test_those_of_maintenances_and_rules(self) -> None:
        text = """\
        drain:
          rules:
          - {action: shoot, selector: "a in b"}
          - nonsense
        surfaces:
          nodemaintenance:
            leaseDuration: soon
            maxConcurrentMaintenances: many
            evictionBackend: bribe
            drain: {deadlineAction: Pray, podSelector: "!"}
        """
        found = problems(text)
        assert [line.split(": ")[1] for line in found] == [
            "drain.rules.0.action",
            "drain.rules.0.selector",
            "drain.rules.1",
            "surfaces.nodemaintenance.leaseDuration",
            "surfaces.nodemaintenance.maxConcurrentMaintenances",
            "surfaces.nodemaintenance.evictionBackend",
            "surfaces.nodemaintenance.drain.deadlineAction",
            "surfaces.nodemaintenance.drain.podSelector",
        ]
        assert all(line.startswith("haulout.yaml:") and line.endswith(")") for line in found)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            pytest.param("log: [\n", "haulout.yaml:2:1: did not find expected node content", id="not YAML"),
            pytest.param(
                "a: b: c\n", "haulout.yaml:1:5: mapping values are not allowed in this context", id="nor this"
            ),
            pytest.param(
                "hello\n", "haulout.yaml:1:1: a map of settings belongs here (write name: value)", id="a word"
            ),
            pytest.param(
                "- a\n- b\n", "haulout.yaml:1:1: a map of settings belongs here (write name: value)", id="a list"
            ),
            pytest.param("1: 2\n", "haulout.yaml:1:1: string key required, but found int", id="a number for a key"),
            pytest.param(
                f"{ON}log: debug\n",
                "haulout.yaml:2:6: log: a map of settings belongs here (write name: value)",
                id="a word for a block",
            ),
            pytest.param(
                "surfaces: {profiles: false}\n",
                "haulout.yaml:1:22: surfaces.profiles: a map of settings belongs here (write name: value)",
                id="a truth for a surface",
            ),
            pytest.param(
                f"{ON}leader: {{lease: ''}}\n",
                "haulout.yaml:2:10: leader.lease: empty (the name of a Lease)",
                id="a lease without a name",
            ),
            pytest.param(
                "surfaces: {profiles: {config: ''}}\n",
                "haulout.yaml:1:23: surfaces.profiles.config: empty (the path of a maintenance.yaml)",
                id="a surface without its file",
            ),
            pytest.param(
                "",
                "haulout.yaml: no surface is switched on (surfaces: {profiles: {}} or --surfaces profiles)",
                id="nothing to do",
            ),
        ],
    )
    def test_each_says_where_and_what_would_be_right(self, text: str, problem: str) -> None:
        assert problems(text) == [problem]

    @pytest.mark.parametrize("address", [":70000", "nowhere:", ":", "127.0.0.1", "a:b", ":-1", ":８０"])
    def test_what_is_no_address(self, address: str) -> None:
        (problem,) = problems(ON, listen__http=address)
        assert problem == f"--listen-http: listen.http: {address!r} {NO_ADDRESS}"

    @pytest.mark.parametrize("address", [":8080", "0", "127.0.0.1:0", "[::1]:80", "localhost:65535"])
    def test_what_is_one(self, address: str) -> None:
        assert settings(listen__health=address).health == address


class TestRun:
    """The command reads the file, and returns the settings of the process to start."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("HAULOUT_TEST", raising=False)
        return tmp_path

    def test_reads_the_file_beside_it(self, folder: Path) -> None:
        (folder / SOURCE).write_text(f"{ON}namespace: here\n")
        made = main(["run"])
        assert isinstance(made, Settings)
        assert made.namespace == "here"

    def test_can_do_without_a_file(self) -> None:
        made = main(["run", "--surfaces", "profiles", "--leader-elect", "no"])
        assert isinstance(made, Settings)
        assert made.lease is None

    def test_flags_win(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "other.yaml").write_text(f"{ON}log: {{level: error, format: json}}\n")
        monkeypatch.setenv("HAULOUT_LOG__LEVEL", "warning")
        words = ["--config", "other.yaml", "--log-level", "debug", "-n", "ns", "--listen-http", ":1"]
        made = main(["run", *words, "--kubeconfig", "k", "--context", "c", "--listen-health", "0"])
        assert isinstance(made, Settings)
        assert (made.log_level, made.log_format) == (logging.DEBUG, "json")
        assert (made.namespace, made.http, made.health, made.kubeconfig, made.context) == ("ns", ":1", "0", "k", "c")

    def test_as_somebody_else(self) -> None:
        made = main(["run", "--surfaces", "profiles", "--as", "deputy", "--as-group", "a", "--as-group", "b"])
        assert isinstance(made, Settings)
        assert (made.as_user, made.as_groups) == ("deputy", ("a", "b"))

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            pytest.param(["--as-group", "g"], 2, "--as-group needs --as", id="a group without a user"),
            pytest.param(["--config", "absent.yaml"], 1, "absent.yaml: No such file or directory", id="no file"),
            pytest.param(["--config", "."], 1, ".: Is a directory", id="a directory"),
            pytest.param(["--surfaces", "ghosts"], 1, "there is no surface 'ghosts'", id="an unknown surface"),
            pytest.param(["--log-level", "loud", "--surfaces", "profiles"], 1, "--log-level: log.level:", id="a level"),
            pytest.param([], 1, "there is no haulout.yaml here (`haulout init`", id="nothing to do"),
            pytest.param(["--nonsense"], 2, "No such option", id="an unknown flag"),
            pytest.param(["--leader-elect", "perhaps"], 2, "is not a valid boolean", id="no truth"),
            pytest.param(["what", "else"], 2, "unexpected extra argument", id="too many words"),
        ],
    )
    def test_what_is_wrong_is_said_on_stderr(
        self, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["run", *words]) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err
        assert "Traceback" not in err

    def test_every_problem_is_a_line(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / SOURCE).write_text("log: {level: loud}\nfoo: 1\n")
        assert main(["run"]) == 1
        lines: list[Any] = capsys.readouterr().err.splitlines()
        assert [line.removeprefix("Error: ").split(" ")[0] for line in lines] == [
            "haulout.yaml:1:7:",
            "haulout.yaml:2:1:",
        ]
