"""The licenses of what images are made of, as SPDX expressions, and those that are allowed."""

from __future__ import annotations

import re
from email.message import Message

# What may be part of an image: each allows to use, change and pass on a whole that also has parts under other licenses.
ALLOWED = {
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "GPL-3.0-or-later WITH GCC-exception-3.1",
    "LGPL-2.1-or-later",
    "LicenseRef-public-domain",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
    "Python-2.0.1",
    "Zlib",
    "bzip2-1.0.6",
}
# A license for one package alone, which is beside the programs of an image and part of none.
ALLOWED_FOR = {"base-files": {"GPL-2.0-or-later"}}

# The licenses of the files that images take from Debian packages. Their copyright files, which the images hold, also speak of
# sources, tests and tools that are in no package. So people read them, and a test asks them to read about new packages.
DEBIAN = {
    "base-files": "GPL-2.0-or-later",
    "ca-certificates": "MPL-2.0",
    "gcc-12-base": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libbz2-1.0": "bzip2-1.0.6",
    "libc6": "LGPL-2.1-or-later",
    "libexpat1": "MIT",
    "libffi8": "MIT",
    "libgcc-s1": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "liblzma5": "LicenseRef-public-domain",
    "libpython3.11-minimal": "Python-2.0.1",
    "libpython3.11-stdlib": "Python-2.0.1",
    "libssl3": "Apache-2.0",
    "libstdc++6": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libuuid1": "BSD-3-Clause",
    "python3.11-minimal": "Python-2.0.1",
    "zlib1g": "Zlib",
}
# What authors wrote before there were expressions. A classifier is written with its last part alone.
WORDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
CLASSIFIER = "License :: OSI Approved :: "


def license_of(metadata: Message) -> str:
    """Return the license that the metadata of a Python package declare, as an expression; empty if they declare none."""
    if expression := metadata["License-Expression"]:
        return str(expression)
    declared = str(metadata["License"] or "").strip().removeprefix(CLASSIFIER)
    if WORDS.get(declared, declared) in ALLOWED:
        return WORDS.get(declared, declared)
    classifiers = [str(each) for each in metadata.get_all("Classifier", [])]
    named = {each.removeprefix(CLASSIFIER) for each in classifiers if each.startswith(CLASSIFIER)}
    return " OR ".join(sorted(WORDS.get(each, each) for each in named))


def refused(name: str, expression: str) -> list[str]:
    """Return the licenses in an expression that are not allowed for a package. Of alternatives one is enough."""
    allowed = ALLOWED | ALLOWED_FOR.get(name, set())
    if not expression:
        return ["no license is declared"]
    parts = [each.strip(" ()") for each in re.split(r"\bAND\b", expression)]
    return [part for part in parts if not allowed & {each.strip(" ()") for each in re.split(r"\bOR\b", part)}]
