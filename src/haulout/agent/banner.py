"""The lines that the agent prints first."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.agent.arguments import Arguments
from haulout.agent.settings import Settings

RULE = "-" * 20


def banner(arguments: Arguments, settings: Settings) -> Iterator[str]:
    """Yield the lines. Directories are named after the resource id, which may differ from config.json."""
    package, version = settings.resource_id.package, settings.resource_id.version
    yield RULE
    yield "-CLI CONFIGURATION--"
    yield f"mode: {arguments.mode}"
    yield f"root_mount: {arguments.root_mount}"
    yield f"copy_dir: {arguments.copy_dir}"
    yield f"interrupt_data: {arguments.interrupt_data}"
    yield f"always_run_step: {settings.always_run_step}"
    yield "-ENV CONFIGURATION--"
    yield f"COPY_RESOLV: {settings.copy_resolv}"
    yield f"OVERLAY_ALWAYS_RUN_STEP: {settings.always_run_step}"
    yield f"SKYHOOK_RESOURCE_ID: {settings.resource_id.text}"
    yield f"SKYHOOK_DATA_DIR: {settings.data_dir}"
    yield f"SKYHOOK_ROOT_DIR: {settings.state_root}"
    yield f"SKYHOOK_LOG_DIR: {settings.log_root}"
    yield f"SKYHOOK_AGENT_BUFFER_LIMIT: {settings.buffer_limit}"
    yield f"SKYHOOK_AGENT_WRITE_LOGS: {settings.write_logs}"
    yield "Directory CONFIGURATION"
    yield f"flag_dir: {settings.state_root}/flags/{package}/{version}"
    yield f"log_dir: {settings.log_root}/{package}/{version}"
    yield f"history_file: {settings.state_root}/history/{package}.json"
    yield RULE
