/** Tool calls that change files, as changes. */

import type { JsonObject } from "../api/types";

export interface FileChange {
  before: string;
  after: string;
  /** The other arguments. */
  rest: JsonObject;
}

/** Returns a call's change to a file, if it is a call of the agent's own file tools. */
export function changeOf(name: string, args: JsonObject): FileChange | undefined {
  if (name === "edit_file") {
    const { old_string: before, new_string: after, ...rest } = args;
    return typeof before === "string" && typeof after === "string" ? { before, after, rest } : undefined;
  }
  const { content, ...rest } = args;
  return name === "write_file" && typeof content === "string" ? { before: "", after: content, rest } : undefined;
}
