/** The map of a fleet: nodes as cells in groups. From rows and a width to places and draw commands. */

import type { Row } from "../api/types";
import type { Group } from "../store/groups";
import type { Command } from "./commands";

/** The cells of one innermost group. `perLine`: how many cells are in a line. */
export interface Block {
  readonly path: readonly string[];
  readonly rows: readonly Row[];
  readonly label: string;
  readonly x: number;
  readonly y: number;
  readonly perLine: number;
}

export interface Card {
  readonly title: string;
  readonly summary: string;
  readonly y: number;
  readonly height: number;
}

export interface MapLayout {
  readonly width: number;
  readonly height: number;
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly isNamed: boolean;
  readonly cards: readonly Card[];
  readonly blocks: readonly Block[];
}

export interface Place {
  readonly block: number;
  readonly index: number;
}

const PAD = 16;
const HEAD = 36;
const GAP_X = 24;
const GAP_Y = 12;
const CARD_GAP = 12;
const LABEL = 52;
const [NARROWEST_NAME, WIDEST_NAME] = [96, 180];
const FEW = 120;
const SOME = 1200;

/** Return where everything is. `summary` says what is in a group. Few nodes get cells with their names in them. */
export function layout(groups: readonly Group[], width: number, summary: (group: Group) => string): MapLayout {
  const nodes = groups.reduce((sum, group) => sum + group.rows.length, 0);
  const isNamed = nodes <= FEW;
  const inner = width - 2 * PAD;
  const named = Math.min(WIDEST_NAME, Math.max(NARROWEST_NAME, 40 + longestName(groups)));
  const cellWidth = isNamed ? Math.min(inner, named) : nodes <= SOME ? 16 : 12;
  const cellHeight = isNamed ? 30 : cellWidth;
  const cards: Card[] = [];
  const blocks: Block[] = [];
  let y = 0;
  for (const group of groups) {
    const parts = group.groups.length ? group.groups : [group];
    const hasLabels = group.groups.length > 0;
    const labelWidth = hasLabels && !isNamed ? LABEL : 0;
    const most = Math.max(...parts.map((part) => part.rows.length));
    const wanted = labelWidth + Math.min(most, isNamed ? most : Math.max(10, Math.ceil(Math.sqrt(most * 7)))) * cellWidth;
    const fitting = (inner + GAP_X) / (wanted + GAP_X);
    const across = parts.length === 1 ? 1 : Math.max(1, Math.min(parts.length, isNamed ? Math.floor(fitting) : Math.round(fitting)));
    // The groups beside each other fill the width.
    const perLine = Math.max(1, Math.min(most, Math.floor(((inner + GAP_X) / across - GAP_X - labelWidth) / cellWidth)));
    const blockWidth = Math.floor((inner + GAP_X) / across) - GAP_X;
    let top = y + HEAD + 4;
    for (let first = 0; first < parts.length; first += across) {
      const line = parts.slice(first, first + across);
      const labelHeight = hasLabels && isNamed ? 18 : 0;
      line.forEach((part, i) => {
        const x = PAD + i * (blockWidth + GAP_X) + labelWidth;
        const label = hasLabels ? (part.path.at(-1) ?? "") || "none" : "";
        blocks.push({ path: part.path, rows: part.rows, label, x, y: top + labelHeight, perLine });
      });
      const lines = Math.max(...line.map((part) => Math.ceil(part.rows.length / perLine)));
      top += labelHeight + lines * cellHeight + GAP_Y;
    }
    const height = top - y + PAD - GAP_Y;
    cards.push({ title: group.path[0] || (groups.length > 1 ? "no label" : "all nodes"), summary: summary(group), y, height });
    y += height + CARD_GAP;
  }
  return { width, height: Math.max(0, y - CARD_GAP), cellWidth, cellHeight, isNamed, cards, blocks };
}

/** Return about how wide the longest name is. */
function longestName(groups: readonly Group[]): number {
  let most = 0;
  for (const group of groups) for (const row of group.rows) most = Math.max(most, widthOf(row.name));
  return most * 0.9;
}

/** Return about how wide a title is. Characters of East Asia are nearly twice as wide as others. */
function widthOf(title: string): number {
  return [...title].reduce((sum, character) => sum + (character > "\u2e80" ? 14 : 8), 0);
}

/** Return the commands that draw what is between two heights. */
export function mapCommands(
  map: MapLayout,
  from: number,
  to: number,
  look: (row: Row) => string,
  focused: Place | null,
): Command[] {
  const commands: Command[] = [];
  const shown = (y: number, height: number): boolean => y < to && y + height > from;
  for (const card of map.cards.filter((each) => shown(each.y, each.height))) {
    const titleWidth = Math.min(map.width / 2, 16 + widthOf(card.title));
    commands.push({ kind: "card", x: 0, y: card.y, w: map.width, h: card.height });
    commands.push({ kind: "text", x: PAD, y: card.y + 22, text: card.title, tone: "head", width: titleWidth, align: "left" });
    commands.push({
      kind: "text", x: PAD + titleWidth, y: card.y + 22, text: card.summary, tone: "soft",
      width: map.width - titleWidth - 2 * PAD, align: "left", cut: "end",
    });
  }
  for (const block of map.blocks) {
    const height = Math.ceil(block.rows.length / block.perLine) * map.cellHeight;
    if (!shown(block.y - 18, height + 18)) continue;
    if (block.label) commands.push(labelCommand(map, block));
    const first = Math.max(0, Math.floor((from - block.y) / map.cellHeight)) * block.perLine;
    const last = Math.min(block.rows.length, Math.ceil((to - block.y) / map.cellHeight) * block.perLine);
    for (let i = first; i < last; i += 1) {
      const row = block.rows[i]!;
      const { x, y } = cellAt(map, block, i);
      const size = map.isNamed ? 14 : map.cellWidth;
      commands.push({ kind: "glyph", x: map.isNamed ? x + 6 : x, y: y + (map.cellHeight - size) / 2, size, look: look(row) });
      if (map.isNamed) {
        commands.push({ kind: "text", x: x + 26, y: y + 19, text: row.name, tone: "ink", width: map.cellWidth - 34, align: "left" });
      }
    }
  }
  if (focused) {
    const block = map.blocks[focused.block];
    if (block && focused.index < block.rows.length) {
      commands.push({ kind: "ring", ...cellAt(map, block, focused.index), w: map.cellWidth, h: map.cellHeight });
    }
  }
  return commands;
}

function labelCommand(map: MapLayout, block: Block): Command {
  if (map.isNamed) return { kind: "text", x: block.x, y: block.y - 5, text: block.label, tone: "faint", width: map.width, align: "left" };
  const y = block.y + map.cellHeight / 2 + 4;
  return { kind: "text", x: block.x - 8, y, text: block.label, tone: "faint", width: LABEL - 8, align: "right" };
}

export function cellAt(map: MapLayout, block: Block, index: number): { x: number; y: number } {
  return {
    x: block.x + (index % block.perLine) * map.cellWidth,
    y: block.y + Math.floor(index / block.perLine) * map.cellHeight,
  };
}

/** Return the cell at a point, or null. */
export function hit(map: MapLayout, x: number, y: number): Place | null {
  for (const [number, block] of map.blocks.entries()) {
    const column = Math.floor((x - block.x) / map.cellWidth);
    const line = Math.floor((y - block.y) / map.cellHeight);
    const index = line * block.perLine + column;
    if (column >= 0 && column < block.perLine && line >= 0 && index < block.rows.length) return { block: number, index };
  }
  return null;
}

/** Return the cell that an arrow key leads to. Past the edge of a group comes the next group. */
export function moved(map: MapLayout, from: Place, key: string): Place {
  const block = map.blocks[from.block];
  if (!block) return { block: 0, index: 0 };
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: block.perLine, ArrowUp: -block.perLine };
  if (key === "Home") return { block: from.block, index: 0 };
  if (key === "End") return { block: from.block, index: block.rows.length - 1 };
  if (key === "PageDown" || key === "PageUp") return edge(map, from, key === "PageDown" ? 1 : -1, 0);
  const index = from.index + (steps[key] ?? 0);
  if (index >= 0 && index < block.rows.length) return { block: from.block, index };
  if (index < 0) return edge(map, from, -1, Number.POSITIVE_INFINITY);
  return edge(map, from, 1, 0);
}

function edge(map: MapLayout, from: Place, step: number, index: number): Place {
  const block = map.blocks[from.block + step];
  return block ? { block: from.block + step, index: Math.min(index, block.rows.length - 1) } : from;
}
