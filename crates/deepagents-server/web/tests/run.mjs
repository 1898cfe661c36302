// Tests of the page in a browser: `node tests/run.mjs [WORDS OF A NAME]`, with a `serve-rig` that is built.
// SERVE_RIG, CHROMIUM and PICTURES name other places. While `npm run dev` runs with DEEPAGENTS_URL, PAGE_URL is its page, and
// the server is started where DEEPAGENTS_URL says.
import "./support.mjs";
import "./chat.mjs";
import "./approvals.mjs";
import "./questions.mjs";
import "./panels.mjs";
import "./threads.mjs";
import "./access.mjs";
import "./others.mjs";
import "./writing.mjs";
import "./connection.mjs";
