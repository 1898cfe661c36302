import { createEffect, ErrorBoundary, on, Show, type JSX } from "solid-js";

/** An error boundary: if its children cannot be rendered, the rest of the page survives and `text` is shown. */
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
