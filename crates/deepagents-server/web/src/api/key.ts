/** The key that a server may ask for. It is kept for this tab alone. */

import { createSignal } from "solid-js";
import { tab } from "../model/kept";

const KEY = "deepagents-key";
const [wanted, setWanted] = createSignal(false);
const [refused, setRefused] = createSignal(false);

/** Whether the server refused the last request for want of a key. */
export { wanted as keyWanted };
/** Whether there was a key, and the server did not take it. */
export { refused as keyRefused };

/** Whether a header can carry a key. */
export const isKey = (key: string): boolean => /^[\x20-\x7e]+$/.test(key);

export const keyHeaders = (): Record<string, string> => {
  const key = tab.get(KEY);
  return key && isKey(key) ? { "x-api-key": key } : {};
};

/** Asks for a key, and forgets the one that was refused. */
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
  // Everything is asked for again, with the key.
  location.reload();
}
