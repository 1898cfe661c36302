//! Information shown on request: tools, sub-agents, skills, servers, memory files.

use deepagents::channels::{AgentsMetadata, MemoryContents, SkillsMetadata};
use deepagents::middleware::subagents::GENERAL_PURPOSE;
use deepagents::trust::TrustKind;

use super::{Result, Session, git};
use crate::app::effect::{Subject, Trusted};
use crate::app::event::Event;
use crate::host::{Connection, Offered, Page, Servers};
use crate::text::shorten;

/// The middlewares that load skills and sub-agents from files. `SubAgents` depends on the skills.
const SKILLS: &str = "Skills";
const AGENTS: &str = "SubAgents";

impl Session {
    pub(super) fn show(&self, subject: Subject) {
        self.spawn(|this| async move { this.page(subject).await.map(Some) });
    }

    async fn page(&self, subject: Subject) -> Result<Event> {
        let (title, body) = match subject {
            Subject::Tools => ("Tools", self.tools().await?),
            Subject::Agents => ("Sub-agents", self.agents().await?),
            Subject::Skills => ("Skills", self.skills().await?),
            Subject::Servers => match self.host.servers().await {
                Servers::Listed(text) => ("MCP servers", text),
                Servers::Untrusted(body) => {
                    let title = "Trust this directory's servers? They run these commands, outside of a sandbox:".into();
                    return Ok(Event::Trust { of: Trusted::Servers, title, body });
                }
                Servers::Changed(body) => {
                    let title = "Some tools have changed since you agreed to them. Use them as they are now?".into();
                    return Ok(Event::Trust { of: Trusted::Servers, title, body });
                }
            },
            Subject::Offers => return self.offers().await,
            Subject::Memory => ("Memory", self.memory().await?),
            Subject::Sandbox => ("Commands", self.connection().await?.sandbox),
            Subject::Status => ("Status", self.status().await),
            Subject::Diff => ("Changes since the last commit", git::diff(&self.root).await?),
            Subject::Context { used } => ("Context", self.context(used).await?),
            Subject::Goal => ("Goal", self.goal().await?),
            Subject::Cost => ("Cost", self.cost().await?),
            Subject::Page(page) => {
                let title = match page {
                    Page::Config => "Settings",
                    Page::Doctor => "This machine",
                    Page::Permissions => "What you are not asked about",
                    Page::Bug => "For a bug report",
                };
                (title, self.program_page(page).await?)
            }
        };
        Ok(Event::Card { title: title.to_owned(), body })
    }

    async fn program_page(&self, page: Page) -> Result<String> {
        let text = self.host.page(page).await?;
        if page != Page::Permissions {
            return Ok(text);
        }
        let mut lines = vec![format!("mode  {}", self.policy.mode().as_str())];
        let rules = self.policy.rules();
        lines.extend(rules.iter().map(|rule| format!("not asked about in this session: {rule}")));
        if rules.is_empty() {
            lines.push("nothing was allowed with `a` in this session".to_owned());
        } else {
            lines.push("/permissions clear asks about them again".to_owned());
        }
        lines.push(text);
        Ok(lines.join("\n"))
    }

    async fn tools(&self) -> Result<String> {
        let connection = self.connection().await?;
        let line = |name: &str, about: &str| format!("{name:<20} {}", first_sentence(about));
        let own = connection.agent.tools();
        let mut lines: Vec<String> = own.iter().map(|tool| line(&tool.name, &tool.description)).collect();
        // An agent learns the servers' tools only when it runs.
        let served = self.host.server_tools().await;
        let others = served.iter().filter(|(name, _)| !own.iter().any(|tool| *name == *tool.name));
        lines.extend(others.map(|(name, about)| line(name, about)));
        Ok(lines.join("\n"))
    }

    async fn agents(&self) -> Result<String> {
        let connection = self.connection().await?;
        let state = connection.agent.load_state(&[SKILLS, AGENTS]).await?;
        let mut lines = Vec::new();
        let catalogue = state.get::<AgentsMetadata>().cloned().flatten();
        let named =
            |name: &str| catalogue.iter().flat_map(|all| &all.agents).any(|agent| agent.definition.name == name);
        if connection.agent.tools().iter().any(|tool| tool.name == "task") && !named(GENERAL_PURPOSE) {
            lines.push(format!("{GENERAL_PURPOSE:<20} the same tools, for work that would take many calls"));
        }
        for agent in catalogue.iter().flat_map(|all| &all.agents) {
            lines.push(line(&agent.definition.name, &agent.definition.description));
        }
        lines.extend(unapproved_lines(&self.host.offered().await?, "sub-agent"));
        lines.extend(catalogue.iter().flat_map(|all| &all.warnings).map(|warning| format!("! {warning}")));
        Ok(if lines.is_empty() { "there are no sub-agents".to_owned() } else { lines.join("\n") })
    }

    async fn skills(&self) -> Result<String> {
        let connection = self.connection().await?;
        let state = connection.agent.load_state(&[SKILLS]).await?;
        let catalogue = state.get::<SkillsMetadata>().cloned().flatten().unwrap_or_default();
        let offered = unapproved_lines(&self.host.offered().await?, "skill");
        if catalogue.skills.is_empty() && offered.is_empty() {
            return Ok("there are no skills: a directory below .deepagents/skills with a SKILL.md is one".to_owned());
        }
        let skills = catalogue.skills.iter();
        let mut lines: Vec<String> = skills.map(|skill| line(&skill.name, &skill.description)).collect();
        lines.extend(offered);
        lines.extend(catalogue.warnings.iter().map(|warning| format!("! {warning}")));
        lines.push("\n/skill:NAME uses one".to_owned());
        Ok(lines.join("\n"))
    }

    async fn memory(&self) -> Result<String> {
        let connection = self.connection().await?;
        let state = connection.agent.load_state(&["Memory"]).await?;
        let files = state.get::<MemoryContents>().cloned().unwrap_or_default();
        let texts = files.iter().map(|(path, file)| (path, file.problem.as_deref().unwrap_or(&file.text)));
        let mut parts: Vec<String> = texts.map(|(path, text)| format!("── {path}\n{text}")).collect();
        parts.extend(unapproved_lines(&self.host.offered().await?, "memory"));
        if parts.is_empty() {
            return Ok("there are no notes: AGENTS.md in this directory is one".to_owned());
        }
        Ok(parts.join("\n\n"))
    }

    async fn status(&self) -> String {
        let mut lines = vec![format!("directory  {}", self.root.display())];
        if let Some(thread) = self.thread() {
            lines.push(format!("thread     {thread}"));
        }
        lines.push(format!("mode       {}", self.policy.mode().as_str()));
        match self.connection().await {
            Ok(Connection { model, sandbox, .. }) => {
                lines.push(format!("model      {model}"));
                lines.push(format!("commands   {sandbox}"));
            }
            Err(problem) => lines.push(format!("model      {problem}")),
        }
        lines.join("\n")
    }

    /// Approves or declines definitions or servers in the directory.
    pub(super) fn trust(&self, of: Trusted, agreed: bool) {
        self.spawn(|this| async move {
            let offered = this.host.offered().await.unwrap_or_default();
            let has_settings = offered.iter().any(|offered| offered.kind == TrustKind::Config.as_str());
            match of {
                Trusted::Servers => this.host.trust_servers(agreed).await?,
                Trusted::Definitions if agreed => this.host.agree(None).await?,
                Trusted::Definitions => {}
            }
            if !agreed {
                return Ok(None);
            }
            // The agent is rebuilt with what was approved.
            this.connect(None);
            Ok(match of {
                Trusted::Servers => this.page(Subject::Servers).await.ok(),
                Trusted::Definitions => {
                    // Settings of the interface and the model are read only when the program starts.
                    let later = if has_settings { "; settings from the next start" } else { "" };
                    Some(Event::notice(format!("in use from now on{later}")))
                }
            })
        });
    }

    /// Returns the definitions in the directory that are not approved yet, as a question to the user.
    async fn offers(&self) -> Result<Event> {
        let offered = self.host.offered().await?;
        if offered.is_empty() {
            return Ok(Event::notice("there is nothing left to decide about"));
        }
        let parts: Vec<String> = offered
            .iter()
            .map(|offered| format!("{} {}: {}\n{}", offered.kind, offered.name, offered.about, offered.text))
            .collect();
        let title = "Use these files of this directory? They steer the agent:".to_owned();
        Ok(Event::Trust { of: Trusted::Definitions, title, body: parts.join("\n\n") })
    }
}

/// Returns the names and descriptions of an agent's skills.
pub(super) async fn skills(connection: &Connection) -> Vec<(String, String)> {
    // `/skills` reports problems with skills.
    let Ok(state) = connection.agent.load_state(&[SKILLS]).await else { return Vec::new() };
    let catalogue = state.get::<SkillsMetadata>().cloned().flatten();
    let skills = catalogue.into_iter().flat_map(|catalogue| catalogue.skills);
    skills.map(|skill| (skill.name, skill.description)).collect()
}

/// Returns a line for each definition of this kind that is not approved yet.
fn unapproved_lines(offered: &[Offered], kind: &str) -> Vec<String> {
    let of_kind = offered.iter().filter(|offered| offered.kind == kind);
    of_kind.map(|offered| line(&offered.name, &offered.about) + " (not used until you agree: /trust)").collect()
}

/// Returns a line with a name and the first line of its description.
fn line(name: &str, about: &str) -> String {
    format!("{name:<20} {}", shorten(about, 300))
}

fn first_sentence(text: &str) -> String {
    let line = shorten(text, 120);
    match line.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => line,
    }
}
