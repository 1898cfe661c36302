import { createSignal, Show } from "solid-js";
import { isKey, keyRefused, useKey } from "../api/key";

/** Asks for the API key of the server. */
export function KeyForm() {
  const [wrong, setWrong] = createSignal(keyRefused() ? "This key was refused." : "");
  return (
    <form
      class="key-form"
      onSubmit={(event) => {
        event.preventDefault();
        const key = String(new FormData(event.currentTarget).get("key") ?? "").trim();
        if (isKey(key)) useKey(key);
        else if (key) setWrong("A key has no letters or signs beyond those of ASCII; was something else pasted with it?");
      }}
    >
      <h1>This server wants a key</h1>
      <Show when={wrong()}>
        <p class="problem" role="alert">
          {wrong()}
        </p>
      </Show>
      <label class="field">
        <span>Key</span>
        <input name="key" type="password" autocomplete="off" required ref={(input) => queueMicrotask(() => input.focus())} />
      </label>
      <p class="hint">It is kept for this tab alone.</p>
      <button type="submit" class="primary">
        Go on
      </button>
    </form>
  );
}
