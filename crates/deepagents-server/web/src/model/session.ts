/**
 * The thread that is looked at: its state, and the runs on it as they come.
 *
 * The state is loaded, then every run that is open is followed by its stream, from wherever it was begun: this tab, another
 * one, another client. A connection that breaks is taken up after the last event. Between runs the thread is looked at now
 * and then, and at once when another tab says that something happened.
 */

import { createStore, produce, reconcile } from "solid-js/store";
import { ApiError, runs, threads } from "../api/client";
import { keyWanted } from "../api/key";
import { events, type ServerEvent } from "../api/sse";
import type { Assistant, Checkpoint, Decision, Interrupt, Message, OutgoingMessage, Run, Values } from "../api/types";
import { empty, put, readContent, readConversation } from "./entries";
import { inputMessages } from "./input";
import { rewind } from "./rewind";
import { readFailures, take, takeUpdate, type SessionState } from "./state";
import { fillTranscripts, subAgents } from "./transcripts";

/** What is being written and not yet sent or saved. */
export interface Draft {
  text: string;
  /** What it was made of. */
  base: string;
}

/** How often a thread on which nothing happens is looked at, in milliseconds. */
const LOOK_EVERY = 4000;
const RETRY_AFTER = [250, 1000, 2000, 4000];

/** A way to the other tabs; a browser that keeps nothing for the page may refuse it. */
function channel(): BroadcastChannel | null {
  try {
    return new BroadcastChannel("deepagents-threads");
  } catch {
    return null;
  }
}

const tabs = channel();

/** Says to the other tabs that something happened to a thread, and to the lists of this one. */
export function announce(thread: string): void {
  tabs?.postMessage(thread);
  window.dispatchEvent(new CustomEvent("thread-changed", { detail: thread }));
}

tabs?.addEventListener("message", (event) => {
  window.dispatchEvent(new CustomEvent("thread-changed", { detail: event.data }));
});

/** The part of a request that says whom it is for. */
export const to = (assistant: Assistant) => ({ assistant_id: assistant.assistant_id, config: assistant.config });

export type Session = ReturnType<typeof openSession>;

export function openSession(thread: string) {
  const [state, set] = createStore<SessionState>({
    loaded: false,
    conversation: empty(),
    children: {},
    todos: [],
    files: {},
    interrupts: [],
    failures: {},
    stopped: false,
    run: null,
    queue: [],
    progress: null,
    error: null,
    offline: false,
  });
  // By what is written: parts of the page that write come and go, what was written stays.
  const [drafts, setDrafts] = createStore<Record<string, Draft>>({});
  const closing = new AbortController();
  const { signal } = closing;
  /** Runs that were taken back before they began; they end when their turn comes. */
  const takenBack = new Set<string>();
  /** Runs that were made here since the open ones were asked for. */
  let made: Run[] = [];
  /** The run that is followed, or is about to be. */
  let followed: string | undefined;
  let seen = "";
  /** How long the conversation was when the transcripts of its sub-agents were read last. */
  let transcriptsReadAt = 0;
  let wake = () => {};
  let awake = false;

  const change = (mutate: (draft: SessionState) => void) => set(produce(mutate));

  /** Waits until something happens, or it is time to look. */
  async function pause(ms: number) {
    if (!awake) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, document.hidden ? ms * 5 : ms);
        wake = () => (clearTimeout(timer), resolve());
      });
    }
    awake = false;
  }

  /** Looks at the thread now. */
  function look() {
    awake = true;
    wake();
  }

  function show(values: Values, interrupts: Interrupt[]) {
    set("conversation", reconcile(readConversation(values.messages ?? []), { key: "id", merge: true }));
    set("todos", reconcile(values.todos ?? []));
    set("files", reconcile(values.files ?? {}));
    set("interrupts", reconcile(interrupts, { key: "id" }));
  }

  async function load() {
    const [checkpoint, failed] = await Promise.all([threads.state(thread, signal), runs.list(thread, { status: "error" }, signal)]);
    show(checkpoint.values, checkpoint.interrupts);
    set("failures", reconcile(readFailures(failed)));
    set("stopped", checkpoint.next.length > 0 && checkpoint.interrupts.length === 0);
  }

  async function openRuns() {
    const [running, pending] = await Promise.all([
      runs.list(thread, { status: "running" }, signal),
      runs.list(thread, { status: "pending" }, signal),
    ]);
    const waiting = pending.filter((run) => !takenBack.has(run.run_id));
    return [...running, ...waiting].sort((a, b) => a.created_at.localeCompare(b.created_at));
  }

  // Pieces of answers come many to a frame; all of one frame are one change.
  let waiting: ServerEvent[] = [];
  let frame = 0;
  function flush() {
    clearTimeout(frame);
    frame = 0;
    const batch = waiting;
    waiting = [];
    if (batch.length) change((draft) => batch.forEach((event) => take(draft, event)));
  }
  function queueEvent(event: ServerEvent) {
    waiting.push(event);
    frame ||= setTimeout(flush, document.hidden ? 500 : 30) as unknown as number;
  }

  /** Waits until somebody can see the page. */
  async function seenAgain() {
    while (document.hidden && !signal.aborted) {
      await new Promise<void>((resolve) => {
        document.addEventListener("visibilitychange", () => resolve(), { once: true, signal });
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }

  async function follow(run: Run) {
    const given = inputMessages(run);
    // What a client sent without ids has those that the server gave, and is known by its words.
    if (given.some((message) => !message.id)) await load();
    const words = new Set(state.conversation.entries.slice(-20).map((entry) => entry.text));
    change((draft) => {
      draft.run = run;
      draft.error = null;
      if (run.kwargs.command?.resume !== undefined) draft.interrupts = [];
      given.forEach((message, at) => {
        if (message.id) put(draft.conversation, message);
        else if (!words.has(readContent(message.content).text)) put(draft.conversation, { ...message, id: `${run.run_id}/${at}` });
      });
    });
    let last = "-1";
    for (let tries = 0; !signal.aborted; ) {
      // Browsers allow few connections to a server: tabs that nobody looks at leave theirs to others.
      await seenAgain();
      const connection = new AbortController();
      const leave = () => document.hidden && connection.abort();
      document.addEventListener("visibilitychange", leave);
      try {
        const either = AbortSignal.any([signal, connection.signal]);
        for await (const event of events(await runs.stream(thread, run.run_id, last, either))) {
          tries = 0;
          last = event.id || last;
          queueEvent(event);
          if (state.offline) set("offline", false);
        }
        break;
      } catch (error) {
        if (signal.aborted) return;
        if (connection.signal.aborted) continue;
        if (error instanceof ApiError && error.status >= 400 && error.status < 500) break;
        set("offline", true);
        await new Promise((resolve) => setTimeout(resolve, RETRY_AFTER[Math.min(tries++, RETRY_AFTER.length - 1)]));
      } finally {
        document.removeEventListener("visibilitychange", leave);
      }
    }
    flush();
    change((draft) => {
      draft.run = null;
      draft.progress = null;
      draft.offline = false;
    });
    announce(thread);
  }

  async function watch() {
    while (!signal.aborted) {
      try {
        followed = undefined;
        made = [];
        const open = await openRuns();
        const [run, ...queue] = open;
        followed = run?.run_id;
        const late = followed ? made.filter((own) => !open.some((known) => known.run_id === own.run_id)) : [];
        set("queue", reconcile([...queue, ...late], { key: "run_id" }));
        if (run) {
          if (!state.loaded) {
            await load();
            set("loaded", true);
          }
          await follow(run);
        }
        const brief = await threads.brief(thread, signal);
        if (!brief) {
          change((draft) => {
            draft.error = "This thread does not exist; it may have been deleted.";
            draft.loaded = true;
          });
          return;
        }
        if (brief.updated_at !== seen || run) {
          await load();
          seen = brief.updated_at;
          const failure = brief.status === "error" ? brief.error : null;
          if (failure) set("error", failure.message);
        }
        change((draft) => {
          draft.loaded = true;
          draft.offline = false;
        });
        if (brief.status === "busy" && awake === false) await pause(150);
        else await pause(LOOK_EVERY);
      } catch (error) {
        if (signal.aborted) return;
        // The page asks for a key, and is loaded again with it.
        if (keyWanted()) return;
        if (error instanceof ApiError && error.status === 0) set("offline", true);
        else {
          set("error", error instanceof Error ? error.message : String(error));
          // What one state or run has in it that cannot be read does not end the watch over the thread.
          if (!(error instanceof ApiError)) set("loaded", true);
        }
        await pause(LOOK_EVERY / 2);
      }
    }
  }

  const onChange = (event: Event) => {
    if ((event as CustomEvent<string>).detail === thread && !state.run) look();
  };
  const onVisible = () => document.hidden || look();
  window.addEventListener("thread-changed", onChange);
  document.addEventListener("visibilitychange", onVisible);
  void watch();

  /** Does what a person asked for; a refusal is shown. */
  async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      set("error", null);
      const done = await work();
      look();
      announce(thread);
      return done;
    } catch (error) {
      set("error", error instanceof Error ? error.message : String(error));
      // It may be refused because something happened here that is not known yet.
      if (error instanceof ApiError && error.status) look();
      return undefined;
    }
  }

  return {
    thread,
    state,
    drafts,
    /** Keeps what is being written; nothing ends it. */
    draft: (key: string, draft: Draft | undefined) => setDrafts(key, draft as Draft),
    close() {
      closing.abort();
      clearTimeout(frame);
      window.removeEventListener("thread-changed", onChange);
      document.removeEventListener("visibilitychange", onVisible);
      wake();
    },
    dismissError: () => set("error", null),
    /** Sends a message; where a run is under way it waits its turn, or takes the run's place. */
    async send(assistant: Assistant, message: OutgoingMessage, strategy: "enqueue" | "interrupt") {
      const sent = await attempt(async () => {
        if (!state.run && !state.queue.length) {
          change((draft) => put(draft.conversation, { ...message, type: "human" } satisfies Message));
        }
        const run = await runs.create(thread, { ...to(assistant), input: { messages: [message] }, multitask_strategy: strategy });
        made.push(run);
        const isKnown = run.run_id === followed || state.queue.some((known) => known.run_id === run.run_id);
        if (followed && !isKnown) change((draft) => void draft.queue.push(run));
        return run;
      });
      // It was not said after all.
      if (!sent) change(({ conversation }) => void (conversation.entries = conversation.entries.filter(({ id }) => id !== message.id)));
      return sent;
    },
    /** Goes on with what a run left. */
    proceed: (assistant: Assistant) => attempt(() => runs.create(thread, { ...to(assistant), input: null })),
    stop: () => attempt(async () => state.run && (await runs.cancel(thread, state.run.run_id, true))),
    cancel: (run: string) =>
      attempt(async () => {
        await runs.cancel(thread, run, false);
        takenBack.add(run);
        change((draft) => void (draft.queue = draft.queue.filter((queued) => queued.run_id !== run)));
      }),
    /** Answers all that waits, by the ids of the interrupts. */
    resume: (assistant: Assistant, decisions: Record<string, Decision[]>) =>
      attempt(async () => {
        const resume = Object.fromEntries(Object.entries(decisions).map(([id, list]) => [id, { decisions: list }]));
        return runs.create(thread, { ...to(assistant), command: { resume } });
      }),
    /** Ends the wait without making the calls. */
    resolve: (assistant: Assistant) =>
      attempt(() => runs.create(thread, { ...to(assistant), command: { goto: "__end__" } })),
    writeFile: (path: string, text: string | null) =>
      attempt(async () => {
        await threads.update(thread, { files: { [path]: text } });
        await load();
        return true;
      }),
    /** Goes back to a checkpoint: what came after it is left behind. */
    rewind: (to: Checkpoint) =>
      attempt(async () => {
        await rewind(thread, to, state);
        await load();
        return true;
      }),
    /** Reads what sub-agents said while nobody followed them: in earlier runs, or in one that ended at once. */
    async readTranscripts() {
      const entries = state.conversation.entries.length;
      if (!state.loaded || state.run || entries === transcriptsReadAt) return;
      if (!subAgents(thread, state).some((agent) => !agent.transcript)) return;
      transcriptsReadAt = entries;
      try {
        const take = (event: ServerEvent) => change((draft) => event.path.length && takeUpdate(draft, event));
        await fillTranscripts(thread, state, signal, take);
      } catch (error) {
        if (!signal.aborted) set("error", error instanceof Error ? error.message : String(error));
      }
    },
  };
}
