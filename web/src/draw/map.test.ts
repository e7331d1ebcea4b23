import assert from "node:assert/strict";
import { test } from "node:test";
import { row } from "../store/build";
import { grouped, ZONE } from "../store/groups";
import { cellAt, hit, layout, mapCommands, moved, type MapLayout, type Place } from "./map";

function world(nodes: number, racks: number, width: number): MapLayout {
  const rows = Array.from({ length: nodes }, (_, i) => row(`n-${i}`, { labels: { [ZONE]: `z${i % 3}`, rack: `r${i % racks}` } }));
  return layout(grouped(rows, [ZONE, "rack"]), width, () => "");
}

for (const [nodes, width] of [[1, 320], [12, 390], [12, 1280], [120, 1280], [600, 390], [600, 1280], [5000, 390], [5000, 1920]] as const) {
  test(`${nodes} nodes on ${width} pixels: each has a place of its own inside of the width, and is found there`, () => {
    const map = world(nodes, 7, width);
    const seen = new Set<string>();
    map.blocks.forEach((block, number) => {
      for (let index = 0; index < block.rows.length; index += 1) {
        const { x, y } = cellAt(map, block, index);
        assert.ok(x >= 0 && x + map.cellWidth <= width && y + map.cellHeight <= map.height, `${x},${y} in ${width}x${map.height}`);
        assert.deepEqual(hit(map, x + map.cellWidth / 2, y + map.cellHeight / 2), { block: number, index });
        seen.add(`${x},${y}`);
      }
    });
    assert.equal(seen.size, nodes);
  });
}

test("only what is seen is drawn, and all of it over the whole height", () => {
  const map = world(5000, 40, 1280);
  const glyphs = (from: number, to: number): number => mapCommands(map, from, to, () => "ok", null).filter((each) => each.kind === "glyph").length;
  assert.equal(glyphs(0, map.height), 5000);
  assert.ok(glyphs(0, 300) < 5000);
  assert.equal(glyphs(map.height + 10, map.height + 500), 0);
});

test("arrow keys reach every node and stop at the ends", () => {
  const map = world(60, 4, 800);
  let place: Place = { block: 0, index: 0 };
  const seen = new Set<string>();
  for (let step = 0; step < 60; step += 1) {
    seen.add(`${place.block} ${place.index}`);
    place = moved(map, place, "ArrowRight");
  }
  assert.equal(seen.size, 60);
  assert.deepEqual(moved(map, { block: 0, index: 0 }, "ArrowLeft"), { block: 0, index: 0 });
  assert.equal(moved(map, { block: 0, index: 3 }, "PageDown").block, 1);
});

test("a map without nodes is empty", () => {
  const map = layout([], 800, () => "");
  assert.equal(map.height, 0);
  assert.deepEqual(mapCommands(map, 0, 100, () => "ok", { block: 3, index: 9 }), []);
});
