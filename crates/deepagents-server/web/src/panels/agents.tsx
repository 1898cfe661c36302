/** The tree of sub-agents, and the transcript of the selected one. */

import { createEffect, createMemo, For, Show } from "solid-js";
import { Transcript } from "../chat/transcript";
import { Markdown } from "../markdown/markdown";
import { useSession } from "../model/context";
import { Icon } from "../ui/icon";
import { visible } from "../ui/visible";
import { go, route } from "../model/route";
import { subAgents, type SubAgent } from "../model/transcripts";

const standing = (agent: SubAgent) => (!agent.result ? "running" : agent.result.failed ? "failed" : "done");

const all = (agents: SubAgent[]): SubAgent[] => agents.flatMap((agent) => [agent, ...all(agent.children)]);

export function Agents() {
  const session = useSession();
  const { state } = session;
  const tree = createMemo(() => subAgents(session.thread, state));
  // Earlier transcripts are read when the panel opens.
  createEffect(() => void session.readTranscripts());
  const chosen = createMemo(() => all(tree()).find((agent) => agent.call.id === route().agent));
  return (
    <Show when={tree().length} fallback={<p class="hint">The agent has not started any sub-agents.</p>}>
      <Tree agents={tree()} />
      <Show when={chosen()}>{(agent) => <OneAgent agent={agent()} />}</Show>
    </Show>
  );
}

function Tree(props: { agents: SubAgent[] }) {
  return (
    <ul class="tree">
      <For each={props.agents}>
        {(agent) => (
          <li>
            <button
              type="button"
              aria-current={route().agent === agent.call.id ? "true" : undefined}
              onClick={() => go({ agent: agent.call.id })}
            >
              <span class={`dot ${standing(agent)}`} role="img" aria-label={standing(agent)} />
              <strong class="name">{visible(agent.name)}</strong> <span class="gist">{visible(agent.task)}</span>
            </button>
            <Show when={agent.children.length}>
              <Tree agents={agent.children} />
            </Show>
          </li>
        )}
      </For>
    </ul>
  );
}

function OneAgent(props: { agent: SubAgent }) {
  return (
    <section class="one-agent" aria-label={`Transcript of ${props.agent.name}`}>
      <h3>{visible(props.agent.name)}</h3>
      <details open>
        <summary>
          <Icon name="chevron" /> Task
        </summary>
        <Markdown text={props.agent.task} />
      </details>
      <Show
        when={props.agent.transcript}
        fallback={
          <Show when={props.agent.result}>
            <p class="hint">The server no longer has its transcript; its answer is in the conversation.</p>
          </Show>
        }
      >
        {(transcript) => (
          <Transcript conversation={transcript()} label={`Conversation of ${props.agent.name}`} live={!props.agent.result} />
        )}
      </Show>
    </section>
  );
}
