/** Sub-agents: which there are, and what they said. */

import { runs } from "../api/client";
import { events, type ServerEvent } from "../api/sse";
import type { Call, Conversation, Result } from "./entries";
import { segment } from "./namespace";
import type { SessionState } from "./session";

/** The tool that starts a sub-agent. */
export const TASK = "task";

export interface SubAgent {
  call: Call;
  /** The calls from the outermost one down to its own. */
  calls: string[];
  namespace: string;
  name: string;
  task: string;
  transcript: Conversation | undefined;
  result: Result | undefined;
  children: SubAgent[];
}

const text = (value: unknown) => (typeof value === "string" ? value : "");

/** The sub-agents of a conversation, in the order in which they were started. */
export function subAgents(thread: string, state: SessionState, of: Conversation, above: string[] = [], path: string[] = []): SubAgent[] {
  return of.entries.flatMap((entry) =>
    entry.calls
      .filter((call) => call.name === TASK && call.id)
      .map((call) => {
        const calls = [...above, call.id];
        const segments = [...path, segment(thread, calls)];
        const namespace = segments.join("|");
        const transcript = state.children[namespace];
        return {
          call,
          calls,
          namespace,
          name: text(call.args.subagent_type) || "sub-agent",
          task: text(call.args.description),
          transcript,
          result: of.results[call.id],
          children: transcript ? subAgents(thread, state, transcript, calls, segments) : [],
        };
      }),
  );
}

/** Reads the streams of earlier runs, newest first, until every sub-agent of the thread has its transcript. */
export async function fillTranscripts(
  thread: string,
  state: SessionState,
  signal: AbortSignal,
  take: (event: ServerEvent) => void,
): Promise<void> {
  const missing = () => subAgents(thread, state, state.conversation).some((agent) => !agent.transcript);
  const ended = (await runs.list(thread, { limit: 50 }, signal)).filter((run) => run.run_id !== state.run?.run_id);
  ended.sort((a, b) => b.created_at.localeCompare(a.created_at));
  for (const run of ended) {
    if (!missing()) return;
    if (run.status === "pending" || run.status === "running") continue;
    for await (const event of events(await runs.stream(thread, run.run_id, "-1", signal))) {
      if (event.name === "updates") take(event);
    }
  }
}
