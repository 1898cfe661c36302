// Questions of the agent, answered in forms.
import assert from "node:assert/strict";
import { isAccessible, picture, scene } from "./support.mjs";

const asked = (it) => it.page.getByRole("region", { name: "Approvals" });
const send = (it) => asked(it).getByRole("button", { name: "Send answer" });

scene("a question is answered in words", async (it) => {
  await it.open();
  await it.say("ask in words");
  await asked(it).getByText("A question for you").waitFor();
  const answer = asked(it).getByRole("group", { name: "What is the ship called?" }).getByLabel("Your answer");
  assert.equal(await send(it).isDisabled(), true);
  await answer.fill("   ");
  assert.equal(await send(it).isDisabled(), true);
  await answer.fill("Fram");
  await send(it).click();
  await it.sees("The tools said: Fram");
});

scene("one of several choices is chosen, and words take its place", async (it) => {
  await it.open();
  await it.say("ask for one");
  const group = asked(it).getByRole("group", { name: "Which colour?" });
  const widths = await group.locator(".choice").first().evaluate((one) => [...one.children].map((part) => part.getBoundingClientRect().width));
  assert.ok(widths[1] > 3 * widths[0], `the words have the room: ${widths}`);
  await group.getByRole("radio", { name: "red", exact: true }).check();
  await group.getByRole("radio", { name: "dark, blue" }).check();
  assert.equal(await group.getByRole("radio", { name: "red", exact: true }).isChecked(), false);
  await group.getByLabel("Or in your own words").fill("green");
  assert.equal(await group.getByRole("radio", { checked: true }).count(), 0);
  await group.getByRole("radio", { name: "dark, blue" }).check();
  assert.equal(await group.getByLabel("Or in your own words").inputValue(), "");
  await send(it).click();
  await it.sees("The tools said: dark, blue");
});

for (const [colorScheme, viewport, name] of [
  ["light", { width: 1280, height: 850 }, "question-light"],
  ["dark", { width: 1280, height: 850 }, "question-dark"],
  ["light", { width: 380, height: 700 }, "question-small"],
]) {
  scene(`some of several choices are chosen: ${name}`, async (it) => {
    const page = await it.open("/", { colorScheme, viewport });
    await it.say("ask for some");
    const group = asked(it).getByRole("group", { name: "Which ports?" });
    await group.getByRole("checkbox", { name: "Oslo" }).check();
    await group.getByRole("checkbox", { name: "Rome" }).check();
    await group.getByRole("checkbox", { name: "Bergen" }).check();
    await group.getByRole("checkbox", { name: "Rome" }).uncheck();
    await isAccessible(it, "a question");
    await picture(page, name);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await send(it).click();
    await it.sees("The tools said: Oslo, Bergen");
  });
}

scene("a question is declined", async (it) => {
  await it.open();
  await it.say("ask in words");
  const decline = asked(it).getByRole("button", { name: "Decline to answer" });
  await decline.click();
  await decline.click();
  assert.equal(await send(it).isDisabled(), true);
  await decline.click();
  await send(it).click();
  await asked(it).waitFor({ state: "detached" });
  await it.isIdle();
  assert.ok(!(await it.log.innerText()).includes("nobody answered"));
});
