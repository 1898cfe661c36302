/** The assistants: those of the agents, and variants that people created. */

import { createSignal, For, Show } from "solid-js";
import { assistants as requests } from "../api/client";
import type { Assistant, JsonObject } from "../api/types";
import { usePage } from "../model/context";
import { go } from "../model/route";
import { IconButton } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { visible } from "../ui/visible";

const isSystem = (assistant: Assistant) => assistant.metadata.created_by === "system";

export function Assistants(props: { onClose: () => void }) {
  const page = usePage();
  const [editing, setEditing] = createSignal<Assistant | "new" | null>(null);
  async function attempt(work: () => Promise<unknown>) {
    try {
      await work();
      page.reloadAssistants();
      setEditing(null);
    } catch (error) {
      page.notify(error instanceof Error ? error.message : String(error));
    }
  }
  function save(fields: Fields) {
    const known = editing();
    const config: JsonObject = fields.limit ? { recursion_limit: fields.limit } : {};
    const { name, description } = fields;
    void attempt(async () => {
      if (known && known !== "new") return requests.update(known.assistant_id, { name, description, config });
      const made = await requests.create({ graph_id: fields.graph, name, description, config });
      go({ assistant: made.assistant_id });
    });
  }
  return (
    <Dialog title="Assistants" onClose={props.onClose}>
      <Show
        when={editing()}
        keyed
        fallback={
          <>
            <ul class="assistants">
              <For each={page.assistants()}>
                {(one) => (
                  <li>
                    <span>
                      <strong class="name">{visible(one.name)}</strong> <span class="hint">{one.description ?? ""}</span>
                    </span>
                    <Show when={!isSystem(one)}>
                      <IconButton icon="edit" label={`Change ${one.name}`} onClick={() => setEditing(one)} />
                      <IconButton
                        icon="trash"
                        label={`Delete ${one.name}`}
                        onClick={() => void attempt(() => requests.delete(one.assistant_id))}
                      />
                    </Show>
                  </li>
                )}
              </For>
            </ul>
            <form method="dialog" class="actions">
              <button type="button" onClick={() => setEditing("new")}>
                New assistant
              </button>
              <button type="submit">Close</button>
            </form>
          </>
        }
      >
        {(known) => <EditAssistant known={known === "new" ? undefined : known} onCancel={() => setEditing(null)} onSave={save} />}
      </Show>
    </Dialog>
  );
}

interface Fields {
  graph: string;
  name: string;
  description: string;
  limit: number;
}

function EditAssistant(props: { known: Assistant | undefined; onSave: (fields: Fields) => void; onCancel: () => void }) {
  const page = usePage();
  const graphs = () => [...new Set(page.assistants().map((one) => one.graph_id))];
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        const text = (name: string) => String(data.get(name) ?? "").trim();
        props.onSave({ graph: text("graph"), name: text("name"), description: text("description"), limit: Number(text("limit")) });
      }}
    >
      <Show when={!props.known}>
        <label class="field">
          <span>Agent</span>
          <select name="graph">
            <For each={graphs()}>{(graph) => <option>{graph}</option>}</For>
          </select>
        </label>
      </Show>
      <label class="field">
        <span>Name</span>
        <input name="name" required value={props.known?.name ?? ""} />
      </label>
      <label class="field">
        <span>Description</span>
        <input name="description" value={props.known?.description ?? ""} />
      </label>
      <label class="field">
        <span>
          Maximum steps of a run <em>empty: the agent's own limit</em>
        </span>
        <input name="limit" type="number" min="1" value={props.known?.config.recursion_limit ?? ""} />
      </label>
      <div class="actions">
        <button type="button" onClick={() => props.onCancel()}>
          Cancel
        </button>
        <button type="submit" class="primary">
          Save
        </button>
      </div>
    </form>
  );
}
