import assert from "node:assert/strict";
import { picture, scene, until } from "./support.mjs";

scene("the todo list follows the agent", async (it) => {
  await it.open();
  await it.ask("make todos", "The tools said");
  const panel = await it.panel("Todo list");
  await panel.getByText("1 of 2 done").waitFor();
  await panel.getByRole("listitem").filter({ hasText: "build it" }).getByRole("img", { name: "in progress" }).waitFor();
});

scene("files are read, compared, changed, made and deleted", async (it) => {
  const page = await it.open();
  await it.ask("write a file", "The tools said");
  const panel = await it.panel("Files");
  await panel.getByRole("button", { name: /notes\.md.*new/ }).click();
  await panel.getByText("alpha").waitFor();
  await panel.getByRole("button", { name: "Edit" }).click();
  const editor = panel.getByRole("textbox", { name: "Text of /notes.md" });
  await editor.fill("# Notes\n\nalpha\nbeta\nby hand\n");
  await panel.getByRole("button", { name: "Save" }).click();
  await panel.getByText("by hand").waitFor();

  await it.ask("edit the file", "The tools said");
  await panel.getByRole("button", { name: "Changes" }).click();
  await panel.locator(".line.removed", { hasText: "beta" }).waitFor();
  await panel.locator(".line.added", { hasText: "gamma" }).waitFor();
  await picture(page, "files");

  // The URL leads to the file.
  await page.reload();
  await panel.getByText("by hand").waitFor();
  await panel.getByRole("button", { name: "All files" }).click();
  await panel.getByRole("button", { name: "New file" }).click();
  await panel.getByRole("textbox", { name: "Path of the new file" }).fill("src/made.rs");
  await panel.getByRole("button", { name: "Create" }).click();
  await panel.getByRole("heading", { name: "/src/made.rs" }).waitFor();
  const state = await it.api("GET", `/threads/${it.thread}/state`);
  assert.deepEqual(Object.keys(state.values.files).sort(), ["/notes.md", "/src/made.rs"]);
  assert.match(JSON.stringify(state.values.files["/notes.md"]), /gamma.*by hand/);

  await panel.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await panel.getByRole("button", { name: /made\.rs/ }).waitFor({ state: "detached" });
  await panel.getByRole("button", { name: /notes\.md/ }).waitFor();
});

scene("sub-agents are listed, each with its own transcript, also after loading again", async (it) => {
  const page = await it.open();
  await it.ask("delegate", "The tools said");
  await it.log.getByRole("button", { name: /researcher.*Transcript/ }).click();
  const panel = await it.panel("Sub-agents");
  const check = async () => {
    const tree = panel.getByRole("list").first();
    await it.sees("Looking it up.", panel);
    await it.sees("Whales have 42 facts.", panel);
    await tree.getByRole("button", { name: /general-purpose.*count the ants/ }).click();
    await it.sees("There are many ants.", panel);
    assert.ok(!(await panel.innerText()).includes("Looking it up."));
    await tree.getByRole("button", { name: /researcher.*research whales/ }).click();
  };
  await check();
  await picture(page, "sub-agents");
  await page.reload();
  await check();
});

scene("a thread goes back to a checkpoint, and is forked at one", async (it) => {
  const page = await it.open();
  await it.ask("say hello", "Hello from the model.");
  await it.ask("a second thing", "You said: a second thing");
  const panel = await it.panel("Timeline");
  const before = () => panel.getByRole("listitem").filter({ hasText: "Before your message" }).filter({ hasText: "Hello from the model." });
  await before().getByRole("button", { name: "Fork" }).click();
  await page.getByRole("heading", { name: "say hello (fork)" }).waitFor();
  await until("the fork has what was said before", async () => {
    const text = await it.log.innerText();
    return text.includes("Hello from the model.") && !text.includes("second thing");
  });
  await it.ask("say hello", "Hello from the model.");
  await page.getByRole("navigation").getByRole("link", { name: /^\S* ?say hello (?!\(fork)/ }).first().click();
  await it.sees("You said: a second thing");
  await before().getByRole("button", { name: "Rewind" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Rewind" }).click();
  await until("what came after is gone", async () => !(await it.log.innerText()).includes("second thing"));
  await it.ask("a third thing", "You said: a third thing");
  await picture(page, "timeline");
});

scene("tokens and cost are counted by model, with those of sub-agents", async (it) => {
  await it.open();
  await it.ask("delegate", "The tools said");
  const panel = await it.panel("Tokens and cost");
  // Two answers of the agent, two of the researcher, one of its own sub-agent.
  const row = (name) => panel.locator("dl > div").filter({ has: it.page.getByText(name, { exact: true }) });
  await until("all answers are counted", async () => /5$/.test(await row("Answers").innerText()));
  assert.match(await row("Input tokens").innerText(), /5,000/);
  assert.match(await row("Output tokens").innerText(), /250/);
  // 5,000 tokens at $2 and 250 at $8 a million.
  await panel.getByText("$0.012").first().waitFor();
  await panel.getByText("Context window").waitFor();
  await it.page.reload();
  await until("they are counted again", async () => /5$/.test(await row("Answers").innerText()));
});
