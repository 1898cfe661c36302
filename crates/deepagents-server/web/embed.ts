/** Compresses the build output and lists it for the server in a Rust file. */

import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin, ResolvedConfig } from "vite";

const TYPES: Record<string, string> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
};

/** Files whose names contain a hash of their content. */
const HASHED = /^page\/.*-[\w-]{8}\.\w+$/;

function files(folder: string, below = ""): string[] {
  return readdirSync(path.join(folder, below))
    .sort()
    .flatMap((name) => {
      const inside = path.posix.join(below, name);
      return statSync(path.join(folder, inside)).isDirectory() ? files(folder, inside) : [inside];
    });
}

function row(folder: string, file: string): string {
  const type = TYPES[path.extname(file)];
  if (!type) throw new Error(`${file}: its media type is unknown`);
  // The server lets browsers cache the files in this folder for ever.
  if (file.startsWith("page/") && !HASHED.test(file)) throw new Error(`${file}: its name has no hash of its content`);
  return `    asset!("/${file === "index.html" ? "" : file}", "${type}", "${folder}/${file}"),`;
}

/** Licences allowed for packages that are part of the page. */
const LICENCES = ["MIT", "BSD-3-Clause", "BSD-2-Clause", "ISC", "Apache-2.0"];

/** The licences of the packages whose modules are part of a build. */
function notices(modules: Iterable<string>): string {
  const roots = new Set([...modules].map((id) => /^.*\/node_modules\/(@[^/]+\/)?[^/]+/.exec(id)?.[0]).filter((root) => root !== undefined));
  const texts = [...roots].sort().map((root) => {
    const about = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { name: string; version: string; license: string };
    if (!LICENCES.includes(about.license)) throw new Error(`${about.name} has the licence ${about.license}`);
    const file = readdirSync(root).find((name) => /^(un)?licen[cs]e(\.\w+)?$/i.test(name));
    const text = file ? readFileSync(path.join(root, file), "utf8").trim() : "";
    return `${about.name} ${about.version}, ${about.license}\n\n${text}`;
  });
  return `Parts of the page that others made, with their licences.\n\n${texts.join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
}

export function embedded(list: string): Plugin {
  let config: ResolvedConfig;
  return {
    name: "embedded",
    apply: "build",
    configResolved: (resolved) => void (config = resolved),
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((part) => (part.type === "chunk" ? part.moduleIds : []));
      this.emitFile({ type: "asset", fileName: "THIRD_PARTY.txt", source: notices(modules) });
    },
    closeBundle() {
      const folder = path.resolve(config.root, config.build.outDir);
      const target = path.resolve(config.root, list);
      const names = files(folder);
      let size = 0;
      for (const name of names) {
        const bytes = readFileSync(path.join(folder, name));
        const gzip = gzipSync(bytes, { level: 9 });
        // The OS byte of the gzip header is the only one that differs between machines.
        gzip[9] = 255;
        size += gzip.length;
        writeFileSync(path.join(folder, `${name}.gz`), gzip);
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
        writeFileSync(path.join(folder, `${name}.br`), brotliCompressSync(bytes, { params }));
      }
      if (size > 150_000) throw new Error(`the page has ${size} bytes with gzip; 150000 are its limit`);
      const below = path.posix.relative(path.dirname(target).replaceAll("\\", "/"), folder.replaceAll("\\", "/"));
      const rows = names.map((name) => row(below, name)).join("\n");
      const head = "//! The files of the page. Written by `npm run build` in `web`; not by hand.\n\nuse super::{Asset, asset};\n\n";
      writeFileSync(target, `${head}pub(super) const ASSETS: &[Asset] = &[\n${rows}\n];\n`);
      config.logger.info(`embedded ${names.length} files, ${size} bytes with gzip`);
    },
  };
}
