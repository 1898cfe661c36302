import { createSignal, Show } from "solid-js";
import { isKey, keyRefused, useKey } from "../api/key";

/** Asks for the API key of the server. */
export function KeyForm() {
  const [wrong, setWrong] = createSignal(keyRefused() ? "The key was rejected." : "");
  return (
    <form
      class="key-form"
      onSubmit={(event) => {
        event.preventDefault();
        const key = String(new FormData(event.currentTarget).get("key") ?? "").trim();
        if (isKey(key)) useKey(key);
        else if (key) setWrong("A key contains only ASCII characters; check what was pasted.");
      }}
    >
      <h1>This server requires a key</h1>
      <Show when={wrong()}>
        <p class="problem" role="alert">
          {wrong()}
        </p>
      </Show>
      <label class="field">
        <span>Key</span>
        <input name="key" type="password" autocomplete="off" required ref={(input) => queueMicrotask(() => input.focus())} />
      </label>
      <p class="hint">It is stored for this tab only.</p>
      <button type="submit" class="primary">
        Continue
      </button>
    </form>
  );
}
