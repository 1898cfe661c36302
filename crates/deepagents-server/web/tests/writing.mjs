// What a person writes is not lost, whatever happens meanwhile.
import assert from "node:assert/strict";
import { answered, model, scene, until } from "./support.mjs";

/** Holds requests with a method until they are released. */
async function held(it, address, method, then) {
  let release;
  const gate = new Promise((go) => (release = go));
  let asked;
  const arrived = new Promise((tell) => (asked = tell));
  await it.page.route(address, async (route) => {
    if (route.request().method() !== method) return route.fallback();
    asked();
    await gate;
    await then(route);
  });
  return { arrived, release };
}

scene("what is written while a message is on its way stays, also where it is refused", async (it) => {
  const page = await it.open();
  it.expects = /Failed to load resource|net::ERR_FAILED/;
  const first = await held(it, /\/threads$/, "POST", (route) => route.continue());
  await it.say("say hello");
  await first.arrived;
  await it.composer.pressSequentially("second thought");
  first.release();
  await it.sees("Hello from the model.");
  assert.equal(await it.composer.inputValue(), "second thought");

  await it.isIdle();
  const refused = await held(it, /\/runs$/, "POST", (route) => route.abort());
  await it.say("message A");
  await refused.arrived;
  await it.composer.pressSequentially("message B");
  refused.release();
  await until("both are there", async () => (await it.composer.inputValue()) === "message A\nmessage B");
  assert.equal(await it.log.locator(".entry.human").count(), 1);
  await page.unrouteAll();
});

scene("a message that is sent before the assistants are known goes when they are", async (it) => {
  const page = await it.open();
  const late = await held(it, /\/assistants\/search$/, "POST", (route) => route.continue());
  await page.reload();
  await late.arrived;
  await it.say("say hello");
  late.release();
  await it.sees("Hello from the model.");
  // If saving fails, the error is shown and the text stays.
  it.expects = /Failed to load resource|net::ERR_FAILED/;
  await page.route(/\/assistants\/search$/, (route) => route.abort());
  await page.reload();
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await it.say("say hello");
  await page.getByText("Not sent: the list of assistants is not loaded yet").waitFor();
  assert.equal(await it.composer.inputValue(), "say hello");
});

scene("a message that is said again keeps its pictures, and its words while it is out of sight", async (it) => {
  const page = await it.open();
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  await page.getByLabel("Files to attach").setInputFiles([{ name: "dot.png", mimeType: "image/png", buffer: png }]);
  await page.getByRole("list", { name: "Attachments" }).waitFor();
  await it.ask("look at this", "I see 1 picture.");
  await it.say(answered({ text: "word ".repeat(6000) }));
  await it.isIdle();
  const edited = page.getByRole("textbox", { name: "Your message" });
  await it.log.evaluate((log) => (log.scrollTop = 0));
  await it.log.getByRole("article").first().hover();
  await it.log.getByRole("article").first().getByRole("button", { name: "Edit and send again" }).click();
  await edited.fill("look again");
  await it.log.evaluate((log) => (log.scrollTop = log.scrollHeight));
  await edited.waitFor({ state: "detached" });
  await it.log.evaluate((log) => (log.scrollTop = 0));
  assert.equal(await edited.inputValue(), "look again");
  await page.getByRole("button", { name: "Send again", exact: true }).click();
  await it.sees("look again");
  await it.sees("I see 1 picture.");
  await it.log.getByRole("img", { name: "dot.png" }).waitFor();
  await it.isIdle();
  // If sending fails, the edited message is gone but its text is kept.
  it.expects = /Failed to load resource|net::ERR_FAILED/;
  await page.route(/\/runs$/, (route) => (route.request().method() === "POST" ? route.abort() : route.fallback()));
  await it.log.getByRole("article").first().hover();
  await it.log.getByRole("article").first().getByRole("button", { name: "Edit and send again" }).click();
  await edited.fill("look a third time");
  await page.getByRole("button", { name: "Send again", exact: true }).click();
  await until("it is in the place to write", async () => (await it.composer.inputValue()) === "look a third time");
});

scene("a file that is being changed waits while its panel is closed, and keeps its line ends", async (it) => {
  const thread = await it.made({}, { files: { "/a.txt": "one\r\ntwo\r\n" } });
  const page = await it.open(`/?thread=${thread}&panel=files&file=/a.txt`);
  const panel = await it.panel("Files");
  const editor = panel.getByRole("textbox", { name: "Text of /a.txt" });
  await panel.getByRole("button", { name: "Edit" }).click();
  assert.equal(await panel.getByRole("button", { name: "Save" }).isDisabled(), true);
  await editor.fill("one\ntwo\nthree\n");
  await page.getByRole("button", { name: "Todo list" }).click();
  await it.panel("Files");
  assert.equal(await editor.inputValue(), "one\ntwo\nthree\n");
  await panel.getByRole("button", { name: "Save" }).click();
  await panel.getByText("three").waitFor();
  const { values } = await it.api("GET", `/threads/${thread}/state`);
  assert.match(JSON.stringify(values.files["/a.txt"]), /one\\r\\ntwo\\r\\nthree\\r\\n/);
  // A new file must not replace an existing one.
  await panel.getByRole("button", { name: "All files" }).click();
  await panel.getByRole("button", { name: "New file" }).click();
  await panel.getByRole("textbox", { name: "Path of the new file" }).fill("a.txt");
  await page.keyboard.press("Enter");
  await page.getByText("/a.txt already exists").waitFor();
  await panel.getByText("three").waitFor();
});

scene("a file that is dropped anywhere is attached, and does not take the place of the page", async (it) => {
  const page = await it.open();
  await page.locator(".start").evaluate((start) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
    for (const type of ["dragover", "drop"]) {
      const event = new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer });
      if (start.dispatchEvent(event)) throw new Error(`the browser would act on ${type}`);
    }
  });
  await page.getByRole("list", { name: "Attachments" }).getByText("dropped.txt").waitFor();
});

scene("a browser that keeps nothing for the page shows it, and copies without its clipboard", async (it) => {
  await it.open();
  await it.context.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(window, name, { get: () => { throw new DOMException("blocked", "SecurityError"); } });
    }
    Object.defineProperty(navigator, "clipboard", { value: undefined });
  });
  await it.page.reload();
  await it.ask("write code", "Here is some code");
  await it.composer.fill("x".repeat(6_000_000));
  await it.composer.fill("");
  await it.log.getByRole("button", { name: "Copy code" }).click();
  await it.page.getByText("Copied").waitFor();
  await it.composer.focus();
  await it.page.keyboard.press("Control+V");
  assert.match(await it.composer.inputValue(), /^fn main/);
});

scene("what is selected in code stays selected while more is written", async (it) => {
  await it.open();
  await it.say("hold on in code");
  const code = it.log.locator(".code code");
  await code.getByText("first").waitFor();
  await code.evaluate((one) => getSelection().selectAllChildren(one));
  const selected = () => it.page.evaluate(() => String(getSelection()));
  const before = await selected();
  assert.match(before, /let first = 1;/);
  model.release();
  await code.getByText("second").waitFor();
  await it.isIdle();
  assert.match(await selected(), /let first = 1;/);
});
