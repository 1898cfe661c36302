/** The agent's current todo list. */

import { For, Show } from "solid-js";
import type { Todo } from "../api/types";
import { useSession } from "../model/context";

const WORDS: Record<Todo["status"], string> = { pending: "open", in_progress: "in progress", completed: "done" };
const MARKS: Record<Todo["status"], string> = { pending: "○", in_progress: "◐", completed: "●" };

export function Todos() {
  const { state } = useSession();
  const done = () => state.todos.filter((todo) => todo.status === "completed").length;
  return (
    <Show when={state.todos.length} fallback={<p class="hint">The agent has not created a todo list.</p>}>
      <p class="hint">
        {done()} of {state.todos.length} done
      </p>
      <progress value={done()} max={state.todos.length} aria-label="Todos done" />
      <ul class="todos">
        <For each={state.todos}>
          {(todo) => (
            <li class={todo.status}>
              <span class="mark" role="img" aria-label={WORDS[todo.status]}>
                {MARKS[todo.status]}
              </span>
              <span>{todo.content}</span>
            </li>
          )}
        </For>
      </ul>
    </Show>
  );
}
