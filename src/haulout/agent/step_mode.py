"""A mode with steps as a generator of acts, without I/O: it yields each act, and the shell sends back the answer."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from haulout.agent.acts import (
    Act,
    Answer,
    LockPackage,
    MoveState,
    Outcome,
    Overlay,
    PruneLogs,
    RaiseFlag,
    Release,
    RemoveCopies,
    RemoveState,
    Reserve,
    RunStep,
    Say,
    SkipStep,
    Tighten,
    Wait,
    WriteState,
)
from haulout.agent.flags import flag_path, flag_text, header, judge
from haulout.agent.history import UNINSTALLED, History, history_path, history_text
from haulout.agent.logs import log_name
from haulout.agent.modes import (
    REMOVING_COPIES,
    WITH_VERSIONS,
    WITHOUT_OVERLAY,
    WRITING_HISTORY,
    is_check,
)
from haulout.agent.package import Package, Step
from haulout.agent.record import FailedStep, Result, failure_result
from haulout.agent.settings import Settings
from haulout.agent.view import View, read_history

Acts = Generator[Act, Answer, Result]
CHECK_RESULTS = "check_results"


@dataclass(frozen=True, slots=True)
class StepJob:
    """One run of a mode with steps, for a package on a host."""

    mode: str
    package: Package
    settings: Settings
    root_mount: str

    def mounted_path(self, path: str) -> str:
        """Return the path of a state file as the agent sees it, below the root mount."""
        return f"{self.root_mount.rstrip('/')}{self.settings.state_root}/{path}"


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step with the versions that upgrade modes add to its arguments and environment."""

    step: Step
    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How one step ended. A `failure` of None means that it succeeded.

    log: the path of its log, below the log root.
    line: what is printed about it; None if it did not run.
    """

    failure: FailedStep | None
    log: str | None = None
    line: str | None = None


def step_mode(job: StepJob, view: View) -> Acts:
    """Run a mode from locking the package to writing the history."""
    yield from warn_of_version(job)
    yield LockPackage(job.package.name)
    yield Tighten(has_package=True)
    if job.mode not in WITHOUT_OVERLAY:
        if view.has_overlay() and (job.settings.overlays_in_checks or not is_check(job.mode)):
            yield Overlay()
        for name in job.package.expected_config_files:
            if not view.has_config_file(name):
                text = f"Expected config file {name} not found in configmaps directory."
                yield Say(text, is_error=True)
                return failure_result(text)
    yield WriteState("flags/START", "", "every mode writes it", is_durable=False)
    if not job.package.steps(job.mode):
        yield Say(f"WARNING:root: There are no {job.mode} steps defined. This will be ran as a no-op.", is_error=True)
    result = yield from checks(job, view) if is_check(job.mode) else actions(job, view)
    if result.exit_code == 0:
        yield from conclude(job, view)
    return result


def warn_of_version(job: StepJob) -> Generator[Act, Answer, None]:
    requested = job.settings.resource_id.version
    if job.package.version != requested:
        text = f"WARNING: package_version {job.package.version} differs from requested version {requested}"
        yield Say(text, is_error=True)


def actions(job: StepJob, view: View) -> Acts:
    """Run the steps of an action mode until one fails; write a flag for each that succeeds.

    The flag comes first after a success: whatever fails or blocks after it does not make the step run again.
    """
    ran = skipped = 0
    log: str | None = None
    steps = job.package.steps(job.mode)
    for step in steps:
        if view.is_terminated():
            return Result("terminated", ran, skipped, log=log)
        flag = flag_path(job.package, step)
        prepared = yield from prepare(job, view, step)
        always_run = job.settings.always_run_step
        verdict = judge(job.mode, step, job.mounted_path(flag), has_flag=view.has_state(flag), always_run=always_run)
        if verdict.line is not None:
            yield Say(verdict.line)
        if not verdict.runs:
            yield SkipStep(step, verdict.why)
            skipped += 1
            continue
        yield Reserve(job.package.name, flag)
        end = yield from run(job, view, prepared, verdict.why)
        if end.failure is None:
            yield RaiseFlag(job.package.name, flag, flag_text(step, view.local_now()))
        else:
            yield Release(job.package.name)
        log = (yield from report(job, end)) or log
        if end.failure is not None:
            return Result("failed", ran, skipped, end.failure, log=log)
        ran += 1
    return Result("succeeded" if steps else "noop", ran, skipped, log=log)


def checks(job: StepJob, view: View) -> Acts:
    """Run all steps of a check mode, even after one has failed, and write the results to a file."""
    steps = job.package.steps(job.mode)
    ends: list[StepEnd] = []
    log: str | None = None
    for step in steps:
        if view.is_terminated():
            return Result("terminated", len(ends), log=log)
        prepared = yield from prepare(job, view, step)
        end = yield from run(job, view, prepared, "checks always run")
        ends.append(end)
        log = (yield from report(job, end)) or log
    if not steps:
        return Result("noop")
    yield from write_check_results(job, steps, ends)
    first = next((end for end in ends if end.failure is not None), None)
    if first is not None:
        return Result("failed", len(ends), failed_step=first.failure, log=shown_log(job, first))
    yield WriteState(f"flags/{job.mode}_ALL_CHECKED", "", "all checks succeeded", is_durable=False)
    return Result("succeeded", len(ends), log=log)


def write_check_results(job: StepJob, steps: tuple[Step, ...], ends: list[StepEnd]) -> Generator[Act, Answer, None]:
    """Write the results of the checks to a shared file and, if a check failed, also to a file of the package.

    The package has its own file because other packages overwrite the shared one. It is removed after a success, because
    the original agent leaves nothing but the flags of steps in the package's directory.
    """
    pairs = zip(steps, ends, strict=True)
    text = "\n".join(f"{step.path} {end.failure is not None}" for step, end in pairs)
    yield WriteState(f"flags/{CHECK_RESULTS}", text, "it has the results of the checks", is_durable=False)
    own = f"flags/{job.package.name}/{job.package.version}/{CHECK_RESULTS}"
    if any(end.failure for end in ends):
        yield WriteState(own, text, "it has the results of the checks of this package", is_durable=False)
    else:
        yield RemoveState(own, "no check fails any more")


def prepare(job: StepJob, view: View, step: Step) -> Generator[Act, Answer, PreparedStep]:
    """Return a step with its arguments and environment, to which upgrade modes add both versions."""
    if job.mode not in WITH_VERSIONS:
        return PreparedStep(step, step.arguments, step.env)
    history = yield from load_history(job, view)
    versions = (history.current_version, job.package.version)
    arguments = (*step.arguments, *versions) if step.upgrade_step else step.arguments
    return PreparedStep(step, arguments, {**step.env, "PREVIOUS_VERSION": versions[0], "CURRENT_VERSION": versions[1]})


def load_history(job: StepJob, view: View) -> Generator[Act, Answer, History]:
    path = history_path(job.package.name)
    history, is_corrupt = read_history(view, path)
    if is_corrupt:
        yield MoveState(path, f"{path}.backup", "it is not a history")
        backup = job.mounted_path(f"{path}.backup")
        yield Say(f"Failed to load existing history, corrupt history file moved to {backup}...")
    elif not view.has_state(path):
        yield Say(f"no existing history found for {job.package.name}, could be first installation...")
    return history


def run(job: StepJob, view: View, prepared: PreparedStep, why: str) -> Generator[Act, Answer, StepEnd]:
    """Print the header and run one step."""
    step = prepared.step
    yield Say(header(job.mode, step, prepared.arguments))
    arguments, missing = resolve(prepared.arguments, view.environ)
    for name in missing:
        yield Say(f"{step.path}: Expected environment variable did not exist: {name}")
    if missing:
        return StepEnd(FailedStep(step.name, step.path, None))
    yield Wait(job.settings.step_delay)
    log = log_of(job, f"{job.package.name}/{job.package.version}/{step.path}", view)
    outcome = yield RunStep(step, why, log, arguments, prepared.env)
    assert isinstance(outcome, Outcome)
    failure = failure_of(step, outcome)
    command_line = f"{step.path} {' '.join(prepared.arguments)}"
    return StepEnd(failure, log, f"FAILED: {command_line} {outcome.code}" if failure else f"SUCEEDED: {command_line}")


def report(job: StepJob, end: StepEnd) -> Generator[Act, Answer, str | None]:
    """Print how a step ended, and remove its old logs. Return the path of its log on the host."""
    if end.line is not None:
        yield Say(end.line)
    if end.log is not None:
        yield PruneLogs(end.log)
    return shown_log(job, end)


def shown_log(job: StepJob, end: StepEnd) -> str | None:
    return end.log and f"{job.settings.log_root}/{end.log}"


def failure_of(step: Step, outcome: Outcome) -> FailedStep | None:
    """Return the failure of a step; None if it succeeded.

    A step that was killed, timed out or did not start has failed, whatever return codes are allowed.
    """
    is_regular = outcome.is_started and not outcome.has_timed_out and outcome.signal is None
    if is_regular and outcome.code in step.returncodes:
        return None
    return FailedStep(step.name, step.path, outcome.code, outcome.signal, outcome.has_timed_out)


def resolve(arguments: tuple[str, ...], environ: Mapping[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the arguments with env:NAME replaced by variables, and the names of variables that do not exist."""
    names = {argument: argument.split("env:")[1] for argument in arguments if argument.startswith("env:")}
    missing = [names[argument] for argument in arguments if argument in names and names[argument] not in environ]
    if missing:
        return (), missing
    return tuple(environ[names[one]] if one in names else one for one in arguments), []


def log_of(job: StepJob, stem: str, view: View) -> str | None:
    return log_name(stem, view.utc_now()) if job.settings.write_logs else None


def conclude(job: StepJob, view: View) -> Generator[Act, Answer, None]:
    """Write the history after the checks that end an installation; clean up after the checks that end a stage."""
    if job.mode in WRITING_HISTORY:
        history = yield from load_history(job, view)
        version = UNINSTALLED if job.mode == "uninstall-check" else job.package.version
        text = history_text(history, version, view.utc_now())
        yield WriteState(history_path(job.package.name), text, f"its current version is now {version}")
    if job.mode == "uninstall-check":
        for flag in dict.fromkeys(
            flag_path(job.package, step) for steps in job.package.modes.values() for step in steps
        ):
            yield RemoveState(flag, "the package is uninstalled")
    if job.mode in REMOVING_COPIES and job.settings.keep_copies >= 0:
        yield RemoveCopies()
