/** A question of the agent as a form: a text answer, one of several choices, or several of them. */

import { createUniqueId, For, Show } from "solid-js";
import { createStore } from "solid-js/store";
import { Markdown } from "../markdown/markdown";
import { visible } from "../ui/visible";
import type { ActionRequest, DecisionKind } from "../api/types";

export interface Question {
  question: string;
  choices: string[];
  several: boolean;
}

/** Returns the question of a call, if it is a call of the question tool. */
export function questionOf(action: ActionRequest, allowed: DecisionKind[]): Question | undefined {
  const { question, choices, several } = action.args;
  if (action.name !== "ask_user" || !allowed.includes("respond") || allowed.includes("approve")) return undefined;
  if (typeof question !== "string") return undefined;
  const words = Array.isArray(choices) ? choices.filter((choice) => typeof choice === "string") : [];
  return { question, choices: words as string[], several: several === true };
}

/**
 * Returns the answer. If a choice contains a comma, several choices are given by number, because commas separate them.
 */
function answer(question: Question, chosen: boolean[], words: string): string {
  if (words.trim()) return words.trim();
  const at = question.choices.flatMap((_, index) => (chosen[index] ? [index] : []));
  const byNumber = question.several && question.choices.some((choice) => choice.includes(","));
  return at.map((index) => (byNumber ? String(index + 1) : question.choices[index])).join(", ");
}

/** Reports the current answer on each change. An empty text is no answer yet. */
export function QuestionForm(props: { question: Question; onAnswer: (text: string) => void }) {
  const group = createUniqueId();
  const asked = createUniqueId();
  const [given, setGiven] = createStore({ chosen: props.question.choices.map(() => false), words: "" });
  const tell = () => props.onAnswer(answer(props.question, given.chosen, given.words));
  function choose(index: number, on: boolean) {
    if (props.question.several) setGiven("chosen", index, on);
    else setGiven("chosen", (all) => all.map((_, at) => at === index));
    setGiven("words", "");
    tell();
  }
  function write(words: string) {
    setGiven("words", words);
    if (words.trim()) setGiven("chosen", (all) => all.map(() => false));
    tell();
  }
  return (
    <div class="question" role="group" aria-labelledby={asked}>
      <div class="asked" id={asked}>
        <Markdown text={visible(props.question.question)} />
      </div>
      <Show when={props.question.several}>
        <p class="hint">Choose one or more.</p>
      </Show>
      <For each={props.question.choices}>
        {(choice, index) => (
          <label class="choice">
            <input
              type={props.question.several ? "checkbox" : "radio"}
              name={group}
              checked={given.chosen[index()]}
              onChange={(event) => choose(index(), event.currentTarget.checked)}
            />
            <span>{visible(choice)}</span>
          </label>
        )}
      </For>
      <label class="field">
        <span>{props.question.choices.length ? "Or in your own words" : "Your answer"}</span>
        <textarea rows={props.question.choices.length ? 1 : 3} value={given.words} onInput={(event) => write(event.currentTarget.value)} />
      </label>
    </div>
  );
}
