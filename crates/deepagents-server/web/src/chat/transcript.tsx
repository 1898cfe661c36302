/** A conversation: a list of which only what can be seen is in the document. */

import { createEffect, createSignal, on, onCleanup, onMount, Show } from "solid-js";
import { Virtualizer } from "virtua/solid";
import type { Conversation } from "../model/entries";
import { Icon } from "../ui/icon";
import { EntryView } from "./entry";

/** So near to the end, in pixels, one is taken to look at the end. */
const NEAR = 80;

interface Props {
  conversation: Conversation;
  label: string;
  /** Why runs failed, by messages. */
  failures?: Record<string, string>;
  canEdit?: boolean;
  live: boolean;
}

export function Transcript(props: Props) {
  let scroller!: HTMLDivElement;
  let inner!: HTMLDivElement;
  const [atEnd, setAtEnd] = createSignal(true);

  const distance = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  // The list has a way to an entry of its own, which goes there again with each entry that is measured, for as long as a
  // person scrolls, and so keeps them from leaving.
  const toEnd = () => {
    setAtEnd(true);
    requestAnimationFrame(() => atEnd() && (scroller.scrollTop = scroller.scrollHeight));
  };

  // What grows keeps its end in sight, for those who look at it. A person who scrolls up is left where they are.
  onMount(() => {
    const grown = new ResizeObserver(() => atEnd() && (scroller.scrollTop = scroller.scrollHeight));
    grown.observe(inner);
    grown.observe(scroller);
    onCleanup(() => grown.disconnect());
  });
  let before = 0;
  const onScroll = () => {
    const top = scroller.scrollTop;
    if (distance() < NEAR) setAtEnd(true);
    else if (top < before - 2) setAtEnd(false);
    before = top;
  };
  createEffect(
    on(
      () => props.conversation.entries.length,
      (length, earlier) => {
        const last = props.conversation.entries[length - 1];
        // One's own message is always looked at.
        if (atEnd() || (length > (earlier ?? 0) && last?.kind === "human" && props.live)) toEnd();
      },
    ),
  );

  return (
    <div class="transcript">
      <div class="scroller" ref={scroller} onScroll={onScroll} tabindex="0" role="log" aria-label={props.label} aria-live="off">
        <div class="entries" ref={inner}>
          <Virtualizer data={props.conversation.entries} scrollRef={scroller} bufferSize={600}>
            {(entry) => (
              <EntryView
                entry={entry}
                conversation={props.conversation}
                failure={props.failures?.[entry.id]}
                canEdit={props.canEdit ?? false}
              />
            )}
          </Virtualizer>
        </div>
      </div>
      <Show when={!atEnd()}>
        <button type="button" class="to-end" onClick={toEnd}>
          <Icon name="send" /> <span>To the end</span>
        </button>
      </Show>
    </div>
  );
}
