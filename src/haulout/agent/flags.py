"""Flags: files that record that a step has succeeded, and the rules that decide whether a step runs again."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from haulout.agent.modes import WITHOUT_IDEMPOTENCE
from haulout.agent.package import Package, Step

LONGEST_NAME = 255


def flag_path(package: Package, step: Step) -> str:
    """Return the path of a step's flag below the state root.

    It depends on the arguments and return codes in config.json, not on arguments that the agent adds.
    """
    text = f"{list(step.arguments)!r}_{list(step.returncodes)!r}".encode()
    folder = f"flags/{package.name}/{package.version}"
    path = f"{folder}/{step.path}_{marker(text)}"
    if all(len(part.encode(errors="surrogatepass")) <= LONGEST_NAME for part in path.split("/")):
        return path
    return f"{folder}/{step.path}_sha256-{_sha256(text)}"


def marker(text: bytes) -> str:
    """Return a text as standard base64. Slashes in it make directories of a flag's path, as in the original."""
    return binascii.b2a_base64(text, newline=False).decode()


def _sha256(text: bytes) -> str:
    import hashlib  # imported late: OpenSSL takes 3 MiB, and hardly any flag needs it

    return hashlib.sha256(text).hexdigest()


def flag_text(step: Step, local_now: datetime) -> str:
    return f"last_run: {local_now.isoformat(timespec='microseconds')}\nstep_always_runs: {step.idempotence}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision whether a step runs.

    `why`: the reason, for dry runs. `line`: what the original agent prints about it.
    """

    runs: bool
    why: str
    line: str | None = None


def judge(mode: str, step: Step, shown_flag: str, *, has_flag: bool, always_run: bool) -> Verdict:
    """Decide whether an action step runs."""
    if not has_flag:
        return Verdict(runs=True, why="it has no flag")
    if always_run:
        note = (
            f"WARNING: {shown_flag} exists for {step.path} but OVERLAY_ALWAYS_RUN_STEP flag is set so running anyway."
        )
        return Verdict(runs=True, why="OVERLAY_ALWAYS_RUN_STEP is set", line=note)
    if mode in WITHOUT_IDEMPOTENCE:
        note = "Flag exists but CONFIG, UNINSTALL, and UPGRADE mode don't support idempotence so running step anyway."
        return Verdict(runs=True, why=f"{mode} runs its steps every time", line=note)
    if step.idempotence:
        note = "Flag exists but idempotence is Idempotence.Disabled so running step."
        return Verdict(runs=True, why="it keeps its own idempotence", line=note)
    return Verdict(runs=False, why="its flag exists", line=f"Skipping {step.path} because {shown_flag} exists.")


def header(mode: str, step: Step, arguments: Sequence[str]) -> str:
    """Return the line that is printed before a step."""
    idempotence = "Idempotence.Disabled" if step.idempotence else "Idempotence.Auto"
    return f"{mode} {step.path} {list(arguments)!r} {list(step.returncodes)!r} {idempotence} {step.on_host}"
