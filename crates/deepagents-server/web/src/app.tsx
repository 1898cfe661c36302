/** The page: threads on the left, a conversation, and panels on the right. */

import { createEffect, createMemo, createResource, createRoot, createSignal, For, on, onCleanup, Show } from "solid-js";
import { assistants as requests, facts } from "./api/client";
import { keyWanted } from "./api/key";
import type { Assistant } from "./api/types";
import { Chat } from "./chat/chat";
import { Start } from "./chat/start";
import { PageProvider } from "./model/context";
import { go, PANELS, route, type Panel } from "./model/route";
import { openSession, type Session } from "./model/session";
import { nextTheme, theme } from "./model/theme";
import { createThreads, title } from "./model/threads";
import { Panels } from "./panels/panels";
import { Assistants } from "./sidebar/assistants";
import { Sidebar } from "./sidebar/sidebar";
import { IconButton } from "./ui/button";
import type { IconName } from "./ui/icon";
import { KeyForm } from "./ui/key";
import { visible } from "./ui/visible";
import { narrow, now } from "./ui/window";
import { Keys, listen } from "./keys";

const PANEL: Record<Panel, { icon: IconName; label: string }> = {
  todos: { icon: "list", label: "Todo list" },
  files: { icon: "file", label: "Files" },
  agents: { icon: "tree", label: "Sub-agents" },
  timeline: { icon: "clock", label: "Timeline" },
  usage: { icon: "coins", label: "Tokens and cost" },
};

export function App() {
  const [assistants, { refetch }] = createResource(requests.list);
  const threads = createThreads();
  const [session, setSession] = createSignal<Session>();
  const [sidebar, setSidebar] = createSignal(false);
  const [managing, setManaging] = createSignal(false);
  const [help, setHelp] = createSignal(false);
  const [notice, setNotice] = createSignal("");
  let forget = 0;
  const notify = (text: string) => {
    clearTimeout(forget);
    setNotice(text);
    forget = setTimeout(() => setNotice(""), 5000) as unknown as number;
  };

  const thread = createMemo(() => route().thread);
  createEffect(
    on(thread, (thread) => {
      session()?.close();
      setSession(thread ? openSession(thread) : undefined);
    }),
  );
  onCleanup(() => session()?.close());

  const current = createMemo(() => threads.list.find((thread) => thread.thread_id === route().thread));
  const assistant = createMemo(() => {
    const known = assistants.error ? [] : (assistants() ?? []);
    const by = (id: unknown) => known.find((one) => one.assistant_id === id);
    return by(route().assistant) ?? by(current()?.metadata.assistant_id) ?? known[0];
  });
  const assistantSoon = () =>
    new Promise<Assistant | undefined>((resolve) =>
      createRoot((dispose) =>
        createEffect(() => {
          const known = assistant();
          if (!known && assistants.loading) return;
          resolve(known);
          queueMicrotask(dispose);
        }),
      ),
    );
  // When the server is reachable again, reload the assistants if that had failed.
  createEffect(on([threads.failure, now], ([failure]) => failure === null && assistants.error && void refetch(), { defer: true }));
  const [agent] = createResource(() => assistant()?.graph_id, facts.agent);
  const heading = () => {
    const thread = current();
    return thread ? title(thread) : route().thread ? "Thread" : "New thread";
  };
  createEffect(() => (document.title = route().thread ? `${heading()} · Deep Agents` : "Deep Agents"));
  const panelOpen = () => !!route().panel && !!session();
  const covered = () => narrow() && (sidebar() || panelOpen());
  // On narrow windows, move the focus to an opened overlay, and back to the button that opened it.
  const focus = (found: string) => narrow() && queueMicrotask(() => document.querySelector<HTMLElement>(found)?.focus());
  createEffect(on(sidebar, (open) => focus(open ? ".sidebar .new" : "#menu"), { defer: true }));
  createEffect(
    on(() => (panelOpen() ? route().panel : null), (panel, before) => {
      if (panel) focus(".panel .close");
      else if (before) focus(`#panel-${before}`);
    }),
  );
  listen({
    search: () => {
      setSidebar(narrow());
      document.getElementById("search")?.focus();
    },
    create: () => go({ thread: null, panel: null, file: null, agent: null }),
    write: () => document.getElementById("composer")?.focus(),
    stop: () => session()?.state.run && void session()?.stop(),
    panel: (at) => {
      const panel = PANELS[at];
      if (panel && session()) go({ panel: route().panel === panel ? null : panel });
    },
    close: () => (sidebar() ? setSidebar(false) : route().panel && go({ panel: null })),
    help: () => setHelp(true),
  });

  return (
    <PageProvider
      value={{
        assistants: () => (assistants.error ? [] : (assistants() ?? [])),
        reloadAssistants: () => void refetch(),
        assistant,
        assistantSoon,
        agent: () => (agent.error ? undefined : agent()),
        threads,
        session,
        notify,
      }}
    >
      <Show when={!keyWanted()} fallback={<KeyForm />}>
      <div
        class="page"
        classList={{ "sidebar-open": sidebar(), "panel-open": panelOpen() }}
        onClick={(event) => event.target === event.currentTarget && setSidebar(false)}
      >
        <a class="skip" href="#composer" inert={covered()}>
          Skip to the message
        </a>
        <Sidebar onClose={() => setSidebar(false)} />
        {/* On narrow windows, `inert` keeps the keyboard out of what is covered. */}
        <main inert={covered()}>
          <header class="bar">
            <IconButton icon="menu" id="menu" label="Threads" class="only-narrow" aria-expanded={sidebar()} onClick={() => setSidebar(!sidebar())} />
            <h1>{heading()}</h1>
            <Show when={(assistants.error ? [] : (assistants() ?? [])).length > 1}>
              <select
                class="assistant"
                aria-label="Assistant"
                onChange={(event) => go({ assistant: event.currentTarget.value })}
              >
                <For each={assistants()}>
                  {(one) => (
                    <option value={one.assistant_id} selected={one.assistant_id === assistant()?.assistant_id}>
                      {visible(one.name)}
                    </option>
                  )}
                </For>
              </select>
            </Show>
            <div class="bar-actions" role="toolbar" aria-label="Panels and more">
              <Show when={session()}>
                <For each={PANELS}>
                  {(panel) => (
                    <IconButton
                      icon={PANEL[panel].icon}
                      id={`panel-${panel}`}
                      label={PANEL[panel].label}
                      aria-pressed={route().panel === panel}
                      onClick={() => go({ panel: route().panel === panel ? null : panel })}
                    />
                  )}
                </For>
              </Show>
              <IconButton icon="agents" label="Assistants" onClick={() => setManaging(true)} />
              <IconButton icon="theme" label={`Colours: ${theme()}`} onClick={nextTheme} />
              <IconButton icon="help" label="Keys" onClick={() => setHelp(true)} />
            </div>
          </header>
          <Show when={assistants.error as Error | undefined}>
            {(error) => (
              <div class="problem" role="alert">
                {error().message}
                <button type="button" onClick={() => void refetch()}>
                  Try again
                </button>
              </div>
            )}
          </Show>
          <Show when={session()} keyed fallback={<Start />}>
            <Chat />
          </Show>
        </main>
        <Show when={route().panel && session()} keyed>
          <Panels panels={PANEL} />
        </Show>
      </div>
      </Show>
      <Show when={managing()}>
        <Assistants onClose={() => setManaging(false)} />
      </Show>
      <Show when={help()}>
        <Keys onClose={() => setHelp(false)} />
      </Show>
      <div class="notice" role="status" aria-live="polite">
        {notice()}
      </div>
    </PageProvider>
  );
}
