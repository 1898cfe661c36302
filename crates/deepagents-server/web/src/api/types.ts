/** Request and response types: the parts of LangGraph's API that the page uses. */

import type { Exact } from "./exact";

export type Json = null | boolean | number | Exact | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface Assistant {
  assistant_id: string;
  graph_id: string;
  name: string;
  description: string | null;
  version: number;
  config: JsonObject & { recursion_limit?: number };
  context: JsonObject;
  metadata: JsonObject;
}

export type ThreadStatus = "idle" | "busy" | "interrupted" | "error";

export interface Thread {
  thread_id: string;
  created_at: string;
  updated_at: string;
  metadata: JsonObject;
  status: ThreadStatus;
  error?: { error: string; message: string } | null;
}

export interface ToolCall {
  id: string;
  name: string;
  args: JsonObject;
}

/** A chunk of a streamed tool call. */
export interface ToolCallChunk {
  id: string | null;
  name: string | null;
  args: string;
  index: number;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  input_token_details?: { cache_read?: number; cache_creation?: number };
  output_token_details?: { reasoning?: number };
}

export type Block =
  | { type: "text"; text: string }
  | { type: "reasoning"; reasoning: string }
  | { type: "image_url"; image_url: string | { url: string } }
  | MediaBlock;

/** An image, audio, video or file block, with the field names that different clients use. */
export interface MediaBlock {
  type: "image" | "audio" | "video" | "file";
  mime_type?: string;
  mimeType?: string;
  base64?: string;
  data?: string;
  url?: string;
  filename?: string;
  metadata?: { filename?: string; name?: string };
}

export interface Message {
  id: string;
  type: "human" | "system" | "ai" | "tool" | "AIMessageChunk";
  content: string | Block[];
  name?: string | null;
  tool_calls?: ToolCall[];
  invalid_tool_calls?: { id: string | null; name: string | null; args: string | null; error: string | null }[];
  tool_call_chunks?: ToolCallChunk[];
  tool_call_id?: string;
  status?: "success" | "error";
  usage_metadata?: Usage | null;
  response_metadata?: { model_name?: string; model_provider?: string };
}

export interface Todo {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

/** A file in the state. Older writers store a list of lines, or only the text. */
export type StoredFile = string | { content: string | string[]; encoding?: string; modified_at?: string };

export type DecisionKind = "approve" | "edit" | "reject" | "respond";

export interface ActionRequest {
  name: string;
  args: JsonObject;
  description?: string;
}

export interface ReviewConfig {
  action_name: string;
  allowed_decisions: DecisionKind[];
  args_schema?: JsonObject;
}

export interface Interrupt {
  id: string;
  value: { action_requests: ActionRequest[]; review_configs: ReviewConfig[] };
}

export type Decision =
  | { type: "approve" }
  | { type: "edit"; edited_action: { name: string; args: JsonObject } }
  | { type: "reject"; message?: string }
  | { type: "respond"; message: string };

export interface Values {
  messages?: Message[];
  todos?: Todo[];
  files?: Record<string, StoredFile>;
  /** What the work of the thread is judged by. */
  rubric?: string | null;
  rubric_progress?: Judgement;
}

/** What a judge says of the work. */
export interface Judgement {
  rubric: string;
  iterations: number;
  /** How it ended; missing while the work goes on. */
  status?: "satisfied" | "max_iterations_reached" | "failed" | "grader_error";
  last?: { explanation: string; criteria: { name: string; passed: boolean; gap?: string }[] };
  problem?: string;
}

/** A goal for the next run: what its result is judged by, until it is met. */
export interface Goal {
  rubric: string;
  rubric_until_met: true;
}

export interface Checkpoint {
  values: Values;
  next: string[];
  metadata: { source?: "input" | "loop" | "update" | "fork"; step?: number; run_id?: string | null };
  created_at: string | null;
  checkpoint_id: string | null;
  interrupts: Interrupt[];
}

export type RunStatus = "pending" | "running" | "success" | "error" | "interrupted" | "timeout";

export interface Run {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  created_at: string;
  status: RunStatus;
  /** Why it failed. */
  error?: { error: string; message: string } | null;
  kwargs: { input?: unknown; command?: JsonObject | null };
}

export interface RunRequest {
  assistant_id: string;
  input?: ({ messages: OutgoingMessage[] } & Partial<Goal>) | null;
  command?: { resume?: Json; goto?: string };
  config?: JsonObject;
  multitask_strategy?: "enqueue" | "interrupt" | "reject";
}

export interface OutgoingMessage {
  id: string;
  role: "user";
  content: string | Block[];
}

/** An agent's model and tools. */
export interface AgentFacts {
  model: string;
  tools: { name: string; description: string; parameters: JsonObject }[];
  /** Whether its work can be judged by a goal. */
  goals: boolean;
}

/** Facts about a model: its context window in tokens, and US dollars per million tokens. */
export interface ModelFacts {
  name: string;
  context_window: number | null;
  price: { input: number; output: number; cache_read: number; cache_write: number } | null;
}
