/** A line diff of two texts. */

import { createEffect, createMemo, createResource, createSignal, For, on, Show } from "solid-js";
import type { Change } from "diff";
import { visible } from "../ui/visible";

/** Time limit for a comparison, in milliseconds. */
const PATIENCE = 200;
/** Number of unchanged lines shown around a change. */
const AROUND = 3;
/** Number of lines shown at first and with each further step. */
const FIRST = 400;
const STEP = 2000;

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
    const gap: Line = { kind: "gap", text: `${texts.length - head - tail} unchanged lines` };
    return [...same(texts.slice(0, head)), gap, ...same(texts.slice(texts.length - tail))];
  });
}

/** Texts too different to compare: all old lines, then all new ones. */
function apart(before: string, after: string): Change[] {
  const one = (value: string, added: boolean): Change[] => (value ? [{ value, added, removed: !added, count: 0 }] : []);
  return [...one(before, false), ...one(after, true)];
}

const MARKS = { added: "+", removed: "−", same: " ", gap: "⋯" };

export function Diff(props: { before: string; after: string }) {
  const found = createMemo(() => {
    const { before, after } = props;
    if (compare.error || !before || !after) return before === after ? [] : apart(before, after);
    const known = compare();
    return known && (known(before, after, { timeout: PATIENCE }) ?? apart(before, after));
  });
  const all = createMemo(() => lines(found() ?? []));
  const [most, setMost] = createSignal(FIRST);
  createEffect(on([() => props.before, () => props.after], () => setMost(FIRST), { defer: true }));
  const left = () => all().length - most();
  return (
    <Show when={found()}>
      {(changes) => (
        <div class="diff" role="region" aria-label="Changes" tabindex="0">
          <Show when={changes().some((change) => change.added || change.removed)} fallback={<p class="hint">No changes.</p>}>
            <For each={all().slice(0, most())}>
              {(line) => (
                <div class={`line ${line.kind}`}>
                  <span class="mark">{MARKS[line.kind]}</span>
                  <span class="text">{visible(line.text)}</span>
                </div>
              )}
            </For>
            <Show when={left() > 0}>
              <button type="button" onClick={() => setMost(most() + STEP)}>
                Show {Math.min(left(), STEP).toLocaleString()} of {left().toLocaleString()} more lines
              </button>
            </Show>
          </Show>
        </div>
      )}
    </Show>
  );
}
