/** Empty, loading, unreadable and failed: four different things that look different. */

import type { ComponentChildren } from "preact";
import { Shape } from "./tag";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): preact.JSX.Element {
  return (
    <section class="card state">
      <Shape look="safe" size={20} />
      <h2>{title}</h2>
      {children && <p class="sub">{children}</p>}
    </section>
  );
}

export function Loading({ what, lines = 4 }: { what: string; lines?: number }): preact.JSX.Element {
  return (
    <section class="card state loading" aria-busy="true">
      <p class="sub">Reading {what}…</p>
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} class={`skeleton w${(i * 3) % 4}`} />
      ))}
    </section>
  );
}

export function Unreadable({ what, why }: { what: string; why: string }): preact.JSX.Element {
  return (
    <section class="card state bad">
      <Shape look="unknown" size={20} />
      <h2>{what} cannot be read</h2>
      <p class="sub">{why}</p>
    </section>
  );
}
