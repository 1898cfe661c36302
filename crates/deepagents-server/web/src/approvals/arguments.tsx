/** The arguments of a pending call: all of them, with invisible characters made visible. */

import { createMemo, For, Show } from "solid-js";
import type { Json, JsonObject } from "../api/types";
import { Code } from "../markdown/code";
import { changeOf } from "../model/change";
import { Diff } from "../panels/diff";
import { visible } from "../ui/visible";

const isLong = (value: Json): value is string => typeof value === "string" && value.includes("\n");

const lineCount = (value: Json) => String(value).split("\n").length;

/** As many lines are seen without scrolling, so that their number need not be told. */
const FEW_LINES = 10;

export function ArgumentsView(props: { name: string; args: JsonObject }) {
  const change = createMemo(() => changeOf(props.name, props.args));
  const path = () => (typeof change()?.rest.file_path === "string" ? (change()!.rest.file_path as string) : undefined);
  const all = () => Object.entries(change()?.rest ?? props.args).filter(([name]) => name !== "file_path" || path() === undefined);
  // Multi-line texts are shown as lines.
  const texts = () => all().filter(([, value]) => isLong(value));
  const others = () => all().filter(([, value]) => !isLong(value));
  return (
    <>
      <Show when={path()}>
        <p class="path">{visible(path()!)}</p>
      </Show>
      <Show when={others().length || (!change() && !texts().length)}>
        <pre tabindex="0">
          <Code text={visible(JSON.stringify(Object.fromEntries(others()), null, 2))} language="json" />
        </pre>
      </Show>
      <For each={texts()}>
        {([name, value]) => (
          <figure class="argument">
            <figcaption>
              <span class="path">{visible(name)}</span>
              <Show when={lineCount(value) > FEW_LINES}>
                <span class="hint"> {lineCount(value)} lines</span>
              </Show>
            </figcaption>
            <pre tabindex="0">{visible(String(value))}</pre>
          </figure>
        )}
      </For>
      <Show when={change()}>{(change) => <Diff before={change().before} after={change().after} />}</Show>
    </>
  );
}
