/** Tokens and cost by model. */

import { createEffect, createMemo, createResource, For, Show } from "solid-js";
import { facts as requests } from "../api/client";
import type { ModelFacts } from "../api/types";
import { useSession } from "../model/context";
import { cost, dollars, filled, spent, tokens } from "../model/usage";

export function UsagePanel() {
  const session = useSession();
  const { state } = session;
  const all = createMemo(() => spent(state));
  const names = createMemo(() => all().map((one) => one.model).join("\n"));
  const [facts] = createResource(names, async (names): Promise<Record<string, ModelFacts>> => {
    const found = await Promise.all(names.split("\n").filter(Boolean).map(requests.model));
    return Object.fromEntries(found.map((one) => [one.name, one]));
  });
  const known = (model: string) => (facts.error ? undefined : facts()?.[model]);
  const costs = createMemo(() => all().map((one) => cost(one, known(one.model))));
  const total = () => costs().reduce<number>((sum, one) => sum + (one ?? 0), 0);
  const window = () => {
    const last = filled(state.conversation);
    const size = last && known(last.model)?.context_window;
    return last && size ? { tokens: last.tokens, size } : undefined;
  };
  createEffect(() => void session.readTranscripts());
  return (
    <Show when={all().length} fallback={<p class="hint">No token usage has been reported yet.</p>}>
      <Show when={costs().some((one) => one !== undefined)}>
        <p class="total">
          <strong>{dollars(total())}</strong> <span class="hint">at list prices</span>
        </p>
      </Show>
      <For each={all()}>
        {(one, at) => (
          <section class="model" aria-label={one.model}>
            <h3>{one.model}</h3>
            <dl>
              <Row name="Answers" value={tokens(one.answers)} />
              <Row name="Input tokens" value={tokens(one.input)} />
              <Row name="Input tokens from the cache" value={tokens(one.cacheRead)} />
              <Row name="Output tokens" value={tokens(one.output)} />
              <Row name="Cost" value={costs()[at()] === undefined ? "price unknown" : dollars(costs()[at()]!)} />
            </dl>
          </section>
        )}
      </For>
      <Show when={window()}>
        {(window) => (
          <label class="window">
            Context window: {tokens(window().tokens)} of {tokens(window().size)}
            <progress value={window().tokens} max={window().size} />
          </label>
        )}
      </Show>
    </Show>
  );
}

function Row(props: { name: string; value: string }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.value}</dd>
    </div>
  );
}
