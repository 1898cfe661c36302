/** Keyboard shortcuts. */

import { For, onCleanup } from "solid-js";
import { Dialog } from "./ui/dialog";

export interface Actions {
  search: () => void;
  create: () => void;
  write: () => void;
  stop: () => void;
  panel: (at: number) => void;
  close: () => void;
  help: () => void;
}

const HELP: [string, string][] = [
  ["Enter", "Send; during a run, add to the queue"],
  ["Ctrl Enter", "Interrupt the run and send now"],
  ["Shift Enter", "A new line"],
  ["Ctrl K", "Search threads"],
  ["Alt N", "A new thread"],
  ["/", "Write a message"],
  ["Ctrl .", "Stop the run"],
  ["Alt 1 … 5", "Todo list, files, sub-agents, timeline, tokens and cost"],
  ["Escape", "Close the panel"],
  ["?", "Show these keys"],
];

const writes = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

export function listen(actions: Actions): void {
  const onKey = (event: KeyboardEvent) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const command = event.ctrlKey || event.metaKey;
    const plain = !command && !event.altKey && !writes(event.target);
    const act = (action: () => void) => (event.preventDefault(), action());
    if (command && event.key.toLowerCase() === "k") act(actions.search);
    else if (command && event.key === ".") act(actions.stop);
    else if (event.altKey && event.code === "KeyN") act(actions.create);
    else if (event.altKey && /^Digit[1-5]$/.test(event.code)) act(() => actions.panel(Number(event.code.slice(5)) - 1));
    else if (plain && event.key === "/") act(actions.write);
    else if (plain && event.key === "?") act(actions.help);
    else if (event.key === "Escape" && !writes(event.target)) actions.close();
  };
  window.addEventListener("keydown", onKey);
  onCleanup(() => window.removeEventListener("keydown", onKey));
}

export function Keys(props: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={props.onClose}>
      <dl class="keys">
        <For each={HELP}>
          {([key, does]) => (
            <div>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{does}</dd>
            </div>
          )}
        </For>
      </dl>
      <form method="dialog" class="actions">
        <button type="submit">Close</button>
      </form>
    </Dialog>
  );
}
