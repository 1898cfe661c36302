/** The files of the thread's state: view, compare with the state before the last run, edit. */

import { createEffect, createMemo, createResource, createSignal, For, Match, on, Show, Switch } from "solid-js";
import { threads } from "../api/client";
import type { StoredFile } from "../api/types";
import { Code } from "../markdown/code";
import { Markdown } from "../markdown/markdown";
import { usePage, useSession } from "../model/context";
import { go, route } from "../model/route";
import { Confirm } from "../ui/dialog";
import { Icon } from "../ui/icon";
import { visible } from "../ui/visible";
import { Diff } from "./diff";

/** Returns the text of a file, or nothing if it is binary. */
function textOf(file: StoredFile | undefined): string | undefined {
  if (file === undefined) return undefined;
  if (typeof file === "string") return file;
  if (file.encoding === "base64") return undefined;
  return typeof file.content === "string" ? file.content : file.content.join("\n");
}

const [languages] = createResource(() => import("../markdown/highlight"));

/** Normalises line endings as a text area does. */
const inForm = (text: string) => text.replace(/\r\n?/g, "\n");

/** Restores the file's line endings in an edited text. */
function withEndsOf(file: string, written: string): string {
  const [crlf, all] = [file.split("\r\n").length - 1, file.split("\n").length - 1];
  return crlf * 2 > all ? written.replace(/\n/g, "\r\n") : written;
}

export function Files() {
  const page = usePage();
  const session = useSession();
  const { state } = session;
  const paths = createMemo(() => Object.keys(state.files).sort());
  const [creating, setCreating] = createSignal(false);
  // The files before the last run.
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
                      <span class="path">{visible(path)}</span>
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
                if (path === "/") return page.notify("Enter a name for the file");
                if (Object.hasOwn(state.files, path)) {
                  page.notify(`${visible(path)} already exists`);
                  return go({ file: path });
                }
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
  // The draft outlives the panel and is shown again when the file is reopened.
  const key = () => `file ${props.path}`;
  const draft = () => session.drafts[key()];
  const [view, setView] = createSignal<"text" | "changes" | "edit">(draft() ? "edit" : "text");
  const [deleting, setDeleting] = createSignal(false);
  const language = () => languages()?.languageOf(props.path) ?? "";
  function edit() {
    const base = inForm(text() ?? "");
    if (!draft()) session.draft(key(), { text: base, base });
    setView("edit");
  }
  function leave() {
    session.draft(key(), undefined);
    setView("text");
  }
  const current = () => inForm(text() ?? "");
  const written = () => draft()?.text ?? current();
  return (
    <section class="open-file" aria-label={visible(props.path)}>
      <button type="button" class="quiet" onClick={() => go({ file: null })}>
        <Icon name="back" /> All files
      </button>
      <h3 class="path">{visible(props.path)}</h3>
      <Show when={text() !== undefined} fallback={<p class="hint">This file does not exist or is not text.</p>}>
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
            <p class="hint">Compared with the state before the last run.</p>
            <Diff before={props.before ?? ""} after={text() ?? ""} />
          </Match>
          <Match when={view() === "edit"}>
            <form
              onSubmit={(event) => {
                event.preventDefault();
                void session.writeFile(props.path, withEndsOf(text() ?? "", written())).then((done) => {
                  if (done) leave();
                });
              }}
            >
              <textarea class="editor" aria-label={`Text of ${visible(props.path)}`} spellcheck={false} value={written()} onInput={(event) => session.draft(key(), { text: event.currentTarget.value, base: draft()?.base ?? current() })} />
              <Show when={draft() && current() !== draft()!.base}>
                <p class="problem">The file has changed since you started editing; saving overwrites those changes.</p>
              </Show>
              <div class="actions">
                <button type="button" onClick={leave}>
                  Cancel
                </button>
                <button type="submit" class="primary" disabled={written() === current() || session.state.run !== null}>
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
          text={visible(props.path)}
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
