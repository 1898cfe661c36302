/** What the work of a thread is judged by, and the last judgement. */

import { For, Show } from "solid-js";
import type { Judgement } from "../api/types";

const ENDS: Record<NonNullable<Judgement["status"]>, string> = {
  satisfied: "met",
  max_iterations_reached: "not met, and no judgements are left",
  failed: "cannot be met",
  grader_error: "not known whether it is met",
};

export function GoalView(props: { goal: string; judgement: Judgement | null }) {
  const word = () => {
    const judgement = props.judgement;
    if (judgement?.status) return ENDS[judgement.status];
    return judgement?.iterations ? "not met yet" : "not judged yet";
  };
  return (
    <details class="goal">
      <summary>
        <strong>Goal</strong> <span class="name">{props.goal}</span>: {word()}
      </summary>
      <Show when={props.judgement?.problem ?? props.judgement?.last?.explanation}>{(why) => <p>{why()}</p>}</Show>
      <ul>
        <For each={props.judgement?.last?.criteria ?? []}>
          {(criterion) => (
            <li>
              <span role="img" aria-label={criterion.passed ? "met" : "not met"}>
                {criterion.passed ? "●" : "○"}
              </span>{" "}
              {criterion.name}
              <Show when={criterion.gap}>{(gap) => <>: {gap()}</>}</Show>
            </li>
          )}
        </For>
      </ul>
    </details>
  );
}
