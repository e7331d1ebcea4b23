/** The one dialog for acts: what is written, what it disturbs, which right it needs, dry run, undo. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Act, Argument, Target, Write } from "../api/types";
import { actsSeq, dialog, newKey, rightText, send, titleOf, type Outcome } from "../store/acts";
import { useAsked } from "../store/asked";
import { count, counted } from "../store/times";
import { announce } from "./announce";
import { Help } from "./command";
import { Shape } from "./tag";

const FIRST = 4;

/** The acts of an object as buttons. An act that is not allowed says which right is missing. */
export function ActButtons({ acts, target }: { acts: readonly Act[]; target: Target }): preact.JSX.Element {
  const ways = new Map<string, Act[]>();
  for (const act of acts.filter((each) => !each.why)) ways.set(act.act, [...(ways.get(act.act) ?? []), act]);
  const offered = [...ways.values()];
  return (
    <span class="acts" role="group" aria-label="Acts">
      {offered.slice(0, FIRST).map((each) => (
        <ActButton key={each[0]!.act} offers={each} target={target} />
      ))}
      {offered.length > FIRST && (
        <details class="more">
          <summary class="btn">More</summary>
          <div class="card menu">
            {offered.slice(FIRST).map((each) => (
              <ActButton key={each[0]!.act} offers={each} target={target} />
            ))}
          </div>
        </details>
      )}
    </span>
  );
}

const WHOLE: Target = { kind: "", namespace: "", name: "" };

/** The acts about all nodes, such as a pause of everything. */
export function FleetActs(): preact.JSX.Element {
  const { answer } = useAsked<{ acts: Act[] }>("acts", actsSeq.value);
  return <ActButtons acts={answer?.acts ?? []} target={WHOLE} />;
}

function ActButton({ offers, target }: { offers: readonly Act[]; target: Target }): preact.JSX.Element {
  const first = offers[0]!;
  const isDenied = offers.every((each) => each.allowed === false);
  return (
    <button
      type="button"
      class={`btn ${first.act === "cancel" ? "bad" : ""} ${isDenied ? "denied" : ""}`}
      title={isDenied && first.missing ? rightText(first.missing) : first.help}
      onClick={() => (dialog.value = { offers, targets: [target] })}
    >
      {isDenied && <Shape look="off" />} {titleOf(first.act)}{target.kind || first.act === "start" ? "" : " all"}…
    </button>
  );
}

export function ActDialog(): preact.JSX.Element | null {
  const open = dialog.value;
  if (!open) return null;
  return <Form key={`${open.offers[0]!.act} ${open.targets.map(nameOf).join()}`} offers={open.offers} targets={open.targets} />;
}

function Form({ offers, targets }: { offers: readonly Act[]; targets: readonly Target[] }): preact.JSX.Element {
  const frame = useRef<HTMLDialogElement>(null);
  // What the person may do comes before what the person may not.
  const [way, setWay] = useState(() => Math.max(0, offers.findIndex((each) => each.allowed !== false)));
  const act = offers[way] ?? offers[0]!;
  const asked = (act.arguments ?? []).filter((each) => each.name !== "with");
  const [typed, setTyped] = useState<Record<string, string>>({});
  const args: Record<string, string> = { ...preset(asked), ...typed, ...(act.with ? { with: act.with } : {}) };
  const [reason, setReason] = useState("");
  const [preview, setPreview] = useState<Outcome[] | null>(null);
  const [done, setDone] = useState<Outcome[] | null>(null);
  const [busy, setBusy] = useState(false);
  const keys = useRef(targets.map(newKey));
  const title = titleOf(act.act);
  const ready = asked.every((each) => !each.required || args[each.name]) && (!act.needsReason || reason.trim() !== "");

  useLayoutEffect(() => frame.current?.showModal(), []);
  useEffect(() => {
    // The preview follows what is typed. A dry run is answered by the API server itself, with all of its checks.
    setPreview(null);
    if (!ready || done) return undefined;
    let gone = false;
    const timer = setTimeout(() => {
      const tried = targets.slice(0, 20);
      void send({ act: act.act, args: given(args, asked), reason, dryRun: true }, tried, tried.map(newKey)).then((found) => !gone && setPreview(found));
    }, 250);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [ready, way, JSON.stringify(args), reason, done === null]);

  const confirm = async (): Promise<void> => {
    setBusy(true);
    const found = await send({ act: act.act, args: given(args, asked), reason, dryRun: false }, targets, keys.current);
    setBusy(false);
    setDone(found);
    announce(found.every((each) => each.done) ? `${title}: done` : `${title}: refused`);
  };
  // The browser gives the focus back to the button that opened the dialog, if the dialog is closed before it is removed.
  const close = (): void => frame.current?.close();
  const blocked = preview !== null && preview.every((each) => each.problem);
  return (
    <dialog ref={frame} class="act-dialog" aria-labelledby="act-title" onClose={() => (dialog.value = null)}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (done) close();
          else if (ready && !busy && !blocked) void confirm();
        }}
      >
        <h2 id="act-title">{title}</h2>
        <p class="sub name">{targets.length === 1 ? nameOf(targets[0]!) : counted(targets.length, "object")}</p>
        {!done && (
          <>
            {act.help && <p>{sentence(act.help)}</p>}
            <Rights act={act} />
            {offers.length > 1 && (
              <label class="field">
                <span>With</span>
                <select name="with" value={String(way)} onChange={(event) => setWay(Number(event.currentTarget.value))}>
                  {offers.map((each, i) => (
                    <option key={i} value={String(i)} selected={i === way}>
                      {each.with || each.act}
                    </option>
                  ))}
                </select>
              </label>
            )}
            {asked.map((each) => (
              <Field key={each.name} argument={each} value={args[each.name] ?? ""} onChange={(value) => setTyped({ ...typed, [each.name]: value })} />
            ))}
            <label class="field">
              <span>Reason{act.needsReason ? "" : " (optional)"}</span>
              <input type="text" name="reason" value={reason} required={act.needsReason ?? false} autoComplete="off" onInput={(event) => setReason(event.currentTarget.value)} />
            </label>
            <Preview preview={preview} ready={ready} act={act} total={targets.length} />
          </>
        )}
        {done && <Done outcomes={done} />}
        <div class="buttons">
          <button type="button" class="btn" onClick={close}>
            {done ? "Close" : "Cancel"}
          </button>
          {!done && (
            <button type="submit" class="btn main" disabled={!ready || busy || blocked}>
              {busy ? "Writing…" : targets.length > 1 ? `${title} (${count(targets.length)})` : title}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

/** Whether the person may do it, in words. */
function Rights({ act }: { act: Act }): preact.JSX.Element | null {
  if (act.allowed === true) return null;
  if (act.allowed === null) return <p class="warning">Whether you may do this is not known. The API server decides.</p>;
  return (
    <p class="warning">
      <Shape look="stuck" /> You may not do this: it {act.missing ? rightText(act.missing) : "needs a right that you do not have"}.
    </p>
  );
}

function Field({ argument, value, onChange }: { argument: Argument; value: string; onChange: (value: string) => void }): preact.JSX.Element {
  const label = labelOf(argument.name) + (argument.required ? "" : " (optional)");
  return (
    <label class="field">
      <span>{label}</span>
      {argument.choices.length ? (
        <select name={argument.name} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {!argument.required && <option value="" />}
          {argument.choices.map((choice) => (
            <option key={choice} value={choice} selected={choice === value}>
              {choice}
            </option>
          ))}
        </select>
      ) : (
        <input type="text" name={argument.name} value={value} required={argument.required} autoComplete="off" onInput={(event) => onChange(event.currentTarget.value)} />
      )}
      <small class="faint">{sentence(argument.help)}</small>
    </label>
  );
}

function Preview({ preview, ready, act, total }: { preview: Outcome[] | null; ready: boolean; act: Act; total: number }): preact.JSX.Element {
  if (!ready) return <p class="preview sub">Fill in the required fields to see what will be written.</p>;
  if (!preview) return <p class="preview sub" aria-busy="true">Asking the API server for a dry run…</p>;
  const writes = preview.flatMap((each) => each.done?.writes ?? []);
  const warnings = [...new Set(preview.flatMap((each) => each.done?.warnings ?? []))];
  const undo = preview.map((each) => each.done?.undo).find(Boolean);
  return (
    <div class="preview">
      <Problems outcomes={preview} />
      {writes.length > 0 && (
        <>
          <h3>It will write{total > preview.length ? `, for the first ${preview.length}` : ""}</h3>
          <Writes writes={writes} />
        </>
      )}
      {act.disturbs && warnings.length === 0 && writes.length > 0 && <p class="sub">The node will be drained: its pods move to other nodes.</p>}
      {warnings.length > 0 && (
        <>
          <h3>What it disturbs</h3>
          <ul class="plainlist">
            {warnings.map((text) => (
              <li key={text} class="warning">
                {text}
              </li>
            ))}
          </ul>
        </>
      )}
      {undo && (
        <p class="undo">
          <span class="sub">To undo it:</span> <Help act={undo} />
        </p>
      )}
    </div>
  );
}

function Done({ outcomes }: { outcomes: readonly Outcome[] }): preact.JSX.Element {
  const ok = outcomes.filter((each) => each.done);
  const undo = ok.map((each) => each.done?.undo).filter((text): text is string => Boolean(text));
  return (
    <div class="preview" role="status">
      <Problems outcomes={outcomes} />
      {ok.length > 0 && (
        <>
          <h3>
            <Shape look="safe" /> Written
          </h3>
          <Writes writes={ok.flatMap((each) => each.done?.writes ?? [])} />
        </>
      )}
      {undo.length === 1 && (
        <p class="undo">
          <span class="sub">To undo it:</span> <Help act={undo[0]!} />
        </p>
      )}
    </div>
  );
}

function Problems({ outcomes }: { outcomes: readonly Outcome[] }): preact.JSX.Element | null {
  const refused = outcomes.filter((each) => each.problem);
  if (!refused.length) return null;
  return (
    <ul class="plainlist">
      {refused.slice(0, 8).map(({ target, problem }) => (
        <li key={nameOf(target)} class="warning" role="alert">
          <Shape look="stuck" /> {outcomes.length > 1 && <span class="name">{nameOf(target)}: </span>}
          {problem!.code === "missing-right" ? `You may not do this: it ${rightText(problem!.facts)}.` : problem!.message}
        </li>
      ))}
    </ul>
  );
}

function Writes({ writes }: { writes: readonly Write[] }): preact.JSX.Element {
  return (
    <ul class="plainlist writes">
      {writes.slice(0, 20).map((write, i) => (
        <li key={i}>
          <b>{write.verb}</b> {write.resource} <code class="name">{[write.namespace, write.name].filter(Boolean).join("/")}</code>
        </li>
      ))}
      {writes.length > 20 && <li class="faint">and {count(writes.length - 20)} more</li>}
    </ul>
  );
}

/** Return a help text as a sentence: the command line prints it without a capital letter and a full stop. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** `setAsideAfter` as words. */
function labelOf(name: string): string {
  const words = name.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A required choice begins with its first value. */
function preset(args: readonly Argument[]): Record<string, string> {
  return Object.fromEntries(args.map((each) => [each.name, each.required ? (each.choices[0] ?? "") : ""]));
}

/** What was typed, without what only another way of the act asks for. */
function given(args: Record<string, string>, asked: readonly Argument[]): Record<string, string> {
  const names = new Set(["with", ...asked.map((each) => each.name)]);
  return Object.fromEntries(Object.entries(args).filter(([name, value]) => value !== "" && names.has(name)));
}

function nameOf({ kind, namespace, name }: Target): string {
  return [kind, [namespace, name].filter(Boolean).join("/")].filter(Boolean).join(" ") || "the whole fleet";
}
