import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader } from "./events";

const TEXT = ': hello\n\nevent: rows\ndata: {"seq":\ndata: 2}\n\nevent: resync\n\nevent: tables\r\ndata: {"at":"x"}\r\n\r\n';
const WHOLE = [
  { name: "comment", data: null },
  { name: "rows", data: { seq: 2 } },
  { name: "resync", data: null },
  { name: "tables", data: { at: "x" } },
];

test("events are the same however the stream is cut", () => {
  for (let size = 1; size <= TEXT.length; size += 1) {
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < TEXT.length; at += size) found.push(...reader.events(TEXT.slice(at, at + size)));
    assert.deepEqual(found, WHOLE, `in pieces of ${size}`);
  }
});
