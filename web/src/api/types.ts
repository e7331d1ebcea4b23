/** The forms of the HTTP API by the names that the page has for them. They are generated: see schema.ts. */

import type {
  BudgetState, Done, ExplanationDocument, ForecastDocument, Holding, MaintenanceRecord, NodePage, Offer, OfferedArgument, PodProgress, FleetRow, Written,
} from "./schema";

export type { ActRequest, Cause, Failure, FleetDocument, Installation, Missing, Permission, Phase, ReasonNode, Rollout, WhoAmI, Work } from "./schema";
export type Row = FleetRow;
export type Budget = BudgetState;
export type Hold = Holding;
export type Explanation = ExplanationDocument;
export type Pod = PodProgress;
export type Argument = OfferedArgument;
export type Write = Written;
/** An act that is offered for an object. */
export type Act = Offer;
export type NodeDocument = NodePage;
export type ActDone = Done;
/** One line of the logbook: one claim that began on a node. */
export type LogRecord = MaintenanceRecord;

/** A span of time. `to`: null if its end is not known. */
export interface Extent {
  from: string;
  to: string | null;
}

/** `listed`, `not-yet`, or `unreadable: WHY`, by kind. */
export type Tables = Readonly<Record<string, string>>;

/** The object of an act. */
export interface Target {
  kind: string;
  namespace: string;
  name: string;
}

export interface Windows {
  name: string;
  timeZone?: string;
  open: Extent[];
}

/** The document of `haulout plan -o json`, as far as the page shows it. */
export interface Plan {
  incomplete: string[];
  guesses: string[];
  beginsAt: string;
  endsAt: string;
  finishedAt: string | null;
  cordonedSeconds: number;
  mostCordoned: number;
  waitedFor: { seconds: number; cause: string }[];
  windows: Windows[];
  nodes: PlannedNode[];
}

export interface PlannedNode {
  name: string;
  beginsAt: string | null;
  doneAt: string | null;
  states: (Extent & { state: string })[];
  waitsFor: string;
}

export type Forecast = Omit<ForecastDocument, "plan"> & { plan: Plan | null };
