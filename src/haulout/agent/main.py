"""The agent's command line: a mode to run, or one of the commands for authors of packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from haulout import __version__
from haulout.agent import console
from haulout.agent.errors import AgentError, UsageError

USAGE = """\
Usage: skyhook-agent MODE ROOT_MOUNT COPY_DIR [INTERRUPT_DATA] [--dry-run]
       skyhook-agent validate PATH [--format text|json]
       skyhook-agent digest DIR
       skyhook-agent new NAME
       skyhook-agent test DIR [--exec local]
       skyhook-agent --version | --help"""


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
        case ["--version"]:
            return version
        case ["--help" | "-h"]:
            return usage
        case ["validate"]:
            from haulout.agent.validate import main as validate

            return validate
        case ["digest"]:
            return digest
        case ["new"]:
            from haulout.agent.new import main as new

            return new
        case ["test"]:
            from haulout.agent.trial import main as trial

            return trial
        case _:
            return run_mode


def version(words: Sequence[str]) -> int:
    console.say(__version__)
    return 0


def usage(words: Sequence[str]) -> int:
    console.say(USAGE)
    return 0


def digest(words: Sequence[str]) -> int:
    if len(words) != 2:
        raise UsageError("digest takes one directory")
    from haulout.agent.digest import digest_of

    console.say(digest_of(words[1]))
    return 0


def run_mode(words: Sequence[str]) -> int:
    from haulout.agent.signals import Termination

    termination = Termination()
    termination.install()
    from haulout.agent.arguments import parse_arguments
    from haulout.agent.environment import own_environment

    arguments = parse_arguments(words)
    if arguments.is_dry_run:
        from haulout.agent.dry_run import dry_run

        return dry_run(arguments, own_environment())
    from haulout.agent.run import run

    return run(arguments, own_environment(), termination)
