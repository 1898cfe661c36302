/** The list of threads, newest first. */

import { createSignal, onCleanup } from "solid-js";
import { createStore, reconcile } from "solid-js/store";
import { threads } from "../api/client";
import { keyWanted } from "../api/key";
import type { Thread } from "../api/types";
import { isBlank, visible } from "../ui/visible";

const PAGE = 100;
/** Maximum page size of the server. */
const MOST = 1000;
const LOOK_EVERY = 8000;

/** Returns the title of a thread. */
export function title(thread: Thread): string {
  const given = thread.metadata.title;
  return typeof given === "string" && !isBlank(given) ? visible(given) : `Thread ${thread.thread_id.slice(-8)}`;
}

/** Makes a title from the start of a message. */
export function titleFor(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  const letters = [...line];
  return letters.length > 60 ? `${letters.slice(0, 59).join("")}…` : line || "Untitled";
}

/** Returns the newest threads. Threads may move to the front between pages and so appear twice, hence the map. */
async function newest(count: number): Promise<Thread[]> {
  const found = new Map<string, Thread>();
  for (let offset = 0; offset < count; offset += MOST) {
    const wanted = Math.min(MOST, count - offset);
    const page = await threads.list(wanted, offset);
    for (const thread of page) found.set(thread.thread_id, thread);
    if (page.length < wanted) break;
  }
  return [...found.values()];
}

/** Merges the known list with a newly read beginning. */
function joined(known: Thread[], read: Thread[]): Thread[] {
  const last = read.at(-1)?.updated_at ?? "";
  const ids = new Set(read.map((thread) => thread.thread_id));
  return [...read, ...known.filter((thread) => !ids.has(thread.thread_id) && thread.updated_at < last)];
}

export function createThreads() {
  const [list, set] = createStore<Thread[]>([]);
  const [limit, setLimit] = createSignal(PAGE);
  const [more, setMore] = createSignal(false);
  const [failure, setFailure] = createSignal<string | null>(null);
  let asked = 0;
  /** Reads the list, or only its beginning, where changed threads appear. */
  async function refresh(whole = true) {
    if (keyWanted()) return;
    const turn = ++asked;
    try {
      const isPart = !whole && limit() > PAGE;
      const found = await newest(isPart ? PAGE : limit() + 1);
      if (turn !== asked) return;
      if (!isPart) setMore(found.length > limit());
      set(reconcile(isPart ? joined([...list], found) : found.slice(0, limit()), { key: "thread_id" }));
      setFailure(null);
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    }
  }
  const look = () => document.hidden || void refresh(false);
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
    showMore: (count = PAGE) => {
      setLimit(limit() + count);
      return refresh();
    },
  };
}

export type Threads = ReturnType<typeof createThreads>;
