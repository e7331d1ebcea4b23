"""Runs `Process` objects one after the other: changed settings that a running one cannot take over make a new one."""

from __future__ import annotations

import asyncio
import logging

from haulout import BUILT, COMMIT, __version__
from haulout.app.elections import NoNamespace
from haulout.app.parts import CannotStart
from haulout.app.process import Process
from haulout.base.address import AddressError
from haulout.base.url import without_secrets
from haulout.kube.config import load as load_endpoint
from haulout.kube.endpoint import Endpoint, impersonation
from haulout.kube.errors import (
    ConfigInvalid,
    KubeError,
)
from haulout.plugins.load import PluginProblem
from haulout.runtime.allocator import map_large_blocks
from haulout.runtime.collector import quick_collections
from haulout.runtime.logs import set_up_logs
from haulout.settings.settings import Settings

log = logging.getLogger("haulout.process")


def run(settings: Settings) -> int:
    """Serve until signalled (0) or until the process cannot go on (1)."""
    set_up_logs(settings.log_format, settings.log_level, settings.log_times)
    log.info("haulout", extra={"version": __version__, "commit": COMMIT, "built": BUILT})
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    map_large_blocks()
    last, refused = None, None
    with runner, quick_collections():
        while True:
            try:
                process = Process(settings, home_of(settings), refused=refused)
                code = runner.run(process.run())
            except (NoNamespace, CannotStart, KubeError, AddressError, PluginProblem) as error:
                log.error(str(error))
                if last is None or not isinstance(error, (CannotStart, ConfigInvalid)):
                    return 1
                log.error("settings cannot be used, the last good ones stay in force")
                settings, last, refused = last, None, settings
                continue
            except Exception:
                # A bug. Operators find the traceback in the log, where the entry point would not print it.
                log.exception("the process failed")
                return 1
            if process.replaced_by is None:
                return code
            settings, last, refused = process.replaced_by, process.settings, None
            set_up_logs(settings.log_format, settings.log_level, settings.log_times)


def make_process(settings: Settings) -> Process:
    """Make a process for the settings, connected to the home cluster that they name."""
    return Process(settings, home_of(settings))


def home_of(settings: Settings) -> Endpoint:
    """Return the address and credentials of the home cluster that the settings name."""
    endpoint = load_endpoint(
        path=settings.kubeconfig,
        context=settings.context,
        namespace=settings.namespace,
        impersonate=impersonation(settings.as_user, settings.as_groups),
        pod_first=settings.pod_first,
    )
    log.info("Loaded kubeconfig", extra={"server": without_secrets(endpoint.server)})
    return endpoint
