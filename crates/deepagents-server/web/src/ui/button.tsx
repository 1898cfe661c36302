import { splitProps, type JSX } from "solid-js";
import { Icon, type IconName } from "./icon";

/** An icon button. Its label says what it does. */
export function IconButton(props: { icon: IconName; label: string } & JSX.ButtonHTMLAttributes<HTMLButtonElement>) {
  const [own, rest] = splitProps(props, ["icon", "label", "class"]);
  return (
    <button type="button" class={`icon-button ${own.class ?? ""}`} aria-label={own.label} title={own.label} {...rest}>
      <Icon name={own.icon} />
    </button>
  );
}

/** Copies a text and confirms it. */
export async function copy(text: string, notify: (text: string) => void): Promise<void> {
  let done: boolean;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    done = copyByCommand(text);
  }
  notify(done ? "Copied" : "The browser blocked copying");
}

/** Pages without TLS have no clipboard API, but a selection can be copied. */
function copyByCommand(text: string): boolean {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.className = "hidden";
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return done;
}
