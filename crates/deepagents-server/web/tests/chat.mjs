import assert from "node:assert/strict";
import { model, picture, scene, until, url } from "./support.mjs";

scene("a new thread is named after what was said, has an address, and opens again by it", async (it) => {
  const page = await it.open();
  await it.ask("say hello", "Hello from the model.");
  assert.equal(await page.title(), "say hello · Deep Agents");
  const other = await it.tab(`/?thread=${it.thread}`);
  await other.getByRole("log").getByText("Hello from the model.").waitFor();
  await page.getByRole("button", { name: "New thread" }).click();
  await page.getByRole("heading", { name: "What would you like to do?" }).waitFor();
  await page.goBack();
  await it.sees("Hello from the model.");
});

scene("an answer shows while it is written", async (it) => {
  const page = await it.open();
  await it.say("hold on");
  await model.isHeld();
  await it.sees("First half");
  assert.ok(!(await it.log.innerText()).includes("second half."));
  await page.getByText("Writing…").waitFor();
  model.release();
  await it.sees("First half, second half.");
  await it.isIdle();
});

scene("Markdown becomes elements and code has colours", async (it) => {
  await it.open();
  await it.ask("write code", "Here is some code");
  await it.log.locator(".hljs-keyword", { hasText: "fn" }).waitFor();
  assert.equal(await it.log.locator("td").count(), 2);
  assert.equal(await it.log.getByRole("img", { name: "done" }).count(), 1);
  await it.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await it.log.getByRole("button", { name: "Copy code" }).click();
  assert.match(await it.page.evaluate(() => navigator.clipboard.readText()), /^fn main/);
});

scene("what other clients attach is shown as they name it", async (it) => {
  const thread = await it.api("POST", "/threads", { metadata: { graph_id: "agent" } });
  const data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  const content = [
    { type: "text", text: "say hello" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } },
    { type: "file", mimeType: "text/plain", data: "aGk=", metadata: { filename: "notes.txt" } },
  ];
  await it.api("POST", `/threads/${thread.thread_id}/state`, { values: { messages: [{ role: "user", content }] }, as_node: "__start__" });
  await it.open(`/?thread=${thread.thread_id}`);
  await it.sees("say hello");
  assert.equal(await it.log.locator("img.picture").getAttribute("src"), `data:image/png;base64,${data}`);
  assert.equal(await it.log.getByRole("link", { name: "notes.txt" }).getAttribute("download"), "notes.txt");
});

scene("hostile Markdown stays text: nothing runs, nothing is loaded, links lead to the web alone", async (it) => {
  const page = await it.open();
  await it.say("hostile");
  await it.sees("the end");
  await it.isIdle();
  const found = await it.log.evaluate((log) => ({
    tags: [...log.querySelectorAll("script, iframe, style, object, embed, form, link, meta, base, img, svg:not(.icon)")].map((one) => one.outerHTML),
    handlers: [...log.querySelectorAll("*")].flatMap((one) => [...one.attributes]).filter((one) => /^on|^style$|^srcdoc$/.test(one.name)).map((one) => `${one.name}=${one.value}`),
    links: [...log.querySelectorAll("a")].map((one) => one.getAttribute("href")),
    text: log.innerText,
  }));
  assert.deepEqual(found.tags, []);
  // The list's positions are set by the page's own scripts.
  assert.deepEqual(found.handlers.filter((one) => !/^style=(?!.*url\()/.test(one)), []);
  assert.deepEqual(found.links.sort(), ["https://attacker.invalid/steal.png?q=secret", "https://example.com/a?b=c"]);
  assert.match(found.text, /<script>window\.pwned = 1<\/script>/);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).display), "none");
});

scene("the browser itself refuses scripts and styles that are put into the document", async (it) => {
  const page = await it.open();
  it.expects = /Content Security Policy/;
  const ran = await page.evaluate(async () => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    const image = new Image();
    const refused = new Promise((resolve) => (image.onerror = () => resolve("refused")));
    image.src = "https://attacker.invalid/x.png";
    return [window.ran, await refused];
  });
  assert.deepEqual(ran, [undefined, "refused"]);
  it.problems = it.problems.filter((one) => !one.includes("attacker.invalid"));
});

scene("thinking is there to open", async (it) => {
  await it.open();
  await it.ask("think first", "Thought through.");
  const thoughts = it.log.getByText("First I weigh it.");
  assert.equal(await thoughts.isVisible(), false);
  await it.log.getByText("Thinking", { exact: true }).click();
  await thoughts.waitFor();
});

scene("tool calls open to their arguments and results, also failed ones", async (it) => {
  await it.open();
  await it.ask("use echo", "The tools said: echo: hi");
  await it.log.locator("summary", { hasText: "echo" }).click();
  await it.sees('"text"');
  await it.log.locator("pre", { hasText: "echo: hi" }).waitFor();
  await it.ask("fail please", "boom: no luck");
  await it.log.locator(".call.failed summary").click();
  await it.log.getByRole("heading", { name: "Error" }).waitFor();
});

scene("a run that fails says why, and the thread goes on", async (it) => {
  const page = await it.open();
  await it.say("break the model");
  await page.getByRole("alert").getByText("scripted refusal").waitFor();
  await page.getByRole("alert").getByRole("button", { name: "Dismiss" }).click();
  await it.ask("say hello", "Hello from the model.");
});

scene("a run that failed leaves its reason at the message, also after a reload, and is tried again", async (it) => {
  const page = await it.open();
  const reason = it.log.locator(".entry.human").filter({ hasText: "break the model" }).getByText("The run failed: ");
  await it.say("break the model");
  await reason.getByText("scripted refusal").waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("alert").getByText("scripted refusal").waitFor();
  await it.ask("say hello", "Hello from the model.");
  await reason.waitFor();
  await page.getByRole("button", { name: "Try again" }).waitFor({ state: "detached" });
  await page.reload();
  await it.sees("Hello from the model.");
  await reason.getByText("scripted refusal").waitFor();
});

scene("a run is stopped, and the thread goes on", async (it) => {
  const page = await it.open();
  await it.say("hold on");
  await model.isHeld();
  await page.getByRole("button", { name: "Stop" }).click();
  await it.isIdle();
  model.release();
  await it.ask("say hello", "Hello from the model.");
});

scene("a run that was stopped is gone on with", async (it) => {
  const page = await it.open();
  await it.say("hold on");
  await it.sees("First half");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await model.isHeld();
  model.release();
  await it.sees("First half, second half.");
  await it.isIdle();
  await page.getByRole("button", { name: "Continue" }).waitFor({ state: "detached" });
});

scene("what is said during a run waits in a queue, and can be taken back", async (it) => {
  const page = await it.open();
  await it.say("hold on");
  await model.isHeld();
  await it.say("say hello");
  await it.say("this is taken back");
  const queue = page.getByRole("list", { name: "Queued messages" });
  await queue.getByText("say hello").waitFor();
  await queue.getByRole("listitem").filter({ hasText: "this is taken back" }).getByRole("button", { name: "Remove from the queue" }).click();
  await queue.getByText("this is taken back").waitFor({ state: "detached" });
  model.release();
  await it.sees("Hello from the model.");
  await it.isIdle();
  assert.ok(!(await it.log.innerText()).includes("taken back"));
});

scene("a message can take the place of the run", async (it) => {
  const page = await it.open();
  await it.say("hold on");
  await model.isHeld();
  await it.composer.fill("say hello");
  await page.getByRole("button", { name: "Steer" }).click();
  await it.sees("Hello from the model.");
  await it.isIdle();
  model.release();
});

scene("a page that is loaded again in the middle of a run joins it", async (it) => {
  const page = await it.open();
  await it.say("hold on");
  await it.sees("First half");
  await page.reload();
  await it.sees("First half");
  await page.getByRole("button", { name: "Stop" }).waitFor();
  model.release();
  await it.sees("First half, second half.");
  await it.isIdle();
  const text = await it.log.innerText();
  assert.equal(text.split("First half").length, 2, text);
});

scene("two tabs show the same run", async (it) => {
  const page = await it.open();
  await it.ask("say hello", "Hello from the model.");
  const other = await it.tab(new URL(page.url()).search.replace(/^/, "/"));
  await other.getByRole("log").getByText("Hello from the model.").waitFor();
  await it.say("hold on");
  await model.isHeld();
  await other.getByRole("log").getByText("First half").waitFor();
  model.release();
  await other.getByRole("log").getByText("First half, second half.").waitFor();
});

scene("a connection that breaks is taken up where it was", async (it) => {
  const page = await it.open();
  it.expects = /ERR_INTERNET_DISCONNECTED|Failed to load resource/;
  await it.say("hold on");
  await model.isHeld();
  await it.sees("First half");
  // From here on, the connection loses data; the page reconnects.
  let broken = 0;
  await page.route("**/stream", async (route) => (broken++ < 2 ? route.abort("connectionreset") : route.continue()));
  await page.reload();
  await until("the page asked again", () => broken >= 2);
  model.release();
  await it.sees("First half, second half.");
  await it.isIdle();
});

scene("pictures and texts go with a message; other bytes are refused", async (it) => {
  const page = await it.open();
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  const files = page.getByLabel("Files to attach");
  await files.setInputFiles([
    { name: "dot.png", mimeType: "image/png", buffer: png },
    { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("these are notes") },
    { name: "bytes.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0, 255, 254, 1]) },
  ]);
  await page.getByText("bytes.bin is not an image, a PDF or a text file").waitFor();
  const list = page.getByRole("list", { name: "Attachments" });
  await list.getByText("notes.txt").waitFor();
  await it.ask("look at this", "I see 1 picture.");
  await it.log.getByRole("img", { name: "dot.png" }).waitFor();
  await it.sees("these are notes");
  await page.reload();
  await it.log.getByRole("img", { name: "dot.png" }).waitFor();
});

scene("a message is said again in other words, from before it", async (it) => {
  await it.open();
  await it.ask("say hello", "Hello from the model.");
  await it.ask("a second thing", "You said: a second thing");
  const first = it.log.getByRole("article").filter({ hasText: "say hello" });
  await first.hover();
  await first.getByRole("button", { name: "Edit and send again" }).click();
  await it.page.getByRole("textbox", { name: "Your message" }).fill("something else");
  await it.page.getByRole("button", { name: "Send again", exact: true }).click();
  await it.sees("You said: something else");
  await it.isIdle();
  const text = await it.log.innerText();
  assert.ok(!text.includes("say hello") && !text.includes("second thing"), text);
});

scene("a thread of 2,000 messages is in the document in part, and scrolls to both ends", async (it) => {
  const thread = await it.api("POST", "/threads", { metadata: { title: "long", graph_id: "agent" } });
  const messages = Array.from({ length: 2000 }, (_, at) => ({
    role: at % 2 ? "assistant" : "user",
    content: at % 2 ? `Answer **${at}** with words.\n\n- one\n- two` : `Message ${at}`,
  }));
  await it.api("POST", `/threads/${thread.thread_id}/state`, { values: { messages } });
  const page = await it.open(`/?thread=${thread.thread_id}`);
  await it.sees("Answer 1999 with words.");
  assert.ok((await it.log.getByRole("article").count()) < 60);
  const frames = await it.log.evaluate(async (log) => {
    const times = [];
    let last = performance.now();
    for (let step = 0; step < 60; step++) {
      log.scrollTop -= 600;
      await new Promise(requestAnimationFrame);
      times.push(performance.now() - last);
      last = performance.now();
    }
    return times.sort((a, b) => a - b);
  });
  console.log(`frames while scrolling 2,000 messages: median ${frames[30].toFixed(1)} ms, longest ${frames[59].toFixed(1)} ms`);
  const left = await it.log.evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight);
  assert.ok(left > 20_000, `whoever scrolls up stays there, and is not taken to the end again: ${left} pixels from it`);
  await until("the beginning is in sight", async () => {
    await it.log.evaluate((log) => (log.scrollTop = 0));
    return (await it.log.getByText("Message 0", { exact: true }).count()) > 0;
  });
  await page.getByRole("button", { name: "To the end" }).click();
  await it.sees("Answer 1999 with words.");
  await it.ask("say hello", "Hello from the model.");
});

scene("a thread that does not exist is said not to", async (it) => {
  const page = await it.open("/?thread=00000000-0000-4000-8000-000000000000");
  it.expects = /404/;
  it.problems = [];
  await page.getByRole("alert").getByText(/not found|does not exist/).waitFor();
});

scene("the first picture of the page is there at once", async (it) => {
  const page = await it.open();
  const paints = [];
  while (paints.length < 5) {
    await page.reload();
    await page.getByRole("heading", { name: "What would you like to do?" }).waitFor();
    paints.push(
      await until("something was painted", () =>
        page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime),
      ),
    );
  }
  const least = Math.min(...paints).toFixed(0);
  console.log(`first contentful paint: ${least} ms, the least of ${paints.map((paint) => paint.toFixed(0)).join(", ")}; 100 is what is aimed at`);
  await picture(page, "start");
  assert.ok(url);
});
