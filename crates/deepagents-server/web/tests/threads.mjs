import assert from "node:assert/strict";
import { scene, until } from "./support.mjs";

const list = (it) => it.page.getByRole("navigation", { name: "Threads" });
const row = (it, title) => list(it).getByRole("listitem").filter({ hasText: title });

scene("threads are searched, renamed, forked and deleted", async (it) => {
  const page = await it.open();
  await it.ask("a walrus sings", "You said: a walrus sings");
  await list(it).getByRole("button", { name: "New thread" }).click();
  await it.ask("an otter dives", "You said: an otter dives");

  const search = list(it).getByRole("searchbox", { name: "Search threads" });
  await search.fill("walrus SINGS");
  await row(it, "a walrus sings").waitFor();
  assert.equal(await row(it, "an otter dives").count(), 0);

  await row(it, "a walrus sings").hover();
  await list(it).getByRole("button", { name: "Rename a walrus sings" }).click();
  await list(it).getByRole("textbox", { name: "Name of the thread" }).fill("the walrus song");
  await page.keyboard.press("Enter");
  await search.fill("");
  await row(it, "the walrus song").waitFor();

  await row(it, "the walrus song").hover();
  await list(it).getByRole("button", { name: "Fork the walrus song" }).click();
  await page.getByRole("heading", { name: "the walrus song (fork)" }).waitFor();
  await it.ask("say hello", "Hello from the model.");
  await it.sees("You said: a walrus sings");

  const fork = it.thread;
  await row(it, "the walrus song (fork)").hover();
  await list(it).getByRole("button", { name: "Delete the walrus song (fork)" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await row(it, "the walrus song (fork)").hover();
  await list(it).getByRole("button", { name: "Delete the walrus song (fork)" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await row(it, "the walrus song (fork)").waitFor({ state: "detached" });
  await page.getByRole("heading", { name: "What would you like to do?" }).waitFor();
  await until("it is gone", async () => (await it.api("POST", "/threads/search", { ids: [fork] })).length === 0);
  await list(it).getByRole("link", { name: /the walrus song/ }).first().click();
  await it.sees("You said: a walrus sings");
});

scene("a thread is with the assistant that was chosen", async (it) => {
  const page = await it.open();
  await page.getByText(/Model: .*gpt-4\.1/).waitFor();
  await page.getByRole("radio", { name: /plain/ }).click();
  await it.ask("say hello", "Hello from the model.");
  const [run] = await it.api("GET", `/threads/${it.thread}/runs`);
  const [plain] = await it.api("POST", "/assistants/search", { graph_id: "plain" });
  assert.equal(run.assistant_id, plain.assistant_id);
  await page.goto(page.url().replace(/&?assistant=[^&]*/, ""));
  await it.sees("Hello from the model.");
  await until("the thread's own assistant is chosen", async () => {
    const shown = await page.getByRole("combobox", { name: "Assistant" }).inputValue();
    return shown === plain.assistant_id;
  });
});

scene("a server that wants a key is given the one that a person types in", async (it) => {
  const page = await it.open();
  it.expects = /401/;
  // As a proxy in front of the server does.
  await it.context.route(/:\d+\/(threads|assistants|runs|page\/agents)/, async (route) => {
    const key = await route.request().headerValue("x-api-key");
    if (key === "open sesame") await route.fallback();
    else await route.fulfill({ status: 401, json: { detail: "a key is needed" } });
  });
  await page.reload();
  await page.getByRole("heading", { name: "This server requires a key" }).waitFor();
  await page.getByLabel("Key").fill("open sesame");
  await page.getByRole("button", { name: "Continue" }).click();
  await it.ask("say hello", "Hello from the model.");
});

scene("assistants are made of an agent, changed and deleted", async (it) => {
  const page = await it.open();
  await page.getByRole("button", { name: "Assistants" }).click();
  const dialog = page.getByRole("dialog", { name: "Assistants" });
  await dialog.getByRole("button", { name: "New assistant" }).click();
  await dialog.getByRole("combobox").selectOption("plain");
  await dialog.getByLabel("Name", { exact: true }).fill("Brief");
  await dialog.getByLabel("Description").fill("Takes few steps.");
  await dialog.getByLabel(/Maximum steps/).fill("8");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByRole("button", { name: "Change Brief" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("Briefer");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.getByRole("button", { name: "Change Briefer" }).waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  // It is the one that was chosen.
  await it.ask("say hello", "Hello from the model.");
  const [run] = await it.api("GET", `/threads/${it.thread}/runs`);
  assert.equal(run.kwargs.config.recursion_limit, 8);
  await page.getByRole("button", { name: "Assistants" }).click();
  await dialog.getByRole("button", { name: "Delete Briefer" }).click();
  await dialog.getByRole("button", { name: "Delete Briefer" }).waitFor({ state: "detached" });
  const left = await it.api("POST", "/assistants/search", { limit: 100 });
  assert.deepEqual(left.map((one) => one.name).sort(), ["agent", "plain"]);
});
