"""The agent's command line: a mode to run on this host. The commands for authors of packages are in `authoring`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from haulout import __version__
from haulout.agent import console
from haulout.agent.arguments import DRY_RUN
from haulout.agent.errors import AgentError, UsageError

USAGE = """\
Usage: skyhook-agent MODE ROOT_MOUNT COPY_DIR [INTERRUPT_DATA]
       skyhook-agent --version | --help
Haulout's own program has more, for authors of packages: haulout package --help"""
# Without this list `validate PATH` would be a mode that a later version may know: a warning and exit code 0.
AUTHORS_WORDS = ("validate", "digest", "new", "test")


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


def is_for_authors(words: Sequence[str]) -> bool:
    """Whether a command line is one of the tools for authors of packages, or a dry run."""
    return bool(words) and (words[0] in AUTHORS_WORDS or DRY_RUN in words)


def _command(words: Sequence[str]) -> Callable[[Sequence[str]], int]:
    match words[:1]:
        case ["--version"]:
            return version
        case ["--help" | "-h"]:
            return usage
        case _ if is_for_authors(words):
            word = DRY_RUN if DRY_RUN in words else words[0]
            raise UsageError(f"{word} is for authors of packages, and not part of the program for hosts")
        case _:
            return run_mode


def version(words: Sequence[str]) -> int:
    if len(words) > 1:
        raise UsageError("--version takes no arguments")
    console.say(__version__)
    return 0


def usage(words: Sequence[str]) -> int:
    console.say(USAGE)
    return 0


def run_mode(words: Sequence[str]) -> int:
    from haulout.agent.signals import Termination

    termination = Termination()
    termination.install()
    from haulout.agent.arguments import parse_arguments
    from haulout.agent.environment import own_environment
    from haulout.agent.run import run

    return run(parse_arguments(words), own_environment(), termination)
