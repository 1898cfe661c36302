/** The key that a server may ask for. It is kept for this tab alone. */

import { createSignal } from "solid-js";

const KEY = "deepagents-key";
const [wanted, setWanted] = createSignal(false);

/** Whether the server refused the last request for want of a key. */
export { wanted as keyWanted };

export const keyHeaders = (): Record<string, string> => {
  const key = sessionStorage.getItem(KEY);
  return key ? { "x-api-key": key } : {};
};

export const askForKey = () => setWanted(true);

export function useKey(key: string): void {
  sessionStorage.setItem(KEY, key);
  setWanted(false);
  // Everything is asked for again, with the key.
  location.reload();
}
