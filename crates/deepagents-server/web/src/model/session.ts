/**
 * The open thread: its state, and its runs as they happen.
 *
 * The state is loaded, then the stream of every open run is followed, whether the run was started by this tab, another
 * tab or another client. A broken connection resumes after the last event. Between runs the thread is polled, and
 * checked at once when another tab reports a change.
 */

import { createStore, produce, reconcile } from "solid-js/store";
import { ApiError, runs, threads } from "../api/client";
import { keyWanted } from "../api/key";
import { events, type ServerEvent } from "../api/sse";
import type { Assistant, Checkpoint, Decision, Goal, Interrupt, Message, OutgoingMessage, Run, Values } from "../api/types";
import { empty, put, readContent, readConversation } from "./entries";
import { inputGoal, inputMessages } from "./input";
import { rewind } from "./rewind";
import { readFailures, take, takeUpdate, type SessionState } from "./state";
import { fillTranscripts, subAgents } from "./transcripts";

/** A text that is not yet sent or saved. */
export interface Draft {
  text: string;
  /** The text it was edited from. */
  base: string;
}

/** Polling interval of an idle thread, in milliseconds. */
const LOOK_EVERY = 4000;
const RETRY_AFTER = [250, 1000, 2000, 4000];

/** A channel to the other tabs. A browser without storage for the page may refuse it. */
function channel(): BroadcastChannel | null {
  try {
    return new BroadcastChannel("deepagents-threads");
  } catch {
    return null;
  }
}

const tabs = channel();

/** Announces a change of a thread to the other tabs and to the lists in this one. */
export function announce(thread: string): void {
  tabs?.postMessage(thread);
  window.dispatchEvent(new CustomEvent("thread-changed", { detail: thread }));
}

tabs?.addEventListener("message", (event) => {
  window.dispatchEvent(new CustomEvent("thread-changed", { detail: event.data }));
});

/** The part of a request that selects the assistant. */
export const to = (assistant: Assistant) => ({ assistant_id: assistant.assistant_id, config: assistant.config });

export type Session = ReturnType<typeof openSession>;

export function openSession(thread: string) {
  const [state, set] = createStore<SessionState>({
    loaded: false,
    conversation: empty(),
    children: {},
    todos: [],
    files: {},
    goal: null,
    judgement: null,
    judging: false,
    interrupts: [],
    failures: {},
    stopped: false,
    run: null,
    queue: [],
    progress: null,
    error: null,
    offline: false,
  });
  // Drafts by key. They outlive the components that edit them.
  const [drafts, setDrafts] = createStore<Record<string, Draft>>({});
  const closing = new AbortController();
  const { signal } = closing;
  /** Runs cancelled before they began. Some end only when their turn comes. */
  const takenBack = new Set<string>();
  /** Runs created here since the open runs were last listed. */
  let made: Run[] = [];
  /** The run that is followed, or is about to be. */
  let followed: string | undefined;
  let seen = "";
  /** The length of the conversation when transcripts of sub-agents were last read. */
  let transcriptsReadAt = 0;
  let wake = () => {};
  let awake = false;

  const change = (mutate: (draft: SessionState) => void) => set(produce(mutate));

  /** Waits for a wake-up or a timeout. */
  async function pause(ms: number) {
    if (!awake) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, document.hidden ? ms * 5 : ms);
        wake = () => (clearTimeout(timer), resolve());
      });
    }
    awake = false;
  }

  /** Checks the thread now. */
  function look() {
    awake = true;
    wake();
  }

  function show(values: Values, interrupts: Interrupt[]) {
    set("conversation", reconcile(readConversation(values.messages ?? []), { key: "id", merge: true }));
    set("todos", reconcile(values.todos ?? []));
    set("files", reconcile(values.files ?? {}));
    set("goal", values.rubric ?? null);
    set("judgement", reconcile(values.rubric_progress?.rubric ? values.rubric_progress : null));
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

  // Many chunks arrive per frame; apply those of a frame as one change.
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

  /** Waits until the page is visible. */
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
    // Messages sent without ids get them from the server; load those first. They are then recognised by their text.
    if (given.some((message) => !message.id)) await load();
    const words = new Set(state.conversation.entries.slice(-20).map((entry) => entry.text));
    change((draft) => {
      draft.run = run;
      draft.error = null;
      if (run.kwargs.command?.resume !== undefined) draft.interrupts = [];
      const goal = inputGoal(run);
      if (goal !== undefined) [draft.goal, draft.judgement] = [goal, null];
      given.forEach((message, at) => {
        if (message.id) put(draft.conversation, message);
        else if (!words.has(readContent(message.content).text)) put(draft.conversation, { ...message, id: `${run.run_id}/${at}` });
      });
    });
    let last = "-1";
    for (let tries = 0; !signal.aborted; ) {
      // Browsers allow few connections per server, so hidden tabs give theirs up.
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
      draft.judging = false;
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
        // The page asks for a key and reloads with it.
        if (keyWanted()) return;
        if (error instanceof ApiError && error.status === 0) set("offline", true);
        else {
          set("error", error instanceof Error ? error.message : String(error));
          // A state or run that cannot be parsed must not end the polling.
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

  /** Performs a person's action and shows an error if it fails. */
  async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      set("error", null);
      const done = await work();
      look();
      announce(thread);
      return done;
    } catch (error) {
      set("error", error instanceof Error ? error.message : String(error));
      // It may have failed because of a change that this page has not seen yet.
      if (error instanceof ApiError && error.status) look();
      return undefined;
    }
  }

  return {
    thread,
    state,
    drafts,
    /** Stores a draft, which stays until it is removed. */
    draft: (key: string, draft: Draft | undefined) => setDrafts(key, draft as Draft),
    close() {
      closing.abort();
      clearTimeout(frame);
      window.removeEventListener("thread-changed", onChange);
      document.removeEventListener("visibilitychange", onVisible);
      wake();
    },
    dismissError: () => set("error", null),
    /** Sends a message. If a run is in flight, the message is queued or interrupts the run. */
    async send(assistant: Assistant, message: OutgoingMessage, strategy: "enqueue" | "interrupt", goal?: Goal) {
      const sent = await attempt(async () => {
        if (!state.run && !state.queue.length) {
          change((draft) => put(draft.conversation, { ...message, type: "human" } satisfies Message));
        }
        const run = await runs.create(thread, { ...to(assistant), input: { messages: [message], ...goal }, multitask_strategy: strategy });
        made.push(run);
        const isKnown = run.run_id === followed || state.queue.some((known) => known.run_id === run.run_id);
        if (followed && !isKnown) change((draft) => void draft.queue.push(run));
        return run;
      });
      // Sending failed, so remove the message again.
      if (!sent) change(({ conversation }) => void (conversation.entries = conversation.entries.filter(({ id }) => id !== message.id)));
      return sent;
    },
    /** Resumes what a run left unfinished. */
    proceed: (assistant: Assistant) => attempt(() => runs.create(thread, { ...to(assistant), input: null })),
    stop: () => attempt(async () => state.run && (await runs.cancel(thread, state.run.run_id, true))),
    cancel: (run: string) =>
      attempt(async () => {
        await runs.cancel(thread, run, false);
        takenBack.add(run);
        change((draft) => void (draft.queue = draft.queue.filter((queued) => queued.run_id !== run)));
      }),
    /** Responds to all interrupts, by id. */
    resume: (assistant: Assistant, decisions: Record<string, Decision[]>) =>
      attempt(async () => {
        const resume = Object.fromEntries(Object.entries(decisions).map(([id, list]) => [id, { decisions: list }]));
        return runs.create(thread, { ...to(assistant), command: { resume } });
      }),
    /** Ends the interrupts without making the calls. */
    resolve: (assistant: Assistant) =>
      attempt(() => runs.create(thread, { ...to(assistant), command: { goto: "__end__" } })),
    writeFile: (path: string, text: string | null) =>
      attempt(async () => {
        await threads.update(thread, { files: { [path]: text } });
        await load();
        return true;
      }),
    /** Rewinds to a checkpoint, discarding what came after it. */
    rewind: (to: Checkpoint) =>
      attempt(async () => {
        await rewind(thread, to, state);
        await load();
        return true;
      }),
    /** Reads transcripts of sub-agents that were not followed live: of earlier runs, or of one that ended at once. */
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
