/** Blocks of code, coloured once the highlighter is there. */

import { createMemo, createResource, For, Show, type JSX } from "solid-js";
import { usePage } from "../model/context";
import { copy, IconButton } from "../ui/button";
import type { Piece } from "./highlight";

/** Code beyond this is shown without colours: they are not worth the wait. */
const MOST = 50_000;

const [highlighter] = createResource(() => import("./highlight"));

export function Code(props: { text: string; language: string }) {
  const pieces = createMemo(() => (props.text.length < MOST ? highlighter()?.highlight(props.text, props.language) : undefined));
  return (
    <Show when={pieces()} fallback={props.text}>
      {(found) => <For each={found()}>{(piece) => <Coloured piece={piece} />}</For>}
    </Show>
  );
}

function Coloured(props: { piece: Piece }): JSX.Element {
  return (
    <Show when={props.piece.class} fallback={props.piece.text}>
      <span class={props.piece.class}>{props.piece.text}</span>
    </Show>
  );
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
