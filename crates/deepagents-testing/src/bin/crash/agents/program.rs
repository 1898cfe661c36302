//! The program as the subject: `deepagents run` and `deepagents run --resume` are killed, with a scripted model server.
//! What was stored is checked with `deepagents threads`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use deepagents_core::agent::Agent;
use deepagents_core::journal::{Journal, RunStatus, ThreadInfo, ThreadQuery};
use deepagents_core::message::Messages;
use deepagents_models::scripted::ScriptedModel;
use deepagents_persist::Sqlite;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::log::Log;
use super::notes::Note;
use super::plan::{MAIN, Operation, Plan};
use super::scenario::Scenario;
use super::script::task;
use super::server::Server;
use super::threads::ThreadsCommand;
use super::trial::{Exit, HANG_TIMEOUT, Kill, Measured, Subject};

/// The program's message when nobody is left to decide.
const INPUT_ENDED: &str = "the input ended with";

/// The sub-agent that the program has built in.
const BUILT_IN: &str = "general-purpose";

/// Runs of the program in their own directory.
pub(crate) struct Program {
    program: PathBuf,
    folder: PathBuf,
    plan: Plan,
    asks: bool,
    threads: ThreadsCommand,
    server: Option<Server>,
    /// Number of lines already read from each agent's file.
    seen: BTreeMap<&'static str, usize>,
}

impl Program {
    pub(crate) fn new(program: &Path, folder: &Path, scenario: Scenario, size: usize) -> Result<Self> {
        let plan = scenario.program_plan(size);
        let plan = plan.with_context(|| format!("the program has no scenario `{}`", scenario.as_str()))?;
        let agents = folder.join("root/.deepagents/agents");
        std::fs::create_dir_all(&agents)?;
        std::fs::create_dir_all(folder.join("home"))?;
        for kind in plan.kinds_below(MAIN) {
            if kind != BUILT_IN {
                std::fs::write(agents.join(format!("{kind}.md")), definition(&plan, kind))?;
            }
        }
        for agent in &plan.agents {
            std::fs::write(folder.join(format!("root/{}.md", agent.name)), "END\n")?;
        }
        let (program, folder, asks) = (program.to_owned(), folder.to_owned(), scenario == Scenario::Approval);
        let threads = ThreadsCommand { program: program.clone(), folder: folder.clone() };
        Ok(Self { program, folder, plan, asks, threads, server: None, seen: BTreeMap::new() })
    }

    async fn server(&mut self) -> Result<&Server> {
        if self.server.is_none() {
            self.server = Some(Server::start(self.plan.clone()).await?);
        }
        self.server.as_ref().context("the server was just started")
    }

    async fn journal(&self) -> Result<Arc<Sqlite>> {
        Ok(Arc::new(Sqlite::open(self.folder.join("threads.db")).await?))
    }

    /// Returns the thread, once it exists.
    async fn thread(&self) -> Result<Option<ThreadInfo>> {
        let mut threads = self.journal().await?.threads().list(&ThreadQuery::default()).await?;
        ensure!(threads.len() < 2, "there are {} threads", threads.len());
        Ok(threads.pop())
    }

    async fn command(&mut self) -> Result<Command> {
        let thread = self.thread().await?;
        let address = self.server().await?.next_process();
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", self.folder.join("home"));
        command.args(["run", "--model", "test-model", "--max-turns", "10000", "--no-memory", "--no-skills", "--trust"]);
        command.arg("--base-url").arg(address).arg("--root").arg(self.folder.join("root"));
        command.arg("--db").arg(self.folder.join("threads.db"));
        if self.asks {
            command.args(["--approve", "ask"]);
        }
        if let Some(thread) = &thread {
            command.args(["--resume", &thread.id]);
        }
        if thread.is_none_or(|thread| thread.status == RunStatus::Empty) {
            command.arg(task(MAIN));
        }
        Ok(command)
    }

    /// Returns the lines that agents have written since the last call.
    fn effects(&mut self) -> Result<Vec<Note>> {
        let mut notes = Vec::new();
        for agent in &self.plan.agents {
            let text = std::fs::read_to_string(self.folder.join(format!("root/{}.md", agent.name)))?;
            let lines: Vec<&str> = text.lines().filter(|line| *line != "END").collect();
            let seen = self.seen.insert(agent.name, lines.len()).unwrap_or(0);
            ensure!(seen <= lines.len(), "{}.md lost what was written", agent.name);
            let effect = |tag: &&str| Note::Effect { tag: (*tag).to_owned(), key: String::new() };
            notes.extend(lines.iter().skip(seen).map(effect));
        }
        Ok(notes)
    }
}

/// Returns the definition file of a sub-agent, including those below it.
fn definition(plan: &Plan, kind: &str) -> String {
    format!(
        "---\ndescription: {}\nagents: {}\n---\n{}\n",
        description(kind),
        Value::from(below(plan, kind)),
        prompt(kind)
    )
}

/// Returns the sub-agents below a kind, at all depths.
fn below(plan: &Plan, kind: &str) -> Vec<Value> {
    let described = |kind: &str| json!({"name": kind, "description": description(kind), "prompt": prompt(kind), "agents": below(plan, kind)});
    plan.kinds_below(kind).into_iter().map(described).collect()
}

fn description(kind: &str) -> String {
    format!("Does the part of a {kind}.")
}

fn prompt(kind: &str) -> String {
    format!("You are a {kind}.")
}

impl Subject for Program {
    fn plan(&self) -> Plan {
        self.plan.clone()
    }

    async fn process(&mut self, kill: Kill, decides: bool) -> Result<Exit> {
        if self.thread().await?.is_some_and(|thread| thread.status == RunStatus::Ended) {
            // The process was killed after its work was complete.
            return Ok(Exit::Ended(Measured::default()));
        }
        let mut command = self.command().await?;
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the program could not be started")?;
        if let (Some(mut input), true) = (child.stdin.take(), decides) {
            // The process may have ended already.
            let _ = input.write_all("y\n".repeat(1_000).as_bytes()).await;
        }
        let limit = if let Kill::After(time) = kill { time } else { HANG_TIMEOUT };
        let in_time = tokio::time::timeout(limit, child.wait()).await.is_ok();
        ensure!(in_time || matches!(kill, Kill::After(_)), "the run hangs");
        if !in_time {
            child.start_kill()?;
        }
        let output = child.wait_with_output().await?;
        let whole = started.elapsed();
        let first = self.server().await?.first().map_or(whole, |first| first - started);
        let effects = self.effects()?;
        let killed = output.status.code().is_none().then_some(Note::Killed);
        self.server().await?.add(effects.into_iter().chain(killed));
        let errors = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(Exit::Ended(Measured { moments: 0, start: first, work: whole - first })),
            Some(1) if self.asks && errors.contains(INPUT_ENDED) => Ok(Exit::Waits),
            Some(code) => bail!("the program ended with {code}: {}", errors.trim()),
            None => Ok(Exit::Killed),
        }
    }

    async fn evidence(&mut self) -> Result<(Log, Vec<Note>)> {
        let notes = self.server().await?.notes();
        let Some(thread) = self.thread().await? else { return Ok((Log::default(), notes)) };
        let log = self.threads.export(&thread.id).await?;
        if thread.status != RunStatus::Empty {
            let shown = self.threads.show(&thread.id).await?;
            let missing = log.started.iter().find(|tag| !shown.calls.contains(*tag));
            ensure!(missing.is_none(), "call {missing:?} began, and `threads show` does not show it");
        }
        Ok((log, notes))
    }

    async fn end(&mut self) -> Result<(Messages, BTreeMap<String, String>)> {
        let thread = self.thread().await?.context("there is no thread")?;
        ensure!(thread.status == RunStatus::Ended, "the thread is {:?}", thread.status);
        let journal = self.journal().await?;
        journal.check().await?;
        let (log, shown) = (self.threads.export(&thread.id).await?, self.threads.show(&thread.id).await?);
        let missing = log.finished.keys().find(|tag| !shown.results.contains(*tag));
        ensure!(missing.is_none(), "call {missing:?} has a result, and `threads show` does not show it");
        // Any agent can read the conversation of a thread.
        let reader = Agent::builder(ScriptedModel::new([])).journal(journal).build()?;
        let messages = reader.state(&thread.id).await?.messages().clone();
        // Changes with an unknown outcome are not repeated, so the files may differ from those of another run.
        Ok((messages, BTreeMap::new()))
    }

    async fn forget(&mut self) -> Result<()> {
        Ok(std::fs::remove_dir_all(&self.folder)?)
    }
}

impl Scenario {
    /// Returns the program's plan for a scenario, if it has one. Each agent reads its file before it adds a line.
    fn program_plan(self, size: usize) -> Option<Plan> {
        use Operation::{Delegate, Look, Send};
        let work = |lines: usize| vec![[vec![Look], vec![Send]]; lines].concat();
        let n = size + 2;
        let main = |first: Vec<Operation>| Plan::new([work(1), vec![first], work(1)].concat());
        let nested = || {
            let middle = [work(1), vec![vec![Delegate("c1"), Delegate("c2")]], work(1)].concat();
            main(vec![Delegate("m1"), Delegate("c3")])
                .agent(("m1", "middle", MAIN), middle)
                .agent(("c1", "worker", "middle"), work(n))
                .agent(("c2", "other", "middle"), work(2))
                .agent(("c3", BUILT_IN, MAIN), work(2))
        };
        let plan = match self {
            Self::Nested => nested(),
            Self::Approval if size == 2 => nested(),
            Self::Main => Plan::new(work(2 * n)),
            Self::Child => main(vec![Delegate("c1")]).agent(("c1", "worker", MAIN), work(n)),
            Self::Parallel | Self::Approval => main(vec![Delegate("c1"), Delegate("c2"), Delegate("c3")])
                .agent(("c1", "worker", MAIN), work(n))
                .agent(("c2", "worker", MAIN), work(2))
                .agent(("c3", BUILT_IN, MAIN), work(n)),
            Self::StateFiles | Self::DiskFiles | Self::StoreFiles | Self::Compaction | Self::Background => return None,
        };
        Some(plan.in_files())
    }
}
