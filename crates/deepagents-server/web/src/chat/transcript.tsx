/** A conversation as a virtual list: only visible entries are in the document. */

import { createEffect, createSignal, on, onCleanup, onMount, Show } from "solid-js";
import { Virtualizer } from "virtua/solid";
import type { Conversation } from "../model/entries";
import { Icon } from "../ui/icon";
import { EntryView } from "./entry";

/** Within this many pixels of the end, the reader counts as being at the end. */
const NEAR = 80;

interface Props {
  conversation: Conversation;
  label: string;
  /** Why runs failed, by message. */
  failures?: Record<string, string>;
  canEdit?: boolean;
  live: boolean;
}

export function Transcript(props: Props) {
  let scroller!: HTMLDivElement;
  let inner!: HTMLDivElement;
  const [atEnd, setAtEnd] = createSignal(true);

  const distance = () => scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  // The virtual list's own scrolling to an entry repeats whenever an entry is measured, which would keep a person from
  // scrolling away.
  const toEnd = () => {
    setAtEnd(true);
    requestAnimationFrame(() => atEnd() && (scroller.scrollTop = scroller.scrollHeight));
  };

  // Stay at the end as content grows, unless the reader has scrolled up.
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
        // Always show a message that the person has just sent.
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
