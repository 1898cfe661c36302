/** Where a person writes: text, attachments, and what becomes of it while a run is under way. */

import { createEffect, createSignal, For, on, Show } from "solid-js";
import { usePage } from "../model/context";
import { outgoing, readAttachment, type Attachment } from "../model/outgoing";
import { IconButton } from "../ui/button";
import { Icon } from "../ui/icon";

export interface ComposerProps {
  /** Which thread is written to; what was begun there comes back. */
  draft: string;
  busy: boolean;
  onSend: (message: ReturnType<typeof outgoing>, text: string, strategy: "enqueue" | "interrupt") => Promise<boolean>;
  onStop: () => void;
}

const key = (draft: string) => `deepagents-draft-${draft}`;

export function Composer(props: ComposerProps) {
  const { notify, assistant } = usePage();
  const [text, setText] = createSignal("");
  const [attached, setAttached] = createSignal<Attachment[]>([]);
  const [over, setOver] = createSignal(false);
  let area!: HTMLTextAreaElement;
  let picker!: HTMLInputElement;

  createEffect(
    on(
      () => props.draft,
      (draft) => {
        setText(sessionStorage.getItem(key(draft)) ?? "");
        setAttached([]);
        if (matchMedia("(hover: hover)").matches) area.focus();
      },
    ),
  );
  createEffect(() => {
    if (text()) sessionStorage.setItem(key(props.draft), text());
    else sessionStorage.removeItem(key(props.draft));
  });
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
    if (isEmpty() || !assistant()) return;
    const [said, files] = [text(), attached()];
    setText("");
    setAttached([]);
    if (!(await props.onSend(outgoing(said, files), said, strategy))) {
      // It was refused: nothing that was written is lost.
      setText(said);
      setAttached(files);
    }
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send(props.busy && (event.ctrlKey || event.metaKey) ? "interrupt" : "enqueue");
  }

  return (
    <form
      class="composer"
      classList={{ over: over() }}
      onSubmit={(event) => {
        event.preventDefault();
        void send("enqueue");
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void attach([...(event.dataTransfer?.files ?? [])]);
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
                <span>{file.name}</span>
                <IconButton
                  icon="close"
                  label={`Remove ${file.name}`}
                  onClick={() => setAttached((list) => list.filter((_, other) => other !== at()))}
                />
              </li>
            )}
          </For>
        </ul>
      </Show>
      <textarea
        ref={area}
        id="composer"
        aria-label="Message"
        placeholder={props.busy ? "Enter: send next · Ctrl Enter: send now, in place of the run" : "Message the agent"}
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
        <span class="space" />
        <Show
          when={props.busy}
          fallback={<IconButton icon="send" label="Send" class="primary" type="submit" disabled={isEmpty()} />}
        >
          <Show when={!isEmpty()}>
            <button type="submit" title="Enter">
              Queue
            </button>
            <button type="button" title="Ctrl Enter: the run ends where it is, and goes on with this" onClick={() => void send("interrupt")}>
              <Icon name="steer" /> Steer
            </button>
          </Show>
          <IconButton icon="stop" label="Stop" class="primary" onClick={() => props.onStop()} />
        </Show>
      </div>
    </form>
  );
}
