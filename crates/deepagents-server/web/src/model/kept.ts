/** Browser storage. If it is disabled or full, values are kept in memory. */

function box(of: () => Storage) {
  const memory = new Map<string, string>();
  return {
    get(key: string): string | null {
      try {
        return memory.get(key) ?? of().getItem(key);
      } catch {
        return memory.get(key) ?? null;
      }
    },
    set(key: string, value: string | null): void {
      memory.delete(key);
      try {
        if (value === null) of().removeItem(key);
        else of().setItem(key, value);
      } catch {
        if (value !== null) memory.set(key, value);
      }
    },
  };
}

/** Until the tab is closed. */
export const tab = box(() => sessionStorage);
/** Across visits. */
export const visits = box(() => localStorage);
