/** Budgets as gauges, and their windows in the week as a calendar. */

import { useState } from "preact/hooks";
import { objectPath } from "../api/path";
import type { Budget, Plan, Windows } from "../api/types";
import { Filter } from "../parts/controls";
import { Empty, Loading, Unreadable } from "../parts/states";
import { Tag } from "../parts/tag";
import { Relative } from "../parts/time";
import { Week } from "../parts/week";
import { useAsked } from "../store/asked";
import { now, zone } from "../store/clock";
import { useForecast } from "../store/forecast";
import { budgets } from "../store/live";
import { fleetAddress, nodeAddress, refined } from "../store/route";
import { count, counted, dayAndClock, instant, startOfDay } from "../store/times";

interface BudgetStatus {
  status: {
    holders?: { node: string; surface?: string; reason?: string }[];
    waiting?: { count: number; first: { node: string; surface: string; reason: string }[] };
  };
}

const WEEK_MS = 7 * 86_400_000;
const MOST_PLACES = 40;

export function Budgets(): preact.JSX.Element {
  const { items, why } = budgets.value;
  const words = refined("q").toLowerCase();
  const found = (items ?? []).filter((budget) => budget.name.toLowerCase().includes(words));
  const from = startOfDay(now.value, zone.value);
  const range = `from=${new Date(from).toISOString()}&to=${new Date(from + WEEK_MS).toISOString()}`;
  const { answer } = useAsked<{ windows: Windows[] }>(`calendar?${range}`);
  const { plan } = useForecast();
  const windows = answer?.windows ?? plan?.windows ?? [];
  return (
    <>
      <div class="head">
        <h1>Budgets and windows</h1>
        {items && items.length > 0 && <p class="sub">{summary(items)}</p>}
        <span class="right">{items && items.length > 4 && <Filter hint="Filter budgets" />}</span>
      </div>
      {!items && !why && <Loading what="the budgets" />}
      {!items && why && <Unreadable what="The budgets" why={why} />}
      {items?.length === 0 && (
        <Empty title="No budgets">
          A NodeDisruptionBudget limits how many nodes are out of service at once, and when. Without one, each surface has only its own limits.
        </Empty>
      )}
      {plan && items && items.length > 0 && (
        <p class="sub fit">
          <Fit plan={plan} /> <a class="btn quiet" href="/what-if">Try other limits</a>
        </p>
      )}
      <div class="gauges">
        {found.map((budget) => (
          <Gauge key={budget.name} budget={budget} />
        ))}
      </div>
      {windows.length > 0 && (
        <section class="card">
          <h2>Windows of the week</h2>
          <Week windows={windows} from={from} />
        </section>
      )}
    </>
  );
}

function summary(items: readonly Budget[]): string {
  const of = (wanted: (budget: Budget) => boolean): string => count(items.filter(wanted).length);
  return `${counted(items.length, "budget")} · ${of((each) => each.left === 0)} full · ${of((each) => each.nextOpening !== null)} closed`;
}

/** Whether everything that is asked for fits into limits and windows, and when it is finished. */
function Fit({ plan }: { plan: Plan }): preact.JSX.Element {
  const asked = plan.nodes.filter((node) => node.beginsAt || node.waitsFor);
  const never = asked.filter((node) => !node.doneAt).length;
  const ends = instant(plan.finishedAt);
  if (!asked.length) return <>No maintenance is waiting in the forecast.</>;
  if (never || ends === null) {
    return (
      <b class="warning">
        {counted(never || asked.length, "node")} of {count(asked.length)} will not return by {dayAndClock(instant(plan.endsAt) ?? 0, zone.value)}, the end of the forecast.
      </b>
    );
  }
  return (
    <>
      <b>Everything fits:</b> the forecast has {counted(asked.length, "node")} back by <b>{dayAndClock(ends, zone.value)}</b> (<Relative at={plan.finishedAt} />).
    </>
  );
}

function Gauge({ budget }: { budget: Budget }): preact.JSX.Element {
  const { name, used, allowed, left, nextOpening, problems } = budget;
  const [open, setOpen] = useState(false);
  const over = allowed !== null && used > allowed;
  return (
    <section class="card gauge">
      <div class="head">
        <h2 class="name">{name}</h2>
        <span class="right">{problems.length > 0 ? <Tag look="stuck" text="invalid" /> : nextOpening ? <Tag look="wait" text="window closed" /> : left === 0 ? <Tag look="drain" text="full" /> : <Tag look="ok" text="open" />}</span>
      </div>
      <p>
        <b class="big">{count(used)}</b> {allowed === null ? "out of service, any number may be" : `of ${count(allowed)} places taken`}
        {left !== null && !over && <span class="sub"> · {count(left)} left</span>}
        {over && <span class="warning"> · {count(used - allowed)} more than allowed</span>}
      </p>
      {allowed !== null && <Places used={used} allowed={allowed} />}
      {nextOpening && (
        <p class="sub">
          opens {dayAndClock(instant(nextOpening) ?? 0, zone.value)}, <Relative at={nextOpening} />
        </p>
      )}
      {problems.map((text) => (
        <p key={text} class="warning">
          {text}
        </p>
      ))}
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Who takes the places</summary>
        {open && <Takers name={name} />}
      </details>
    </section>
  );
}

/** A place each while there are few, else a bar. */
function Places({ used, allowed }: { used: number; allowed: number }): preact.JSX.Element {
  const total = Math.max(used, allowed);
  if (total > MOST_PLACES) {
    return (
      <div class="bar" role="img" aria-label={`${used} of ${allowed}`}>
        <i class={used > allowed ? "over" : ""} style={{ width: `${Math.min(100, (used / Math.max(1, total)) * 100)}%` }} />
      </div>
    );
  }
  return (
    <div class="places" role="img" aria-label={`${used} of ${allowed}`}>
      {Array.from({ length: total }, (_, i) => (
        <i key={i} class={i < used ? (i < allowed ? "taken" : "over") : ""} />
      ))}
    </div>
  );
}

function Takers({ name }: { name: string }): preact.JSX.Element {
  const { answer, error } = useAsked<BudgetStatus>(`explain/${objectPath("NodeDisruptionBudget", "", name)}`);
  if (error) return <p class="warning">{error.message}</p>;
  if (!answer) return <p class="sub">Reading…</p>;
  const { holders = [], waiting } = answer.status;
  return (
    <>
      {holders.length === 0 && <p class="sub">No node takes a place.</p>}
      <ul class="plainlist">
        {holders.map((each, i) => (
          <li key={i}>
            <a class="link mono" href={nodeAddress(each.node)}>{each.node}</a> <span class="faint">{each.surface ?? each.reason}</span>
          </li>
        ))}
      </ul>
      {!!waiting?.count && (
        <>
          <h3>{counted(waiting.count, "node")} waiting, first</h3>
          <ul class="plainlist">
            {waiting.first.map((each, i) => (
              <li key={i}>
                <a class="link mono" href={nodeAddress(each.node)}>{each.node}</a> <span class="faint">{each.surface}, {each.reason}</span>
              </li>
            ))}
          </ul>
          <a class="btn quiet" href={fleetAddress({ color: "cause", q: "state:waiting" })}>Show the waiting nodes on the map</a>
        </>
      )}
    </>
  );
}
