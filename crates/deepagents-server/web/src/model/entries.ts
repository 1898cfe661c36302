/** A conversation as the page shows it: the messages of people and agents, with results next to their calls. */

import type { Block, JsonObject, Message, Usage } from "../api/types";

export interface Media {
  kind: "image" | "audio" | "video" | "file";
  mime: string;
  /** A `data:` URL, or the URL in the message. */
  url: string;
  name: string;
}

export interface Call {
  id: string;
  name: string;
  args: JsonObject;
  /** The arguments so far, while they are streamed. */
  writing: string | null;
  /** Index of the message block, while it is streamed. */
  index: number | null;
  /** Why the arguments could not be parsed. */
  invalid: string | null;
}

export interface Entry {
  id: string;
  kind: "human" | "ai" | "system";
  text: string;
  thinking: string;
  media: Media[];
  /** Its blocks other than text and reasoning, as they were sent. */
  blocks: Block[];
  calls: Call[];
  /** Whether it is complete. Later chunks then belong to an earlier attempt. */
  complete: boolean;
  agent: string | null;
  model: string | null;
  usage: Usage | null;
}

export interface Result {
  text: string;
  media: Media[];
  failed: boolean;
}

/** A list of entries, and the results of calls by id. */
export interface Conversation {
  entries: Entry[];
  results: Record<string, Result>;
}

export const empty = (): Conversation => ({ entries: [], results: {} });

export function readContent(content: string | Block[]): { text: string; thinking: string; media: Media[] } {
  if (!Array.isArray(content)) return { text: content ?? "", thinking: "", media: [] };
  const texts: string[] = [];
  const thoughts: string[] = [];
  const media: Media[] = [];
  for (const block of content) {
    // Clients may put plain strings between the blocks.
    if (typeof block === "string") texts.push(block);
    else if (block.type === "text") texts.push(block.text);
    else if (block.type === "reasoning") thoughts.push(block.reasoning);
    else if (block.type === "image_url") {
      const url = typeof block.image_url === "string" ? block.image_url : block.image_url.url;
      media.push({ kind: "image", mime: /^data:([^;,]*)/.exec(url)?.[1] ?? "", url, name: "image" });
    } else {
      const mime = block.mime_type ?? block.mimeType ?? "";
      const bytes = block.base64 ?? block.data;
      const url = bytes ? `data:${mime};base64,${bytes}` : block.url;
      const name = block.filename ?? block.metadata?.filename ?? block.metadata?.name ?? block.type;
      if (url) media.push({ kind: block.type, mime, url, name });
    }
  }
  return { text: texts.join("\n\n"), thinking: thoughts.join("\n\n"), media };
}

const blocksOf = (content: Message["content"]): Block[] =>
  Array.isArray(content) ? content.filter((block) => typeof block === "object" && block.type !== "text" && block.type !== "reasoning") : [];

/** Converts a complete message of a person or an agent. */
export function readEntry(message: Message): Entry {
  const calls: Call[] = (message.tool_calls ?? []).map(({ id, name, args }) => ({ id, name, args: args ?? {}, writing: null, index: null, invalid: null }));
  for (const call of message.invalid_tool_calls ?? []) {
    const invalid = call.error ?? "the arguments are not valid JSON";
    calls.push({ id: call.id ?? "", name: call.name ?? "?", args: {}, writing: call.args ?? "", index: null, invalid });
  }
  return {
    id: message.id,
    kind: message.type === "human" || message.type === "system" ? message.type : "ai",
    ...readContent(message.content),
    blocks: blocksOf(message.content),
    calls,
    complete: true,
    agent: message.name ?? null,
    model: message.response_metadata?.model_name ?? null,
    usage: message.usage_metadata ?? null,
  };
}

export function readResult(message: Message): Result {
  const { text, media } = readContent(message.content);
  return { text, media, failed: message.status === "error" };
}

export function readConversation(messages: Message[]): Conversation {
  const conversation = empty();
  for (const message of messages) put(conversation, message);
  return conversation;
}

/** Adds a complete message, or replaces the one with its id. Mutates the conversation. */
export function put(conversation: Conversation, message: Message): void {
  if (message.type === "tool") {
    conversation.results[message.tool_call_id ?? message.id] = readResult(message);
    return;
  }
  const entry = readEntry(message);
  const known = conversation.entries[find(conversation, entry.id)];
  // Keeping the object keeps its elements and a selection in them.
  if (known) Object.assign(known, entry);
  else conversation.entries.push(entry);
}

/** Appends a message chunk. Mutates the conversation. */
export function append(conversation: Conversation, chunk: Message): void {
  let entry = conversation.entries[find(conversation, chunk.id)];
  if (!entry) {
    conversation.entries.push({ ...readEntry({ ...chunk, content: "", tool_calls: [], invalid_tool_calls: [] }), complete: false });
    entry = conversation.entries[conversation.entries.length - 1];
  }
  if (!entry || entry.complete) return;
  const { text, thinking } = readContent(chunk.content);
  if (text) entry.text += text;
  if (thinking) entry.thinking += thinking;
  for (const piece of chunk.tool_call_chunks ?? []) {
    const known = entry.calls.find((call) => (piece.id && call.id === piece.id) || (call.index !== null && call.index === piece.index));
    if (known) known.writing = (known.writing ?? "") + piece.args;
    else entry.calls.push({ id: piece.id ?? "", name: piece.name ?? "", args: {}, writing: piece.args, index: piece.index, invalid: null });
  }
  if (chunk.usage_metadata) entry.usage = chunk.usage_metadata;
}

/** Searches from the end, where changes happen. */
function find(conversation: Conversation, id: string): number {
  for (let at = conversation.entries.length - 1; at >= 0; at--) {
    if (conversation.entries[at]?.id === id) return at;
  }
  return -1;
}
