/** The current view, stored in the URL so that reloading and links restore it. */

import { createSignal } from "solid-js";

export type Panel = "todos" | "files" | "agents" | "timeline" | "usage";
export const PANELS: Panel[] = ["todos", "files", "agents", "timeline", "usage"];

export interface Route {
  thread: string | null;
  assistant: string | null;
  panel: Panel | null;
  file: string | null;
  agent: string | null;
}

/** Threads have UUIDs; anything else in the URL is not a thread. */
const THREAD = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

function read(): Route {
  const query = new URLSearchParams(location.search);
  const thread = query.get("thread");
  const panel = query.get("panel") as Panel | null;
  return {
    thread: thread && THREAD.test(thread) ? thread : null,
    assistant: query.get("assistant"),
    panel: panel && PANELS.includes(panel) ? panel : null,
    file: query.get("file"),
    agent: query.get("agent"),
  };
}

const [route, setRoute] = createSignal(read());
export { route };

/** Changes the view. Opening another thread adds a history entry; other changes replace the current one. */
export function go(change: Partial<Route>): void {
  const next = { ...route(), ...change };
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(next)) if (value) query.set(key, value);
  const address = query.size ? `/?${query}` : "/";
  if (next.thread === route().thread) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  setRoute(next);
}

window.addEventListener("popstate", () => setRoute(read()));
