/** The time, and the width of the window, for what depends on them. */

import { createSignal } from "solid-js";

const TICK = 20_000;

const [now, setNow] = createSignal(Date.now());
setInterval(() => setNow(Date.now()), TICK);
export { now };

const query = matchMedia("(width <= 720px)");
const [narrow, setNarrow] = createSignal(query.matches);
query.addEventListener("change", (event) => setNarrow(event.matches));
/** Whether one thing at a time is shown. */
export { narrow };
