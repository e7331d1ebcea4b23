/** The rules of the folders: who may import whom, and what no source may use. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const SOURCES = (globalThis as unknown as { WEB_SOURCES: string }).WEB_SOURCES;
// Further down in this list means further away from the page. A folder imports itself and what is named for it.
const MAY: Record<string, RegExp> = {
  api: /^(api)\//,
  store: /^(api|store)\/|^draw\/timeline$/,
  draw: /^draw\/|^store\/(times|groups)$|^api\/types$/,
  parts: /^(api\/(types|path)|store\/|draw\/|parts\/)/,
  views: /^(api\/(types|path)|store\/|draw\/|parts\/)/,
};

function sources(): [name: string, text: string][] {
  const names = readdirSync(SOURCES, { recursive: true }).map(String);
  const kept = names.filter((name) => /\.tsx?$/.test(name) && !name.includes(".test."));
  return kept.map((name) => [name.replaceAll(path.sep, "/"), readFileSync(path.join(SOURCES, name), "utf8")]);
}

test("imports follow the folders", () => {
  for (const [name, text] of sources()) {
    const folder = name.split("/")[0]!;
    const may = MAY[folder];
    if (!may) continue;
    for (const [, wanted] of text.matchAll(/from "(\.[^"]+)"/g)) {
      const target = path.posix.join(path.posix.dirname(name), wanted!);
      assert.match(target, may, `${name} imports ${target}`);
    }
  }
});

test("views and parts never send requests, and nothing draws markup from text", () => {
  for (const [name, text] of sources()) {
    if (!name.startsWith("api/")) assert.doesNotMatch(text, /\bfetch\(/, name);
    assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, name);
    assert.doesNotMatch(text, /https?:\/\/(?!www\.w3\.org)/, `${name} names another origin`);
  }
});

test("pure modules do not touch the page", () => {
  const pure = /^draw\/|^store\/(fleet|looks|filter|times|groups|causes|bars|changes|yaml|objects|rollout|coloring)\.ts$/;
  for (const [name, text] of sources().filter(([each]) => pure.test(each))) {
    assert.doesNotMatch(text, /\b(document|window|localStorage|location|navigator)\b\./, name);
    assert.doesNotMatch(text, /Date\.now\(/, name);
  }
});
