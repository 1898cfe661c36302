/** The files of the thread's state: read, compared with what they were before the last run, changed. */

import { createEffect, createMemo, createResource, createSignal, For, Match, on, Show, Switch } from "solid-js";
import { threads } from "../api/client";
import type { StoredFile } from "../api/types";
import { Code } from "../markdown/code";
import { Markdown } from "../markdown/markdown";
import { useSession } from "../model/context";
import { go, route } from "../model/route";
import { Confirm } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { Diff } from "./diff";

/** The text of a file; nothing where it is bytes. */
function textOf(file: StoredFile | undefined): string | undefined {
  if (file === undefined) return undefined;
  if (typeof file === "string") return file;
  if (file.encoding === "base64") return undefined;
  return typeof file.content === "string" ? file.content : file.content.join("\n");
}

const [languages] = createResource(() => import("../markdown/highlight"));

export function Files() {
  const session = useSession();
  const { state } = session;
  const paths = createMemo(() => Object.keys(state.files).sort());
  const [creating, setCreating] = createSignal(false);
  // What the files were before the last run.
  const [before, { refetch }] = createResource(async () => {
    const [checkpoint] = await threads.history(session.thread, { limit: 1, metadata: { source: "input" } });
    return checkpoint?.values.files ?? {};
  });
  const happened = () => [state.run?.run_id, state.conversation.entries.length].join(" ");
  createEffect(on(createMemo(happened), () => void refetch(), { defer: true }));
  const earlier = () => (before.error ? {} : (before.latest ?? {}));
  const mark = (path: string) => {
    if (before.latest === undefined) return "";
    const was = textOf(earlier()[path]);
    return was === undefined ? "new" : was === textOf(state.files[path]) ? "" : "changed";
  };
  return (
    <Show
      when={route().file}
      keyed
      fallback={
        <>
          <Show when={paths().length} fallback={<p class="hint">The state of this thread has no files.</p>}>
            <ul class="files">
              <For each={paths()}>
                {(path) => (
                  <li>
                    <button type="button" onClick={() => go({ file: path })}>
                      <Icon name="file" />
                      <span class="path">{path}</span>
                      <span class="badge">{mark(path)}</span>
                    </button>
                  </li>
                )}
              </For>
            </ul>
          </Show>
          <Show when={creating()} fallback={<button type="button" onClick={() => setCreating(true)}>New file</button>}>
            <form
              class="new-file"
              onSubmit={(event) => {
                event.preventDefault();
                const path = `/${String(new FormData(event.currentTarget).get("path") ?? "").trim().replace(/^\/+/, "")}`;
                if (path === "/" || path in state.files) return;
                void session.writeFile(path, "").then((done) => {
                  if (done) go({ file: path });
                });
              }}
            >
              <input name="path" aria-label="Path of the new file" placeholder="/notes.md" required ref={(input) => queueMicrotask(() => input.focus())} />
              <button type="submit" class="primary">
                Create
              </button>
            </form>
          </Show>
        </>
      }
    >
      {(path) => <OpenFile path={path} before={textOf(earlier()[path])} />}
    </Show>
  );
}

function OpenFile(props: { path: string; before: string | undefined }) {
  const session = useSession();
  const text = () => textOf(session.state.files[props.path]);
  const [view, setView] = createSignal<"text" | "changes" | "edit">("text");
  const [draft, setDraft] = createSignal("");
  const [base, setBase] = createSignal("");
  const [deleting, setDeleting] = createSignal(false);
  const language = () => languages()?.languageOf(props.path) ?? "";
  function edit() {
    setBase(text() ?? "");
    setDraft(base());
    setView("edit");
  }
  return (
    <section class="open-file" aria-label={props.path}>
      <button type="button" class="quiet" onClick={() => go({ file: null })}>
        <Icon name="back" /> All files
      </button>
      <h3 class="path">{props.path}</h3>
      <Show when={text() !== undefined} fallback={<p class="hint">This file is not there, or is no text.</p>}>
        <div class="views" role="group" aria-label="View">
          <button type="button" aria-pressed={view() === "text"} onClick={() => setView("text")}>
            Text
          </button>
          <button type="button" aria-pressed={view() === "changes"} onClick={() => setView("changes")}>
            Changes
          </button>
          <button type="button" aria-pressed={view() === "edit"} disabled={session.state.run !== null} onClick={edit}>
            Edit
          </button>
          <span class="space" />
          <button type="button" class="danger" disabled={session.state.run !== null} onClick={() => setDeleting(true)}>
            Delete
          </button>
        </div>
        <Switch>
          <Match when={view() === "changes"}>
            <p class="hint">Against what it was before the last run.</p>
            <Diff before={props.before ?? ""} after={text() ?? ""} />
          </Match>
          <Match when={view() === "edit"}>
            <form
              onSubmit={(event) => {
                event.preventDefault();
                void session.writeFile(props.path, draft()).then((done) => {
                  if (done) setView("text");
                });
              }}
            >
              <textarea class="editor" aria-label={`Text of ${props.path}`} spellcheck={false} value={draft()} onInput={(event) => setDraft(event.currentTarget.value)} />
              <Show when={text() !== base()}>
                <p class="problem">The file has changed since you began; saving writes over that.</p>
              </Show>
              <div class="actions">
                <button type="button" onClick={() => setView("text")}>
                  Cancel
                </button>
                <button type="submit" class="primary" disabled={draft() === text() || session.state.run !== null}>
                  Save
                </button>
              </div>
            </form>
          </Match>
          <Match when={language() === "markdown"}>
            <Markdown text={text() ?? ""} />
          </Match>
          <Match when={true}>
            <pre tabindex="0" class="file-text">
              <Code text={text() ?? ""} language={language()} />
            </pre>
          </Match>
        </Switch>
      </Show>
      <Show when={deleting()}>
        <Confirm
          title="Delete this file?"
          text={props.path}
          action="Delete"
          onClose={() => setDeleting(false)}
          onConfirm={() =>
            void session.writeFile(props.path, null).then((done) => {
              if (done) go({ file: null });
            })
          }
        />
      </Show>
    </section>
  );
}
