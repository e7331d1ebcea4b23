/** The controls of views: a filter, a choice of one, a switch between two pictures. */

import { refine, refined } from "../store/route";

/** The filter of a view. It is in the address; the key `/` leads to it. */
export function Filter({ hint }: { hint: string }): preact.JSX.Element {
  return (
    <input
      class="filter"
      type="search"
      name="q"
      data-filter
      aria-label="Filter"
      placeholder={hint}
      autoComplete="off"
      spellcheck={false}
      value={refined("q")}
      onInput={(event) => refine({ q: event.currentTarget.value })}
    />
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly onChange: (value: string) => void;
}

export function Choice({ label, value, options, onChange }: ChoiceProps): preact.JSX.Element {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([each, text]) => (
          <option key={each} value={each} selected={each === value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A few options side by side, one of which is on. */
export function Switch({ label, value, options, onChange }: ChoiceProps): preact.JSX.Element {
  return (
    <div class="switch" role="group" aria-label={label}>
      {options.map(([each, text]) => (
        <button key={each} type="button" class="btn" aria-pressed={each === value} onClick={() => onChange(each)}>
          {text}
        </button>
      ))}
    </div>
  );
}
