"""The entry point: runs the command that the arguments name. Only the modules of that command are imported."""

from __future__ import annotations

import os
import sys

AGENT, PROGRAM = "skyhook-agent", "haulout"
# kubectl looks for a program of this name to complete the words after `kubectl haulout`.
COMPLETER = "kubectl_complete-haulout"
TRACEBACK = "HAULOUT_TRACEBACK"
# The exit code of shells for an interrupted program: 128 and the number of SIGINT.
INTERRUPTED = 130


def main() -> int:
    """Run the command that the arguments name. Return its exit code. Users see no traceback unless they ask for it."""
    try:
        return _main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has ended early, as `head` does. At exit Python would write the rest of the buffer and
        # fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        text = " ".join(str(error).split())[:500]
        sys.stderr.write(f"Error: {type(error).__name__}: {text}\n")
        sys.stderr.write(f"This is a bug of haulout. {TRACEBACK}=1 shows where it happened.\n")
        return 1


def _main() -> int:
    # Charts start an original by its name. A link of that name to this program starts it as that original.
    name = sys.argv[0].rpartition("/")[2]
    if name == AGENT or sys.argv[1:3] == ["as", AGENT]:
        # The agent runs on hosts, for a moment and in little memory. It imports nothing of the operator.
        from haulout.agent.main import is_for_authors
        from haulout.agent.main import main as agent

        words = sys.argv[1:] if name == AGENT else sys.argv[3:]
        if is_for_authors(words):
            from haulout.authoring.main import main as authors

            return authors(words)
        return agent(words)

    if name == COMPLETER:
        from haulout.cli.kubectl_completion import complete
        from haulout.runtime.terminal import guard_streams

        guard_streams()
        return complete(sys.argv[1:])

    from haulout.cli.root import main as command_line
    from haulout.runtime.terminal import guard_streams
    from haulout.settings.settings import ClusterSettings, DemoSettings, PlanSettings

    guard_streams()
    # The list of originals is read only if the program's name is not ours, because importing declarations takes time.
    made = command_line(["as", name, *sys.argv[1:]] if name != PROGRAM and _is_original(name) else sys.argv[1:])
    match made:
        case int():
            return made
        case DemoSettings():
            from haulout.app.run import make_process
            from haulout.demo.show import demo

            return demo(made, make_process)
        case ClusterSettings():
            from haulout.demo.cluster import cluster

            return cluster(made)
        case PlanSettings():
            from haulout.plan.command import plan

            return plan(made)
        case _:
            from haulout.app.run import run

            return run(made)


def _is_original(name: str) -> bool:
    from haulout.surfaces.registry import originals, programs

    return name in programs() or name in originals()


if __name__ == "__main__":
    sys.exit(main())
