/** The bar at the top: cluster, views, leader, live or stale, who I am, time zone. */

import { useEffect, useRef } from "preact/hooks";
import { Choice } from "./controls";
import { paletteOpen } from "./palette";
import { now, showTimesIn, zone, localZone } from "../store/clock";
import { budgets, causes, fleet, installation, liveness, rollouts, works, zones } from "../store/live";
import { path } from "../store/route";
import { whoami } from "../store/session";
import { absolute, clock, count, relative } from "../store/times";

export const VIEWS = [
  { name: "Blocked", path: "/blocked", key: "b" },
  { name: "Fleet", path: "/fleet", key: "f" },
  { name: "Maintenances", path: "/maintenances", key: "m" },
  { name: "Budgets", path: "/budgets", key: "u" },
  { name: "Timeline", path: "/timeline", key: "t" },
  { name: "Rollouts", path: "/rollouts", key: "r" },
  { name: "What-if", path: "/what-if", key: "w" },
] as const;

function numbers(): Record<string, number | undefined> {
  return {
    Blocked: causes.value.items?.length,
    Fleet: fleet.value.seq < 0 ? undefined : fleet.value.rows.size,
    Maintenances: works.value.items?.length,
    Budgets: budgets.value.items?.length,
    Rollouts: rollouts.value.items?.length,
  };
}

export function TopBar({ onKeys }: { onKeys: () => void }): preact.JSX.Element {
  const found = numbers();
  const nav = useRef<HTMLElement>(null);
  const at = path.value;
  const known = Object.values(found).filter((number) => number !== undefined).length;
  // On narrow windows the views are in a line that scrolls. It grows when numbers come.
  useEffect(() => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [at, known]);
  const here = path.value === "/" ? "/blocked" : path.value.startsWith("/nodes/") ? "/fleet" : path.value;
  return (
    <header>
      <a class="brand" href="/" aria-label="Haulout, to the first page">
        <b>Haulout</b>
      </a>
      {whoami.value?.cluster && <span class="sub cluster" title="Cluster">{whoami.value.cluster}</span>}
      <nav ref={nav} aria-label="Views">
        {VIEWS.map((view) => (
          <a key={view.name} href={view.path} {...(here === view.path ? { "aria-current": "page" as const } : {})}>
            {view.name}
            {!!found[view.name] && <span class="n">{count(found[view.name]!)}</span>}
          </a>
        ))}
      </nav>
      <div class="facts-bar">
        <Live />
        <Leader />
        {whoami.value && (
          <span class="who" title={[whoami.value.user, ...whoami.value.groups].filter(Boolean).join(", ")}>
            {whoami.value.user || "you"} · {whoami.value.door}
          </span>
        )}
        <Choice
          label="Time zone"
          value={zone.value}
          options={[["local", shortZone(localZone())], ["UTC", "UTC"], ...otherZones().map((name) => [name, shortZone(name)] as const)]}
          onChange={showTimesIn}
        />
        <button type="button" class="keys wide" onClick={() => (paletteOpen.value = true)} aria-label="Ctrl K: go to a node or a view" title="Go to a node or a view">
          <kbd>Ctrl K</kbd>
        </button>
        <button type="button" class="keys" onClick={onKeys} aria-label="Keys" title="Keys">
          <kbd>?</kbd>
        </button>
      </div>
    </header>
  );
}

function Live(): preact.JSX.Element {
  const { state, since } = liveness.value;
  if (state === "live") return <span class="live">live</span>;
  if (state === "connecting") return <span class="live connecting">connecting…</span>;
  return (
    <span class="live stale" title={`${absolute(since, zone.value)}, ${relative(since, now.value)}`}>
      stale since {clock(since, zone.value)}
    </span>
  );
}

function Leader(): preact.JSX.Element {
  const { items, why } = installation.value;
  if (!items) return <span class="leader faint" title={why}>{why ? "leader not known" : ""}</span>;
  const replicas = items.replicas.map((each) => `${each.namespace}/${each.name}${each.ready ? "" : " (not ready)"}`).join(", ");
  if (!items.leader) return items.operator?.isLeading === null ? <span class="leader faint">leader not known</span> : <span class="leader missing" title={replicas}>no leader</span>;
  return <span class="leader" title={[items.leader, replicas].filter(Boolean).join("; ")}>leader {shortIdentity(items.leader)}</span>;
}

/** Return the identity of a leader without the random part that follows the name of its pod or host. */
function shortIdentity(identity: string): string {
  return identity.replace(/_[0-9a-f]{8}-[0-9a-f-]{27}$/, "");
}

/** The zones of windows, and the one that was chosen before. */
function otherZones(): string[] {
  return [...new Set([...zones.value, zone.value])].filter((name) => !["local", "UTC", localZone()].includes(name));
}

function shortZone(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1).replaceAll("_", " ");
}
