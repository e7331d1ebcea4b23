/** A canvas as high as the window that shows a part of a long drawing, and the painter that runs draw commands on it. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Command } from "../draw/commands";
import { SHAPES } from "../draw/shapes";

interface Theme {
  readonly colors: Record<string, string>;
  readonly font: string;
}

const TONES = { head: "600 13px", ink: "12px", soft: "12px", faint: "11px", now: "600 11px", axis: "11px" } as const;
const SPARE = 240;
const COLORS = ["card", "line", "ink", "soft", "faint", "accent", "wash", "now", ...Object.keys(SHAPES)];

/** Return the colors of the sheet as the browser has worked them out for the present theme. */
function readTheme(): Theme {
  const probe = document.createElement("span");
  document.body.append(probe);
  const colors = Object.fromEntries(
    COLORS.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color];
    }),
  );
  probe.remove();
  return { colors, font: getComputedStyle(document.body).fontFamily };
}

class Painter {
  private readonly sprites = new Map<string, HTMLCanvasElement>();
  private readonly hatches = new Map<string, CanvasPattern | string>();
  private readonly cuts = new Map<string, string>();

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly theme: Theme,
    private readonly scale: number,
  ) {}

  paint(commands: readonly Command[], top: number, width: number, height: number): void {
    const { context } = this;
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.translate(0, -top);
    for (const command of commands) this.run(command);
  }

  private run(command: Command): void {
    const { context, theme } = this;
    const { colors } = theme;
    switch (command.kind) {
      case "card":
        context.beginPath();
        context.roundRect(command.x + 0.5, command.y + 0.5, command.w - 1, command.h - 1, 10);
        context.fillStyle = colors.card!;
        context.fill();
        context.strokeStyle = colors.line!;
        context.lineWidth = 1;
        context.stroke();
        return;
      case "band":
        context.fillStyle = colors.wash!;
        context.fillRect(command.x, command.y, command.w, command.h);
        return;
      case "ring":
        context.beginPath();
        context.roundRect(command.x - 1, command.y - 1, command.w + 2, command.h + 2, 4);
        context.strokeStyle = colors.accent!;
        context.lineWidth = 2;
        context.stroke();
        return;
      case "glyph":
        context.drawImage(this.sprite(command.look, command.size), command.x, command.y, command.size, command.size);
        return;
      case "bar":
        context.beginPath();
        context.roundRect(command.x, command.y, command.w, command.h, Math.min(2, command.w / 2));
        context.fillStyle = command.hatched ? this.hatch(command.look) : colors[command.look]!;
        context.fill();
        return;
      case "line":
        context.beginPath();
        context.moveTo(command.x, command.y);
        context.lineTo(command.x + command.w, command.y + command.h);
        context.strokeStyle = colors[command.tone]!;
        context.lineWidth = command.tone === "now" ? 1.5 : 1;
        context.stroke();
        return;
      case "text": {
        context.font = `${TONES[command.tone]} ${theme.font}`;
        context.textAlign = command.align;
        context.fillStyle = colors[command.tone === "head" ? "ink" : command.tone === "axis" ? "faint" : command.tone]!;
        context.fillText(this.cut(command.text, command.width, command.cut === "end"), command.x, command.y);
      }
    }
  }

  /** Return the text, cut in its middle or at its end if it is too wide. Names are cut in their middles: their ends differ. */
  private cut(text: string, width: number, atEnd: boolean): string {
    const place = `${this.context.font} ${width} ${text}`;
    const known = this.cuts.get(place);
    if (known !== undefined) return known;
    if (this.cuts.size > 20_000) this.cuts.clear();
    let kept = text;
    if (this.context.measureText(text).width > width) {
      let low = 0;
      let high = text.length;
      const shortened = (n: number): string => atEnd ? `${text.slice(0, n)}…` : `${text.slice(0, Math.ceil(n / 2))}…${text.slice(text.length - Math.floor(n / 2))}`;
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if (this.context.measureText(shortened(middle)).width <= width) low = middle;
        else high = middle - 1;
      }
      kept = low ? shortened(low) : "";
    }
    this.cuts.set(place, kept);
    return kept;
  }

  /** Return a shape that is drawn once and then copied: thousands of paths take longer than a frame. */
  private sprite(look: string, size: number): HTMLCanvasElement {
    const place = `${look} ${size}`;
    const known = this.sprites.get(place);
    if (known) return known;
    const made = document.createElement("canvas");
    made.width = made.height = Math.ceil(size * this.scale);
    const context = made.getContext("2d")!;
    context.scale(made.width / 12, made.height / 12);
    context.fillStyle = this.theme.colors[look] ?? this.theme.colors.unknown!;
    context.fill(new Path2D(SHAPES[look] ?? SHAPES.unknown!));
    this.sprites.set(place, made);
    return made;
  }

  private hatch(look: string): CanvasPattern | string {
    const known = this.hatches.get(look);
    if (known) return known;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const context = tile.getContext("2d")!;
    context.strokeStyle = this.theme.colors[look]!;
    context.lineWidth = 2;
    for (const shift of [-8, 0, 8]) {
      context.moveTo(shift, 8);
      context.lineTo(shift + 8, 0);
    }
    context.stroke();
    const made = this.context.createPattern(tile, "repeat") ?? this.theme.colors[look]!;
    this.hatches.set(look, made);
    return made;
  }
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

interface Props {
  /** Return the height of the whole drawing for a width. */
  readonly heightFor: (width: number) => number;
  /** Return the commands for the part between two heights. */
  readonly commands: (width: number, from: number, to: number) => Command[];
  readonly onPoint?: (point: Point | null) => void;
  readonly onPick?: (point: Point) => void;
}

/** A drawing that scrolls with the page. Screen readers do not see it: its twin beside it says the same. */
export function Drawing({ heightFor, commands, onPoint, onPick }: Props): preact.JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter | null>(null);
  const [width, setWidth] = useState(0);
  const height = width ? Math.ceil(heightFor(width)) : 0;
  const draw = useRef(() => {});
  const asked = useRef(0);

  draw.current = () => {
    const box = frame.current?.getBoundingClientRect();
    const target = canvas.current;
    if (!box || !target || !width || !height) return;
    const scale = devicePixelRatio || 1;
    // More than the window shows, because scrolling moves the canvas before it is drawn again.
    const seen = Math.min(height, Math.ceil(innerHeight) + 2 * SPARE);
    const top = Math.max(0, Math.min(-box.top - SPARE, height - seen));
    if (target.width !== Math.round(width * scale) || target.height !== Math.round(seen * scale)) {
      target.width = Math.round(width * scale);
      target.height = Math.round(seen * scale);
      target.style.width = `${width}px`;
      target.style.height = `${seen}px`;
    }
    const context = target.getContext("2d");
    if (!context) return;
    painter.current ??= new Painter(context, readTheme(), scale);
    target.style.transform = `translateY(${top}px)`;
    painter.current.paint(commands(width, top, top + seen), top, width, seen);
  };
  const redraw = useRef(() => {
    if (asked.current) return;
    asked.current = requestAnimationFrame(() => {
      asked.current = 0;
      draw.current();
    });
  });

  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    sizes.observe(frame.current!);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const restyle = (): void => {
      painter.current = null;
      redraw.current();
    };
    dark.addEventListener("change", restyle);
    document.addEventListener("themechange", restyle);
    const scrolled = redraw.current;
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", restyle);
    return () => {
      sizes.disconnect();
      dark.removeEventListener("change", restyle);
      document.removeEventListener("themechange", restyle);
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", restyle);
      cancelAnimationFrame(asked.current);
    };
  }, []);
  useEffect(() => redraw.current());

  const point = (event: MouseEvent): Point => {
    const box = frame.current!.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  return (
    <div
      class="drawing"
      ref={frame}
      style={{ height: `${height || 200}px` }}
      onMouseMove={onPoint && ((event) => onPoint(point(event)))}
      onMouseLeave={onPoint && (() => onPoint(null))}
      onClick={onPick && ((event) => onPick(point(event)))}
    >
      <canvas ref={canvas} aria-hidden="true" />
    </div>
  );
}
