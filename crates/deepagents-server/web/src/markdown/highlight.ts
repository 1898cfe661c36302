/** Syntax highlighting, loaded when there is code to show. */

import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import toml from "highlight.js/lib/languages/ini";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

const known = createLowlight({ bash, css, diff, go, javascript, json, markdown, python, rust, sql, toml, typescript, xml, yaml });
known.registerAlias({ bash: ["console", "shell"], typescript: ["tsx"], javascript: ["jsx"] });

/** A text of one colour. */
export interface Piece {
  text: string;
  class?: string;
}

/** Splits code into coloured pieces. Returns nothing if the language is unknown. */
export function highlight(text: string, language: string): Piece[] | undefined {
  if (!known.registered(language)) return undefined;
  const pieces: Piece[] = [];
  type Node = ReturnType<typeof known.highlight>["children"][number];
  const walk = (nodes: Node[], above?: string) => {
    for (const node of nodes) {
      if (node.type === "text") pieces.push({ text: node.value, class: above });
      else if (node.type === "element") {
        const own = node.properties.className;
        walk(node.children, Array.isArray(own) ? own.join(" ") : above);
      }
    }
  };
  walk(known.highlight(language, text).children);
  return pieces;
}

const ENDINGS: Record<string, string> = {
  rs: "rust", py: "python", js: "javascript", mjs: "javascript", jsx: "javascript", ts: "typescript", tsx: "typescript",
  json: "json", md: "markdown", css: "css", html: "xml", svg: "xml", xml: "xml", sh: "bash", toml: "toml", ini: "toml",
  yaml: "yaml", yml: "yaml", sql: "sql", go: "go", diff: "diff", patch: "diff",
};

/** Returns the language for a file name. */
export const languageOf = (path: string): string => ENDINGS[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] ?? "";
