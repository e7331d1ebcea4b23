"""The entry point: hands the words to the command that they name, importing nothing that it does not need."""

from __future__ import annotations

import sys


def main() -> int:
    from haulout.cli.root import main as command_line

    made = command_line(sys.argv[1:])
    if isinstance(made, int):
        return made
    from haulout.app.process import run

    return run(made)


if __name__ == "__main__":
    sys.exit(main())
