/** A message, with the calls that an agent made in it. */

import { For, Match, Show, Switch } from "solid-js";
import { usePage, useSession } from "../model/context";
import type { Conversation, Entry, Media } from "../model/entries";
import { TASK } from "../model/transcripts";
import { Markdown, safeAddress } from "../markdown/markdown";
import { copy, IconButton } from "../ui/button";
import { Guard } from "../ui/guard";
import { Icon } from "../ui/icon";
import { visible } from "../ui/visible";
import { CallView } from "./call";
import { EditMessage } from "./edit-message";
import { TaskView } from "./task";

interface Props {
  entry: Entry;
  conversation: Conversation;
  failure?: string;
  canEdit: boolean;
}

const WHO = { human: "You said", system: "The system said" };

export function EntryView(props: Props) {
  return (
    <Guard text={props.entry.text} again={[props.entry.text, props.entry.calls.length]}>
      <Said {...props} />
    </Guard>
  );
}

function Said(props: Props) {
  const { notify } = usePage();
  const session = useSession();
  const draft = () => `message ${props.entry.id}`;
  const editing = () => draft() in session.drafts;
  const close = () => session.draft(draft(), undefined);
  return (
    <article class={`entry ${props.entry.kind}`} data-id={props.entry.id}>
      <h2 class="hidden">{props.entry.kind === "ai" ? `${visible(props.entry.agent ?? "The agent")} said` : WHO[props.entry.kind]}</h2>
      <Show when={props.entry.thinking}>
        <details class="thinking">
          <summary>
            <Icon name="chevron" /> Thinking
          </summary>
          <Markdown text={props.entry.thinking} />
        </details>
      </Show>
      <Switch>
        <Match when={props.entry.kind === "human" && editing()}>
          <EditMessage entry={props.entry} draft={draft()} onClose={close} />
        </Match>
        <Match when={props.entry.kind !== "ai"}>
          <Show when={props.entry.text}>
            <div class="said">{props.entry.text}</div>
          </Show>
        </Match>
        <Match when={props.entry.text}>
          <Markdown text={props.entry.text} />
        </Match>
      </Switch>
      <For each={props.entry.media}>{(media) => <MediaView media={media} />}</For>
      <For each={props.entry.calls}>
        {(call) => (
          <Show when={call.name === TASK} fallback={<CallView call={call} result={props.conversation.results[call.id]} />}>
            <TaskView call={call} result={props.conversation.results[call.id]} />
          </Show>
        )}
      </For>
      <Show when={props.failure}>
        {(reason) => <p class="problem failure">The run failed: {reason()}</p>}
      </Show>
      <Show when={!editing() && props.entry.text}>
        <div class="entry-actions">
          <IconButton icon="copy" label="Copy message" onClick={() => copy(props.entry.text, notify)} />
          <Show when={props.canEdit && props.entry.kind === "human"}>
            <IconButton icon="edit" label="Edit and send again" onClick={() => session.draft(draft(), { text: props.entry.text, base: props.entry.text })} />
          </Show>
        </div>
      </Show>
    </article>
  );
}

/** An image or another attachment. Remote ones are links: the page loads nothing from other sites. */
export function MediaView(props: { media: Media }) {
  const isHere = () => props.media.url.startsWith("data:");
  return (
    <Switch fallback={<span class="attachment">{visible(props.media.name)}</span>}>
      <Match when={props.media.kind === "image" && /^data:image\/(png|jpeg|gif|webp);/.test(props.media.url)}>
        <img class="picture" src={props.media.url} alt={visible(props.media.name)} />
      </Match>
      <Match when={isHere()}>
        <a class="attachment" href={props.media.url} download={visible(props.media.name)}>
          <Icon name="file" /> {visible(props.media.name)}
        </a>
      </Match>
      <Match when={safeAddress(props.media.url)}>
        {(address) => (
          <a class="attachment" href={address()} target="_blank" rel="noopener noreferrer">
            <Icon name="file" /> {visible(props.media.name)}
          </a>
        )}
      </Match>
    </Switch>
  );
}
