#!/bin/sh
# Prints the Python that `make` uses for its virtual environment: `python3`, or the distribution's /usr/bin/python3 where the first
# one was built without optimizations. Such a build, which pyenv makes unless told otherwise, takes 1.4 to 1.6 times as long.
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
optimized='import sys, sysconfig
sys.exit("--enable-optimizations" not in (sysconfig.get_config_var("CONFIG_ARGS") or "") and sys.base_prefix != "/usr")'
makes_environments='import os, ensurepip, venv'

for python in python3 /usr/bin/python3; do
    "$python" -c "$new_enough" 2>/dev/null && "$python" -c "$optimized" 2>/dev/null || continue
    # Debian keeps ensurepip in a package of its own, which the Makefile installs as root.
    if "$python" -c "$makes_environments" 2>/dev/null || [ "$(id -u)" = 0 ]; then
        echo "$python"
        exit
    fi
done
echo python3
