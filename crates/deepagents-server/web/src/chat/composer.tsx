/** The composer: text, attachments, and how to send while a run is in flight. */

import { createEffect, createSignal, For, on, onCleanup, Show } from "solid-js";
import type { Goal } from "../api/types";
import { usePage } from "../model/context";
import { tab } from "../model/kept";
import { outgoing, readAttachment, type Attachment } from "../model/outgoing";
import { IconButton } from "../ui/button";
import { Icon } from "../ui/icon";
import { visible } from "../ui/visible";

export interface ComposerProps {
  /** Key of the draft, which is restored when its thread is shown again. */
  draft: string;
  busy: boolean;
  /** Text of a message that could not be sent elsewhere, to be edited here. */
  returned?: string;
  onReturned?: () => void;
  onSend: (message: ReturnType<typeof outgoing>, text: string, strategy: "enqueue" | "interrupt", goal?: Goal) => Promise<boolean>;
  onStop: () => void;
}

const key = (draft: string) => `deepagents-draft-${draft}`;
const goalKey = (draft: string) => `deepagents-goal-${draft}`;

/** Attachments of drafts, kept while the page is open. */
const begun = new Map<string, Attachment[]>();

/** Moves a draft from one key to another. */
export function moveDraft(from: string, to: string): void {
  tab.set(key(to), tab.get(key(from)));
  tab.set(key(from), null);
  tab.set(goalKey(to), tab.get(goalKey(from)));
  tab.set(goalKey(from), null);
  begun.set(to, begun.get(from) ?? []);
  begun.delete(from);
}

export function Composer(props: ComposerProps) {
  const { agent, notify, assistantSoon } = usePage();
  const [text, setText] = createSignal("");
  /** The goal, or null while no field for one is open. */
  const [goal, setGoal] = createSignal<string | null>(null);
  const [attached, setAttached] = createSignal<Attachment[]>([]);
  const [over, setOver] = createSignal(false);
  let area!: HTMLTextAreaElement;
  let picker!: HTMLInputElement;

  createEffect(
    on(
      () => props.draft,
      (draft) => {
        setText(tab.get(key(draft)) ?? "");
        setGoal(tab.get(goalKey(draft)) ?? null);
        setAttached(begun.get(draft) ?? []);
        if (matchMedia("(hover: hover)").matches) area.focus();
      },
    ),
  );
  createEffect(() => {
    tab.set(key(props.draft), text() || null);
    tab.set(goalKey(props.draft), goal() || null);
    begun.set(props.draft, attached());
  });
  createEffect(
    on(
      () => props.returned,
      (returned) => {
        if (!returned) return;
        setText(text().trim() ? `${returned}\n${text()}` : returned);
        props.onReturned?.();
      },
    ),
  );
  // The height follows the text.
  createEffect(() => {
    text();
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, innerHeight * 0.4)}px`;
  });

  async function attach(files: File[]) {
    for (const file of files) {
      try {
        const read = await readAttachment(file);
        setAttached((list) => [...list, read]);
      } catch (error) {
        notify(error instanceof Error ? error.message : String(error));
      }
    }
  }
  const isEmpty = () => !text().trim() && attached().length === 0;
  async function send(strategy: "enqueue" | "interrupt") {
    if (isEmpty()) return;
    if (!(await assistantSoon())) return notify("Not sent: the list of assistants is not loaded yet");
    if (isEmpty()) return;
    const [said, files, draft, rubric] = [text(), attached(), props.draft, goal()];
    setText("");
    setAttached([]);
    setGoal(null);
    const judged = rubric?.trim() ? { rubric: rubric.trim(), rubric_until_met: true as const } : undefined;
    if (!(await props.onSend(outgoing(said, files), said, strategy, judged))) {
      // Sending failed: restore the text in front of what was written since. If another thread is shown by now, the
      // text is restored with its own draft.
      const since = tab.get(key(draft)) ?? "";
      const back = since.trim() ? `${said}\n${since}` : said;
      const all = [...files, ...(begun.get(draft) ?? [])];
      tab.set(key(draft), back || null);
      begun.set(draft, all);
      tab.set(goalKey(draft), tab.get(goalKey(draft)) ?? rubric);
      if (draft === props.draft) {
        setGoal(goal() ?? rubric);
        setText(back);
        setAttached(all);
      }
    }
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send(props.busy && (event.ctrlKey || event.metaKey) ? "interrupt" : "enqueue");
  }

  // The browser would open a file dropped outside the composer in place of the page.
  const drag = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    setOver(event.type === "dragover");
    if (event.type === "drop") void attach([...event.dataTransfer.files]);
  };
  const leave = (event: DragEvent) => event.relatedTarget || setOver(false);
  window.addEventListener("dragover", drag);
  window.addEventListener("drop", drag);
  window.addEventListener("dragleave", leave);
  onCleanup(() => {
    window.removeEventListener("dragover", drag);
    window.removeEventListener("drop", drag);
    window.removeEventListener("dragleave", leave);
  });

  return (
    <form
      class="composer"
      classList={{ over: over() }}
      onSubmit={(event) => {
        event.preventDefault();
        void send("enqueue");
      }}
    >
      <Show when={attached().length}>
        <ul class="attachments" aria-label="Attachments">
          <For each={attached()}>
            {(file, at) => (
              <li>
                <Show when={"base64" in file && file.mime.startsWith("image/") ? file : undefined} fallback={<Icon name="file" />}>
                  {(image) => <img src={`data:${image().mime};base64,${image().base64}`} alt="" />}
                </Show>
                <span>{visible(file.name)}</span>
                <IconButton
                  icon="close"
                  label={`Remove ${visible(file.name)}`}
                  onClick={() => setAttached((list) => list.filter((_, other) => other !== at()))}
                />
              </li>
            )}
          </For>
        </ul>
      </Show>
      <Show when={goal() !== null}>
        <div class="goal-field">
          <input
            type="text"
            aria-label="Goal"
            placeholder="Goal: what must be true of the result"
            value={goal() ?? ""}
            onInput={(event) => setGoal(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || event.isComposing) return;
              event.preventDefault();
              area.focus();
            }}
          />
          <IconButton icon="close" label="Remove goal" onClick={() => setGoal(null)} />
        </div>
      </Show>
      <textarea
        ref={area}
        id="composer"
        aria-label="Message"
        placeholder={props.busy ? "Enter: add to the queue · Ctrl Enter: interrupt the run and send now" : "Message the agent"}
        rows="1"
        value={text()}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          const files = [...(event.clipboardData?.files ?? [])];
          if (files.length) {
            event.preventDefault();
            void attach(files);
          }
        }}
      />
      <div class="composer-bar">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to attach"
          onChange={(event) => {
            void attach([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
        <IconButton icon="clip" label="Attach files" onClick={() => picker.click()} />
        <Show when={agent()?.goals && goal() === null}>
          <IconButton icon="goal" label="Set a goal" onClick={() => setGoal("")} />
        </Show>
        <span class="space" />
        <Show
          when={props.busy}
          fallback={<IconButton icon="send" label="Send" class="primary" type="submit" disabled={isEmpty()} />}
        >
          <Show when={!isEmpty()}>
            <button type="submit" title="Enter">
              Queue
            </button>
            <button type="button" title="Ctrl Enter: interrupt the run and continue with this message" onClick={() => void send("interrupt")}>
              <Icon name="steer" /> Steer
            </button>
          </Show>
          <IconButton icon="stop" label="Stop" class="primary" onClick={() => props.onStop()} />
        </Show>
      </div>
    </form>
  );
}
