/** Sub-agents and their transcripts. */

import { runs } from "../api/client";
import { events, type ServerEvent } from "../api/sse";
import type { Call, Conversation, Entry, Result } from "./entries";
import { locate, ROOT, type Place } from "./namespace";
import type { SessionState } from "./state";

/** The tool that starts a sub-agent. */
export const TASK = "task";

export interface SubAgent {
  call: Call;
  name: string;
  task: string;
  transcript: Conversation | undefined;
  result: Result | undefined;
  children: SubAgent[];
}

const text = (value: unknown) => (typeof value === "string" ? value : "");

/** Cache of the places of sub-agents, by thread, parent, message and call. */
const places = new Map<string, Place>();

/** Returns the sub-agents of a conversation in the order in which they started. */
export function subAgents(thread: string, state: SessionState, of: Conversation = state.conversation, parent: Place = ROOT): SubAgent[] {
  const depth = parent.steps.length + 1;
  const streamed = new Set(Object.keys(state.children).filter((name) => name.startsWith(parent.namespace) && name.split("|").length === depth));
  const key = (entry: Entry, call: Call) => [thread, parent.namespace, entry.id, call.id].join(" ");
  const started = of.entries.flatMap((entry) => entry.calls.map((call, index) => ({ entry, call, index }))).filter(({ call }) => call.name === TASK && call.id);
  for (const { entry, call } of started) streamed.delete(places.get(key(entry, call))?.namespace ?? "");
  let turns = 0;
  const before = new Map(of.entries.map((entry) => [entry, entry.kind === "ai" ? turns++ : turns]));
  return started.map(({ entry, call, index }) => {
    let place = places.get(key(entry, call));
    if (!place && streamed.size) {
      place = locate(thread, parent, index, before.get(entry) ?? 0, streamed);
      if (place) {
        places.set(key(entry, call), place);
        streamed.delete(place.namespace);
      }
    }
    const transcript = place && state.children[place.namespace];
    return {
      call,
      name: text(call.args.subagent_type) || "sub-agent",
      task: text(call.args.description),
      transcript,
      result: of.results[call.id],
      children: place && transcript ? subAgents(thread, state, transcript, place) : [],
    };
  });
}

/** Reads the streams of earlier runs, newest first, until every sub-agent of the thread has its transcript. */
export async function fillTranscripts(
  thread: string,
  state: SessionState,
  signal: AbortSignal,
  take: (event: ServerEvent) => void,
): Promise<void> {
  const missing = () => subAgents(thread, state).some((agent) => !agent.transcript);
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
