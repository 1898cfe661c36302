/** Editing a sent message: the thread is rewound to before the message, and the new one is sent. */

import { createSignal, onMount } from "solid-js";
import { runs, threads } from "../api/client";
import type { Checkpoint, Message } from "../api/types";
import { usePage, useSession } from "../model/context";
import { readContent, type Entry } from "../model/entries";
import { inputMessages } from "../model/input";
import { outgoing } from "../model/outgoing";

const PAGE = 5;

const has = (checkpoint: Checkpoint, message: string) => (checkpoint.values.messages ?? []).some(({ id }) => id === message);

/** Returns the checkpoint before a message: the newest input whose state does not contain it yet. */
async function before(thread: string, message: string, text: string): Promise<Checkpoint | undefined> {
  // The run that received the message started there. Whole states are read only if that run is unknown. A message sent
  // without an id is recognised by its text.
  const isIt = (one: Message) => (one.id ? one.id === message : readContent(one.content).text === text);
  const given = (await runs.list(thread, { limit: 1000 })).filter((run) => inputMessages(run).some(isIt));
  given.sort((a, b) => b.created_at.localeCompare(a.created_at));
  for (const run of given) {
    const [checkpoint] = await threads.history(thread, { limit: 1, metadata: { source: "input", run_id: run.run_id } });
    if (checkpoint && !has(checkpoint, message)) return checkpoint;
  }
  for (let last: string | undefined; ; ) {
    const page = await threads.history(thread, { limit: PAGE, before: last, metadata: { source: "input" } });
    for (const checkpoint of page) {
      if (!has(checkpoint, message)) return checkpoint;
    }
    last = page.at(-1)?.checkpoint_id ?? undefined;
    if (!last || page.length < PAGE) return undefined;
  }
}

export function EditMessage(props: { entry: Entry; draft: string; onClose: () => void }) {
  const page = usePage();
  const session = useSession();
  // The draft outlives the form, which is removed when the message is scrolled out of view.
  const text = () => session.drafts[props.draft]?.text ?? props.entry.text;
  const setText = (text: string) => session.draft(props.draft, { text, base: props.entry.text });
  const [busy, setBusy] = createSignal(false);
  let area!: HTMLTextAreaElement;
  onMount(() => area.focus());
  async function send() {
    const assistant = page.assistant();
    const [said, blocks, close] = [text(), [...props.entry.blocks], props.onClose];
    if (!assistant || !(said.trim() || blocks.length)) return;
    setBusy(true);
    const checkpoint = await before(session.thread, props.entry.id, props.entry.text).catch(() => undefined);
    setBusy(false);
    if (!checkpoint) return page.notify("No checkpoint was found before this message");
    if (await session.rewind(checkpoint)) {
      close();
      const sent = await session.send(assistant, outgoing(said, [], blocks), "enqueue");
      // The edited message is gone, so its text moves to the composer.
      if (!sent) {
        if (said.trim()) session.draft("returned", { text: said, base: "" });
        if (blocks.length) page.notify("The message was not sent; attach its files again");
      }
    }
  }
  return (
    <form
      class="edit-message"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea ref={area} aria-label="Your message" value={text()} rows="3" onInput={(event) => setText(event.currentTarget.value)} />
      <p class="hint">The conversation is rewound to before this message. Everything after it is discarded.</p>
      <div class="actions">
        <button type="button" onClick={() => props.onClose()}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={busy() || !(text().trim() || props.entry.blocks.length)}>
          Send again
        </button>
      </div>
    </form>
  );
}
