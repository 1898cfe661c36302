import { createEffect, ErrorBoundary, on, Show, type JSX } from "solid-js";

/** Keeps what cannot be shown from taking the rest of the page with it; its text stays there to read. */
export function Guard(props: { children: JSX.Element; text?: string; again?: unknown }) {
  return (
    <ErrorBoundary
      fallback={(_error, reset) => {
        createEffect(on(() => props.again, reset, { defer: true }));
        return (
          <div class="unshown">
            <p class="problem">This could not be shown.</p>
            <Show when={props.text}>
              <pre tabindex="0">{props.text}</pre>
            </Show>
          </div>
        );
      }}
    >
      {props.children}
    </ErrorBoundary>
  );
}
