/** Calls that wait for a person's decision. All are decided, then sent together. */

import { createMemo, createSignal, For, Show } from "solid-js";
import { createStore } from "solid-js/store";
import { Exact, parse } from "../api/exact";
import type { ActionRequest, Decision, DecisionKind, Interrupt, JsonObject, ReviewConfig } from "../api/types";
import { usePage, useSession } from "../model/context";
import { onArrows, tabindex } from "../ui/radios";
import { visible } from "../ui/visible";
import { ArgumentsView } from "./arguments";
import { ArgumentsForm } from "./form";
import { QuestionForm, questionOf } from "./question";

interface Choice {
  kind: DecisionKind | null;
  args: JsonObject;
  valid: boolean;
  text: string;
}

const WORDS: Record<DecisionKind, string> = { approve: "Approve", edit: "Edit", reject: "Reject", respond: "Respond" };

function decision(action: ActionRequest, choice: Choice): Decision | null {
  switch (choice.kind) {
    case "approve":
      return { type: "approve" };
    case "edit":
      return choice.valid ? { type: "edit", edited_action: { name: action.name, args: choice.args } } : null;
    case "reject":
      return choice.text.trim() ? { type: "reject", message: choice.text } : { type: "reject" };
    case "respond":
      return choice.text.trim() ? { type: "respond", message: choice.text } : null;
    case null:
      return null;
  }
}

const allowedBy = (review: ReviewConfig | undefined): DecisionKind[] => review?.allowed_decisions ?? ["approve", "reject"];

/** Whether a text is the JSON of these arguments, with keys in any order. */
function isSame(text: string, args: JsonObject): boolean {
  const sorted = (value: unknown): unknown =>
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exact)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]))
      : Array.isArray(value) ? value.map(sorted) : value;
  try {
    return JSON.stringify(sorted(parse(text))) === JSON.stringify(sorted(args));
  } catch {
    return false;
  }
}

/** Heading for what is pending: calls, questions, or both. */
function heading(all: number, asks: number): string {
  if (asks === all) return asks === 1 ? "A question for you" : `${asks} questions for you`;
  return all === 1 ? "A call needs your decision" : `${all} calls need your decision`;
}

export function Approvals(props: { interrupts: Interrupt[] }) {
  const page = usePage();
  const session = useSession();
  const actions = createMemo(() =>
    props.interrupts.flatMap((interrupt) =>
      interrupt.value.action_requests.map((action, at) => ({
        key: `${interrupt.id}/${at}`,
        interrupt: interrupt.id,
        action,
        review: interrupt.value.review_configs[at] ?? interrupt.value.review_configs.find(({ action_name }) => action_name === action.name),
      })),
    ),
  );
  const [choices, setChoices] = createStore<Record<string, Choice>>({});
  const choice = (key: string, action: ActionRequest): Choice =>
    choices[key] ?? { kind: null, args: action.args, valid: true, text: "" };
  const choose = (key: string, action: ActionRequest, change: Partial<Choice>) =>
    setChoices(key, { ...choice(key, action), ...change });
  const decided = () => actions().map((one) => decision(one.action, choice(one.key, one.action)));
  const ready = () => decided().every((one) => one !== null);
  const asks = () => actions().filter(({ action, review }) => questionOf(action, allowedBy(review))).length;
  const [busy, setBusy] = createSignal(false);

  async function send(all: (Decision | null)[]) {
    const assistant = page.assistant();
    if (!assistant || all.some((one) => one === null)) return;
    const byInterrupt: Record<string, Decision[]> = {};
    actions().forEach(({ interrupt }, at) => (byInterrupt[interrupt] ??= []).push(all[at]!));
    setBusy(true);
    const sent = await session.resume(assistant, byInterrupt);
    setBusy(false);
    // The focused button disappears with the decided calls.
    if (sent) document.querySelector<HTMLElement>(matchMedia("(hover: hover)").matches ? "#composer" : '[role="log"]')?.focus();
  }

  return (
    <section class="approvals" aria-label="Approvals">
      <header>
        <h2>{heading(actions().length, asks())}</h2>
        <button
          type="button"
          class="quiet"
          title="Closes the request; the calls are not made"
          onClick={() => {
            const assistant = page.assistant();
            if (assistant) void session.resolve(assistant);
          }}
        >
          Mark as resolved
        </button>
      </header>
      <ol>
        <For each={actions()}>
          {({ key, action, review }) => (
            <Action
              action={action}
              review={review}
              choice={choice(key, action)}
              onChange={(change) => choose(key, action, change)}
            />
          )}
        </For>
      </ol>
      {/* After the calls, so that nobody reaches it without passing them. */}
      <Show when={actions().length > 1 && actions().every(({ review }) => review?.allowed_decisions.includes("approve"))}>
        <div class="approve-all">
          <button type="button" disabled={busy()} onClick={() => void send(actions().map(() => ({ type: "approve" })))}>
            Approve all
          </button>
        </div>
      </Show>
      <div class="actions">
        <button type="button" class="primary" disabled={busy() || !ready()} onClick={() => void send(decided())}>
          {asks() === actions().length ? (asks() > 1 ? "Send answers" : "Send answer") : actions().length > 1 ? "Send decisions" : "Send decision"}
        </button>
      </div>
    </section>
  );
}

function Action(props: {
  action: ActionRequest;
  review: ReviewConfig | undefined;
  choice: Choice;
  onChange: (change: Partial<Choice>) => void;
}) {
  const allowed = () => allowedBy(props.review);
  const question = () => questionOf(props.action, allowed());
  return (
    <li class="action">
      <Show when={question()} fallback={<Call {...props} allowed={allowed()} />}>
        {(question) => (
          <>
            <QuestionForm
              question={question()}
              onAnswer={(text) => props.onChange({ kind: text ? "respond" : null, text })}
            />
            <Show when={allowed().includes("reject")}>
              <button
                type="button"
                class="quiet decline"
                aria-pressed={props.choice.kind === "reject"}
                onClick={() => props.onChange(props.choice.kind === "reject" ? { kind: null, text: "" } : { kind: "reject", text: "" })}
              >
                Decline to answer
              </button>
            </Show>
          </>
        )}
      </Show>
    </li>
  );
}

/** A pending call: what it is, and the possible decisions. */
function Call(props: {
  action: ActionRequest;
  review: ReviewConfig | undefined;
  choice: Choice;
  allowed: DecisionKind[];
  onChange: (change: Partial<Choice>) => void;
}) {
  const page = usePage();
  const schema = () =>
    props.review?.args_schema ?? page.agent()?.tools.find((tool) => tool.name === props.action.name)?.parameters;
  // Without a description by the tool, the server sends a line with the agent's name and the arguments, which are shown
  // below anyway. Remarks may follow it.
  const said = createMemo(() => {
    const { name, description } = props.action;
    const words = ` wants to call ${name} with `;
    const [line = "", ...remarks] = description?.split("\n") ?? [];
    const at = line.indexOf(words);
    if (at < 0 || !isSame(line.slice(at + words.length), props.action.args)) return { description, agent: undefined };
    const agent = line.slice(0, at);
    // The thread's own agent needs no name.
    return { description: remarks.join("\n"), agent: agent === page.assistant()?.graph_id ? undefined : agent };
  });
  return (
    <>
      <div class="action-head">
        <span>
          <strong class="name">{visible(props.action.name)}</strong>
          <Show when={said().agent}>
            {(agent) => (
              <span class="hint">
                {" "}
                requested by <span class="name">{visible(agent())}</span>
              </span>
            )}
          </Show>
        </span>
        <div class="decisions" role="radiogroup" aria-label={`Decision on ${visible(props.action.name)}`} onKeyDown={onArrows}>
          <For each={props.allowed}>
            {(kind, at) => (
              <button
                type="button"
                role="radio"
                class={kind}
                aria-checked={props.choice.kind === kind}
                tabindex={tabindex(props.choice.kind === kind, props.choice.kind !== null, at())}
                onClick={() => props.onChange({ kind })}
              >
                {WORDS[kind]}
              </button>
            )}
          </For>
        </div>
      </div>
      <Show when={said().description}>
        {(description) => <p class="hint described">{visible(description())}</p>}
      </Show>
      <Show when={props.choice.kind === "edit"} fallback={<ArgumentsView name={props.action.name} args={props.action.args} />}>
        <ArgumentsForm
          args={props.choice.args}
          schema={schema()}
          onChange={(args, valid) => props.onChange({ args, valid })}
        />
      </Show>
      <Show when={props.choice.kind === "reject" || props.choice.kind === "respond"}>
        <label class="field">
          <span>{props.choice.kind === "reject" ? "Reason (shown to the model)" : "Result to return instead"}</span>
          <textarea rows="2" value={props.choice.text} onInput={(event) => props.onChange({ text: event.currentTarget.value })} />
        </label>
      </Show>
    </>
  );
}
