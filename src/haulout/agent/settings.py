"""The agent's settings from environment variables, with the names and defaults of the original agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from haulout.agent.errors import AgentError, UsageError

DEFAULT_TERMINATION_LOG = "/dev/termination-log"
MOST_DIGITS = 9
MOST_SECONDS = 1e6  # 11 days; poll counts milliseconds in 31 bits


@dataclass(frozen=True, slots=True)
class ResourceId:
    """SKYHOOK_RESOURCE_ID: one generation of one package of one Skyhook."""

    text: str
    owner: str  # <skyhook>-<uid>-<generation>
    package: str
    version: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The agent's environment variables, parsed."""

    resource_id: ResourceId
    state_root: str
    log_root: str
    data_dir: str
    copy_resolv: bool
    always_run_step: bool
    buffer_limit: int
    write_logs: bool
    is_local: bool
    step_delay: float
    step_timeout: float
    log_keep: int
    log_bytes: int
    log_lines: int
    overlays_in_checks: bool
    overlays_only_roots: bool
    honors_on_host: bool
    confirms_by_boot_id: bool
    reboot_wait: float
    boot_id_file: str
    termination_log: str
    keep_copies: int
    copy_mode: int
    tree_digest: str | None


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings, or raise a UsageError for a bad path and an AgentError for any other bad value."""
    reader = _Reader(environ)
    return Settings(
        state_root=reader.path("SKYHOOK_ROOT_DIR", "/etc/skyhook"),
        log_root=reader.path("SKYHOOK_LOG_DIR", "/var/log/skyhook"),
        resource_id=parse_resource_id(environ.get("SKYHOOK_RESOURCE_ID", "")),
        data_dir=environ.get("SKYHOOK_DATA_DIR", "/skyhook-package"),
        copy_resolv=reader.truth("COPY_RESOLV", default=True),
        always_run_step=reader.truth("OVERLAY_ALWAYS_RUN_STEP", default=False),
        buffer_limit=reader.whole("SKYHOOK_AGENT_BUFFER_LIMIT", 8192, least=1),
        write_logs=reader.truth("SKYHOOK_AGENT_WRITE_LOGS", default=True),
        is_local=reader.word("SKYHOOK_AGENT_EXEC_MODE", ("chroot", "local")) == "local",
        step_delay=reader.seconds("SKYHOOK_AGENT_STEP_DELAY", 1.0),
        step_timeout=reader.seconds("SKYHOOK_AGENT_STEP_TIMEOUT", 0.0),
        log_keep=reader.whole("SKYHOOK_AGENT_LOG_KEEP", 5, least=0),
        log_bytes=reader.whole("SKYHOOK_AGENT_LOG_BYTES", 10 << 20, least=0),
        log_lines=reader.whole("SKYHOOK_AGENT_LOG_LINES", 100_000, least=0),
        overlays_in_checks=reader.word("SKYHOOK_AGENT_OVERLAY", ("always", "action-only")) == "always",
        overlays_only_roots=reader.word("SKYHOOK_AGENT_OVERLAY_OWNERS", ("root", "any")) == "root",
        honors_on_host=reader.truth("SKYHOOK_AGENT_HONOR_ON_HOST", default=False),
        confirms_by_boot_id=reader.word("SKYHOOK_AGENT_REBOOT_CONFIRM", ("bootid", "legacy")) == "bootid",
        reboot_wait=reader.seconds("SKYHOOK_AGENT_REBOOT_WAIT", 300.0),
        boot_id_file=environ.get("SKYHOOK_AGENT_BOOT_ID_FILE", "/proc/sys/kernel/random/boot_id"),
        termination_log=environ.get("SKYHOOK_AGENT_TERMINATION_LOG", DEFAULT_TERMINATION_LOG),
        keep_copies=reader.whole("SKYHOOK_AGENT_KEEP_COPIES", 1, least=-1),
        copy_mode=reader.octal("SKYHOOK_AGENT_COPY_MODE", 0o700),
        tree_digest=environ.get("SKYHOOK_PACKAGE_TREE_DIGEST") or None,
    )


def parse_resource_id(text: str) -> ResourceId:
    parts = text.split("_")
    if len(parts) != 3 or not all(parts) or any(bad in part for part in parts for bad in ("/", "..", "\0")):
        raise AgentError("Invalid SKYHOOK_RESOURCE_ID")
    return ResourceId(text, *parts)


def host_path(text: str, name: str) -> str:
    """Return an absolute path without "..", or raise a UsageError that names the argument or variable."""
    if not text.startswith("/") or ".." in text.split("/") or "\0" in text:
        raise UsageError(f"{name} must be an absolute path without '..'")
    return text


@dataclass(frozen=True, slots=True)
class _Reader:
    """A parser of environment variables. Its errors name a variable and what is allowed, never the value."""

    environ: Mapping[str, str]

    def path(self, name: str, default: str) -> str:
        return host_path(self.environ.get(name, default), name)

    def truth(self, name: str, *, default: bool) -> bool:
        return self.environ[name].lower() == "true" if name in self.environ else default

    def word(self, name: str, words: tuple[str, str]) -> str:
        """Return the value of a variable that must be one of two words. The first is the default."""
        word = self.environ.get(name, words[0])
        if word not in words:
            raise AgentError(f"{name} must be {words[0]} or {words[1]}")
        return word

    def whole(self, name: str, default: int, *, least: int) -> int:
        text = self.environ.get(name, str(default))
        if len(text) > MOST_DIGITS:
            raise AgentError(f"{name} must be a whole number of at most {MOST_DIGITS} digits")
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise AgentError(f"{name} must be a whole number, at least {least}")
        return number

    def seconds(self, name: str, default: float) -> float:
        try:
            number = float(self.environ.get(name, default))
        except ValueError:
            number = -1.0
        if not 0 <= number <= MOST_SECONDS:  # this refuses NaN, too
            raise AgentError(f"{name} must be a number of seconds, at most {MOST_SECONDS:g}")
        return number

    def octal(self, name: str, default: int) -> int:
        try:
            mode = int(self.environ[name], 8) if name in self.environ else default
        except ValueError:
            mode = -1
        if not 0 <= mode <= 0o777:
            raise AgentError(f"{name} must be an octal file mode such as 0755")
        return mode
