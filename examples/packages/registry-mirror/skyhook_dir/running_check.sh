#!/bin/sh
# After the restart: whether containerd has come back.
set -eu
if [ -d "${SKYHOOK_HOST_ROOT:-}/run/systemd/system" ]; then
    systemctl is-active containerd
else
    echo "this root was not booted: it runs no services"
fi
