/** What the parts of the page share. */

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
  /** The same, once the server has said what there is; nothing where it does not say so. */
  assistantSoon: () => Promise<Assistant | undefined>;
  /** What is known of its agent. */
  agent: Accessor<AgentFacts | undefined>;
  threads: Threads;
  session: Accessor<Session | undefined>;
  /** Says something to those who see the page, and to those who hear it. */
  notify: (text: string) => void;
}

const Context = createContext<Page>();
export const PageProvider = Context.Provider;

export function usePage(): Page {
  const page = useContext(Context);
  if (!page) throw new Error("used outside of the page");
  return page;
}

/** The session, inside of what is only there with one. */
export function useSession(): Session {
  const session = usePage().session();
  if (!session) throw new Error("used without a thread");
  return session;
}
