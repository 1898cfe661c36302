import { onMount, type JSX } from "solid-js";

/** A modal dialog. The browser traps the focus and closes the dialog on Escape. */
export function Dialog(props: { title: string; onClose: () => void; children: JSX.Element }) {
  let element!: HTMLDialogElement;
  onMount(() => element.showModal());
  return (
    <dialog
      ref={element}
      aria-label={props.title}
      onClose={() => props.onClose()}
      onClick={(event) => event.target === element && element.close()}
    >
      <h2>{props.title}</h2>
      {props.children}
    </dialog>
  );
}

/** A confirmation with one action. */
export function Confirm(props: { title: string; text: string; action: string; onConfirm: () => void; onClose: () => void }) {
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <p>{props.text}</p>
      <form method="dialog" class="actions">
        <button type="submit">Cancel</button>
        <button type="submit" class="danger" onClick={() => props.onConfirm()}>
          {props.action}
        </button>
      </form>
    </Dialog>
  );
}
