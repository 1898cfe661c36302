/** The current time and the width of the window, as signals. */

import { createSignal } from "solid-js";

const TICK = 20_000;

const [now, setNow] = createSignal(Date.now());
setInterval(() => setNow(Date.now()), TICK);
export { now };

const query = matchMedia("(width <= 720px)");
const [narrow, setNarrow] = createSignal(query.matches);
query.addEventListener("change", (event) => setNarrow(event.matches));
/** Whether the window is narrow, so that only one column is shown. */
export { narrow };
