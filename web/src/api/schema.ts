/** The forms of the HTTP API. Written by `python -m tools.openapi` from the description of the API. */

/** The body of `POST acts`. `args`: the arguments by name; `with` chooses among acts of one name. */
export interface ActRequest {
  act: string;
  target?: ActTarget;
  args?: Record<string, string>;
  reason?: string;
  dryRun?: boolean;
}

/** The object of an act. `kind`: as in manifests; empty for an act about the whole cluster. */
export interface ActTarget {
  kind?: string;
  namespace?: string;
  name?: string;
}

/**
 * The document that `haulout explain ndb NAME -o json` prints: a NodeDisruptionBudget as the decisions see it now.
 *
 * `status`: the status that the operator would write; see the reference of custom resources.
 * `settings`: where the operator's settings were found. `incomplete`: what could not be read.
 * `operator`: whether an operator leads. `spec`: that of the budget as it is stored.
 */
export interface BudgetExplanation {
  name: string;
  status: Record<string, unknown>;
  settings: string;
  incomplete: string[];
  operator: OperatorState;
  spec: unknown;
}

/**
 * The state of a NodeDisruptionBudget, or of etcd's quorum.
 *
 * `used`: how many nodes are out of service. `allowed`: how many may be. `left`: how many more may be. `allowed` and
 * `left` are null if any number may be. `nextOpening`: when its window opens next. `problems`: what is wrong with it.
 */
export interface BudgetState {
  name: string;
  used: number;
  allowed: number | null;
  left: number | null;
  nextOpening: string | null;
  problems: string[];
}

/** The NodeDisruptionBudgets, as in `haulout status -o json`. */
export interface BudgetsDocument {
  budgets: BudgetState[];
}

/** The openings of all budgets and profiles that have windows. */
export interface CalendarDocument {
  windows: CalendarWindow[];
}

/** The openings of one schedule. `timeZone`: that of its windows; empty if they have several, or none. */
export interface CalendarWindow {
  name: string;
  timeZone: string;
  open: Opening[];
}

/**
 * A root cause for which nodes wait.
 *
 * `nodes`: all nodes that wait because of it. `at`: those that wait for it directly; the others wait for these nodes.
 * `act`: the one act that would help. `until`: the first instant at which time alone lets one of the nodes go on.
 */
export interface Cause {
  code: string;
  text: string;
  nodes: string[];
  act: string;
  until: string | null;
  at: string[];
}

/** The root causes for which nodes wait, as in `haulout status -o json`. */
export interface CausesDocument {
  causes: Cause[];
}

/** EXACT: the instant is stored, or the operator saw it happen. OBSERVED: it happened then or earlier. */
export type Certainty = "exact" | "observed";

/**
 * What would be different.
 *
 * `objects`: manifests, each a JSON merge patch for the object of its name, or a new object. `maintain`: nodes that would
 * be maintained, by names or a label selector. `workFor`: how long the work on a node takes, such as 1h.
 */
export interface Changes {
  objects?: Record<string, unknown>[];
  maintain?: string;
  workFor?: string;
}

/** The answer of an act that was done, or of its dry run. `undo`: the command that takes it back. */
export interface Done {
  writes: Written[];
  warnings: string[];
  undo: string;
}

/** How many pods a drain evicted, deleted and left running. Names of pods are not recorded. */
export interface DrainCounts {
  evicted: number;
  deleted: number;
  ignored: number;
}

/**
 * The document that `haulout explain -o json` prints about a node, or about an object without a document of its own.
 *
 * `object`: the explained object; left out if it is the node itself. `node`: empty if the object has no node.
 * `cordon`: in words, which surface or client cordoned the node. `holds`: the claims on the node.
 * `reasons`: one tree for each thing that waits. `settings`: where the operator's settings were found.
 * `incomplete`: what could not be read. `lastGraceEndsAt`: when the last grace period of terminating pods ends.
 * `queue`: what other nodes that block this one wait for themselves, by node. `act`: the one act that would help.
 * `operator`: whether an operator leads; left out if nothing is known about that.
 */
export interface ExplanationDocument {
  node: string;
  flags: string[];
  cordon: string;
  holds: Holding[];
  reasons: ReasonNode[];
  settings: string;
  incomplete: string[];
  object?: ObjectName | null;
  lastGraceEndsAt?: string | null;
  queue?: Record<string, string>;
  act?: string;
  operator?: OperatorState | null;
}

/**
 * Something that has failed or expired: a maintenance, a package, a rollout.
 *
 * `object`: kind and name of what has failed. `node`: its node; empty if it is about several. `act`: what would help.
 */
export interface Failure {
  code: string;
  object: string;
  node: string;
  text: string;
  act: string;
}

/** What has failed or expired, as in `haulout status -o json`. */
export interface FailuresDocument {
  failures: Failure[];
}

/**
 * The whole fleet.
 *
 * `epoch`: another one means that the console was started anew. `seq`: the number of this picture.
 * `at`: the instant at which this was last known to be so.
 * `tables`: for each kind that is read: `listed`, `not-yet`, or `unreadable: ` and why.
 */
export interface FleetDocument {
  epoch: string;
  seq: number;
  at: string | null;
  tables: Record<string, string>;
  nodes: FleetRow[];
}

/**
 * One node of the fleet.
 *
 * `state`, `holders`: as in `haulout status`. `labels`: the labels by which people group nodes.
 * `since`: when the oldest maintenance of the node was asked for. `cause`: the root cause that blocks it; empty: none.
 * `podsLeft`: the pods that its drains still wait for. `podsTotal`: all pods on it; null if pods cannot be read.
 * `versions`: the versions of packages on it, by name.
 * `safeToWork`: true if a list of its pods, sent after the cordon was stored, has shown the node to be empty, and a
 * maintenance holds it. False: it is not so. Null: it is not known.
 */
export interface FleetRow {
  name: string;
  state: string;
  labels: Record<string, string>;
  holders: string[];
  since: string | null;
  cause: string;
  podsLeft: number;
  podsTotal: number | null;
  safeToWork: boolean | null;
  versions: Record<string, string>;
}

/** The answer of `POST forecasts`: where to ask how far it is. It ends if no page asks for a while. */
export interface ForecastBegun {
  id: string;
}

/**
 * A forecast. `state`: waiting, running, done or failed. `progress`: from 0 to 1; null if that is not known.
 *
 * `detail`: what is being done, or why it failed. `asOf`: when it was asked for.
 * `plan`: the document of `haulout plan -o json`; null before it is done.
 */
export interface ForecastDocument {
  id: string;
  state: string;
  progress: number | null;
  detail: string;
  asOf: string;
  plan: unknown;
}

/** The body of `POST forecasts`. Without changes, the fleet is forecast as it is. */
export interface ForecastRequest {
  changes?: Changes;
}

/**
 * A claim on a node, as `explain` shows it.
 *
 * `slot`: the part of the surface that claims, such as a profile. `wants`: what it wants to do to the node.
 * `begun`: whether the maintenance has begun. `granted`: whether the arbiter grants the claim.
 */
export interface Holding {
  surface: string;
  slot: string;
  since: string;
  wants: string[];
  begun: boolean;
  granted: boolean;
}

/**
 * How it is known who asked for a maintenance.
 *
 * ADMISSION: our webhook noted the user of the request. CLAIMED: a client or a person says so, without proof.
 */
export type How = "admission" | "claimed" | "unknown";

/**
 * The installation of Haulout in a cluster.
 *
 * `settings`: where its settings were found. `unread`: what could not be read, with the right that is missing.
 * `operator`: whether an operator leads.
 */
export interface Installation {
  version: string;
  replicas: Replica[];
  leader: string;
  surfaces: string[];
  definitions: string[];
  missingDefinitions: string[];
  webhooks: Webhook[];
  roles: string[];
  settings: string;
  lastError: string;
  unread: string[];
  operator: OperatorState;
}

/** The installation of Haulout in the cluster, as in `haulout status -o json`. */
export interface InstallationDocument {
  installation: Installation;
}

/**
 * A process that holds a Lease.
 *
 * `lease`: NAMESPACE/NAME. `holder`: its identity. `surfaces`: those that it serves; empty if it does not say so.
 */
export interface LeaseHolder {
  lease: string;
  holder: string;
  surfaces: string[];
}

/** The body of a login at the local door. `secret`: what stands behind `#` in the address that the console printed. */
export interface Login {
  secret: string;
}

/** A MaintenanceRecord (haulout.dev/v1alpha1). History, report and the console's API print it in this form. */
export interface MaintenanceRecord {
  metadata: RecordMeta;
  spec: RecordSpec;
  status: RecordStatus;
}

/** A right that the person lacks. */
export interface Missing {
  verb: string;
  group: string;
  resource: string;
  namespace: string;
}

/**
 * Everything about one node, asked afresh.
 *
 * `row`: as in the fleet. `explain`: the document of `haulout explain -o json`. `works`: its maintenances.
 * `pods`: null if pods cannot be read. `acts`: what can be done to it, by this caller, now.
 */
export interface NodePage {
  at: string;
  row: FleetRow;
  explain: ExplanationDocument;
  works: Work[];
  pods: PodProgress[] | null;
  acts: Offer[];
}

/** The document that `haulout explain notifymaintenance NAME -o json` prints. `operator`: whether an operator leads. */
export interface NoticeDocument {
  object: string;
  node: string;
  maintenance: string;
  state: string;
  rule: number;
  waitsFor: string;
  actor: string;
  since: string | null;
  until: string | null;
  notes: string[];
  reason: string;
  notBefore: string | null;
  operator: OperatorState;
}

/** The object that is explained. `kind`: the word for its kind, such as `machine`. `name`: NAMESPACE/NAME, or NAME. */
export interface ObjectName {
  kind: string;
  name: string;
}

/**
 * One act for one object.
 *
 * `allowed`: whether the person may do it; None where the access review did not answer.
 * `missing`: the right that is missing. `why`: why the object does not allow it now; empty if it does.
 * `with`: the value of the argument `with` that chooses it.
 */
export interface Offer {
  act: string;
  allowed: boolean | null;
  missing: Missing | null;
  why: string;
  warnings: string[];
  writes: Written[];
  undo: string;
  with: string;
  help: string;
  kinds: string[];
  arguments: OfferedArgument[];
  needsReason: boolean;
  disturbs: boolean;
}

/** An argument that an offered act takes. */
export interface OfferedArgument {
  name: string;
  help: string;
  required: boolean;
  choices: string[];
}

/** The document of `haulout act -o json`. */
export interface Offers {
  acts: Offer[];
}

/** A time during which something may begin. Both instants have the offset of the window's time zone on that day. */
export interface Opening {
  from: string;
  to: string;
}

/**
 * Whether an operator leads in a cluster.
 *
 * `isLeading`: null if that is unknown. `since`: since when no operator leads, if that is known.
 * `why`: how we know; while an operator leads, what each process serves. `act`: what to do. `operators`: the processes of Haulout that lead.
 * `notServed`: surfaces that no running operator serves.
 */
export interface OperatorState {
  isLeading: boolean | null;
  since: string | null;
  why: string;
  act: string;
  operators: LeaseHolder[];
  notServed: string[];
}

/**
 * How a maintenance ended.
 *
 * COMPLETED: its work was done. CANCELLED: it was withdrawn before that. FAILED: it ended with an error. NODE_GONE: the
 * node was deleted. LOST: it ended while no operator ran, and nothing stored says how.
 */
export type Outcome = "Cancelled" | "Completed" | "Failed" | "Lost" | "NodeGone";

/** Whether a person may do an act, for objects in general. */
export interface Permission {
  allowed: boolean | null;
  missing: Missing | null;
}

/** The beginning of a phase of a maintenance. */
export interface Phase {
  name: string;
  at: string;
  certainty: Certainty;
}

/**
 * A pod of a node.
 *
 * `state`: why it is still there, in the words of drains; `Ignored`: no drain waits for it; `Running`: no drain runs.
 * `until`: when its grace period ends.
 */
export interface PodProgress {
  namespace: string;
  name: string;
  state: string;
  text: string;
  since: string | null;
  until: string | null;
}

/**
 * A problem detail (RFC 9457). `code` is stable; `detail` says to a person what is wrong and what to do.
 *
 * `verb`, `group`, `resource`, `namespace`: the missing right, where the code is `missing-right`. The namespace is empty
 * where the right is for the whole cluster.
 * `done`: the writes of an act that were stored before it was refused.
 */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  verb?: string;
  group?: string;
  resource?: string;
  namespace?: string;
  done?: Written[];
}

/**
 * One reason, with the reasons behind it.
 *
 * `code`: one of the reason codes in the reference. `text`: the reason in words. `until`: before this instant time
 * alone does not change it. `because`: the reasons behind it. `act`: what a person could do about it.
 */
export interface ReasonNode {
  code: string;
  text: string;
  until?: string | null;
  because?: ReasonNode[];
  act?: string;
}

/** The metadata of a record that history shows. */
export interface RecordMeta {
  name?: string;
  uid?: string;
  resourceVersion?: string;
  labels?: Record<string, string>;
  creationTimestamp?: string | null;
}

/** The part of a record that is written when the maintenance begins, and does not change. */
export interface RecordSpec {
  node: RecordedNode;
  surface: string;
  owner: RecordedOwner;
  reason: string;
  requestedBy: Requester;
  begunAt: string | null;
}

/**
 * The part of a record that is complete once the maintenance has ended.
 *
 * `error`: why it failed, in the words of its surface. `limits`: the budgets and the surface's own limits under which it took a place.
 */
export interface RecordStatus {
  outcome?: Outcome | null;
  error?: string;
  endedAt?: string | null;
  phases?: Phase[];
  waitedFor?: Waited[];
  drain?: DrainCounts | null;
  limits?: string[];
  acts?: RecordedAct[];
}

/** An act of a person during the maintenance, such as a pause or an override. `limit`: the overridden budget. */
export interface RecordedAct {
  act: string;
  by?: string;
  at?: string | null;
  reason?: string;
  limit?: string;
}

/** The Node that was maintained. */
export interface RecordedNode {
  name: string;
  uid: string;
}

/** The object that asked for the maintenance; for profiles and drains by hand, the Node itself. */
export interface RecordedOwner {
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
}

/** A page of the logbook, newest first, in the form of `haulout history -o json`. `continue`: as for maintenances. */
export interface RecordsDocument {
  records: MaintenanceRecord[];
  continue?: string;
}

/** One pod of the operator. */
export interface Replica {
  name: string;
  namespace: string;
  image: string;
  ready: boolean;
  leads: boolean;
}

/** The user or client that asked for the maintenance. */
export interface Requester {
  name: string;
  how: How;
}

/**
 * The progress of an object that changes many nodes.
 *
 * `object`: its kind and name. `state`: the state in its own status.
 * `total`, `done`, `atWork`: the nodes that it is about, that it has changed, and that it changes now.
 */
export interface Rollout {
  surface: string;
  object: string;
  state: string;
  total: number;
  done: number;
  atWork: number;
}

/** The objects that change many nodes, as in `haulout status -o json`. */
export interface RolloutsDocument {
  rollouts: Rollout[];
}

/**
 * A reason for which a maintenance waited. `subject`: the object that it waited for, as KIND/[NAMESPACE/]NAME.
 *
 * `since`: when it was first seen to wait for it. `seconds`: for how long it waited for it, in all.
 */
export interface Waited {
  code: string;
  subject: string;
  seconds: number;
  since?: string;
}

/**
 * A webhook configuration of Haulout.
 *
 * `hasAuthority`: whether it trusts a certificate authority. `authorityEndsAt`: when that authority expires.
 * `certificateEndsAt`: when the certificate of our webhooks expires; null unless the operator issues it.
 */
export interface Webhook {
  name: string;
  hasAuthority: boolean;
  authorityEndsAt: string | null;
  certificateEndsAt: string | null;
}

/**
 * The caller.
 *
 * `door`: `local` or `bearer`. `acts`: every act, and whether the caller may do it anywhere.
 * `cluster`: the cluster by the name that the console knows it by. `now`: the clock of the console.
 */
export interface WhoAmI {
  user: string;
  groups: string[];
  door: string;
  acts: Record<string, Permission>;
  cluster: string;
  now: string;
}

/**
 * One maintenance of one node by any surface.
 *
 * `object`: kind and name of the object that asks for it. `state`: the state that this maintenance gives to the node.
 * `podsLeft`: the pods that its drain still waits for. `endsAt`: when the last of their grace periods ends.
 * `waitsFor`: the root causes that block it, in the order of the decision's reasons.
 */
export interface Work {
  surface: string;
  object: string;
  node: string;
  state: string;
  since: string | null;
  podsLeft: number;
  endsAt: string | null;
  waitsFor: string[];
}

/** A page of the maintenances, as in `haulout status -o json`. `continue`: what to send as `continue` for the next page. */
export interface WorksDocument {
  works: Work[];
  continue?: string;
}

/** A write as people see it. */
export interface Written {
  verb: string;
  resource: string;
  namespace: string;
  name: string;
}
