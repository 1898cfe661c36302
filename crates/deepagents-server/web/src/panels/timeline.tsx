/** The checkpoints of the thread, newest first: view, rewind to, or continue from in a copy. */

import { createEffect, createSignal, For, on, Show } from "solid-js";
import { threads } from "../api/client";
import type { Checkpoint } from "../api/types";
import { usePage, useSession } from "../model/context";
import { readContent } from "../model/entries";
import { go } from "../model/route";
import { rewind } from "../model/rewind";
import { title } from "../model/threads";
import { Confirm } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { visible } from "../ui/visible";

const PAGE = 12;
/** Checkpoints include their whole state, so an update reads only as many as are likely to be new. */
const NEWEST = 3;

const SOURCES = { input: "Before your message", loop: "Step", update: "State update", fork: "Rewind" };

/** Summarises the last message in one line. */
function gist(checkpoint: Checkpoint): string {
  const last = checkpoint.values.messages?.at(-1);
  if (!last) return "An empty conversation";
  const { text } = readContent(last.content);
  const calls = (last.tool_calls ?? []).map((call) => call.name).join(", ");
  const who = last.type === "human" ? "You: " : last.type === "tool" ? `${last.name ?? "tool"}: ` : "";
  return `${who}${text.slice(0, 140) || calls}`;
}

/** Formats a time, with the date unless it is today. */
function when(time: string): string {
  const at = new Date(time);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toLocaleTimeString() : at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function Timeline() {
  const page = usePage();
  const session = useSession();
  const [list, setList] = createSignal<Checkpoint[]>([]);
  const [more, setMore] = createSignal(false);
  const [busy, setBusy] = createSignal(false);
  const [rewinding, setRewinding] = createSignal<Checkpoint | null>(null);

  async function read(before?: string) {
    setBusy(true);
    try {
      const found = await threads.history(session.thread, { limit: PAGE, before });
      setList((list) => (before ? [...list, ...found] : found));
      setMore(found.length === PAGE);
    } catch (error) {
      page.notify(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  }
  /** Puts new checkpoints in front of the known ones. */
  async function update() {
    if (!list().length) return read();
    const found = await threads.history(session.thread, { limit: NEWEST }).catch(() => []);
    const fresh = found.findIndex(({ checkpoint_id }) => list().some((known) => known.checkpoint_id === checkpoint_id));
    if (fresh < 0) return read();
    const known = list().findIndex(({ checkpoint_id }) => checkpoint_id === found[fresh]?.checkpoint_id);
    setList([...found.slice(0, fresh), ...list().slice(known)]);
  }
  createEffect(on([() => session.state.run, () => session.state.conversation.entries.length], () => void update()));

  async function fork(checkpoint: Checkpoint) {
    try {
      const copy = await threads.copy(session.thread);
      await rewind(copy.thread_id, checkpoint, session.state);
      const own = page.threads.list.find((thread) => thread.thread_id === session.thread);
      await threads.rename(copy.thread_id, `${own ? title(own) : "Thread"} (fork)`);
      await page.threads.refresh();
      go({ thread: copy.thread_id, file: null, agent: null });
      page.notify("You are now in the fork; the original thread is unchanged");
    } catch (error) {
      page.notify(error instanceof Error ? error.message : String(error));
    }
  }

  return (
    <>
      <ol class="timeline">
        <For each={list()}>
          {(checkpoint, at) => (
            <li>
              <div class="when">
                <strong>{SOURCES[checkpoint.metadata.source ?? "loop"]}</strong>
                <time datetime={checkpoint.created_at ?? ""}>
                  {checkpoint.created_at ? when(checkpoint.created_at) : ""}
                </time>
              </div>
              <p class="gist">{visible(gist(checkpoint))}</p>
              <div class="actions">
                <Show when={at() > 0} fallback={<span class="hint">Now</span>}>
                  <button type="button" disabled={session.state.run !== null} onClick={() => setRewinding(checkpoint)}>
                    <Icon name="back" /> Rewind
                  </button>
                </Show>
                <button type="button" disabled={session.state.run !== null} onClick={() => void fork(checkpoint)}>
                  <Icon name="fork" /> Fork
                </button>
              </div>
            </li>
          )}
        </For>
      </ol>
      <Show when={!list().length && !busy()}>
        <p class="hint">No checkpoints yet.</p>
      </Show>
      <Show when={more()}>
        <button type="button" disabled={busy()} onClick={() => void read(list().at(-1)?.checkpoint_id ?? undefined)}>
          Earlier
        </button>
      </Show>
      <Show when={rewinding()}>
        {(checkpoint) => (
          <Confirm
            title="Go back to this checkpoint?"
            text="Everything after it is discarded. Use Fork to keep both."
            action="Rewind"
            onClose={() => setRewinding(null)}
            onConfirm={() =>
              void session.rewind(checkpoint()).then((done) => {
                if (done) void update();
              })
            }
          />
        )}
      </Show>
    </>
  );
}
