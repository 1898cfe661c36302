/** Saying something else than was said: the thread goes back to before the message, and the new one is sent. */

import { createSignal, onMount } from "solid-js";
import { threads } from "../api/client";
import type { Checkpoint } from "../api/types";
import { usePage, useSession } from "../model/context";
import type { Entry } from "../model/entries";
import { outgoing } from "../model/outgoing";

const PAGE = 5;

/** The checkpoint before a message: the newest input whose state does not have it yet. */
async function before(thread: string, message: string): Promise<Checkpoint | undefined> {
  for (let last: string | undefined; ; ) {
    const page = await threads.history(thread, { limit: PAGE, before: last, metadata: { source: "input" } });
    for (const checkpoint of page) {
      const has = (checkpoint.values.messages ?? []).some(({ id }) => id === message);
      if (!has) return checkpoint;
    }
    last = page.at(-1)?.checkpoint_id ?? undefined;
    if (!last || page.length < PAGE) return undefined;
  }
}

export function EditMessage(props: { entry: Entry; onClose: () => void }) {
  const page = usePage();
  const session = useSession();
  const [text, setText] = createSignal(props.entry.text);
  const [busy, setBusy] = createSignal(false);
  let area!: HTMLTextAreaElement;
  onMount(() => area.focus());
  async function send() {
    const assistant = page.assistant();
    if (!assistant || !text().trim()) return;
    setBusy(true);
    const checkpoint = await before(session.thread, props.entry.id).catch(() => undefined);
    setBusy(false);
    if (!checkpoint) return page.notify("There is no checkpoint before this message");
    if (await session.rewind(checkpoint)) {
      props.onClose();
      await session.send(assistant, outgoing(text(), []), "enqueue");
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
      <p class="hint">The conversation goes back to before this message. What came after it is left behind.</p>
      <div class="actions">
        <button type="button" onClick={() => props.onClose()}>
          Cancel
        </button>
        <button type="submit" class="primary" disabled={busy() || !text().trim()}>
          Send again
        </button>
      </div>
    </form>
  );
}
