/** The application: views by path, keys, palette, and what surrounds a view. */

import { Component, render, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ActDialog } from "./parts/act";
import { Help } from "./parts/command";
import { Announcer, announce } from "./parts/announce";
import { Keys } from "./parts/keys";
import { Palette, paletteOpen, type Entry } from "./parts/palette";
import { TopBar, VIEWS } from "./parts/topbar";
import { runClock } from "./store/clock";
import { unreadable } from "./store/fleet";
import { fleet, installation, liveness, outage, refresh, runLive } from "./store/live";
import { go, nodeAddress, path, watchAddress } from "./store/route";
import { session, takeSecret, watchSecret } from "./store/session";
import { nextTheme, useKeptTheme } from "./store/theme";
import { Blocked } from "./views/blocked";
import { Budgets } from "./views/budgets";
import { Fleet } from "./views/fleet";
import { Login } from "./views/login";
import { Maintenances } from "./views/maintenances";
import { NodePage } from "./views/node";
import { Rollouts } from "./views/rollouts";
import { Timeline } from "./views/timeline";
import { WhatIf } from "./views/what-if";

function View(): preact.JSX.Element {
  const here = path.value;
  const node = /^\/nodes\/([^/]+)$/.exec(here)?.[1];
  if (node) return <NodePage key={node} name={decoded(node)} />;
  switch (here) {
    case "/":
    case "/blocked":
      return <Blocked />;
    case "/fleet":
      return <Fleet />;
    case "/maintenances":
      return <Maintenances />;
    case "/budgets":
      return <Budgets />;
    case "/timeline":
      return <Timeline />;
    case "/rollouts":
      return <Rollouts />;
    case "/what-if":
      return <WhatIf />;
    default:
      return <><h1>There is no such page</h1><p class="sub">The console has no view at this address. <a class="link" href="/blocked"><u>Go to the first page</u></a></p></>;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Keeps a fault of one view from taking the bar and the other views with it. */
class Guard extends Component<{ children: ComponentChildren }, { fault: string }> {
  override state = { fault: "" };

  override componentDidCatch(error: unknown): void {
    this.setState({ fault: String(error) });
  }

  override render(): ComponentChildren {
    if (!this.state.fault) return this.props.children;
    return (
      <section class="card state bad" role="alert">
        <h1>This view failed</h1>
        <p class="sub">{this.state.fault}</p>
        <button type="button" class="btn" onClick={() => this.setState({ fault: "" })}>
          Try again
        </button>
      </section>
    );
  }
}

/** What is not as it should be, above every view: old knowledge, and kinds that cannot be read. */
function Notices(): preact.JSX.Element {
  const { state } = liveness.value;
  const missing = unreadable(fleet.value.tables);
  const operator = installation.value.items?.operator;
  return (
    <>
      {state === "stale" && (
        <p class="notice bad" role="alert">
          {outage.value ? `${outage.value.charAt(0).toUpperCase()}${outage.value.slice(1)}.` : "The console does not answer."} What you see is old, and nothing of it is refreshed.
        </p>
      )}
      {state === "live" && operator?.isLeading === false && (
        <p class="notice bad" role="alert">
          NO OPERATOR IS RUNNING: nothing below will move{operator.why && ` (${operator.why})`}. {operator.act && <Help act={operator.act} />}
        </p>
      )}
      {state === "live" && missing.length > 0 && (
        <details class="notice">
          <summary>
            {missing.length === 1 ? `${missing[0]![0]} cannot be read` : `${missing.length} kinds cannot be read`}: some reasons and counts are missing below.
          </summary>
          <ul class="plainlist">
            {missing.map(([kind, why]) => (
              <li key={kind}>
                <b>{kind}</b>: {why}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

function found(words: string, most: number): Entry[] {
  const wanted = words.trim().toLowerCase();
  const views = VIEWS.filter((view) => view.name.toLowerCase().includes(wanted)).map((view) => ({
    text: view.name, note: `view, g ${view.key}`, go: () => go(view.path),
  }));
  if (!wanted) return views;
  const rank = (name: string): number => (name === wanted ? 0 : name.startsWith(wanted) ? 1 : 2);
  const names = [...fleet.peek().rows.keys()].filter((name) => name.toLowerCase().includes(wanted));
  const nodes = names
    .sort((a, b) => rank(a.toLowerCase()) - rank(b.toLowerCase()) || a.length - b.length || (a < b ? -1 : 1))
    .slice(0, most)
    .map((name) => ({ text: name, note: "node", go: () => go(nodeAddress(name)) }));
  return [...views, ...nodes].slice(0, most);
}

const THEME_WORDS = { "": "as the system has it", light: "light", dark: "dark" };

/** Run what keys do everywhere, unless somebody types or a dialog is open. */
function useKeys(showKeys: () => void): void {
  const last = useRef({ key: "", at: 0 });
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        paletteOpen.value = true;
        return;
      }
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || target.closest("input, textarea, select")) return;
      const isSecond = last.current.key === "g" && event.timeStamp - last.current.at < 1500;
      last.current = { key: event.key, at: event.timeStamp };
      if (isSecond) {
        const view = VIEWS.find((each) => each.key === event.key);
        if (view) go(view.path);
        return;
      }
      if (event.key === "?") showKeys();
      else if (event.key === "t") announce(`Theme: ${THEME_WORDS[nextTheme()]}`);
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function App(): preact.JSX.Element {
  const [keysShown, setKeysShown] = useState(false);
  useKeys(() => setKeysShown(true));
  const main = useRef<HTMLElement>(null);
  const here = path.value;
  const first = useRef(true);
  useEffect(() => {
    const heading = main.current?.querySelector("h1")?.textContent;
    document.title = heading ? `${heading} · Haulout` : "Haulout";
    if (!first.current && heading) {
      announce(heading);
      main.current?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [here]);
  if (session.value.state === "out") return <Login entered={refresh} />;
  return (
    <>
      <a class="skip" href="#main">
        To the content
      </a>
      <TopBar onKeys={() => setKeysShown(true)} />
      <main id="main" ref={main} tabIndex={-1}>
        <Notices />
        <Guard key={here}>
          <View />
        </Guard>
      </main>
      <ActDialog />
      <Palette find={found} />
      {keysShown && <Keys onClose={() => setKeysShown(false)} />}
      <Announcer />
    </>
  );
}

takeSecret();
watchSecret(refresh);
useKeptTheme();
watchAddress();
runClock(refresh);
runLive();
render(<App />, document.getElementById("app")!);
