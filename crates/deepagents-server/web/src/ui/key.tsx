import { useKey } from "../api/key";

/** Asks for the key of a server that wants one. */
export function KeyForm() {
  return (
    <form
      class="key-form"
      onSubmit={(event) => {
        event.preventDefault();
        const key = String(new FormData(event.currentTarget).get("key") ?? "").trim();
        if (key) useKey(key);
      }}
    >
      <h1>This server wants a key</h1>
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
