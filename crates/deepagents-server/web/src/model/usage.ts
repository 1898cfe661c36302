/** Token usage and cost. */

import type { ModelFacts, Usage } from "../api/types";
import type { Conversation } from "./entries";
import type { SessionState } from "./state";

export interface Spent {
  model: string;
  answers: number;
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

function add(spent: Spent, usage: Usage): void {
  spent.answers += 1;
  spent.input += usage.input_tokens;
  spent.output += usage.output_tokens;
  spent.cacheRead += usage.input_token_details?.cache_read ?? 0;
  spent.cacheWrite += usage.input_token_details?.cache_creation ?? 0;
}

/** Usage of the conversation and its known sub-agents, by model. */
export function spent(state: SessionState): Spent[] {
  const byModel = new Map<string, Spent>();
  const count = (conversation: Conversation) => {
    for (const { usage, model } of conversation.entries) {
      if (!usage) continue;
      const name = model ?? "unknown model";
      const sum = byModel.get(name) ?? { model: name, answers: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
      byModel.set(name, sum);
      add(sum, usage);
    }
  };
  count(state.conversation);
  Object.values(state.children).forEach(count);
  return [...byModel.values()];
}

/** Cost in US dollars, or nothing if the price is unknown. */
export function cost(spent: Spent, facts: ModelFacts | undefined): number | undefined {
  const price = facts?.price;
  if (!price) return undefined;
  const fresh = Math.max(0, spent.input - spent.cacheRead - spent.cacheWrite);
  const total = fresh * price.input + spent.cacheRead * price.cache_read + spent.cacheWrite * price.cache_write + spent.output * price.output;
  return total / 1e6;
}

/** Tokens of the context window used by the last request and its answer. */
export function filled(conversation: Conversation): { model: string; tokens: number } | undefined {
  for (let at = conversation.entries.length - 1; at >= 0; at--) {
    const { usage, model } = conversation.entries[at]!;
    if (usage) return { model: model ?? "", tokens: usage.input_tokens + usage.output_tokens };
  }
  return undefined;
}

export const tokens = (count: number): string => count.toLocaleString();

export function dollars(amount: number): string {
  let digits = 2;
  while (digits < 6 && amount > 0 && amount < 10 ** (1 - digits)) digits += 1;
  return `$${amount.toFixed(digits)}`;
}
