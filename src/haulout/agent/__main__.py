"""Starts the agent: `python -m haulout.agent MODE ROOT_MOUNT COPY_DIR [DATA]`."""

from __future__ import annotations

import sys

from haulout.agent.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
