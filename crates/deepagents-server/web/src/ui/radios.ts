/** Keys of a group of buttons that are radio buttons: arrows choose the one beside. */
export function onArrows(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>('[role="radio"]')];
  const next = all[(all.findIndex((one) => one === document.activeElement) + step + all.length) % all.length];
  event.preventDefault();
  next?.focus();
  next?.click();
}

/** Tab comes to the one that is chosen, or to the first. */
export const tabindex = (isChosen: boolean, isAnyChosen: boolean, at: number) => (isChosen || (!isAnyChosen && at === 0) ? 0 : -1);
