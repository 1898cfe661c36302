import assert from "node:assert/strict";
import { isAccessible, picture, scene } from "./support.mjs";

async function aim(it, goal, text) {
  await it.page.getByRole("button", { name: "Set a goal" }).click();
  await it.page.getByRole("textbox", { name: "Goal" }).fill(goal);
  await it.say(text);
}

scene("the work is judged by a goal until it is met", async (it) => {
  await it.open();
  await aim(it, "it names a blue whale", "say hello");
  const goal = it.page.getByRole("group").filter({ hasText: "Goal it names a blue whale" });
  await goal.getByText("met", { exact: false }).first().waitFor();
  await it.isIdle();
  await it.page.getByText("it names a blue whale: met").waitFor();
  const state = await it.api("GET", `/threads/${it.thread}/state`);
  assert.equal(state.values.rubric_progress.status, "satisfied");
  assert.ok(!(await it.page.getByRole("textbox", { name: "Goal" }).isVisible()));
  await it.page.reload();
  await it.page.getByText("it names a blue whale: met").click();
  await it.page.getByText("It is satisfied.").waitFor();
  await isAccessible(it, "a goal");
});

scene("what a goal lacks is shown", async (it) => {
  const page = await it.open();
  await it.ask("say hello", "Hello from the model.");
  await aim(it, "it names a green whale", "a second thing");
  await page.getByText("it names a green whale: not met, and no judgements are left").click();
  await page.locator(".goal li", { hasText: "names a whale: there is no green one" }).waitFor();
  await picture(page, "goal");
});
