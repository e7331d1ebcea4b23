/** What would happen under other limits, windows, versions, or with more nodes to maintain. Nothing is written. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Plan } from "../api/types";
import { Choice } from "../parts/controls";
import { Copy } from "../parts/command";
import { make, NONE, useForecast, type Forecasting } from "../store/forecast";
import { budgets, rollouts } from "../store/live";
import { nodeAddress, refine, refined } from "../store/route";
import { zone } from "../store/clock";
import { targetOf } from "../store/objects";
import { changesOf, CHANGES, hasPackages, type ChangeForm } from "../store/changes";
import { count, dayAndClock, instant, span } from "../store/times";
import { yaml, type Plain } from "../store/yaml";

export function WhatIf(): preact.JSX.Element {
  const before = useForecast();
  const [after, setAfter] = useState<Forecasting>(NONE);
  const gone = useRef(new AbortController());
  useEffect(() => () => gone.current.abort(), []);
  const form = formOf();
  const changes = changesOf(form);
  const work = (): void => {
    gone.current.abort();
    gone.current = new AbortController();
    void make(changes as Record<string, unknown>, gone.current.signal, setAfter);
  };
  const manifests = ((changes.objects as Plain[] | undefined) ?? []).map((each) => yaml(each)).join("\n---\n");
  return (
    <>
      <div class="head">
        <h1>What-if</h1>
        <p class="sub">Nothing is written: the operator's own decisions run on a virtual clock.</p>
      </div>
      <div class="columns">
        <section class="card">
          <h2>Change</h2>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              work();
            }}
          >
            <Choice label="What" value={form.change} options={CHANGES} onChange={(change) => refine({ change })} />
            <Fields form={form} />
            <div class="buttons">
              {after.state === "running" && (
                <button type="button" class="btn" onClick={() => (gone.current.abort(), setAfter(NONE))}>
                  Stop
                </button>
              )}
              <button type="submit" class="btn main" disabled={!form.isWhole || after.state === "running"}>
                {after.state === "running" ? `Calculating${after.progress ? ` ${Math.round(after.progress * 100)} %` : ""}…` : "Calculate"}
              </button>
            </div>
          </form>
          {manifests && form.isWhole && (
            <>
              <h3>To apply it, merge this into the object</h3>
              <pre class="manifest" tabIndex={0}>
                <code>{manifests}</code>
              </pre>
              <Copy text={manifests} />
            </>
          )}
        </section>
        <section class="card">
          <h2>Before and after</h2>
          {before.state === "failed" && <p class="warning">The forecast failed: {before.why}</p>}
          {after.state === "failed" && <p class="warning">The forecast with the change failed: {after.why}</p>}
          <Compare before={before.plan} after={after.plan} waits={before.state === "running"} />
        </section>
      </div>
    </>
  );
}

function formOf(): ChangeForm {
  const named = (name: string): string => refined(name);
  const change = named("change") || "limit";
  const budget = named("budget") || budgets.value.items?.[0]?.name || "";
  const rollout = named("rollout") || rolloutNames()[0] || "";
  const fields = { change, budget, limit: named("limit"), from: named("from"), to: named("to"), days: named("days"), rollout: targetOf(rollout), package: named("package"), version: named("version"), nodes: named("nodes"), workFor: named("workFor") };
  const isWhole =
    change === "limit" ? Boolean(budget && fields.limit)
    : change === "window" ? Boolean(budget && fields.from && fields.to)
    : change === "version" ? Boolean(hasPackages(fields.rollout.kind) && fields.rollout.name && fields.package && fields.version)
    : Boolean(fields.nodes);
  return { ...fields, isWhole };
}

/** Return the names of the objects with packages. */
function rolloutNames(): string[] {
  return (rollouts.value.items ?? []).map((each) => each.object).filter((object) => hasPackages(targetOf(object).kind));
}

function Fields({ form }: { form: ChangeForm }): preact.JSX.Element {
  const names = (budgets.value.items ?? []).map((each) => [each.name, each.name] as const);
  const objects = rolloutNames().map((name) => [name, name] as const);
  const chooseBudget = names.length ? (
    <Choice label="Budget" value={form.budget} options={names} onChange={(budget) => refine({ budget })} />
  ) : (
    <Text name="budget" label="Budget" hint="the name of a NodeDisruptionBudget" />
  );
  if (form.change === "limit") return <div class="fields">{chooseBudget}<Text name="limit" label="Nodes out at once" hint="5 or 10%" /></div>;
  if (form.change === "window") {
    return (
      <div class="fields">
        {chooseBudget}
        <Text name="from" label="Opens at" hint="22:00" />
        <Text name="to" label="Closes at" hint="06:00" />
        <Text name="days" label="On days (optional)" hint="Sat,Sun" />
      </div>
    );
  }
  if (form.change === "version") {
    return (
      <div class="fields">
        {objects.length ? <Choice label="Rollout" value={refined("rollout") || objects[0]![0]} options={objects} onChange={(rollout) => refine({ rollout })} /> : <Text name="rollout" label="Rollout" hint="skyhook/name" />}
        <Text name="package" label="Package" hint="its name" />
        <Text name="version" label="Version" hint="2.1.0" />
      </div>
    );
  }
  return (
    <div class="fields">
      <Text name="nodes" label="Nodes to maintain" hint="pool=blue, or a,b" />
      <Text name="workFor" label="Work for each (optional)" hint="1h" />
    </div>
  );
}

function Text({ name, label, hint }: { name: string; label: string; hint: string }): preact.JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <input type="text" name={name} placeholder={hint} autoComplete="off" value={refined(name)} onInput={(event) => refine({ [name]: event.currentTarget.value })} />
    </label>
  );
}

const MINUTE_MS = 60_000;

interface Figures {
  /** In milliseconds; null: not within the forecast. */
  readonly ends: number | null;
  readonly longest: number;
  readonly most: number;
  readonly never: { readonly name: string; readonly why: string }[];
}

function figures(plan: Plan): Figures {
  const begins = instant(plan.beginsAt) ?? 0;
  const waits = plan.nodes.map((node) => (instant(node.beginsAt) ?? begins) - begins);
  const end = instant(plan.finishedAt);
  return {
    ends: end,
    longest: Math.max(0, ...waits),
    most: plan.mostCordoned,
    never: plan.nodes.filter((node) => node.waitsFor && !node.doneAt).map((node) => ({ name: node.name, why: node.waitsFor })),
  };
}

interface Line {
  readonly name: string;
  readonly value: (found: Figures) => number | null;
  readonly text: (value: number | null) => string;
  readonly change: (by: number) => string;
  /** The least difference that counts: the two forecasts begin at different instants. */
  readonly least: number;
  /** Null: neither way is better. */
  readonly isBetter: ((by: number) => boolean) | null;
}

/** By how much the change makes it better or worse. */
function Difference({ line, before, after }: { line: Line; before: number | null; after: number | null }): preact.JSX.Element {
  if (before === null || after === null) return <span />;
  const by = after - before;
  if (Math.abs(by) < line.least) return <div class="faint">no change</div>;
  const look = line.isBetter === null ? "faint" : line.isBetter(by) ? "safe" : "stuck";
  return <div class={look}>{line.change(by)}</div>;
}

function Compare({ before, after, waits }: { before: Plan | null; after: Plan | null; waits: boolean }): preact.JSX.Element {
  if (!before && !after) return <p class="sub">{waits ? "Making the forecast of the fleet as it is…" : "No forecast yet."}</p>;
  const [a, b] = [before && figures(before), after && figures(after)];
  const lines: Line[] = [
    { name: "Ends", least: MINUTE_MS, value: (found) => found.ends, text: (value) => (value === null ? "not within the forecast" : dayAndClock(value, zone.value)), change: (by) => (by < 0 ? `${span(-by / 1000)} earlier` : `${span(by / 1000)} later`), isBetter: (by) => by < 0 },
    { name: "Longest wait", least: MINUTE_MS, value: (found) => found.longest, text: (value) => span((value ?? 0) / 1000), change: (by) => (by < 0 ? `${span(-by / 1000)} shorter` : `${span(by / 1000)} longer`), isBetter: (by) => by < 0 },
    { name: "Most nodes out at once", least: 1, value: (found) => found.most, text: (value) => count(value ?? 0), change: (by) => (by < 0 ? `${count(-by)} fewer` : `${count(by)} more`), isBetter: null },
    { name: "Nodes that never finish", least: 1, value: (found) => found.never.length, text: (value) => count(value ?? 0), change: (by) => (by < 0 ? `${count(-by)} fewer` : `${count(by)} more`), isBetter: (by) => by < 0 },
  ];
  const never = (b ?? a)?.never ?? [];
  return (
    <>
      <table>
        <thead>
          <tr>
            <td class="corner" />
            <th class="num">As it is</th>
            <th class="num">With the change</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr key={line.name}>
              <th scope="row">{line.name}</th>
              <td class="num">{a ? line.text(line.value(a)) : ""}</td>
              <td class="num">
                <b>{b ? line.text(line.value(b)) : "—"}</b>
                {a && b && <Difference line={line} before={line.value(a)} after={line.value(b)} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {never.length > 0 && (
        <>
          <h3>They never finish because</h3>
          <ul class="plainlist">
            {never.slice(0, 12).map((node) => (
              <li key={node.name}>
                <a class="link mono" href={nodeAddress(node.name)}>{node.name}</a> <span class="sub">{node.why}</span>
              </li>
            ))}
            {never.length > 12 && <li class="faint">and {count(never.length - 12)} more</li>}
          </ul>
        </>
      )}
    </>
  );
}
