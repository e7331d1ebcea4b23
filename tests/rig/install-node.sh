#!/bin/sh
# What a real node in tests runs on, beside the kubelet of `make tools`: container runtime and network plugins of Debian.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The daemons are started by the tests themselves, each in its own scratch directory.
apt-get install -qq -y --no-install-recommends containerd runc containernetworking-plugins iproute2 \
    busybox-static
