/** The state of a thread, and how events of its runs change it. */

import type { ServerEvent } from "../api/sse";
import type { Interrupt, Judgement, Message, Run, StoredFile, Todo, Values } from "../api/types";
import { append, empty, put, type Conversation } from "./entries";
import { inputMessages } from "./input";

export interface SessionState {
  loaded: boolean;
  conversation: Conversation;
  /** Sub-agents by namespace. */
  children: Record<string, Conversation>;
  todos: Todo[];
  files: Record<string, StoredFile>;
  /** What the work is judged by. */
  goal: string | null;
  /** The last judgement. */
  judgement: Judgement | null;
  /** Whether the work is being judged. */
  judging: boolean;
  interrupts: Interrupt[];
  /** Why runs failed, by the last message of each run's input. */
  failures: Record<string, string>;
  /** Whether a run was stopped with work left and no pending interrupt. */
  stopped: boolean;
  /** The run in flight. */
  run: Run | null;
  /** Runs queued behind it. */
  queue: Run[];
  /** The latest custom event, such as a tool's progress. */
  progress: string | null;
  /** Why the last run or request failed. */
  error: string | null;
  /** Whether the server is unreachable. */
  offline: boolean;
}

/** A failed run leaves no answer, so its error is shown at its input message. Expects the newest run first. */
export function readFailures(failed: Run[]): Record<string, string> {
  const at = (run: Run) => inputMessages(run).at(-1)?.id;
  return Object.fromEntries(failed.reverse().map((run) => [at(run) || run.run_id, run.error?.message ?? "no reason was given"]));
}

function conversation(draft: SessionState, path: string[]): Conversation {
  return path.length ? (draft.children[path.join("|")] ??= empty()) : draft.conversation;
}

export function take(draft: SessionState, event: ServerEvent): void {
  switch (event.name) {
    case "messages": {
      const [message] = event.data as [Message];
      if (message.type === "AIMessageChunk") append(conversation(draft, event.path), message);
      else put(conversation(draft, event.path), message);
      break;
    }
    case "updates":
      takeUpdate(draft, event);
      break;
    case "custom":
      if (isJudging(event.data)) takeJudging(draft, event.data);
      else draft.progress = typeof event.data === "string" ? event.data : JSON.stringify(event.data);
      break;
    case "error":
      draft.error = (event.data as { message?: string }).message ?? "The run failed.";
      break;
  }
}

type Judging =
  | { name: "rubric_evaluation_started"; data: { iteration: number } }
  | { name: "rubric_evaluated"; data: { iteration: number; explanation: string; passed: string[]; missing: string[] } }
  | { name: "rubric_evaluation_failed"; data: { error: string } };

const isJudging = (data: unknown): data is Judging =>
  typeof data === "object" && data !== null && "name" in data && String(data.name).startsWith("rubric_evaluat");

/** Shows a judgement as it is made. The state has what is missing, and how it ended. */
function takeJudging(draft: SessionState, event: Judging): void {
  draft.judging = event.name === "rubric_evaluation_started";
  if (event.name !== "rubric_evaluated") return;
  const { iteration, explanation, passed, missing } = event.data;
  const judged = (passed: boolean) => (name: string) => ({ name, passed });
  const criteria = [...passed.map(judged(true)), ...missing.map(judged(false))];
  draft.judgement = { rubric: draft.goal ?? "", iterations: iteration + 1, last: { explanation, criteria } };
}

type Update = Values & { __interrupt__?: never };

export function takeUpdate(draft: SessionState, event: ServerEvent): void {
  for (const [node, delta] of Object.entries(event.data as Record<string, Update | Interrupt[] | null>)) {
    if (node === "__interrupt__") {
      if (!event.path.length) draft.interrupts = delta as Interrupt[];
      continue;
    }
    const values = delta as Update | null;
    for (const message of values?.messages ?? []) put(conversation(draft, event.path), message);
    if (event.path.length) continue;
    if (values?.todos) draft.todos = values.todos;
    if (values?.files) draft.files = values.files;
  }
}
