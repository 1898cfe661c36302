// Colour schemes, keyboard use, small windows, and assistive technology.
import assert from "node:assert/strict";
import { isAccessible, model, picture, scene, until } from "./support.mjs";

// The dark colours differ only in contrast.
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
  await page.getByRole("heading", { name: "What would you like to do?" }).waitFor();
});

scene("a small window shows one thing at a time", async (it) => {
  const page = await it.open("/", { viewport: { width: 380, height: 700 }, hasTouch: true, isMobile: true });
  await it.ask("make todos", "The tools said");
  const threads = page.getByRole("navigation", { name: "Threads" });
  assert.equal(await threads.isVisible(), false);
  await page.getByRole("button", { name: "Threads", exact: true }).click();
  await threads.getByRole("link", { name: /make todos/ }).first().click();
  await threads.waitFor({ state: "hidden" });
  const panel = await it.panel("Todo list");
  await panel.getByText("1 of 2 done").waitFor();
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
  await until("the focus is in the panel", async () => (await focused()) === "Close panel");
  await page.keyboard.press("Shift+Tab");
  assert.ok(await page.evaluate(() => !document.querySelector("main").contains(document.activeElement)), "keys do not lead behind it");
  await panel.getByRole("button", { name: "Close panel" }).click();
  await until("the focus is back", async () => (await focused()) === "Todo list");
  await until("nothing is wider than the window", () =>
    page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
  );
  await isAccessible(it, "a small window");
  await picture(page, "small");
});

scene("decisions are made with arrows, told to those who do not see them, and leave the focus where it is of use", async (it) => {
  const page = await it.open();
  await it.say("book one");
  const waits = page.getByRole("region", { name: "Approvals" });
  await page.getByRole("status").getByText("The agent is waiting for your decision").waitFor({ state: "attached" });
  await waits.getByRole("radio").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await waits.getByRole("radio", { checked: true }).innerText(), "Edit");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await waits.getByRole("radio", { checked: true }).innerText(), "Approve");
  await page.keyboard.press("Tab");
  await waits.getByRole("button", { name: "Send decision" }).press("Enter");
  await it.sees("booked 1 to Oslo");
  await it.isIdle();
  assert.equal(await page.evaluate(() => document.activeElement.id), "composer");

  const threads = page.getByRole("navigation", { name: "Threads" });
  assert.match(await threads.getByRole("link").first().getAttribute("href"), new RegExp(it.thread));
  await threads.getByRole("link").first().hover();
  await threads.getByRole("button", { name: /^Delete/ }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).press("Enter");
  await until("the focus is in the list", () => page.evaluate(() => document.activeElement.className === "new"));
});

scene("times in the list grow older", async (it) => {
  const page = await it.open();
  await it.ask("say hello", "Hello from the model.");
  await page.clock.install();
  await page.reload();
  const time = page.getByRole("navigation", { name: "Threads" }).locator(".current time");
  await time.getByText("now").waitFor();
  await page.clock.fastForward("02:00:30");
  await time.getByText("2 h").waitFor();
});
