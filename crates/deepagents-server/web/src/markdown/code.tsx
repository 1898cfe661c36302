/** Code blocks, highlighted once the highlighter is loaded. */

import { createMemo, createRenderEffect, createResource, Index, Show, type JSX } from "solid-js";
import { usePage } from "../model/context";
import { copy, IconButton } from "../ui/button";
import type { Piece } from "./highlight";

/** Longer code is not highlighted, because it would take too long. */
const MOST = 50_000;

const [highlighter] = createResource(() => import("./highlight"));

export function Code(props: { text: string; language: string }) {
  const pieces = createMemo(() => (props.text.length < MOST ? highlighter.latest?.highlight(props.text, props.language) : undefined));
  // Existing nodes stay in place as text is appended, so a selection in them survives.
  return (
    <Show when={pieces()} fallback={<Growing text={props.text} />}>
      {(found) => <Index each={found()}>{(piece) => <Coloured piece={piece()} />}</Index>}
    </Show>
  );
}

function Coloured(props: { piece: Piece }): JSX.Element {
  return (
    <Show when={props.piece.class} fallback={<Growing text={props.piece.text} />}>
      <span class={props.piece.class}>
        <Growing text={props.piece.text} />
      </span>
    </Show>
  );
}

/** A growing text. Appending instead of replacing keeps a selection in it. */
function Growing(props: { text: string }): JSX.Element {
  const node = document.createTextNode("");
  createRenderEffect(() => {
    const { text } = props;
    if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
    else node.data = text;
  });
  return node;
}

export function CodeBlock(props: { text: string; language: string }) {
  const { notify } = usePage();
  return (
    <figure class="code">
      <figcaption>
        <span>{props.language || "text"}</span>
        <IconButton icon="copy" label="Copy code" onClick={() => copy(props.text, notify)} />
      </figcaption>
      <pre tabindex="0">
        <code>
          <Code text={props.text} language={props.language} />
        </code>
      </pre>
    </figure>
  );
}
