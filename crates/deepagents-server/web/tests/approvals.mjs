import assert from "node:assert/strict";
import { picture, scene } from "./support.mjs";

const waits = (it) => it.page.getByRole("region", { name: "Approvals" });
const action = (it, at) => waits(it).getByRole("listitem").nth(at);
const choose = (it, at, kind) => action(it, at).getByRole("radio", { name: kind }).click();
const send = (it) => waits(it).getByRole("button", { name: /^Send decision/ }).click();

scene("a call is approved, also after the page was loaded again", async (it) => {
  const page = await it.open();
  await it.say("book one");
  await waits(it).getByText("A call needs your decision").waitFor();
  await page.reload();
  assert.equal(await waits(it).getByRole("button", { name: "Send decision" }).isDisabled(), true);
  await choose(it, 0, "Approve");
  await send(it);
  await it.sees("booked 1 to Oslo");
  await waits(it).waitFor({ state: "detached" });
});

scene("a call is edited in a form that its tool's schema makes", async (it) => {
  await it.open();
  await it.say("book one");
  await choose(it, 0, "Edit");
  await action(it, 0).getByText("Where to").waitFor();
  await action(it, 0).getByLabel(/place/).fill("Bergen");
  const seats = action(it, 0).getByLabel(/seats/);
  await seats.fill("two");
  await action(it, 0).getByText("This is not a valid number.").waitFor();
  assert.equal(await waits(it).getByRole("button", { name: "Send decision" }).isDisabled(), true);
  await seats.fill("2");
  await picture(it.page, "approval");
  await send(it);
  await it.sees("booked 2 to Bergen");
});

scene("a call is rejected with a reason", async (it) => {
  await it.open();
  await it.say("book one");
  await choose(it, 0, "Reject");
  await action(it, 0).getByLabel(/Reason/).fill("too dear today");
  await send(it);
  await it.sees("too dear today");
});

scene("a call is answered by a person", async (it) => {
  await it.open();
  await it.say("book one");
  await choose(it, 0, "Respond");
  assert.equal(await waits(it).getByRole("button", { name: "Send decision" }).isDisabled(), true);
  await action(it, 0).getByLabel(/Result to return/).fill("I did it myself");
  await send(it);
  await it.sees("I did it myself");
});

scene("several calls are decided each in its own way, or all at once", async (it) => {
  await it.open();
  await it.say("book two");
  await waits(it).getByText("2 calls need your decision").waitFor();
  await choose(it, 0, "Approve");
  await choose(it, 1, "Reject");
  await send(it);
  await it.sees("booked 1 to Oslo |");
  await it.isIdle();
  assert.ok(!(await it.log.innerText()).includes("booked 2 to Rome"));
  await it.say("book two");
  await waits(it).getByRole("button", { name: "Approve all" }).click();
  await it.sees("booked 1 to Oslo | booked 2 to Rome");
});

scene("a thread that waits is marked as resolved, and the call is not made", async (it) => {
  const page = await it.open();
  await it.say("book one");
  await waits(it).getByRole("button", { name: "Mark as resolved" }).click();
  await waits(it).waitFor({ state: "detached" });
  await it.ask("say hello", "Hello from the model.");
  assert.ok(!(await page.innerText("body")).includes("booked"));
});
