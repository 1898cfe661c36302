/** Rewinding to a checkpoint. */

import { threads } from "../api/client";
import type { Checkpoint, Json, Values } from "../api/types";

/**
 * Makes a thread continue from a checkpoint. Before the first message there is no state to rewind to, so everything in
 * `present` is removed instead.
 */
export async function rewind(thread: string, to: Checkpoint, present: Values): Promise<void> {
  if (Object.keys(to.values).length) {
    await threads.update(thread, {}, to.checkpoint_id ?? undefined);
    return;
  }
  const values: Record<string, Json> = { messages: [{ type: "remove", id: "__remove_all__" }] };
  if (present.todos?.length) values.todos = [];
  const files = Object.keys(present.files ?? {});
  if (files.length) values.files = Object.fromEntries(files.map((path) => [path, null]));
  await threads.update(thread, values);
}
