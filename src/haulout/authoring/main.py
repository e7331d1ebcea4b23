"""The command line for authors of packages: `haulout package`, and the same words after `skyhook-agent`.

See decision 0160.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from haulout.agent import console
from haulout.agent.arguments import DRY_RUN, parse_arguments
from haulout.agent.environment import own_environment
from haulout.agent.errors import AgentError, UsageError

USAGE = """\
Usage: haulout package new NAME
       haulout package validate PATH [--format text|json]
       haulout package test DIR [--exec local]
       haulout package digest DIR
       haulout package dry-run MODE ROOT_MOUNT COPY_DIR [INTERRUPT_DATA]"""


def main(words: Sequence[str]) -> int:
    """Run the command in the command line. Return the exit code: 0 done, 1 failed, 2 wrong usage."""
    try:
        return _command(words)(words)
    except UsageError as error:
        console.say(f"{error}\n{USAGE}", is_error=True)
        return 2
    except AgentError as error:
        console.say(str(error), is_error=True)
        return 1


def _command(words: Sequence[str]) -> Callable[[Sequence[str]], int]:
    match words[:1]:
        case ["new"]:
            from haulout.authoring.new import main as new

            return new
        case ["validate"]:
            from haulout.authoring.validate import main as validate

            return validate
        case ["test"]:
            from haulout.authoring.trial import main as trial

            return trial
        case ["digest"]:
            return digest
        case ["dry-run"]:
            return lambda words: dry_run(words[1:])
        case _ if DRY_RUN in words:
            return dry_run
        case ["--help" | "-h"] | []:
            return usage
        case _:
            raise UsageError(f"there is no command {words[0]}")


def usage(words: Sequence[str]) -> int:
    console.say(USAGE)
    return 0


def digest(words: Sequence[str]) -> int:
    if len(words) != 2:
        raise UsageError("digest takes one directory")
    from haulout.agent.digest import digest_of

    console.say(digest_of(words[1]))
    return 0


def dry_run(words: Sequence[str]) -> int:
    """Print what a call of the agent would do. The option may stand at any place of the call."""
    from haulout.authoring.dry_run import dry_run as run

    return run(parse_arguments([word for word in words if word != DRY_RUN]), own_environment())
