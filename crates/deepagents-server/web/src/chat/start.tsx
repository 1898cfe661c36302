/** The page without a thread: the choice of an assistant, and the composer. */

import { For, Show } from "solid-js";
import { runs, threads } from "../api/client";
import { usePage } from "../model/context";
import { go } from "../model/route";
import { announce, to } from "../model/session";
import { titleFor } from "../model/threads";
import { visible } from "../ui/visible";
import { onArrows, tabindex } from "../ui/radios";
import { Composer, moveDraft } from "./composer";

export function Start() {
  const page = usePage();
  return (
    <>
      <div class="start">
        <h2>What would you like to do?</h2>
        <Show when={page.assistants().length > 1}>
          <div class="choices" role="radiogroup" aria-label="Assistant" onKeyDown={onArrows}>
            <For each={page.assistants()}>
              {(one, at) => (
                <button
                  type="button"
                  role="radio"
                  aria-checked={one.assistant_id === page.assistant()?.assistant_id}
                  tabindex={tabindex(one.assistant_id === page.assistant()?.assistant_id, !!page.assistant(), at())}
                  onClick={() => go({ assistant: one.assistant_id })}
                >
                  <strong class="name">{visible(one.name)}</strong>
                  <span>{one.description ?? ""}</span>
                </button>
              )}
            </For>
          </div>
        </Show>
        <Show when={page.agent()}>{(agent) => <p class="hint">Model: {agent().model}</p>}</Show>
        <Show when={page.assistants().length === 1 && page.assistant()?.description}>{(text) => <p class="hint">{text()}</p>}</Show>
      </div>
      <div class="below">
        <Composer
          draft="new"
          busy={false}
          onStop={() => undefined}
          onSend={async (message, text, _strategy, goal) => {
            const assistant = page.assistant();
            if (!assistant) return false;
            try {
              const metadata = { title: titleFor(text), graph_id: assistant.graph_id, assistant_id: assistant.assistant_id };
              const thread = await threads.create(metadata);
              await runs.create(thread.thread_id, { ...to(assistant), input: { messages: [message], ...goal } });
              moveDraft("new", thread.thread_id);
              go({ thread: thread.thread_id });
              announce(thread.thread_id);
              return true;
            } catch (error) {
              page.notify(error instanceof Error ? error.message : String(error));
              return false;
            }
          }}
        />
      </div>
    </>
  );
}
