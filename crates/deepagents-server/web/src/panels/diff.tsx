/** What differs between two texts, line by line. */

import { createResource, For, Show } from "solid-js";
import type { Change } from "diff";

/** Texts beyond this, in characters, are not compared: it would hold the page up. */
const MOST = 400_000;
/** Equal lines that are shown around a change. */
const AROUND = 3;

const [compare] = createResource(async () => (await import("diff")).diffLines);

interface Line {
  kind: "added" | "removed" | "same" | "gap";
  text: string;
}

function lines(changes: Change[]): Line[] {
  return changes.flatMap((change, at) => {
    const texts = change.value.replace(/\n$/, "").split("\n");
    if (change.added || change.removed) {
      return texts.map((text): Line => ({ kind: change.added ? "added" : "removed", text }));
    }
    const head = at === 0 ? 0 : AROUND;
    const tail = at === changes.length - 1 ? 0 : AROUND;
    const same = (some: string[]) => some.map((text): Line => ({ kind: "same", text }));
    if (texts.length <= head + tail + 1) return same(texts);
    const gap: Line = { kind: "gap", text: `${texts.length - head - tail} equal lines` };
    return [...same(texts.slice(0, head)), gap, ...same(texts.slice(texts.length - tail))];
  });
}

const MARKS = { added: "+", removed: "−", same: " ", gap: "⋯" };

export function Diff(props: { before: string; after: string }) {
  const fits = () => props.before.length + props.after.length < MOST;
  const found = () => compare()?.(props.before, props.after);
  return (
    <Show when={fits()} fallback={<p class="hint">The texts are too long to be compared here.</p>}>
      <Show when={found()}>
        {(changes) => (
          <div class="diff" role="region" aria-label="Changes" tabindex="0">
            <Show when={changes().some((change) => change.added || change.removed)} fallback={<p class="hint">No changes.</p>}>
              <For each={lines(changes())}>
                {(line) => (
                  <div class={`line ${line.kind}`}>
                    <span class="mark">{MARKS[line.kind]}</span>
                    <span class="text">{line.text}</span>
                  </div>
                )}
              </For>
            </Show>
          </div>
        )}
      </Show>
    </Show>
  );
}
