"""`python -m tools.reference`: writes the reference pages of the documentation."""

from __future__ import annotations

from tools.reference import FOLDER, pages

for name, text in pages().items():
    (FOLDER / name).write_text(text)
