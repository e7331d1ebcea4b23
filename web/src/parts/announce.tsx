/** The one polite live region: what screen readers are told without moving the focus. */

import { signal } from "@preact/signals";

const said = signal("");

export function announce(text: string): void {
  said.value = text;
}

export function Announcer(): preact.JSX.Element {
  return (
    <div class="hidden" role="status" aria-live="polite">
      {said.value}
    </div>
  );
}
