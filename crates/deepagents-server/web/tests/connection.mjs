// API keys, connections, and the amount of data transferred.
import assert from "node:assert/strict";
import { model, scene, until } from "./support.mjs";

scene("a key is refused in words: one that no header carries, and one that the server does not take", async (it) => {
  const page = await it.open();
  it.expects = /401/;
  let asked = 0;
  await it.context.route(/:\d+\/(threads|assistants|runs|page\/agents)/, async (route) => {
    asked += 1;
    await route.fulfill({ status: 401, json: { detail: "a key is needed" } });
  });
  await page.clock.install();
  await page.reload();
  const key = page.getByLabel("Key");
  await key.fill("“0123456789abcdef”");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("contains only ASCII characters").waitFor();
  await key.fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("The key was rejected.").waitFor();
  assert.equal(await page.evaluate(() => Object.values(sessionStorage).includes("wrong")), false);
  // No requests are made until there is a new key.
  const before = asked;
  await page.clock.fastForward(60_000);
  await page.evaluate(() => window.dispatchEvent(new CustomEvent("thread-changed", { detail: "x" })));
  await key.fill("other");
  assert.equal(asked, before);
});

scene("an address leads to a thread, and to no other request", async (it) => {
  const page = await it.open(`/?thread=${encodeURIComponent("x/../../assistants/search?a=")}`);
  const posts = [];
  page.on("request", (request) => request.method() === "POST" && posts.push(new URL(request.url()).pathname));
  await it.ask("say hello", "Hello from the model.");
  assert.match(it.thread, /^[\da-f-]{36}$/);
  assert.deepEqual(posts.filter((path) => path.endsWith("/runs") && path !== `/threads/${it.thread}/runs`), []);
});

scene("tabs that nobody looks at leave their connections to others, and take them up again", async (it) => {
  const hide = (page, hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const first = await it.open();
  const tabs = [];
  for (let at = 0; at < 7; at++) {
    const page = at ? await it.tab("/") : first;
    it.page = page;
    tabs.push(page);
    await it.say("hold on");
    await it.sees("First half");
    if (at < 6) await hide(page, true);
  }
  await hide(first, false);
  model.release();
  await it.sees("second half.");
  it.page = first;
  await it.sees("First half, second half.");
  await it.isIdle();
});

scene("a connection on which nothing comes is taken up anew", async (it) => {
  const page = await it.open();
  await page.clock.install();
  await page.reload();
  const streams = [];
  page.on("request", (request) => request.url().endsWith("/stream") && streams.push(request.headers()["last-event-id"]));
  await it.say("hold on");
  await it.sees("First half");
  await until("it is followed", () => streams.length === 1);
  await page.clock.fastForward(41_000);
  await until("it is asked again", async () => {
    await page.clock.fastForward(1000);
    return streams.length > 1;
  });
  assert.notEqual(streams[1], "-1");
  model.release();
  await page.clock.resume();
  await it.sees("First half, second half.");
});

scene("while an approval waits, the state is not read again and again", async (it) => {
  const page = await it.open();
  await page.clock.install();
  await page.reload();
  await it.say("book one");
  await page.getByRole("region", { name: "Approvals" }).waitFor();
  await it.isIdle();
  const read = [];
  page.on("request", (request) => read.push(new URL(request.url()).pathname));
  for (let looks = 0; looks < 3; looks++) {
    const before = read.length;
    await until("it is looked at", async () => {
      await page.clock.fastForward(1000);
      return read.slice(before).some((path) => path === "/threads/search");
    });
  }
  assert.ok(read.filter((path) => path.endsWith("/state")).length <= 1, read.join(" "));
});

scene("old threads are reached, and searched", async (it) => {
  for (let at = 0; at < 1050; at += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, more) => it.made({ title: `topic ${at + more}` })));
  }
  const page = await it.open();
  const threads = page.getByRole("navigation", { name: "Threads" });
  await threads.getByRole("button", { name: "Older threads" }).waitFor();
  await threads.getByRole("searchbox").fill("topic 5 ");
  await threads.getByText("Searched the newest 100 threads.").waitFor();
  await threads.getByRole("button", { name: "Search older threads" }).click();
  await threads.getByRole("link", { name: /topic 5 / }).first().waitFor();
  await threads.getByRole("searchbox").fill("");
  await until("more than a request brings are there", async () => (await threads.getByRole("link").count()) > 1000);
  assert.equal(await threads.locator(".problem").count(), 0);
});
