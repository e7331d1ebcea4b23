/** The palette (Ctrl-K): go to a view or a node by typing a part of its name. */

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Entry {
  readonly text: string;
  readonly note: string;
  readonly go: () => void;
}

export const paletteOpen = signal(false);

const MOST = 12;

export function Palette({ find }: { find: (words: string, most: number) => Entry[] }): preact.JSX.Element | null {
  if (!paletteOpen.value) return null;
  return <Box find={find} />;
}

function Box({ find }: { find: (words: string, most: number) => Entry[] }): preact.JSX.Element {
  const frame = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState("");
  const [place, setPlace] = useState(0);
  const found = find(words, MOST);
  useLayoutEffect(() => frame.current?.showModal(), []);
  const close = (): void => frame.current?.close();
  const pick = (entry: Entry | undefined): void => {
    if (!entry) return;
    close();
    entry.go();
  };
  return (
    <dialog ref={frame} class="palette" aria-label="Go to" onClose={() => (paletteOpen.value = false)} onClick={(event) => event.target === frame.current && close()}>
      <input
        type="text"
        role="combobox"
        aria-label="Go to a view or a node"
        aria-expanded="true"
        aria-controls="palette-list"
        {...(found.length ? { "aria-activedescendant": `palette-${place}` } : {})}
        placeholder="Node or view"
        autoComplete="off"
        spellcheck={false}
        value={words}
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setPlace(0);
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (step && found.length) setPlace((place + step + found.length) % found.length);
          else if (event.key === "Enter") pick(find(event.currentTarget.value, MOST)[place]);
          else return;
          event.preventDefault();
        }}
      />
      <ul id="palette-list" role="listbox" aria-label="Results">
        {found.map((entry, i) => (
          <li
            key={`${entry.note} ${entry.text}`}
            id={`palette-${i}`}
            role="option"
            aria-selected={i === place}
            onMouseMove={() => setPlace(i)}
            onClick={() => pick(entry)}
          >
            <span class="name">{entry.text}</span> <span class="faint">{entry.note}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="sub none">Nothing of that name</p>}
    </dialog>
  );
}
