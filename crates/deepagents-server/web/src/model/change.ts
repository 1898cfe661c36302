/** Calls that change files, as what they change. */

import type { JsonObject } from "../api/types";

export interface FileChange {
  before: string;
  after: string;
  /** The arguments beside the texts. */
  rest: JsonObject;
}

/** What a call changes in a file. Tools of others whose arguments have the same names are shown as they are. */
export function changeOf(name: string, args: JsonObject): FileChange | undefined {
  if (name === "edit_file") {
    const { old_string: before, new_string: after, ...rest } = args;
    return typeof before === "string" && typeof after === "string" ? { before, after, rest } : undefined;
  }
  const { content, ...rest } = args;
  return name === "write_file" && typeof content === "string" ? { before: "", after: content, rest } : undefined;
}
