/** The accessible twin of the map: a real grid of the group that has the focus, which arrow keys move through. */

import { useEffect, useRef } from "preact/hooks";
import type { MapLayout, Place } from "../draw/map";
import { lookOf, WORDS } from "../store/looks";
import { go, nodeAddress } from "../store/route";

interface Props {
  readonly map: MapLayout;
  readonly focus: Place | null;
  readonly onFocus: (place: Place | null) => void;
  readonly onMove: (from: Place, key: string) => Place;
}

// Lines of the group that are in the page around the focus: a group may have thousands of nodes.
const LINES = 3;
const KEYS = ["ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End", "PageUp", "PageDown"];

export function NodeGrid({ map, focus, onFocus, onMove }: Props): preact.JSX.Element {
  const place = focus ?? { block: 0, index: 0 };
  // Keys may come faster than pictures.
  const latest = useRef(place);
  latest.current = place;
  const frame = useRef<HTMLDivElement>(null);
  const moving = useRef(false);
  const block = map.blocks[place.block] ?? map.blocks[0];
  useEffect(() => {
    // A key that came after this picture was made has moved on: the next picture takes the focus.
    if (!moving.current || place.block !== latest.current.block || place.index !== latest.current.index) return;
    moving.current = false;
    const cell = frame.current?.querySelector<HTMLElement>("[tabindex='0']");
    cell?.focus({ preventScroll: true });
    scrollIntoSight(frame.current, block ? block.y + Math.floor(place.index / block.perLine) * map.cellHeight : 0);
  });
  if (!block) return <span />;
  const { rows, perLine, path } = block;
  const line = Math.floor(place.index / perLine);
  const first = Math.max(0, line - LINES);
  const lines = Math.min(Math.ceil(rows.length / perLine), line + LINES + 1) - first;
  const name = path.filter(Boolean).join(" › ") || "all nodes";
  return (
    <div
      ref={frame}
      class="hidden"
      role="grid"
      aria-label={`Nodes of ${name}. Arrow keys move, Enter opens, Page Down goes to the next group.`}
      aria-rowcount={Math.ceil(rows.length / perLine)}
      aria-colcount={perLine}
      onKeyDown={(event) => {
        const row = rows[place.index];
        if (event.key === "Enter" && row) go(nodeAddress(row.name));
        else if (KEYS.includes(event.key)) {
          moving.current = true;
          latest.current = onMove(latest.current, event.key);
          onFocus(latest.current);
        } else return;
        event.preventDefault();
        event.stopPropagation();
      }}
      onFocusCapture={() => !focus && onFocus(place)}
      onBlurCapture={(event) => !frame.current?.contains(event.relatedTarget as Node | null) && !moving.current && onFocus(null)}
    >
      {Array.from({ length: lines }, (_, i) => (
        <div key={first + i} role="row" aria-rowindex={first + i + 1}>
          {rows.slice((first + i) * perLine, (first + i + 1) * perLine).map((row, column) => (
            <div
              key={row.name}
              role="gridcell"
              aria-colindex={column + 1}
              tabIndex={(first + i) * perLine + column === place.index ? 0 : -1}
            >
              {`${row.name}, ${WORDS[lookOf(row)]}${row.cause ? `: ${row.cause}` : ""}`}
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}

function scrollIntoSight(grid: HTMLElement | null, y: number): void {
  const top = (grid?.parentElement?.getBoundingClientRect().top ?? 0) + y;
  if (top < 80 || top > innerHeight - 80) scrollBy({ top: top - innerHeight / 2 });
}
