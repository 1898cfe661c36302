/** A tool call: a line that expands. */

import { createMemo, createSignal, For, Match, Show, Switch } from "solid-js";
import { Exact } from "../api/exact";
import { Code } from "../markdown/code";
import { Diff } from "../panels/diff";
import { changeOf } from "../model/change";
import type { Call, Result } from "../model/entries";
import { Icon } from "../ui/icon";
import { visible } from "../ui/visible";
import { MediaView } from "./entry";

const text = (value: unknown) => (typeof value === "string" ? value : undefined);

/** The most informative argument, shown while the call is collapsed. */
function gist(call: Call): string {
  for (const key of ["file_path", "path", "command", "pattern", "query", "url"]) {
    const value = text(call.args[key]);
    if (value) return value;
  }
  const values = Object.values(call.args).filter((value) => typeof value !== "object" || value instanceof Exact);
  return values.map(String).join(", ");
}

export function CallView(props: { call: Call; result: Result | undefined }) {
  const [open, setOpen] = createSignal(false);
  const standing = () => (props.call.invalid ? "failed" : !props.result ? "running" : props.result.failed ? "failed" : "done");
  return (
    <details class={`call ${standing()}`} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chevron" />
        <span class="dot" role="img" aria-label={standing()} />
        <span class="name">{visible(props.call.name)}</span>
        <span class="gist">{visible(gist(props.call))}</span>
      </summary>
      <Show when={open()}>
        <div class="call-body">
          <Arguments call={props.call} />
          <Show when={props.result}>
            {(result) => (
              <>
                <h3>{result().failed ? "Error" : "Result"}</h3>
                <pre tabindex="0">{result().text}</pre>
                <For each={result().media}>{(media) => <MediaView media={media} />}</For>
              </>
            )}
          </Show>
        </div>
      </Show>
    </details>
  );
}

/** The arguments. File changes are shown as diffs. */
export function Arguments(props: { call: Call }) {
  const change = createMemo(() => changeOf(props.call.name, props.call.args));
  return (
    <Switch>
      <Match when={props.call.invalid}>
        <p class="problem">{props.call.invalid}</p>
        <pre tabindex="0">{props.call.writing}</pre>
      </Match>
      <Match when={props.call.writing !== null}>
        <h3>Arguments</h3>
        <pre tabindex="0">{props.call.writing}</pre>
      </Match>
      <Match when={true}>
        <h3>Arguments</h3>
        <pre tabindex="0">
          <Code text={visible(JSON.stringify(change()?.rest ?? props.call.args, null, 2))} language="json" />
        </pre>
        <Show when={change()}>{(change) => <Diff before={change().before} after={change().after} />}</Show>
      </Match>
    </Switch>
  );
}
