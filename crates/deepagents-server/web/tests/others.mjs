// Unusual content from other clients, agents and third parties: the page shows it and keeps working.
import assert from "node:assert/strict";
import { answered, model, picture, scene, until } from "./support.mjs";

const waits = (it) => it.page.getByRole("region", { name: "Approvals" });

/** Opens a thread whose pending call the server describes with `action`. */
async function waiting(it, action, options) {
  await it.open("/", options);
  await it.context.route(/\/threads\/[\w-]+\/state$/, async (route) => {
    const response = await route.fetch();
    const state = await response.json();
    for (const { value } of state.interrupts) value.action_requests = value.action_requests.map(() => action);
    await route.fulfill({ response, json: state });
  });
  await it.say("book one");
  await waits(it).waitFor();
}

scene("an approval shows every space of a path, and how many lines a long text has", async (it) => {
  const [file_path, command] = [`/a${" ".repeat(300)}/.bashrc`, `true${"\n".repeat(200)}touch hidden`];
  await waiting(it, { name: "write_file", args: { file_path, content: "x" } });
  const path = waits(it).locator("p.path");
  assert.equal(await path.innerText(), file_path);
  const one = await path.evaluate((element) => {
    const height = element.clientHeight;
    element.textContent = "/a /.bashrc";
    return height > element.clientHeight;
  });
  assert.ok(one, "the spaces take up room");
  await waiting(it, { name: "execute", args: { command } });
  await waits(it).getByText("201 lines").waitFor();
});

scene("Markdown that is nested too deeply is shown as it was written, and the thread goes on", async (it) => {
  const stars = "*".repeat(9000);
  const texts = [`${">".repeat(1000)} x`, `${">".repeat(3000)} y`, `${stars}a${stars}`];
  const messages = texts.map((content) => ({ role: "assistant", content }));
  const thread = await it.made({}, { messages, files: { "/deep.md": texts[1] } });
  const page = await it.open(`/?thread=${thread}&panel=files&file=/deep.md`);
  const panel = await it.panel("Files");
  await panel.getByText("> y").last().waitFor();
  await it.say(answered({ text: texts[0] }));
  await it.log.locator(".entry.ai").last().getByText("> x").last().waitFor();
  await it.isIdle();
  await page.reload();
  await it.ask("say hello", "Hello from the model.");
});

scene("long words that might be addresses are shown as they were written, and the thread goes on", async (it) => {
  for (const word of [`${"a".repeat(100_000)}@`, `http://a/${"&a;".repeat(40_000)}(`]) {
    const messages = [{ role: "assistant", content: `**before**\n\n${word}` }];
    await it.open(`/?thread=${await it.made({}, { messages })}`);
    const shown = it.log.locator(".entry.ai .markdown");
    await shown.getByText("before").waitFor();
    assert.equal(await shown.locator("p").last().textContent(), word);
    await it.ask("say hello", "Hello from the model.");
    await it.isIdle();
  }
  await it.say(answered({ text: "me@example.com and https://example.com/x" }));
  const links = it.log.locator(".entry.ai").last().getByRole("link");
  await links.nth(1).waitFor();
  assert.deepEqual(await links.evaluateAll((all) => all.map((one) => one.href)), ["mailto:me@example.com", "https://example.com/x"]);
});

scene("entities and line breaks of HTML are what they stand for, as text", async (it) => {
  await it.open();
  await it.say(answered({ text: "A &amp; B 5&nbsp;km &lt;b&gt; `&amp;` &nothing; [x](https://a.example/?p=1&amp;q=2)\n\n| a |\n|---|\n| one<br>two |" }));
  const said = it.log.locator(".entry.ai");
  await said.getByText("A & B 5\u00a0km <b> &amp; &nothing; x", { exact: true }).waitFor();
  assert.equal(await said.getByRole("link").getAttribute("href"), "https://a.example/?p=1&q=2");
  assert.equal(await said.locator("td br").count(), 1);
});

scene("messages of other clients are followed in every form, and stand once", async (it) => {
  const page = await it.open();
  const forms = [
    (words) => words,
    (words) => ({ role: "user", content: words }),
    (words) => [["user", words]],
    (words) => [{ type: "human", content: [{ type: "text", text: words }] }, words],
  ];
  for (const form of forms) {
    const run = (thread, words) => it.api("POST", `/threads/${thread}/runs`, { assistant_id: "agent", input: { messages: form(words) } });
    const thread = await it.made();
    await run(thread, "hold on");
    await model.isHeld();
    await run(thread, "say hello");
    await page.goto(new URL(`/?thread=${thread}`, page.url()).href);
    await it.sees("hold on");
    await page.getByRole("list", { name: "Queued messages" }).getByText("say hello").waitFor();
    const said = () => it.log.locator(".entry.human").count();
    const each = [form("")].flat().length === 2 ? 2 : 1;
    assert.equal(await said(), each);
    model.release();
    await it.sees("First half, second half.");
    await it.sees("Hello from the model.");
    await it.isIdle();
    await until("all stand once", async () => (await said()) === 2 * each);
  }
});

scene("a message of the system is not one of the person, and a run that failed is told in every form", async (it) => {
  const thread = await it.made();
  const messages = [{ role: "system", content: "be brief" }, ["user", "break the model"]];
  await it.api("POST", `/threads/${thread}/runs`, { assistant_id: "agent", input: { messages } });
  for (const messages of ["break the model", { role: "user", content: "break the model" }]) {
    await it.api("POST", `/threads/${thread}/runs`, { assistant_id: "agent", input: { messages } });
  }
  const page = await it.open(`/?thread=${thread}`);
  await it.log.getByRole("article").filter({ hasText: "The system said" }).getByText("be brief").waitFor();
  await page.getByRole("alert").getByText("scripted refusal").waitFor();
  await it.ask("say hello", "Hello from the model.");
});

scene("approvals show every argument: tools of others as they are, those of files with what they change", async (it) => {
  await it.open();
  await it.say(answered({ calls: [{ id: "c", name: "upload", args: { file_path: "/a", content: "one\ntwo", destination: "elsewhere.example" } }] }));
  await waits(it).getByText("elsewhere.example").waitFor();
  await waits(it).getByText("one\ntwo", { exact: true }).waitFor();
  assert.equal(await waits(it).locator(".diff").count(), 0);
  // An argument that the call does not have stays unset.
  await waits(it).getByRole("radio", { name: "Edit" }).click();
  assert.equal(await waits(it).getByRole("combobox", { name: /speed/ }).inputValue(), "");
  await it.page.context().close();

  await waiting(it, { name: "edit_file", args: { file_path: "/a", old_string: "x", new_string: "y", replace_all: true } });
  await waits(it).getByText('"replace_all": true').waitFor();
  await waits(it).locator(".line.added", { hasText: "y" }).waitFor();
});

scene("what cannot be seen is shown by its number", async (it) => {
  await it.made({ title: "invoice \u202Efdp.exe" });
  const blank = await it.made({ title: "\u200b\u200b" }, { messages: [], files: { "/\u202Etxt.exe": "x" } });
  await waiting(it, { name: "execute", args: { command: "echo safe \u202E ; fr- mr\u202C # \u200Bx" } });
  await waits(it).getByText("echo safe \\u{202E} ; fr- mr\\u{202C} # \\u{200B}x").waitFor();
  const threads = it.page.getByRole("navigation", { name: "Threads" });
  await threads.getByText("invoice \\u{202E}fdp.exe").first().waitFor();
  await threads.getByText(`Thread ${blank.slice(-8)}`).waitFor();
  await it.page.goto(new URL(`/?thread=${blank}&panel=files`, it.page.url()).href);
  await it.page.getByRole("button", { name: "/\\u{202E}txt.exe" }).waitFor();
});

scene("large edits wait for a person without holding the page up", async (it) => {
  const lines = (word) => Array.from({ length: 12_000 }, (_, at) => `${word}${(at * 7919) % 100_003}`).join("\n");
  await waiting(it, { name: "edit_file", args: { file_path: "/a", old_string: lines("a"), new_string: lines("b") } });
  const more = waits(it).getByRole("button", { name: /^Show / });
  const shown = await waits(it).locator(".line").count();
  assert.ok(shown < 1000);
  await more.click();
  assert.ok((await waits(it).locator(".line").count()) > shown);
});

scene("numbers that JavaScript cannot hold stay what they are", async (it) => {
  await it.open();
  await it.say(answered({ calls: [{ id: "c", name: "book", args: '{"place":"Oslo","seats":9007199254740993}' }] }));
  await waits(it).getByText('"seats": 9007199254740993').waitFor();
  await waits(it).getByRole("radio", { name: "Edit" }).click();
  await waits(it).getByLabel(/place/).fill("Rome");
  await waits(it).getByRole("button", { name: "Send decision" }).click();
  await it.sees("booked 9007199254740993 to Rome");
});

scene("a form that was left with what is wrong in it begins anew", async (it) => {
  await it.open();
  await it.say("book one");
  const seats = waits(it).getByLabel(/seats/);
  await waits(it).getByRole("radio", { name: "Edit" }).click();
  await seats.fill("two");
  await waits(it).getByRole("radio", { name: "Approve" }).click();
  await waits(it).getByRole("radio", { name: "Edit" }).click();
  assert.equal(await seats.inputValue(), "1");
  await waits(it).getByRole("button", { name: "Send decision" }).click();
  await it.sees("booked 1 to Oslo");
});

scene("an approval says which sub-agent asks", async (it) => {
  await it.open();
  const call = answered({ calls: [{ id: "c_b", name: "book", args: { place: "Oslo", seats: 1 } }] });
  await it.say(answered({ calls: [{ id: "c_t", name: "task", args: { description: call, subagent_type: "researcher" } }] }));
  await waits(it).getByText("requested by researcher").waitFor();
});

for (const [width, height] of [[640, 320], [320, 480], [640, 425]]) {
  scene(`calls that wait are decided in a window of ${width} by ${height}`, async (it) => {
    const page = await it.open("/", { viewport: { width, height } });
    const question = { question: "Which of these long ones? ".repeat(5), choices: ["a long choice ".repeat(6), "b"] };
    await it.say(answered({ calls: [{ id: "c_a", name: "ask_user", args: question }, { id: "c_b", name: "book", args: { place: "Oslo", seats: 1 } }] }));
    const list = waits(it).getByRole("list").first();
    await list.waitFor();
    const seen = await list.evaluate((one) => {
      const { left, width } = one.getBoundingClientRect();
      const rows = Array.from({ length: innerHeight }, (_, y) => document.elementFromPoint(left + width / 2, y));
      return rows.filter((row) => one.contains(row)).length;
    });
    await picture(page, `waits-${width}-${height}`);
    assert.ok(seen > 120, `${seen} pixels of the calls are in sight`);
    await waits(it).getByRole("radio", { name: "b", exact: true }).check();
    await waits(it).getByRole("radio", { name: "Approve" }).click();
    await waits(it).getByRole("button", { name: "Send decisions" }).click();
    await it.sees("booked 1 to Oslo");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  });
}
