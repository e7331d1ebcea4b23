/** A state as shape and word. */

import { SHAPES } from "../draw/shapes";
import { WORDS, type Look } from "../store/looks";

export function Shape({ look, size = 11 }: { look: string; size?: number }): preact.JSX.Element {
  return (
    <svg class={`shape fill-${look}`} viewBox="0 0 12 12" width={size} height={size} aria-hidden="true">
      <path d={SHAPES[look] ?? SHAPES.unknown} />
    </svg>
  );
}

export function Tag({ look, text }: { look: Look; text?: string }): preact.JSX.Element {
  return (
    <span class={`tag ${look}`}>
      <Shape look={look} />
      {text ?? WORDS[look]}
    </span>
  );
}
