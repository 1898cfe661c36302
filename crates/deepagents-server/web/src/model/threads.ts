/** The list of threads, newest first. */

import { createSignal, onCleanup } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { threads } from "../api/client";
import type { Thread } from "../api/types";

const PAGE = 100;
const LOOK_EVERY = 8000;

/** What a thread is called. */
export function title(thread: Thread): string {
  const given = thread.metadata.title;
  return typeof given === "string" && given.trim() ? given : `Thread ${thread.thread_id.slice(-8)}`;
}

/** The first words of a message, as a title. */
export function titleFor(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  const letters = [...line];
  return letters.length > 60 ? `${letters.slice(0, 59).join("")}…` : line || "Untitled";
}

export function createThreads() {
  const [list, set] = createStore<Thread[]>([]);
  const [limit, setLimit] = createSignal(PAGE);
  const [more, setMore] = createSignal(false);
  const [failure, setFailure] = createSignal<string | null>(null);
  let asked = 0;
  async function refresh() {
    const turn = ++asked;
    try {
      const found = await threads.list(limit() + 1);
      if (turn !== asked) return;
      setMore(found.length > limit());
      set(reconcile(found.slice(0, limit()), { key: "thread_id" }));
      setFailure(null);
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    }
  }
  const look = () => document.hidden || void refresh();
  const timer = setInterval(look, LOOK_EVERY);
  window.addEventListener("thread-changed", look);
  onCleanup(() => {
    clearInterval(timer);
    window.removeEventListener("thread-changed", look);
  });
  void refresh();
  return {
    list,
    more,
    failure,
    refresh,
    showMore: () => {
      setLimit(limit() + PAGE);
      void refresh();
    },
  };
}

export type Threads = ReturnType<typeof createThreads>;
