/** A person's message to be sent to the server. */

import type { Block, OutgoingMessage } from "../api/types";

/** An attachment. Text files become part of the message, so that every model can read them. */
export type Attachment = { name: string; mime: string; base64: string } | { name: string; text: string };

/** Maximum size of an attachment in bytes. */
export const MAX_ATTACHMENT = 10 << 20;

/** Creates a unique id. */
export function freshId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function block(attachment: Attachment): Block {
  if ("text" in attachment) {
    const longest = Math.max(2, ...(attachment.text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = "`".repeat(longest + 1);
    return { type: "text", text: `${attachment.name}:\n${fence}\n${attachment.text}\n${fence}` };
  }
  const type = attachment.mime.startsWith("image/") ? "image" : "file";
  return { type, mime_type: attachment.mime, base64: attachment.base64, filename: attachment.name };
}

/** Builds a message. The blocks in `more` are sent as they are. */
export function outgoing(text: string, attachments: Attachment[], more: Block[] = []): OutgoingMessage {
  const said: Block[] = text.trim() ? [{ type: "text", text }] : [];
  const blocks = [...attachments.map(block), ...more];
  const content = blocks.length ? [...said, ...blocks] : text;
  return { id: freshId(), role: "user", content };
}

/** Reads a file. Throws if it is of a type that no model accepts. */
export async function readAttachment(file: File): Promise<Attachment> {
  if (file.size > MAX_ATTACHMENT) throw new Error(`${file.name} is larger than ${MAX_ATTACHMENT >> 20} MB`);
  if (file.type.startsWith("image/") || file.type === "application/pdf") {
    const url = await new Promise<string>((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(String(reader.result));
      reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
      reader.readAsDataURL(file);
    });
    return { name: file.name, mime: file.type, base64: url.slice(url.indexOf(",") + 1) };
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return { name: file.name, text };
  } catch {
    // Not valid text.
  }
  throw new Error(`${file.name} is not an image, a PDF or a text file`);
}
