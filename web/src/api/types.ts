/** The forms of the HTTP API, as `console/openapi.json` describes them. */

/** The instant of something, as ISO 8601 text in UTC. */
export type Instant = string;

/** One node of the fleet. `cause`: the text of the root cause for which it waits. */
export interface Row {
  name: string;
  state: string;
  labels: Record<string, string>;
  holders: string[];
  since: Instant | null;
  cause: string | null;
  podsLeft: number | null;
  podsTotal: number | null;
  safeToWork: boolean | null;
}

/** `listed`, `not-yet`, or `unreadable: WHY`, by kind. */
export type Tables = Record<string, string>;

export interface FleetDocument {
  epoch: string | number;
  seq: number;
  at: Instant;
  tables: Tables;
  nodes: Row[];
}

export interface Cause {
  code: string;
  text: string;
  nodes: string[];
  act: string;
  until: Instant | null;
  at: string[];
}

/** Something that has failed or expired. `node`: empty if it is about several. */
export interface Failure {
  code: string;
  object: string;
  node: string;
  text: string;
  act: string;
}

export interface Budget {
  name: string;
  used: number;
  allowed: number | null;
  left: number | null;
  nextOpening: Instant | null;
  problems: string[];
}

/** One maintenance of one node. `object`: kind and name of what asks for it. */
export interface Work {
  surface: string;
  object: string;
  node: string;
  state: string;
  since: Instant | null;
  podsLeft: number;
  endsAt: Instant | null;
  waitsFor: string[];
}

export interface Rollout {
  surface: string;
  object: string;
  state: string;
  total: number;
  done: number;
  atWork: number;
}

export interface Installation {
  version: string;
  leader: string;
  replicas: { name: string; namespace: string; image: string; ready: boolean; leads: boolean }[];
  surfaces: string[];
  missingDefinitions: string[];
  settings: string;
  lastError: string;
  unread: string[];
  operator?: { isLeading: boolean | null; since: Instant | null; why: string; act: string };
}

export interface Missing {
  verb: string;
  group: string;
  resource: string;
  namespace: string;
}

/** Whether an act is allowed; null is *not known*. */
export interface Permission {
  allowed: boolean | null;
  missing?: Missing | null;
}

export interface WhoAmI {
  user: string;
  groups: string[];
  door: string;
  acts: Record<string, Permission>;
  cluster?: string;
}

export interface ReasonNode {
  code: string;
  text: string;
  until?: Instant | null;
  because?: ReasonNode[];
  act?: string;
}

export interface Hold {
  surface: string;
  slot: string;
  since: Instant;
  wants: string[];
  begun: boolean;
  granted: boolean;
}

export interface Explanation {
  node: string;
  flags?: string[];
  cordon?: string;
  holds?: Hold[];
  reasons?: ReasonNode[];
  settings?: string;
  incomplete?: string[];
  lastGraceEndsAt?: Instant | null;
  queue?: Record<string, string>;
  act?: string;
}

export interface Pod {
  namespace: string;
  name: string;
  state: string;
  text: string;
  since?: Instant | null;
  until?: Instant | null;
}

export interface Argument {
  name: string;
  help: string;
  required: boolean;
  choices: string[];
}

export interface Write {
  verb: string;
  resource: string;
  namespace: string;
  name: string;
}

/** An act that is offered for an object. */
export interface Act {
  act: string;
  /** Which of several acts of this name it is: the value of the argument `with`. */
  with?: string;
  help?: string;
  arguments?: Argument[];
  needsReason?: boolean;
  disturbs?: boolean;
  allowed: boolean | null;
  missing?: Missing | null;
  why?: string;
  warnings?: string[];
  writes?: Write[];
  undo?: string;
}

export interface NodeDocument {
  at: Instant;
  row: Row;
  explain: Explanation;
  works: Work[];
  pods: Pod[] | null;
  acts: Act[];
}

export interface Target {
  kind: string;
  namespace: string;
  name: string;
}

export interface ActRequest {
  act: string;
  target: Target;
  args: Record<string, string>;
  reason: string;
  dryRun: boolean;
}

export interface ActDone {
  writes: Write[];
  warnings: string[];
  undo: string;
}

export interface Phase {
  name: string;
  at: Instant;
  certainty: string;
}

/** One line of the logbook: one claim that began on a node. */
export interface LogRecord {
  metadata?: { name: string };
  spec: {
    node: { name: string; uid?: string };
    surface: string;
    owner?: { kind: string; namespace?: string; name: string };
    reason?: string;
    requestedBy?: { name: string; how: string };
    begunAt: Instant;
  };
  status?: {
    outcome?: string;
    endedAt?: Instant;
    phases?: Phase[];
    waitedFor?: { code: string; subject: string; seconds: number }[];
  };
}

export interface Extent {
  from: Instant;
  to: Instant | null;
}

export interface Windows {
  name: string;
  timeZone?: string;
  open: Extent[];
}

/** The document of `haulout plan -o json`, as far as the console shows it. */
export interface Plan {
  incomplete: string[];
  guesses: string[];
  beginsAt: Instant;
  endsAt: Instant;
  finishedAt: Instant | null;
  cordonedSeconds: number;
  mostCordoned: number;
  waitedFor: { seconds: number; cause: string }[];
  windows: Windows[];
  nodes: PlannedNode[];
}

export interface PlannedNode {
  name: string;
  beginsAt: Instant | null;
  doneAt: Instant | null;
  states: (Extent & { state: string })[];
  waitsFor: string;
}

export interface Forecast {
  id: string;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  progress?: number | null;
  detail?: string;
  asOf?: Instant | null;
  plan?: Plan | null;
}
