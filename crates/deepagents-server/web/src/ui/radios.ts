/** Keyboard support for buttons that act as radio buttons: arrow keys select a neighbour. */
export function onArrows(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>('[role="radio"]')];
  const next = all[(all.findIndex((one) => one === document.activeElement) + step + all.length) % all.length];
  event.preventDefault();
  next?.focus();
  next?.click();
}

/** Tab reaches the selected button, or the first one. */
export const tabindex = (isChosen: boolean, isAnyChosen: boolean, at: number) => (isChosen || (!isAnyChosen && at === 0) ? 0 : -1);
