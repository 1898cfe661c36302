/** A call that starts a sub-agent: its task, its status, and a link to its transcript. */

import { Show } from "solid-js";
import type { Call, Result } from "../model/entries";
import { go } from "../model/route";
import { Markdown } from "../markdown/markdown";
import { Icon } from "../ui/icon";
import { visible } from "../ui/visible";

export function TaskView(props: { call: Call; result: Result | undefined }) {
  const name = () => String(props.call.args.subagent_type ?? "sub-agent");
  const standing = () => (!props.result ? "running" : props.result.failed ? "failed" : "done");
  return (
    <div class={`call task ${standing()}`}>
      <button type="button" class="task-head" onClick={() => go({ panel: "agents", agent: props.call.id })}>
        <span class="dot" role="img" aria-label={standing()} />
        <Icon name="tree" />
        <span class="name">{visible(name())}</span>
        <span class="gist">{visible(String(props.call.args.description ?? props.call.writing ?? ""))}</span>
        <span class="open">Transcript</span>
      </button>
      <Show when={props.result}>
        {(result) => (
          <details>
            <summary>
              <Icon name="chevron" /> {result().failed ? "Error" : "Answer"}
            </summary>
            <div class="call-body">
              <Markdown text={result().text} />
            </div>
          </details>
        )}
      </Show>
    </div>
  );
}
