// The server with its model, a browser, and helpers for the tests.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { createInterface } from "node:readline";
import test, { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { startModel } from "./model.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? path.join(here, "../../../../target");
const program = process.env.SERVE_RIG ?? path.join(target, "debug/serve-rig");
const pictures = process.env.PICTURES ?? path.join(here, "../pictures");
const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export let model;
export let url;
let server;
let browser;

before(async () => {
  mkdirSync(pictures, { recursive: true });
  model = await startModel();
  const port = process.env.DEEPAGENTS_URL ? new URL(process.env.DEEPAGENTS_URL).port : "0";
  server = spawn(program, [path.join(here, "agents.json"), "--port", port], {
    env: { ...process.env, PAGE_MODEL_URL: model.url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  url = await new Promise((found, failed) => {
    server.on("error", failed);
    server.on("exit", (code) => failed(new Error(`the server ended with ${code}`)));
    createInterface({ input: server.stdout }).on("line", (line) => line.startsWith("listening ") && found(line.slice(10)));
  });
  // The page may also be served by `npm run dev`, which proxies requests to this server.
  url = process.env.PAGE_URL ?? url;
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? CHROMIUM.find(existsSync),
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});

after(async () => {
  model?.release();
  await browser?.close();
  server?.kill();
  model?.close();
});

/** What a test is given: a page in its own browser context, and helpers that use it. */
export class Scene {
  problems = [];

  async open(address = "/", options = {}) {
    this.context = await browser.newContext({ viewport: { width: 1280, height: 850 }, ...options });
    this.context.setDefaultTimeout(Number(process.env.PATIENCE ?? 15) * 1000);
    this.page = await this.tab(address);
    return this.page;
  }

  /** Opens another tab of the same browser. */
  async tab(address) {
    const page = await this.context.newPage();
    page.on("pageerror", (error) => this.problems.push(String(error)));
    page.on("console", (message) => message.type() === "error" && !this.expects?.test(message.text()) && this.problems.push(message.text()));
    page.on("request", (request) => {
      const to = new URL(request.url());
      if (!["data:", "blob:"].includes(to.protocol) && to.origin !== url) this.problems.push(`the page asked for ${to}`);
    });
    await page.goto(url + address);
    return page;
  }

  get composer() {
    return this.page.getByRole("textbox", { name: "Message", exact: true });
  }

  get log() {
    return this.page.getByRole("log", { name: "Conversation" });
  }

  async say(text) {
    await this.composer.fill(text);
    await this.composer.press("Enter");
  }

  /** Sends a message and waits for the text of its answer. */
  async ask(text, answer) {
    await this.say(text);
    await this.sees(answer);
    await this.isIdle();
  }

  async sees(text, within = this.log) {
    await within.getByText(text).last().waitFor();
  }

  isIdle() {
    return this.page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
  }

  async panel(name) {
    const panel = this.page.getByRole("complementary", { name, exact: true });
    if (!(await panel.isVisible())) await this.page.getByRole("button", { name, exact: true }).click();
    await panel.waitFor();
    return panel;
  }

  /** Creates a thread as another client. */
  async made(metadata = {}, values = undefined) {
    const { thread_id } = await this.api("POST", "/threads", { metadata: { graph_id: "agent", ...metadata } });
    if (values) await this.api("POST", `/threads/${thread_id}/state`, { values });
    return thread_id;
  }

  get thread() {
    return new URL(this.page.url()).searchParams.get("thread");
  }

  async api(method, address, body) {
    const response = await fetch(url + address, {
      method,
      headers: { "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
    assert.ok(response.ok, `${method} ${address}: ${response.status}`);
    return response.status === 204 ? undefined : response.json();
  }
}

/** A message that the model answers with this. */
export const answered = (answer) => `ANSWER ${JSON.stringify(answer)}`;

/** Defines a test with a scene. A browser error fails it and saves a screenshot. */
export function scene(name, play) {
  if (!name.includes(process.argv[2] ?? "")) return;
  test(name, { timeout: 90_000 }, async () => {
    const it = new Scene();
    try {
      await play(it);
      assert.deepEqual(it.problems, []);
    } catch (error) {
      await it.page?.screenshot({ path: path.join(pictures, `${name.replace(/\W+/g, "-")}.png`) }).catch(() => undefined);
      if (it.problems.length) error.message += `\nthe browser said: ${it.problems.join("\n")}`;
      throw error;
    } finally {
      model.release();
      await it.context?.close();
    }
  });
}

/** Waits until a condition holds. */
export async function until(what, look) {
  const end = Date.now() + 15_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, `never so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Saves a screenshot for people to look at. */
export const picture = (page, name) => page.screenshot({ path: path.join(pictures, `${name}.png`) });

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Checks accessibility with axe. */
export async function isAccessible(it, where, rules, within = "html") {
  // The page's policy blocks injected scripts, but not the browser's own tools.
  await it.page.evaluate(axe);
  const { violations } = await it.page.evaluate(
    ([rules, within]) => window.axe.run(within, rules ? { runOnly: rules } : {}),
    [rules, within],
  );
  const found = violations.map((one) => `${where}: ${one.id}: ${one.nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
  assert.deepEqual(found, []);
}
