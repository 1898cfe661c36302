/**
 * A model's Markdown as elements. It never becomes HTML: tags are shown as text, links lead only to web and mail
 * addresses, and remote images become links, so that nothing is loaded from an address that a model chose.
 */

import type { Token, Tokens } from "marked";
import { createMemo, For, Index, Match, Show, Switch, type JSX } from "solid-js";
import { CodeBlock } from "./code";
import { lex } from "./lex";

/** Maximum nesting of blocks and styles. Anything deeper is shown as source text. */
const DEEPEST = 20;

/** Parses the blocks of a growing text. If parsing fails because of deep nesting, the text is shown as it is. */
function reader(): (text: string) => Token[] {
  let unread: string | undefined;
  return (text) => {
    // Failing takes long, and appending text does not change the outcome.
    if (unread === undefined || !text.startsWith(unread)) {
      try {
        return lex(text);
      } catch {
        unread = text;
      }
    }
    return [{ type: "unread", raw: text }];
  };
}

/** A growing text. Finished blocks keep their elements. */
export function Markdown(props: { text: string }) {
  const read = reader();
  const blocks = createMemo(() => read(props.text));
  return (
    <div class="markdown">
      <Index each={blocks()}>{(block) => <SettledBlock token={block()} />}</Index>
    </div>
  );
}

function SettledBlock(props: { token: Token }) {
  const token = createMemo(() => props.token, undefined, {
    equals: (before, after) => before.raw === after.raw && before.type === after.type,
  });
  // A growing code block keeps its element.
  return (
    <Show when={token().type === "code"} fallback={<>{block(token(), 0)}</>}>
      <CodeBlock {...codeOf(token())} />
    </Show>
  );
}

function codeOf(token: Token) {
  const { text, lang } = token as Tokens.Code;
  return { text, language: (lang ?? "").split(/\s/, 1)[0] ?? "" };
}

interface Inside {
  tokens: Token[] | undefined;
  depth: number;
}

function Blocks(props: Inside) {
  return <For each={props.tokens ?? []}>{(token) => block(token, props.depth)}</For>;
}

function block(token: Token, depth: number): JSX.Element {
  if (depth > DEEPEST) return <p class="raw">{token.raw}</p>;
  switch (token.type) {
    case "heading": {
      const { depth: level, tokens } = token as Tokens.Heading;
      // The page uses the levels above. All headings get one level, so that assistive technology sees no gaps; the
      // model's level only affects the looks.
      return (
        <div class={`heading h${level}`} role="heading" aria-level="3">
          <Inlines tokens={tokens} depth={depth + 1} />
        </div>
      );
    }
    case "paragraph":
      return (
        <p>
          <Inlines tokens={(token as Tokens.Paragraph).tokens} depth={depth + 1} />
        </p>
      );
    case "code":
      return <CodeBlock {...codeOf(token)} />;
    case "blockquote":
      return (
        <blockquote>
          <Blocks tokens={(token as Tokens.Blockquote).tokens} depth={depth + 1} />
        </blockquote>
      );
    case "list":
      return <List list={token as Tokens.List} depth={depth} />;
    case "table":
      return <Table table={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "space":
    case "def":
      return null;
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? <Inlines tokens={tokens} depth={depth + 1} /> : decoded(text);
    }
    default:
      return <p class="raw">{token.raw}</p>;
  }
}

function List(props: { list: Tokens.List; depth: number }) {
  const items = () => (
    <For each={props.list.items}>
      {(item) => (
        <li classList={{ task: item.task }}>
          <Show when={item.task}>
            <span class="box" role="img" aria-label={item.checked ? "done" : "open"}>
              {item.checked ? "☑" : "☐"}
            </span>{" "}
          </Show>
          <Blocks tokens={item.tokens.filter((token) => token.type !== "checkbox")} depth={props.depth + 1} />
        </li>
      )}
    </For>
  );
  return (
    <Show when={props.list.ordered} fallback={<ul>{items()}</ul>}>
      <ol start={Number(props.list.start) || 1}>{items()}</ol>
    </Show>
  );
}

function Table(props: { table: Tokens.Table }) {
  const align = (at: number) => props.table.align[at] ?? undefined;
  return (
    <div class="table" tabindex="0" role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            <For each={props.table.header}>
              {(cell, at) => (
                <th data-align={align(at())}>
                  <Inlines tokens={cell.tokens} depth={0} />
                </th>
              )}
            </For>
          </tr>
        </thead>
        <tbody>
          <For each={props.table.rows}>
            {(row) => (
              <tr>
                <For each={row}>
                  {(cell, at) => (
                    <td data-align={align(at())}>
                      <Inlines tokens={cell.tokens} depth={0} />
                    </td>
                  )}
                </For>
              </tr>
            )}
          </For>
        </tbody>
      </table>
    </div>
  );
}

function Inlines(props: Inside) {
  return <For each={props.tokens ?? []}>{(token) => inline(token, props.depth)}</For>;
}

function inline(token: Token, depth: number): JSX.Element {
  if (depth > DEEPEST) return token.raw;
  switch (token.type) {
    case "strong":
      return (
        <strong>
          <Inlines tokens={(token as Tokens.Strong).tokens} depth={depth + 1} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines tokens={(token as Tokens.Em).tokens} depth={depth + 1} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inlines tokens={(token as Tokens.Del).tokens} depth={depth + 1} />
        </del>
      );
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link": {
      const { href, tokens } = token as Tokens.Link;
      return (
        <Link href={decoded(href)}>
          <Inlines tokens={tokens} depth={depth + 1} />
        </Link>
      );
    }
    case "image": {
      const { href, text } = token as Tokens.Image;
      return <Picture href={href} text={text} />;
    }
    case "escape":
      return (token as Tokens.Escape).text;
    case "html":
      return /^<br\s*\/?>$/i.test(token.raw) ? <br /> : token.raw;
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? <Inlines tokens={tokens} depth={depth + 1} /> : decoded(text);
    }
    default:
      return token.raw;
  }
}

/** A cache of HTML character references. Only the reference is parsed, and the result stays text. */
const named = new Map<string, string>();

function decoded(text: string): string {
  return text.replace(/&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi, (name) => {
    let letter = named.get(name);
    if (letter === undefined) {
      const found = new DOMParser().parseFromString(name, "text/html").body.textContent ?? "";
      // A longer result means a shorter reference matched, and the rest of the name is left over.
      letter = found && [...found].length <= 2 ? found : name;
      named.set(name, letter);
    }
    return letter;
  });
}

const LINKS = new Set(["http:", "https:", "mailto:"]);
const INLINE_PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=]+$/i;

/** Returns the URL if a link may lead there. Script and file URLs and relative ones are refused. */
export function safeAddress(href: string): string | undefined {
  try {
    const url = new URL(href);
    return LINKS.has(url.protocol) ? url.href : undefined;
  } catch {
    return undefined;
  }
}

function Link(props: { href: string; children: JSX.Element }) {
  return (
    <Show when={safeAddress(props.href)} fallback={<span title={props.href}>{props.children}</span>}>
      {(address) => (
        <a href={address()} title={address()} target="_blank" rel="noopener noreferrer nofollow">
          {props.children}
        </a>
      )}
    </Show>
  );
}

function Picture(props: { href: string; text: string }) {
  return (
    <Switch fallback={<span>{props.text}</span>}>
      <Match when={INLINE_PICTURE.test(props.href)}>
        <img src={props.href} alt={props.text} />
      </Match>
      <Match when={safeAddress(props.href)}>
        <Link href={props.href}>{props.text || props.href}</Link>
      </Match>
    </Switch>
  );
}
