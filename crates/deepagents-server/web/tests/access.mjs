// Colours, keys, small windows, and people who use the page without seeing it.
import assert from "node:assert/strict";
import { isAccessible, model, picture, scene, until } from "./support.mjs";

// The other colours differ in nothing but the contrast.
for (const [colorScheme, rules] of [["light"], ["dark", ["color-contrast"]]]) {
  scene(`axe finds nothing in ${colorScheme} colours`, async (it) => {
    const page = await it.open("/", { colorScheme });
    const isFine = (where, within) => isAccessible(it, where, rules, within);
    await isFine("the start");
    await it.ask("write code", "Here is some code");
    await it.ask("write a file", "The tools said");
    await it.ask("make todos", "The tools said");
    await it.ask("delegate", "The tools said");
    await it.ask("think first", "Thought through.");
    await it.log.evaluate((log) => log.querySelectorAll("details").forEach((one) => (one.open = true)));
    await it.log.getByRole("heading", { name: "Arguments" }).first().waitFor();
    await isFine("a conversation");
    for (const name of ["Todo list", "Files", "Sub-agents", "Timeline", "Tokens and cost"]) {
      const panel = await it.panel(name);
      if (name === "Files") await panel.getByRole("button", { name: /notes/ }).click();
      if (name === "Sub-agents") await panel.getByRole("button", { name: /research whales/ }).click();
      if (name === "Timeline") await panel.getByRole("button", { name: "Fork" }).first().waitFor();
      if (name === "Tokens and cost") await panel.getByText("Context window").waitFor();
      await isFine(name, ".panel");
    }
    await it.say("book two");
    await page.getByRole("radio", { name: "Edit" }).first().click();
    await isFine("approvals");
    await picture(page, `conversation-${colorScheme}`);
    await page.getByRole("button", { name: "Keys" }).click();
    await isFine("a dialog");
  });
}

scene("colours are chosen, and kept", async (it) => {
  const page = await it.open("/", { colorScheme: "light" });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.getByRole("button", { name: "Colours: system" }).click();
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await page.getByRole("button", { name: "Colours: dark" }).click();
  assert.equal(await ground(), light);
  await page.getByRole("button", { name: "Colours: light" }).click();
  await page.getByRole("button", { name: "Colours: system" }).waitFor();
});

scene("the page is used with keys alone", async (it) => {
  const page = await it.open();
  await page.keyboard.press("Control+k");
  assert.equal(await page.evaluate(() => document.activeElement.id), "search");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "composer");
  await page.keyboard.type("first line");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("hold on");
  await page.keyboard.press("Enter");
  await model.isHeld();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await page.keyboard.press("Control+.");
  await it.isIdle();
  model.release();
  await page.keyboard.press("Alt+2");
  await page.getByRole("complementary", { name: "Files" }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Escape");
  await page.getByRole("complementary").waitFor({ state: "detached" });
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("Alt+n");
  await page.getByRole("heading", { name: "What shall we do?" }).waitFor();
});

scene("a small window shows one thing at a time", async (it) => {
  const page = await it.open("/", { viewport: { width: 380, height: 700 }, hasTouch: true, isMobile: true });
  await it.ask("make todos", "The tools said");
  const threads = page.getByRole("navigation", { name: "Threads" });
  assert.equal(await threads.isVisible(), false);
  await page.getByRole("button", { name: "Threads", exact: true }).click();
  await threads.getByRole("button", { name: /make todos/ }).first().click();
  await threads.waitFor({ state: "hidden" });
  const panel = await it.panel("Todo list");
  await panel.getByText("1 of 2 done").waitFor();
  await panel.getByRole("button", { name: "Close panel" }).click();
  await until("nothing is wider than the window", () =>
    page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
  );
  await isAccessible(it, "a small window");
  await picture(page, "small");
});
