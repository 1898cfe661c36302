/** The API key, if the server requires one. It is stored for this tab only. */

import { createSignal } from "solid-js";
import { tab } from "../model/kept";

const KEY = "deepagents-key";
const [wanted, setWanted] = createSignal(false);
const [refused, setRefused] = createSignal(false);

/** Whether the server rejected the last request because it had no valid key. */
export { wanted as keyWanted };
/** Whether a key was sent and rejected. */
export { refused as keyRefused };

/** Whether a key can be sent in a header. */
export const isKey = (key: string): boolean => /^[\x20-\x7e]+$/.test(key);

export const keyHeaders = (): Record<string, string> => {
  const key = tab.get(KEY);
  return key && isKey(key) ? { "x-api-key": key } : {};
};

/** Asks for a key and removes the rejected one. */
export function askForKey(sent: string | undefined): void {
  if (sent !== undefined) {
    setRefused(true);
    if (tab.get(KEY) === sent) tab.set(KEY, null);
  }
  setWanted(true);
}

export function useKey(key: string): void {
  tab.set(KEY, key);
  setWanted(false);
  // Reloading repeats all requests with the key.
  location.reload();
}
