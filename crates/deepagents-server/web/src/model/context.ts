/** State shared by the components of the page. */

import { createContext, useContext } from "solid-js";
import type { Accessor } from "solid-js";
import type { AgentFacts, Assistant } from "../api/types";
import type { Session } from "./session";
import type { Threads } from "./threads";

export interface Page {
  assistants: Accessor<Assistant[]>;
  reloadAssistants: () => void;
  /** The assistant that new messages go to. */
  assistant: Accessor<Assistant | undefined>;
  /** The assistant once the server has listed them, or nothing if that fails. */
  assistantSoon: () => Promise<Assistant | undefined>;
  /** Facts about its agent. */
  agent: Accessor<AgentFacts | undefined>;
  threads: Threads;
  session: Accessor<Session | undefined>;
  /** Shows a message, which screen readers announce as well. */
  notify: (text: string) => void;
}

const Context = createContext<Page>();
export const PageProvider = Context.Provider;

export function usePage(): Page {
  const page = useContext(Context);
  if (!page) throw new Error("used outside the page");
  return page;
}

/** The session, for components that exist only while one is open. */
export function useSession(): Session {
  const session = usePage().session();
  if (!session) throw new Error("used without a thread");
  return session;
}
