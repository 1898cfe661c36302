import { defineConfig } from "vite";
import solid from "vite-plugin-solid";
import { embedded } from "./embed.ts";

// `npm run dev` shows the page with the API of a server that runs beside it.
const server = process.env.DEEPAGENTS_URL ?? "http://127.0.0.1:8123";
const api = ["/assistants", "/threads", "/runs", "/page/models", "/info", "/ok", "/store"];

export default defineConfig({
  plugins: [solid(), embedded("../src/page/assets.rs")],
  server: { proxy: Object.fromEntries(api.map((path) => [path, { target: server, changeOrigin: true, headers: { origin: server } }])) },
  build: {
    outDir: "../page",
    emptyOutDir: true,
    assetsDir: "page",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    chunkSizeWarningLimit: 200,
  },
});
