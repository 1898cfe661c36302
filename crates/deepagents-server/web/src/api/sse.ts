/** Reading `text/event-stream`. */

import { parse as parseJson } from "./exact";

export interface ServerEvent {
  /** The name, such as `updates`. */
  name: string;
  /** The namespace after the name: one segment for each level of sub-agents. */
  path: string[];
  id: string;
  data: unknown;
}

/** The server sends a heartbeat every 15 seconds. A connection silent for this many milliseconds is lost. */
const SILENT = 40_000;

/** Yields the events of a response as they arrive, and ends with it. */
export async function* events(response: Response): AsyncGenerator<ServerEvent> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const read = () => {
    let timer = 0;
    const silence = new Promise<never>((_, fail) => {
      timer = setTimeout(() => fail(new Error("the connection is silent")), SILENT) as unknown as number;
    });
    return Promise.race([reader.read(), silence]).finally(() => clearTimeout(timer));
  };
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await read();
      if (done) return;
      rest += value;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const event = parse(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (event) yield event;
      }
    }
  } finally {
    // A stalled connection might never finish cancelling, so do not await it.
    void reader.cancel().catch(() => undefined);
  }
}

function parse(frame: string): ServerEvent | undefined {
  let [event, data, id] = ["message", "", ""];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (!data) return undefined;
  const [name = "", ...path] = event.split("|");
  return { name, path, id, data: parseJson(data) };
}
