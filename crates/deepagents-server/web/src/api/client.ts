/** Requests to the server that served the page. */

import { parse } from "./exact";
import { askForKey, keyHeaders } from "./key";
import type { AgentFacts, Assistant, Checkpoint, Json, JsonObject, ModelFacts, Run, RunRequest, RunStatus, Thread, Values } from "./types";

/** An error response of the server, with its message. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

async function refusal(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const { detail } = JSON.parse(text) as { detail?: unknown };
    if (typeof detail === "string") return new ApiError(response.status, detail);
  } catch {
    // Not the server's own format: a proxy sent it.
  }
  return new ApiError(response.status, text.slice(0, 300) || `the server responded with status ${response.status}`);
}

/** Sends a request and returns the response. Throws an `ApiError` if it fails. */
export async function send(method: string, path: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
  const key = keyHeaders();
  const headers = { ...key, ...(body === undefined ? {} : { "content-type": "application/json" }), ...init.headers };
  let response: Response;
  try {
    response = await fetch(path, { ...init, method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "The server is not responding.");
  }
  if (response.status === 401) askForKey(key["x-api-key"]);
  if (!response.ok) throw await refusal(response);
  return response;
}

async function json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, { signal });
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The connection was lost.");
  }
  return parse(text) as T;
}

/** Encodes a path segment. */
const at = encodeURIComponent;

const STREAMED = ["updates", "messages-tuple", "custom"];

export const assistants = {
  list: () => json<Assistant[]>("POST", "/assistants/search", { limit: 200, sort_by: "name", sort_order: "asc" }),
  create: (body: { graph_id: string; name: string; description?: string; config?: JsonObject }) =>
    json<Assistant>("POST", "/assistants", body),
  update: (id: string, body: { name?: string; description?: string; config?: JsonObject }) =>
    json<Assistant>("PATCH", `/assistants/${at(id)}`, body),
  delete: (id: string) => send("DELETE", `/assistants/${at(id)}`),
};

const SHOWN = ["thread_id", "created_at", "updated_at", "metadata", "status", "error"];

export const threads = {
  /** Newest first, without their states; at most 1,000. */
  list: (limit: number, offset: number, signal?: AbortSignal) =>
    json<Thread[]>("POST", "/threads/search", { limit, offset, sort_by: "updated_at", sort_order: "desc", select: SHOWN }, signal),
  /** One thread without its state, or nothing if it does not exist. */
  brief: async (id: string, signal?: AbortSignal) =>
    (await json<Thread[]>("POST", "/threads/search", { ids: [id], limit: 1, select: SHOWN }, signal))[0],
  create: (metadata: JsonObject) => json<Thread>("POST", "/threads", { metadata }),
  rename: (id: string, title: string) => json<Thread>("PATCH", `/threads/${at(id)}`, { metadata: { title } }),
  delete: (id: string) => send("DELETE", `/threads/${at(id)}`),
  copy: (id: string) => json<Thread>("POST", `/threads/${at(id)}/copy`, {}),
  state: (id: string, signal?: AbortSignal) => json<Checkpoint>("GET", `/threads/${at(id)}/state`, undefined, signal),
  stateAt: (id: string, checkpoint: string) => json<Checkpoint>("GET", `/threads/${at(id)}/state/${at(checkpoint)}`),
  /** Updates the state. With a checkpoint, first rewinds to it. */
  update: (id: string, values: Values | Record<string, Json>, checkpoint_id?: string) =>
    json<{ checkpoint_id: string }>("POST", `/threads/${at(id)}/state`, { values, checkpoint_id }),
  /** Checkpoints, newest first. */
  history: (id: string, options: { limit: number; before?: string; metadata?: JsonObject }) =>
    json<Checkpoint[]>("POST", `/threads/${at(id)}/history`, options),
};

export const runs = {
  /** Starts a run whose stream can be joined from its beginning at any time. */
  create: (thread: string, request: RunRequest) =>
    json<Run>("POST", `/threads/${at(thread)}/runs`, {
      ...request,
      stream_mode: STREAMED,
      stream_subgraphs: true,
      stream_resumable: true,
      on_disconnect: "continue",
    }),
  list: (thread: string, options: { status?: RunStatus; limit?: number } = {}, signal?: AbortSignal) => {
    const query = new URLSearchParams({ limit: String(options.limit ?? 100) });
    if (options.status) query.set("status", options.status);
    return json<Run[]>("GET", `/threads/${at(thread)}/runs?${query}`, undefined, signal);
  },
  /** Cancels a run. A pending run may end only when its turn comes, so do not wait for it. */
  cancel: (thread: string, run: string, wait: boolean) =>
    send("POST", `/threads/${at(thread)}/runs/${at(run)}/cancel?wait=${wait ? 1 : 0}`),
  /** The events of a run after the given one; `-1` starts at the first. */
  stream: (thread: string, run: string, after: string, signal: AbortSignal) =>
    send("GET", `/threads/${at(thread)}/runs/${at(run)}/stream`, undefined, { signal, headers: { "last-event-id": after } }),
};

/** Requests that only this page makes. */
export const facts = {
  agent: (graph: string) => json<AgentFacts>("GET", `/page/agents/${at(graph)}`),
  model: (name: string) => json<ModelFacts>("GET", `/page/models?${new URLSearchParams({ name })}`),
};
