/** Dark or light theme: the system's, or the one chosen here. */

import { createSignal } from "solid-js";
import { visits } from "./kept";

export type Theme = "system" | "light" | "dark";
const KEY = "deepagents-theme";

const stored = () => visits.get(KEY);
const [theme, set] = createSignal<Theme>(stored() === "dark" || stored() === "light" ? (stored() as Theme) : "system");
export { theme };

function apply() {
  if (theme() === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme();
}

export function nextTheme(): void {
  set(theme() === "system" ? "dark" : theme() === "dark" ? "light" : "system");
  visits.set(KEY, theme());
  apply();
}

apply();
