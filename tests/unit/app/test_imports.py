"""What the operator imports before a setting asks for it: an unneeded library costs memory in every replica."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import haulout.app.run
from haulout.surfaces.registry import load, surfaces
for surface in surfaces():
    for path in filter(None, (surface.decisions, surface.part)):
        load(path)
unwanted = {"opentelemetry", "requests", "cryptography", "rich", "jinja2", "botocore", "openstack", "pyVmomi", "aiosmtplib", "haulout.embedded", "haulout.plan", "haulout.serve.certificates", "prometheus_client", "http.server"}
sys.exit(f"imported: {sorted(unwanted & set(sys.modules))}" if unwanted & set(sys.modules) else 0)
"""


def test_the_operator_with_all_surfaces_imports_no_library_that_only_some_settings_need() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
