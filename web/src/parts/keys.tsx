/** The keys of the console, shown by `?`. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { VIEWS } from "./topbar";

export function Keys({ onClose }: { onClose: () => void }): preact.JSX.Element {
  const frame = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => frame.current?.showModal(), []);
  const keys: [string[], string][] = [
    [["/"], "filter"],
    [["Ctrl", "K"], "go to a node or a view"],
    ...VIEWS.map((view): [string[], string] => [["g", view.key], view.name]),
    [["←", "↑", "→", "↓"], "move on the map, after Tab"],
    [["Enter"], "open the node"],
    [["t"], "light, dark, or as the system has it"],
    [["?"], "these keys"],
    [["Esc"], "close"],
  ];
  return (
    <dialog ref={frame} class="keys-dialog" aria-labelledby="keys-title" onClose={onClose}>
      <h2 id="keys-title">Keys</h2>
      <dl>
        {keys.map(([names, what]) => (
          <div key={what}>
            <dt>
              {names.map((name) => (
                <kbd key={name}>{name}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog" class="buttons">
        <button class="btn main">Close</button>
      </form>
    </dialog>
  );
}
