"""The pages look as the pictures of the docs show them: fixed data, fixed clock, the fonts that come with the browser."""

from __future__ import annotations

import base64
from typing import Any

from tools.pictures import TARGET, taken

# Fonts are drawn a little differently by each version of the browser. A part that is moved or missing is more than that.
MOST_DIFFERENT = 0.02
COMPARE = """async ([one, other]) => {
    const pixels = async text => {
        const image = new Image();
        image.src = 'data:image/png;base64,' + text;
        await image.decode();
        const canvas = new OffscreenCanvas(image.width, image.height);
        canvas.getContext('2d').drawImage(image, 0, 0);
        return canvas.getContext('2d').getImageData(0, 0, image.width, image.height).data;
    };
    const [a, b] = [await pixels(one), await pixels(other)];
    if (a.length !== b.length) return 1;
    let different = 0;
    for (let i = 0; i < a.length; i += 4)
        if (Math.max(Math.abs(a[i] - b[i]), Math.abs(a[i + 1] - b[i + 1]), Math.abs(a[i + 2] - b[i + 2])) > 48) different++;
    return different / (a.length / 4);
}"""


def test_the_pages_look_as_their_pictures(chromium: Any) -> None:
    """`make pictures` takes them again, after a change that is meant."""
    page = chromium.new_page()
    different = {}
    for name, picture in taken(chromium):
        known = (TARGET / f"console-{name}.png").read_bytes()
        texts = [base64.b64encode(each).decode() for each in (known, picture)]
        different[name] = page.evaluate(COMPARE, texts)
    page.close()
    assert {name: share for name, share in different.items() if share > MOST_DIFFERENT} == {}
    print(different)
