/** A table that holds thousands of rows: only those that are seen are in the page. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  readonly name: string;
  /** The width in the grid of the sheet, such as `2fr` or `96px`. */
  readonly width: string;
  readonly isNumber?: boolean;
  /** Left out on narrow windows. */
  readonly isSpare?: boolean;
  /** Keeps its least width on narrow windows. */
  readonly isFixed?: boolean;
  /** Has a line of its own in each row on narrow windows. */
  readonly isLong?: boolean;
  readonly cell: (row: T) => ComponentChildren;
  readonly sort?: (a: T, b: T) => number;
}

interface Props<T> {
  readonly label: string;
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  readonly keyOf: (row: T) => string;
  readonly selection?: { readonly chosen: ReadonlySet<string>; readonly toggle: (keys: readonly string[], on: boolean) => void };
}

const ROW = 34;
const NARROW_ROW = 54;
const SPARE_ROWS = 8;

export function VirtualTable<T>({ label, rows, columns, keyOf, selection }: Props<T>): preact.JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [[first, last], setSeen] = useState([0, 40]);
  const [order, setOrder] = useState({ column: -1, down: false });
  const [isNarrow, setNarrow] = useState(innerWidth < 720);
  const kept = columns.filter((column) => !(isNarrow && column.isSpare));
  const height = isNarrow && kept.some((column) => column.isLong) ? NARROW_ROW : ROW;
  const sorted = ordered(rows, columns[order.column]?.sort, order.down);

  useEffect(() => {
    const look = (): void => {
      const box = frame.current?.getBoundingClientRect();
      if (!box) return;
      setNarrow(innerWidth < 720);
      const top = Math.max(0, Math.floor(-box.top / height) - SPARE_ROWS);
      const bottom = Math.ceil((innerHeight - box.top) / height) + SPARE_ROWS;
      setSeen((seen) => (seen[0] === top && seen[1] === bottom ? seen : [top, bottom]));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [height]);

  const shown = sorted.slice(first, last);
  const widths = kept.filter((column) => !(isNarrow && column.isLong)).map(({ width, isFixed }) => (isNarrow && !isFixed ? width.replace(/minmax\(\d+px/, "minmax(0") : width));
  const template = [...(selection ? [isNarrow ? "20px" : "32px"] : []), ...widths].join(" ");
  const placeOf = (column: Column<T>): string => [column.isNumber ? "num" : "", isNarrow && column.isLong ? "line" : ""].filter(Boolean).join(" ");
  const all = selection ? rows.length > 0 && rows.every((row) => selection.chosen.has(keyOf(row))) : false;
  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
      <div role="rowgroup">
        <div role="row" aria-rowindex={1} class="thead" style={{ gridTemplateColumns: template }}>
          {selection && (
            <div role="columnheader" class="check">
              <input
                type="checkbox"
                aria-label="Select all"
                checked={all}
                onChange={() => selection.toggle(rows.map(keyOf), !all)}
              />
            </div>
          )}
          {kept.map((column) => {
            const place = columns.indexOf(column);
            const sort = order.column === place ? (order.down ? "descending" : "ascending") : undefined;
            return (
              <div key={column.name} role="columnheader" class={isNarrow && column.isLong ? "hidden" : placeOf(column)} {...(sort ? { "aria-sort": sort } : {})}>
                {column.sort ? (
                  <button
                    type="button"
                    class="plain"
                    onClick={() => setOrder({ column: place, down: order.column === place && !order.down })}
                  >
                    {column.name}
                    {sort ? (order.down ? " ↓" : " ↑") : ""}
                  </button>
                ) : (
                  column.name
                )}
              </div>
            );
          })}
        </div>
      </div>
      <div role="rowgroup" ref={frame} class="tbody" style={{ height: `${sorted.length * height}px` }}>
        {shown.map((row, i) => {
          const key = keyOf(row);
          return (
            <div
              key={key}
              role="row"
              class="tr"
              aria-rowindex={first + i + 2}
              style={{ gridTemplateColumns: template, height: `${height}px`, transform: `translateY(${(first + i) * height}px)` }}
            >
              {selection && (
                <div role="cell" class="check">
                  <input
                    type="checkbox"
                    aria-label={`Select ${key}`}
                    checked={selection.chosen.has(key)}
                    onChange={(event) => selection.toggle([key], event.currentTarget.checked)}
                  />
                </div>
              )}
              {kept.map((column) => (
                <div key={column.name} role="cell" class={placeOf(column)}>
                  {column.cell(row)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function ordered<T>(rows: readonly T[], sort: ((a: T, b: T) => number) | undefined, down: boolean): readonly T[] {
  if (!sort) return rows;
  const sorted = [...rows].sort(sort);
  return down ? sorted.reverse() : sorted;
}
