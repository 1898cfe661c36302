import { defineConfig } from "vite";
import solid from "vite-plugin-solid";
import { embedded } from "./embed.ts";

// `npm run dev` serves the page from its sources, with the API of a running server.
const server = process.env.DEEPAGENTS_URL ?? "http://127.0.0.1:8123";
const api = ["/assistants", "/threads", "/runs", "/page/models", "/page/agents", "/info", "/ok", "/store"];

// Building elsewhere for a comparison changes nothing of the server.
const out = process.env.PAGE_OUT ?? "../page";
const list = process.env.PAGE_OUT ? `${out}/../assets.rs` : "../src/page/assets.rs";

export default defineConfig({
  plugins: [solid(), embedded(list)],
  server: { proxy: Object.fromEntries(api.map((path) => [path, { target: server, changeOrigin: true, headers: { origin: server } }])) },
  build: {
    outDir: out,
    emptyOutDir: true,
    assetsDir: "page",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    chunkSizeWarningLimit: 200,
  },
});
