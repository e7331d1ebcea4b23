"""The settings of the packages surface in the form that its decisions read."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property

import msgspec

from haulout.cluster.rows import Taint
from haulout.core.declaration import Context
from haulout.core.drain.options import PodRules
from haulout.surfaces.packages.groups import NODEWRIGHT, Group
from haulout.surfaces.packages.settings import (
    AGENT_IMAGE,
    BY_KIND,
    JOBS,
    PAUSE_IMAGE,
    USUAL_TAINTS,
    PackagesSettings,
    taint_parts,
)

# The version of the original whose behaviour this surface reproduces. It is written to Skyhooks and Nodes.
STAMP_VERSION = "v0.15.0"


class Options(PackagesSettings, frozen=True, dict=True):
    """The settings of the packages surface, and how it is served. The defaults are those of the drop-in.

    `alone`: it is the original's drop-in, so no other surface takes turns or shares budgets with it.
    """

    agent_image: str = AGENT_IMAGE
    pause_image: str = PAUSE_IMAGE
    alone: bool = True
    rules: PodRules = PodRules()

    @cached_property
    def taint(self) -> Taint:
        """The taint that is taken off a node when its packages are complete."""
        key, value, effect = taint_parts(self.runtime_required_taint)
        return Taint(key, effect, value)

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that count as those of required packages: the one of the settings, and the original's two."""
        usual = (Taint(*_parts(text)) for text in USUAL_TAINTS)
        return (self.taint, *(each for each in usual if each != self.taint))

    def runs_jobs(self, group: Group) -> bool:
        """Whether the stages of packages of this group run in Jobs."""
        return self.executor == JOBS or (self.executor == BY_KIND and group is NODEWRIGHT)

    def stage_limit(self, group: Group) -> timedelta:
        """Return how long one attempt at a stage may take if its package does not say it; zero for any time."""
        return self.job_stage_timeout if group is NODEWRIGHT else self.stage_timeout

    def retries(self, group: Group) -> int:
        """Return how often a stage that took too long is tried again."""
        return self.job_backoff_limit if group is NODEWRIGHT else self.stage_retries

    @property
    def has_image_rules(self) -> bool:
        """Whether some images of packages are not allowed."""
        return bool(self.allowed_image_prefixes) or self.require_container_sha or self.forbid_agent_image_override


def _parts(text: str) -> tuple[str, str, str]:
    key, value, effect = taint_parts(text)
    return key, effect, value


def make_options(settings: PackagesSettings, context: Context) -> Options:
    """Return the options from the settings and the context in which the surface is served."""
    images = {"agent_image": settings.agent_image or AGENT_IMAGE, "pause_image": settings.pause_image or PAUSE_IMAGE}
    values = msgspec.structs.asdict(settings) | images
    return Options(**values, alone=context.alone, rules=context.rules)
