//! Building an agent from its description.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use deepagents::core::journal::Journal;
use deepagents::fs::{Backend, CompositeBackend, LocalBackend, ReadOnly, StateBackend, VPath};
use deepagents::middleware::{AskUser, Rubric};
use deepagents::{DeepAgent, DeepAgentBuilder};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::project::{AgentPlan, Layout};
use crate::args::Approve;
use crate::mcp::{self, Servers};
use crate::own_files::{self, OwnFiles};
use crate::run::ThisProcess;
use crate::threads::{Artifacts, Noted};
use crate::tracing::Tracing;
use crate::trust::Undecided;
use crate::{agent, config, model_choice, output};

/// What all agents share.
pub(super) struct Shared {
    pub(super) journal: Arc<dyn Journal>,
    /// The database file, which is hidden from agents.
    pub(super) database: Option<PathBuf>,
    /// Where what is too long for conversations is kept, if not in the workspace.
    pub(super) artifacts: Option<Artifacts>,
    pub(super) tracing: Tracing,
    pub(super) runtime: Handle,
}

/// An agent that has been built.
pub(super) struct Built {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) agent: DeepAgent,
    pub(super) model: String,
    pub(super) approve: Approve,
    /// The metadata of its threads.
    pub(super) note: Map<String, Value>,
    /// Its MCP servers. They end when the agent has been dropped everywhere.
    pub(super) servers: Option<Servers>,
}

/// Builds an agent that sees none of the `hidden` files. Blocks on files and servers, so do not call it from a task of the runtime.
pub(super) fn build(plan: &AgentPlan, shared: &Shared, hidden: &[PathBuf]) -> Result<Built> {
    let options = &config::completed(&plan.options)?;
    let mut shape = agent::Shape::from_args(options)?;
    if let Some(rules) = &plan.rules {
        shape.rules = rules.clone();
    }
    shape.check()?;
    shape.decide_for_clients(plan.approve)?;
    let (choice, model) = model_choice::chosen(options)?;
    let (model, unknown_window) = shared.runtime.block_on(model_choice::with_window(model, &choice, options))?;
    output::remarks(unknown_window);
    let undecided = Undecided::for_run(options, true);
    let asks = plan.approve == Approve::Ask;
    let servers = mcp::servers(options, undecided, asks, plan.servers.clone(), &model)?;
    let has_files = plan.layout.is_none() || options.root.is_some();
    let mut builder = if has_files {
        own_files::check_root(options.root.as_deref())?;
        let files = agent::open(options, None)?;
        let own = OwnFiles::inside(options.directory(), shared.database.as_deref(), None)?;
        let own = own.and(options.directory(), hidden)?;
        let surroundings = shared.runtime.block_on(shape.enter(options, files, &own, undecided))?;
        let hooks = shared.runtime.block_on(surroundings.hooks(options))?;
        let builder = hooks.into_iter().fold(shape.builder(model), DeepAgentBuilder::hooks);
        match &plan.layout {
            Some(layout) => laid_out(builder, layout, surroundings.workspace)?,
            None => surroundings.give(builder),
        }
    } else {
        // Its files are in the state of each thread.
        let builder = shape.builder(model);
        plan.layout
            .iter()
            .try_fold(builder, |builder, layout| laid_out(builder, layout, Arc::new(StateBackend::new())))?
    };
    if let Some(artifacts) = shared.artifacts.as_ref().filter(|_| has_files) {
        builder = artifacts.give(builder, options.directory());
    }
    if let Some(servers) = &servers {
        builder = builder.mcp(&servers.all);
    }
    // Idle, unless a run's input has a `rubric`.
    builder = builder.middleware(Rubric::default());
    if plan.questions {
        builder = builder.middleware(AskUser);
    }
    let builder = shared
        .tracing
        .watch_runs(agent::with_agents(builder.journal(shared.journal.clone()).process(ThisProcess), options)?);
    let agent = builder.build().map_err(|error| anyhow!("{error}"))?;
    let (name, description) = (plan.name.clone(), plan.description.clone());
    let root = has_files.then(|| options.directory());
    let model = Some((choice.name.as_str(), options.base_url.as_deref()));
    let note = Noted { root, model, approve: plan.approve, redact: &options.redact }.metadata();
    Ok(Built { name, description, agent, model: choice.name, approve: plan.approve, note, servers })
}

/// Adds what a directory with an `agent.json` describes: sub-agents, skills, which are read from the directory, and
/// interrupts.
fn laid_out(builder: DeepAgentBuilder, layout: &Layout, files: Arc<dyn Backend>) -> Result<DeepAgentBuilder> {
    let of_agent = layout.has_skills.then(|| "/skills".to_owned());
    let of_sub_agents = layout.sub_agents.iter().flat_map(|agent| agent.skills.clone());
    let mut all = CompositeBackend::new(files);
    for place in of_agent.into_iter().chain(of_sub_agents) {
        let directory = layout.directory.join(place.trim_start_matches('/'));
        let skills = LocalBackend::open(&directory)
            .map_err(|error| anyhow!("{}", error.source))
            .with_context(|| format!("opening {}", directory.display()))?;
        all = all.route(VPath::parse(&place)?, Arc::new(ReadOnly::new(Arc::new(skills))));
    }
    let mut builder = builder.backend(all);
    if layout.has_skills {
        builder = builder.skills(["/skills"]);
    }
    builder = layout.sub_agents.iter().cloned().fold(builder, DeepAgentBuilder::sub_agent);
    Ok(builder.interrupt_on(layout.interrupts.clone()))
}
