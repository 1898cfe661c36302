/**
 * The arguments of a call as a form. Its fields come from the tool's schema if the server sends one, and otherwise from
 * the call. Values without a simple type are edited as JSON.
 */

import { createSignal, For, Match, onMount, Show, Switch } from "solid-js";
import { Exact, number, parse } from "../api/exact";
import { visible } from "../ui/visible";
import type { Json, JsonObject } from "../api/types";

interface Field {
  name: string;
  kind: "text" | "integer" | "number" | "boolean" | "choice" | "json";
  choices: string[];
  required: boolean;
  description: string;
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Exact);

function kindOf(type: Json | undefined, value: Json | undefined): Field["kind"] {
  const named = Array.isArray(type) ? type.find((one) => one !== "null") : type;
  if (named === "string") return "text";
  if (named === "integer" || named === "number" || named === "boolean") return named;
  if (named !== undefined) return "json";
  if (typeof value === "string") return "text";
  if (typeof value === "number" || value instanceof Exact) return "number";
  return typeof value === "boolean" ? "boolean" : "json";
}

export function fields(args: JsonObject, schema: JsonObject | undefined): Field[] {
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const required = Array.isArray(schema?.required) ? schema.required : [];
  const names = [...new Set([...Object.keys(properties), ...Object.keys(args)])];
  return names.map((name) => {
    const own = properties[name];
    const property = isObject(own) ? own : {};
    const choices = Array.isArray(property.enum) && property.enum.every((one) => typeof one === "string") ? property.enum : [];
    const kind = choices.length ? "choice" : kindOf(property.type, args[name]);
    const description = typeof property.description === "string" ? property.description : "";
    return { name, kind, choices: choices as string[], required: required.includes(name), description };
  });
}

/** Parses the text of a field. Returns nothing if it is not a value of the field's type. */
function read(field: Field, text: string): { value: Json | undefined } | undefined {
  switch (field.kind) {
    case "integer":
    case "number": {
      if (!text.trim()) return field.required ? undefined : { value: undefined };
      const value = Number(text);
      // A number that JavaScript cannot represent keeps its digits.
      return Number.isFinite(value) && (field.kind === "number" || Number.isInteger(value)) ? { value: number(text.trim()) } : undefined;
    }
    case "json":
      if (!text.trim()) return field.required ? undefined : { value: undefined };
      try {
        return { value: parse(text) as Json };
      } catch {
        return undefined;
      }
    default:
      return { value: text };
  }
}

const written = (field: Field, value: Json | undefined): string =>
  value === undefined ? "" : field.kind === "json" ? JSON.stringify(value, null, 2) : String(value);

export function ArgumentsForm(props: {
  args: JsonObject;
  schema: JsonObject | undefined;
  onChange: (args: JsonObject, valid: boolean) => void;
}) {
  // The fields and their initial values are those of the original call.
  const shown = fields(props.args, props.schema);
  const first = { ...props.args };
  const [wrong, setWrong] = createSignal<string[]>([]);
  // Errors from the last time the form was open are not shown again.
  onMount(() => props.onChange({ ...props.args }, true));
  function change(field: Field, value: { value: Json | undefined } | undefined) {
    const others = wrong().filter((name) => name !== field.name);
    setWrong(value ? others : [...others, field.name]);
    const args = { ...props.args };
    if (value?.value === undefined) delete args[field.name];
    else args[field.name] = value.value;
    props.onChange(value ? args : { ...props.args }, wrong().length === 0);
  }
  return (
    <div class="form">
      <For each={shown}>
        {(field) => (
          <label class="field" classList={{ wrong: wrong().includes(field.name) }}>
            <span>
              {visible(field.name)}
              {field.required ? " *" : ""} <em>{field.description}</em>
            </span>
            <Switch
              fallback={
                <textarea
                  name={field.name}
                  rows={Math.min(12, written(field, first[field.name]).split("\n").length)}
                  value={written(field, first[field.name])}
                  aria-invalid={wrong().includes(field.name)}
                  onInput={(event) => change(field, read(field, event.currentTarget.value))}
                />
              }
            >
              <Match when={field.kind === "boolean"}>
                <input
                  type="checkbox"
                  name={field.name}
                  checked={first[field.name] === true}
                  onChange={(event) => change(field, { value: event.currentTarget.checked })}
                />
              </Match>
              <Match when={field.kind === "choice"}>
                <select name={field.name} onChange={(event) => change(field, { value: event.currentTarget.value || undefined })}>
                  <Show when={first[field.name] === undefined || !field.required}>
                    <option value="" selected={first[field.name] === undefined} />
                  </Show>
                  <For each={field.choices}>
                    {(choice) => <option selected={choice === first[field.name]}>{choice}</option>}
                  </For>
                </select>
              </Match>
              <Match when={field.kind === "integer" || field.kind === "number"}>
                <input
                  type="text"
                  inputmode="decimal"
                  name={field.name}
                  value={written(field, first[field.name])}
                  aria-invalid={wrong().includes(field.name)}
                  onInput={(event) => change(field, read(field, event.currentTarget.value))}
                />
              </Match>
            </Switch>
            <Show when={wrong().includes(field.name)}>
              <small role="alert">{field.kind === "json" ? "This is not valid JSON." : "This is not a valid number."}</small>
            </Show>
          </label>
        )}
      </For>
    </div>
  );
}
