/** The input of a run, in all the formats in which clients send messages. */

import type { Block, Message, Run } from "../api/types";

type Fields = Record<string, unknown>;

const TYPES: Record<string, Message["type"]> = {
  user: "human",
  human: "human",
  assistant: "ai",
  ai: "ai",
  system: "system",
  developer: "system",
};

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the visible messages of an input. The id is empty if the client gave none. */
export function inputMessages(run: Run): Message[] {
  const given = messagesOf(run.kwargs?.input);
  const list = Array.isArray(given) ? given : [given];
  return list.map(read).filter((message) => message !== undefined);
}

/** Returns the messages channel. An input may also be a list of pairs of a channel and its value. */
function messagesOf(input: unknown): unknown {
  if (isFields(input)) return input.messages;
  if (!Array.isArray(input)) return undefined;
  const pair: unknown = input.find((one) => Array.isArray(one) && one[0] === "messages");
  return Array.isArray(pair) ? pair[1] : undefined;
}

/** Returns the goal that an input sets, which is null if it removes one. */
export function inputGoal(run: Run): string | null | undefined {
  const input = run.kwargs?.input;
  if (!isFields(input) || !("rubric" in input)) return undefined;
  return typeof input.rubric === "string" ? input.rubric : null;
}

/** Reads a string, a pair of a role and a content, or an object with the field names of OpenAI or LangChain. */
function read(value: unknown): Message | undefined {
  if (typeof value === "string") return message("user", { content: value });
  if (Array.isArray(value)) return message(value[0], { content: value[1] });
  if (!isFields(value)) return undefined;
  if (value.type === "constructor" && isFields(value.kwargs)) {
    const name = Array.isArray(value.id) ? String(value.id.at(-1)) : "";
    return message(name.replace(/(Message)?(Chunk)?$/, "").toLowerCase(), value.kwargs);
  }
  return message(value.role ?? value.type, value);
}

function message(role: unknown, fields: Fields): Message | undefined {
  const type = typeof role === "string" && Object.hasOwn(TYPES, role) ? TYPES[role] : undefined;
  if (!type) return undefined;
  const { id, name, content } = fields;
  return {
    id: typeof id === "string" ? id : "",
    type,
    name: typeof name === "string" ? name : null,
    content: Array.isArray(content) ? (content as Block[]) : typeof content === "string" ? content : "",
  };
}
