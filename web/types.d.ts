// The shapes that files of the dashboard share, for the type checker and for editors: nothing of this reaches the browser.
// Names of the interface are those of docs/openapi.yaml, each with the members that the dashboard reads.

// ---- What the server gives -------------------------------------------------------------------------

/** A time as text, such as "2026-03-28T01:30:00.000Z". */
type Time = string;

export type State = "scheduled" | "queued" | "running" | "retrying" | "parked" | "completed" | "failed" | "dead_letter" | "cancelled" | "waiting";

export interface Session {
  needs_token: boolean;
  name: string | null; // null: there is no session, and a token is needed
  tenant: string | null;
  scopes: string[];
  version: string;
  at: Time;
}

export interface Job {
  id: string;
  task: string;
  queue: string;
  state: State;
  reason: string | null;
  damaged?: boolean;
  priority: number;
  user: string | null;
  project: string | null;
  service: string | null;
  unique_key: string | null;
  retry: object | null; // a policy of its own
  deadline: Time | null;
  attempts: number;
  max_attempts: number;
  epoch: number;
  process_after: Time | null;
  created_at: Time;
  started_at: Time | null;
  finished_at: Time | null;
  worker: string | null;
  last_error: JobError | null;
  open_parents?: number;
  parents?: number;
  children?: number;
}

/** One job that was asked for by its id has more members than one of a list. */
export interface WholeJob extends Job {
  history: Attempt[];
  held_by: HeldBy | null;
  after?: Edge[];
  followers?: Edge[];
}

export interface Attempt {
  epoch: number;
  number: number | null; // null: the start was taken back
  started_at: Time | null;
  ended_at?: Time | null;
  worker: string | null;
  outcome: State;
  error?: JobError | null;
  delay?: number; // seconds
  why?: string | null;
  process_after?: Time | null;
}

export interface JobError {
  class: string;
  type: string | null;
  message: string | null;
  stacktrace: string | null;
  code: number;
}

/** What a parked job waits for. */
export type HeldBy = { key: string; may_go_at: Time | null } & ({ kind: "breaker"; state: string } | { kind: "limit" } | { kind: "budget" });

export interface Edge {
  id: string | null; // null: the job was removed
  on: string;
  outcome: string;
  state: State;
}

export interface JobPage {
  items: Job[];
  next: string | null;
}

/** A retry of a policy: its wait lies between the first two, and the time since the first attempt between the others. */
export interface Retry {
  n: number;
  min_ms: number;
  max_ms: number;
  total_min_ms: number;
  total_max_ms: number;
}

/** A retry as the server gives it, where a delay that is certain has one member. */
export type RetryRow = { n: number; delay_ms?: number; total_ms?: number } & Partial<Retry>;

export interface Schedule {
  attempts: number;
  retries: RetryRow[];
  more: boolean;
  then: State;
}

export interface Task {
  task: string;
  declared: boolean;
  queue: string | null;
  run: string | null;
  limits: { rate: string | null; concurrency: number | "adaptive" | null };
  sizes: Record<State, number>;
  counters: Record<string, number>;
  run_time: { attempts: number; mean: number } | null;
  schedule: Schedule;
}

export interface Breaker {
  key: string;
  state: string;
  failure_count: number;
  success_count: number;
  opened_at: Time | null;
  next_probe_at: Time | null;
  failure_rate: number | null;
  parked: number;
  thresholds: { failure_threshold: number; failure_rate: number; min_calls: number; window: number; success_threshold: number };
}

export interface Limit {
  key: string;
  rate: string | null;
  concurrency: number | null;
  running: number;
  parked: number;
  retry_budget: RetryBudget | null;
}

/** By a window, or by tokens. */
export interface RetryBudget {
  ratio: number;
  window: number;
  first_attempts: number;
  retries: number;
  max_tokens?: number;
  tokens: number;
  min_per_second?: number;
  room: number;
}

export interface CronEntry {
  name: string;
  task: string;
  schedule: string;
  timezone: string;
  overlap: string;
  source: "configuration" | "stored";
  last_tick: Time | null;
  next_tick: Time | null;
}

export interface BulkRun {
  id: string;
  verb: "cancel" | "retry" | "redrive";
  state: "running" | "finished" | "stopped" | "failed";
  ended_at: Time | null;
  matched: number;
  at_least: boolean;
  changed: number;
  refused: number;
  error: string | null;
}

// ---- What pages are made of ------------------------------------------------------------------------

/** A page that is open: `load` asks the server, `render` makes elements of the answer. */
export interface Page {
  load?(signal: AbortSignal): Promise<any>;
  render(data: any): HTMLElement;
  /** Whether events of this kind are a reason to load it again; absent: all are. */
  wants?(kind: string): boolean;
}

/** What a page is given. */
export interface Context {
  params: Record<string, string>;
  query: URLSearchParams;
  signal: AbortSignal;
  refresh(): void;
  redraw(): void;
  go(url: string, options?: { replace?: boolean }): void;
}

export interface Route {
  path: string; // segments; one that begins with a colon is a parameter
  name: string;
  title: string;
  key?: string; // after g; pages without one are not in the navigation
  under?: string; // the page of the navigation that it belongs to
  needs?: string; // the scope without which it is not in the navigation
  page(context: Context): Page;
}

/** What the stream of events tells: how many of each kind there were, or that some were missed. */
export type LiveEvent = { type: "digest"; counts: Record<string, number> } | { type: "reset" };

export type LiveState = "on" | "lost" | "paused" | "off";

/** What an element may contain: lists are flattened, and nothing is left out. */
export type Child = Node | string | number | false | null | undefined | Child[];

/** Of a table. A column of class "wide" is left out on narrow screens, but not a cell that `isShown`. */
export interface Column<Row> {
  title: string | Node;
  cell(row: Row): Child;
  class?: string;
  isShown?(row: Row): boolean;
}

/** A line of a chart; a value that is null leaves a gap. The note stands in place of the last value. */
export interface Series {
  name: string;
  class: string;
  values: (number | null)[];
  note?: string;
}
