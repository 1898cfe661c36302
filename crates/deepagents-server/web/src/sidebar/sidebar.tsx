/** The threads: search, open, rename, copy and delete. */

import { createMemo, createSignal, For, Show } from "solid-js";
import { threads as requests } from "../api/client";
import type { Thread } from "../api/types";
import { usePage } from "../model/context";
import { go, route } from "../model/route";
import { announce } from "../model/session";
import { title } from "../model/threads";
import { IconButton } from "../ui/button";
import { Confirm } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { now } from "../ui/window";

const STANDING: Record<Thread["status"], string> = { idle: "idle", busy: "running", interrupted: "waiting for you", error: "failed" };

export function ago(time: string): string {
  const seconds = Math.max(0, (now() - Date.parse(time)) / 1000);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return new Date(time).toLocaleDateString(undefined, { month: "short", day: "numeric" });
}

export function Sidebar(props: { onClose: () => void }) {
  const page = usePage();
  const [search, setSearch] = createSignal("");
  const [renaming, setRenaming] = createSignal<string | null>(null);
  const [deleting, setDeleting] = createSignal<Thread | null>(null);
  const found = createMemo(() => {
    const words = search().toLowerCase().split(/\s+/).filter(Boolean);
    return page.threads.list.filter((thread) => {
      const text = `${title(thread)} ${thread.thread_id}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  });
  async function attempt(work: () => Promise<unknown>) {
    try {
      await work();
      await page.threads.refresh();
    } catch (error) {
      page.notify(error instanceof Error ? error.message : String(error));
    }
  }
  function open(thread: string) {
    go({ thread, file: null, agent: null });
    props.onClose();
  }
  const fork = (thread: Thread) =>
    attempt(async () => {
      const copy = await requests.copy(thread.thread_id);
      await requests.rename(copy.thread_id, `${title(thread)} (fork)`);
      open(copy.thread_id);
    });
  return (
    <nav class="sidebar" aria-label="Threads">
      <div class="sidebar-head">
        <button
          type="button"
          class="new"
          onClick={() => {
            go({ thread: null, panel: null, file: null, agent: null });
            props.onClose();
          }}
        >
          <Icon name="plus" /> New thread
        </button>
        <IconButton icon="close" label="Close threads" class="only-narrow" onClick={() => props.onClose()} />
      </div>
      <label class="search">
        <Icon name="search" />
        <input
          id="search"
          type="search"
          placeholder="Search threads"
          aria-label="Search threads"
          value={search()}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      </label>
      <Show when={page.threads.failure()}>{(failure) => <p class="problem">{failure()}</p>}</Show>
      <Show when={found().length === 0}>
        <p class="hint">{search() ? "No threads match." : "No threads yet."}</p>
      </Show>
      <ul class="threads">
        <For each={found()}>
          {(thread) => (
            <li classList={{ current: route().thread === thread.thread_id }}>
              <Show
                when={renaming() === thread.thread_id}
                fallback={
                  <>
                    <a
                      class="thread"
                      href={`/?thread=${encodeURIComponent(thread.thread_id)}`}
                      aria-current={route().thread === thread.thread_id ? "page" : undefined}
                      onClick={(event) => {
                        // With a modifier key, the browser opens the link elsewhere.
                        if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
                        event.preventDefault();
                        open(thread.thread_id);
                      }}
                      onDblClick={() => setRenaming(thread.thread_id)}
                    >
                      <span class={`dot ${thread.status}`} role="img" aria-label={STANDING[thread.status]} />
                      <span class="title">{title(thread)}</span>
                      <time datetime={thread.updated_at}>{ago(thread.updated_at)}</time>
                    </a>
                    <div class="thread-actions">
                      <IconButton icon="edit" label={`Rename ${title(thread)}`} onClick={() => setRenaming(thread.thread_id)} />
                      <IconButton icon="fork" label={`Fork ${title(thread)}`} onClick={() => void fork(thread)} />
                      <IconButton icon="trash" label={`Delete ${title(thread)}`} onClick={() => setDeleting(thread)} />
                    </div>
                  </>
                }
              >
                <Rename
                  name={title(thread)}
                  onClose={() => setRenaming(null)}
                  onRename={(name) => void attempt(() => requests.rename(thread.thread_id, name))}
                />
              </Show>
            </li>
          )}
        </For>
      </ul>
      <Show when={page.threads.more()}>
        <Show when={search()}>
          <p class="hint">Searched the newest {page.threads.list.length.toLocaleString()} threads.</p>
        </Show>
        <button type="button" class="quiet" onClick={() => void page.threads.showMore(search() ? 1000 : undefined)}>
          {search() ? "Search older threads" : "Older threads"}
        </button>
      </Show>
      <Show when={deleting()}>
        {(thread) => (
          <Confirm
            title="Delete this thread?"
            text={`“${title(thread())}” and all its checkpoints will be deleted.`}
            action="Delete"
            onClose={() => setDeleting(null)}
            onConfirm={() =>
              void attempt(async () => {
                const { thread_id } = thread();
                if (route().thread === thread_id) go({ thread: null, panel: null });
                await requests.delete(thread_id);
                announce(thread_id);
                await page.threads.refresh();
                // The focused button disappeared with the thread.
                if (document.activeElement === document.body) document.querySelector<HTMLElement>(".sidebar .new")?.focus();
              })
            }
          />
        )}
      </Show>
    </nav>
  );
}

function Rename(props: { name: string; onRename: (name: string) => void; onClose: () => void }) {
  let done = false;
  function finish(name: string | null) {
    if (done) return;
    done = true;
    if (name?.trim() && name !== props.name) props.onRename(name.trim());
    props.onClose();
  }
  return (
    <input
      class="rename"
      aria-label="Name of the thread"
      value={props.name}
      ref={(element) => queueMicrotask(() => element.select())}
      onBlur={(event) => finish(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") finish(event.currentTarget.value);
        if (event.key === "Escape") finish(null);
      }}
    />
  );
}
