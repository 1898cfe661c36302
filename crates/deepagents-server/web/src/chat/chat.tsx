/** A thread: its conversation, pending approvals, and the composer. */

import { createMemo, For, Show } from "solid-js";
import { Approvals } from "../approvals/approvals";
import { usePage, useSession } from "../model/context";
import { readContent } from "../model/entries";
import { inputMessages } from "../model/input";
import { Guard } from "../ui/guard";
import { visible } from "../ui/visible";
import { IconButton } from "../ui/button";
import { Composer } from "./composer";
import { GoalView } from "./goal";
import { Transcript } from "./transcript";

export function Chat() {
  const page = usePage();
  const session = useSession();
  const { state } = session;
  const busy = () => state.run !== null || state.queue.length > 0;
  const activity = createMemo(() => {
    if (!state.run) return null;
    if (state.offline) return "Connection lost; reconnecting";
    if (state.judging) return "Judging whether the goal is met";
    const last = state.conversation.entries.at(-1);
    const open = last?.calls.filter((call) => !state.conversation.results[call.id]) ?? [];
    const progress = state.progress ? `: ${state.progress.slice(0, 80)}` : "";
    if (last?.complete && last.kind === "ai" && open.length) return `Running ${open.map((call) => visible(call.name)).join(", ")}${progress}`;
    return last?.kind === "ai" && !last.complete && last.text ? "Writing" : "Thinking";
  });
  /** Whether the conversation ends with a failed run. */
  const failed = () => (state.conversation.entries.at(-1)?.id ?? "") in state.failures;
  return (
    <>
      <Show when={state.loaded} fallback={<div class="loading" aria-label="Loading" role="status" />}>
        <Transcript conversation={state.conversation} label="Conversation" failures={state.failures} canEdit={!busy()} live />
      </Show>
      <div class="below">
        <div class="activity" role="status" aria-live="polite">
          <Show when={activity()}>
            {(text) => (
              <>
                <span class="pulse" aria-hidden="true" /> {text()}…
              </>
            )}
          </Show>
          <Show when={!state.run && state.interrupts.length}>
            <span class="hidden">The agent is waiting for your decision</span>
          </Show>
          <Show when={!state.run && state.offline}>The server is not responding; retrying…</Show>
        </div>
        <Show when={state.goal || state.judgement}>
          <GoalView goal={state.goal ?? state.judgement?.rubric ?? ""} judgement={state.judgement} />
        </Show>
        <Show when={state.error}>
          {(error) => (
            <div class="problem" role="alert">
              <span>{error()}</span>
              <IconButton icon="close" label="Dismiss" onClick={session.dismissError} />
            </div>
          )}
        </Show>
        <Show when={state.interrupts.length && !state.run}>
          <Guard again={state.interrupts.map(({ id }) => id)}>
            <Approvals interrupts={state.interrupts} />
          </Guard>
        </Show>
        <Show when={state.stopped && !busy() && page.assistant()}>
          {(assistant) => (
            <div class="stopped">
              <span>{failed() ? "The run failed before it finished." : "The run was stopped before it finished."}</span>
              <button type="button" onClick={() => void session.proceed(assistant())}>
                {failed() ? "Try again" : "Continue"}
              </button>
            </div>
          )}
        </Show>
        <Show when={state.queue.length}>
          <ul class="queue" aria-label="Queued messages">
            <For each={state.queue}>
              {(run) => (
                <li>
                  <span>{inputMessages(run).map((message) => readContent(message.content).text).join(" ") || "A run"}</span>
                  <IconButton icon="close" label="Remove from the queue" onClick={() => void session.cancel(run.run_id)} />
                </li>
              )}
            </For>
          </ul>
        </Show>
        <Composer
          draft={session.thread}
          busy={busy()}
          returned={session.drafts.returned?.text}
          onReturned={() => session.draft("returned", undefined)}
          onStop={() => void session.stop()}
          onSend={async (message, _text, strategy, goal) => {
            const assistant = page.assistant();
            return !!assistant && !!(await session.send(assistant, message, strategy, goal));
          }}
        />
      </div>
    </>
  );
}
