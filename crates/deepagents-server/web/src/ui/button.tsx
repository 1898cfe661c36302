import { splitProps, type JSX } from "solid-js";
import { Icon, type IconName } from "./icon";

/** A button that is an icon; its label is what it does. */
export function IconButton(props: { icon: IconName; label: string } & JSX.ButtonHTMLAttributes<HTMLButtonElement>) {
  const [own, rest] = splitProps(props, ["icon", "label", "class"]);
  return (
    <button type="button" class={`icon-button ${own.class ?? ""}`} aria-label={own.label} title={own.label} {...rest}>
      <Icon name={own.icon} />
    </button>
  );
}

/** Copies a text, and says so. */
export function copy(text: string, notify: (text: string) => void): void {
  navigator.clipboard.writeText(text).then(
    () => notify("Copied"),
    () => notify("The browser did not let the page copy"),
  );
}
