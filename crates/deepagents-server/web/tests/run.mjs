// Browser tests of the page: `node tests/run.mjs [WORDS OF A NAME]`, with a `serve-rig` built before. SERVE_RIG,
// CHROMIUM and PICTURES override paths. To test `npm run dev`, start it with DEEPAGENTS_URL and set PAGE_URL to its
// page; the test server is started at DEEPAGENTS_URL.
import "./support.mjs";
import "./chat.mjs";
import "./approvals.mjs";
import "./questions.mjs";
import "./panels.mjs";
import "./goals.mjs";
import "./threads.mjs";
import "./access.mjs";
import "./others.mjs";
import "./writing.mjs";
import "./connection.mjs";
