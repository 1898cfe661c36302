/**
 * Markdown of a model as elements. It never becomes HTML: tags are shown as they were written, addresses are those of the
 * web and of mail alone, and pictures from elsewhere are links, so that nothing is loaded that a model names.
 */

import { lexer, type Token, type Tokens } from "marked";
import { createMemo, For, Index, Match, Show, Switch, type JSX } from "solid-js";
import { CodeBlock } from "./code";

/** Text that grows; blocks that are finished stay as they are. */
export function Markdown(props: { text: string }) {
  const blocks = createMemo(() => lexer(props.text, { gfm: true, breaks: false }));
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
  return <>{block(token())}</>;
}

function Blocks(props: { tokens: Token[] | undefined }) {
  return <For each={props.tokens ?? []}>{(token) => block(token)}</For>;
}

function block(token: Token): JSX.Element {
  switch (token.type) {
    case "heading": {
      const { depth, tokens } = token as Tokens.Heading;
      // The page has the levels above; which one the model chose is seen, not heard, so that none is left out.
      return (
        <div class={`heading h${depth}`} role="heading" aria-level="3">
          <Inlines tokens={tokens} />
        </div>
      );
    }
    case "paragraph":
      return (
        <p>
          <Inlines tokens={(token as Tokens.Paragraph).tokens} />
        </p>
      );
    case "code": {
      const { text, lang } = token as Tokens.Code;
      return <CodeBlock text={text} language={(lang ?? "").split(/\s/, 1)[0] ?? ""} />;
    }
    case "blockquote":
      return (
        <blockquote>
          <Blocks tokens={(token as Tokens.Blockquote).tokens} />
        </blockquote>
      );
    case "list":
      return <List list={token as Tokens.List} />;
    case "table":
      return <Table table={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "space":
    case "def":
      return null;
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? <Inlines tokens={tokens} /> : text;
    }
    default:
      return <p class="raw">{token.raw}</p>;
  }
}

function List(props: { list: Tokens.List }) {
  const items = () => (
    <For each={props.list.items}>
      {(item) => (
        <li classList={{ task: item.task }}>
          <Show when={item.task}>
            <span class="box" role="img" aria-label={item.checked ? "done" : "open"}>
              {item.checked ? "☑" : "☐"}
            </span>{" "}
          </Show>
          <Blocks tokens={item.tokens.filter((token) => token.type !== "checkbox")} />
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
                  <Inlines tokens={cell.tokens} />
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
                      <Inlines tokens={cell.tokens} />
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

function Inlines(props: { tokens: Token[] | undefined }) {
  return <For each={props.tokens ?? []}>{(token) => inline(token)}</For>;
}

function inline(token: Token): JSX.Element {
  switch (token.type) {
    case "strong":
      return (
        <strong>
          <Inlines tokens={(token as Tokens.Strong).tokens} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines tokens={(token as Tokens.Em).tokens} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inlines tokens={(token as Tokens.Del).tokens} />
        </del>
      );
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link": {
      const { href, tokens } = token as Tokens.Link;
      return (
        <Link href={href}>
          <Inlines tokens={tokens} />
        </Link>
      );
    }
    case "image": {
      const { href, text } = token as Tokens.Image;
      return <Picture href={href} text={text} />;
    }
    case "escape":
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? <Inlines tokens={tokens} /> : text;
    }
    default:
      return token.raw;
  }
}

const LINKS = new Set(["http:", "https:", "mailto:"]);
const INLINE_PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[a-z0-9+/=]+$/i;

/** The address where a link may lead; nothing for scripts, files and the server itself. */
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
