/** Calls that wait for a person. All are decided, then sent together. */

import { createMemo, createSignal, For, Match, Show, Switch } from "solid-js";
import { createStore } from "solid-js/store";
import type { ActionRequest, Decision, DecisionKind, Interrupt, JsonObject, ReviewConfig } from "../api/types";
import { Code } from "../markdown/code";
import { usePage, useSession } from "../model/context";
import { Diff } from "../panels/diff";
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

/** What waits: calls, questions, or both. */
function heading(all: number, asks: number): string {
  if (asks === all) return asks === 1 ? "A question for you" : `${asks} questions for you`;
  return all === 1 ? "A call waits for you" : `${all} calls wait for you`;
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
    await session.resume(assistant, byInterrupt);
    setBusy(false);
  }

  return (
    <section class="approvals" aria-label="Approvals">
      <header>
        <h2>{heading(actions().length, asks())}</h2>
        <button
          type="button"
          class="quiet"
          title="Ends the wait; the calls are not made"
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
      <div class="actions">
        <Show when={actions().length > 1 && actions().every(({ review }) => review?.allowed_decisions.includes("approve"))}>
          <button type="button" disabled={busy()} onClick={() => void send(actions().map(() => ({ type: "approve" })))}>
            Approve all
          </button>
        </Show>
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

/** A call that waits: what it is, and what may be decided about it. */
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
  const change = () => {
    const { old_string, new_string, content } = props.action.args;
    if (typeof old_string === "string" && typeof new_string === "string") return { before: old_string, after: new_string };
    return typeof content === "string" && "file_path" in props.action.args ? { before: "", after: content } : undefined;
  };
  // What is said where nobody described the call ends with the arguments, which are below.
  const described = () => {
    const { name, args, description } = props.action;
    return description?.endsWith(` wants to call ${name} with ${JSON.stringify(args)}`) ? undefined : description;
  };
  return (
    <>
      <div class="action-head">
        <strong>{props.action.name}</strong>
        <div class="decisions" role="radiogroup" aria-label={`Decision on ${props.action.name}`}>
          <For each={props.allowed}>
            {(kind) => (
              <button
                type="button"
                role="radio"
                class={kind}
                aria-checked={props.choice.kind === kind}
                onClick={() => props.onChange({ kind })}
              >
                {WORDS[kind]}
              </button>
            )}
          </For>
        </div>
      </div>
      <Show when={described()}>
        <p class="hint described">{described()}</p>
      </Show>
      <Switch
        fallback={
          <Show
            when={change()}
            fallback={
              <pre tabindex="0">
                <Code text={JSON.stringify(props.action.args, null, 2)} language="json" />
              </pre>
            }
          >
            {(change) => (
              <>
                <p class="path">{String(props.action.args.file_path ?? "")}</p>
                <Diff before={change().before} after={change().after} />
              </>
            )}
          </Show>
        }
      >
        <Match when={props.choice.kind === "edit"}>
          <ArgumentsForm
            args={props.choice.args}
            schema={schema()}
            onChange={(args, valid) => props.onChange({ args, valid })}
          />
        </Match>
      </Switch>
      <Show when={props.choice.kind === "reject" || props.choice.kind === "respond"}>
        <label class="field">
          <span>{props.choice.kind === "reject" ? "Why not (the model reads it)" : "What the call is answered"}</span>
          <textarea rows="2" value={props.choice.text} onInput={(event) => props.onChange({ text: event.currentTarget.value })} />
        </label>
      </Show>
    </>
  );
}
