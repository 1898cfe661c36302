/** The side panel. */

import { Match, Switch } from "solid-js";
import { go, route, type Panel } from "../model/route";
import { IconButton } from "../ui/button";
import { Guard } from "../ui/guard";
import type { IconName } from "../ui/icon";
import { Agents } from "./agents";
import { Files } from "./files";
import { Timeline } from "./timeline";
import { Todos } from "./todos";
import { UsagePanel } from "./usage";

export function Panels(props: { panels: Record<Panel, { icon: IconName; label: string }> }) {
  const label = () => props.panels[route().panel ?? "todos"].label;
  return (
    <aside class="panel" aria-label={label()}>
      <header class="bar">
        <h2>{label()}</h2>
        <IconButton icon="close" label="Close panel" class="close" onClick={() => go({ panel: null })} />
      </header>
      <div class="panel-body" tabindex="0" role="region" aria-label={`${label()}, contents`}>
        <Guard again={[route().panel, route().file, route().agent]}>
          <Switch>
            <Match when={route().panel === "todos"}>
              <Todos />
            </Match>
            <Match when={route().panel === "files"}>
              <Files />
            </Match>
            <Match when={route().panel === "agents"}>
              <Agents />
            </Match>
            <Match when={route().panel === "timeline"}>
              <Timeline />
            </Match>
            <Match when={route().panel === "usage"}>
              <UsagePanel />
            </Match>
          </Switch>
        </Guard>
      </div>
    </aside>
  );
}
