/** A tool call: one line that opens. */

import { createMemo, createSignal, Match, Show, Switch } from "solid-js";
import { Code } from "../markdown/code";
import { Diff } from "../panels/diff";
import type { Call, Result } from "../model/entries";
import { Icon } from "../ui/icon";
import { For } from "solid-js";
import { MediaView } from "./entry";

const text = (value: unknown) => (typeof value === "string" ? value : undefined);

/** The argument that says most, for the line of a closed call. */
function gist(call: Call): string {
  for (const key of ["file_path", "path", "command", "pattern", "query", "url"]) {
    const value = text(call.args[key]);
    if (value) return value;
  }
  const values = Object.values(call.args).filter((value) => typeof value !== "object");
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
        <span class="name">{props.call.name}</span>
        <span class="gist">{gist(props.call)}</span>
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

/** The arguments; changes of files as what they change. */
export function Arguments(props: { call: Call }) {
  const change = createMemo(() => {
    const { args, name } = props.call;
    const before = text(args.old_string);
    const after = text(args.new_string);
    if (before !== undefined && after !== undefined) return { before, after };
    const content = text(args.content);
    return name === "write_file" && content !== undefined ? { before: "", after: content } : undefined;
  });
  const rest = () => {
    const { old_string: _old, new_string: _new, content: _content, ...rest } = props.call.args;
    return change() ? rest : props.call.args;
  };
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
          <Code text={JSON.stringify(rest(), null, 2)} language="json" />
        </pre>
        <Show when={change()}>{(change) => <Diff before={change().before} after={change().after} />}</Show>
      </Match>
    </Switch>
  );
}
