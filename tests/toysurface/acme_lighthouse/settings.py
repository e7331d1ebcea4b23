"""The settings: the block `surfaces.lighthouse` of haulout.yaml."""

from __future__ import annotations

from typing import Annotated

import msgspec

from haulout.core.setting import Setting


class LighthouseSettings(msgspec.Struct, frozen=True, rename="camel"):
    """The settings of the lighthouse surface: the colour in which nodes are lit."""

    lamp_colour: Annotated[str, Setting(help="The colour of the light.", words=("white", "red"))] = "white"
