/** What can be drawn on a canvas. A painter runs these commands; nothing here knows one. */

/** `look`: the name of a shape and its color: a state, or `c0` to `c7` for categories. */
export type Command =
  | { kind: "card" | "band" | "ring"; x: number; y: number; w: number; h: number }
  | { kind: "glyph"; x: number; y: number; size: number; look: string }
  | { kind: "bar"; x: number; y: number; w: number; h: number; look: string; hatched: boolean }
  | { kind: "line"; x: number; y: number; w: number; h: number; tone: "line" | "now" }
  | { kind: "text"; x: number; y: number; text: string; tone: Tone; width: number; align: "left" | "right" | "center"; cut?: "end" };

export type Tone = "head" | "ink" | "soft" | "faint" | "now" | "axis";
