//! What an agent loads from files before its first model call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use deepagents::core::message::AssistantMessage;
use deepagents::core::model::{ModelEvent, ModelOutput};
use deepagents::core::run::{ModelCall, RunObserver};
use deepagents::{Block, ChatModel, DeepAgent, Event, ModelError, ModelRequest, RunInput};
use futures_util::stream::{self, BoxStream};
use serde::Serialize;

use super::count;
use crate::render::{Loaded, name_list};

/// What is loaded from files.
#[derive(Debug, Default, Serialize)]
pub(super) struct FromFiles {
    /// The memory, skills and sub-agents found.
    pub(super) parts: Vec<Part>,
    /// Problems with files.
    pub(super) warnings: Vec<String>,
}

/// What is loaded of one kind.
#[derive(Debug, Serialize)]
pub(super) struct Part {
    /// `memory`, `skills` or `sub-agents`.
    kind: &'static str,
    /// Paths of memory files, names of skills and sub-agents.
    names: Vec<String>,
    /// Tokens that it adds to every request.
    pub(super) tokens: usize,
}

impl fmt::Display for FromFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "loaded from files")?;
        for Part { kind, names, tokens } in &self.parts {
            let what = if names.is_empty() { (*kind).to_owned() } else { format!("{kind}: {}", name_list(names)) };
            writeln!(f, "  {what:<44}{tokens:>8}")?;
        }
        Ok(())
    }
}

/// Starts the agent, and inspects its first model request, which is not sent.
pub(super) async fn loaded(agent: &DeepAgent) -> Result<FromFiles> {
    let look = Arc::new(Look::default());
    agent.invoke(RunInput::new("Hello.").observer(look.clone())).await?;
    let Observed { request, loaded, warnings } = std::mem::take(&mut *look.lock());
    let Loaded { memory, skills, agents, servers: _ } = loaded;
    let Some(request) = request else { return Ok(FromFiles { warnings, ..FromFiles::default() }) };
    // What is loaded follows the fixed part of the system prompt: memory first, then skills.
    let has = |name: &str| agent.middlewares().any(|middleware| middleware.name() == name);
    let mut sections = request.system.iter().skip(agent.system().len());
    let mut section = |is_there: bool| if is_there { sections.next().map_or(0, |block| count(&block.text)) } else { 0 };
    let (of_memory, of_skills) = (section(has("Memory")), section(has("Skills")));
    let mut listed = 0;
    for tool in &request.tools {
        let before = agent.tools().iter().find(|before| before.name == tool.name);
        listed += before.map_or(0, |b| count(&tool.description).saturating_sub(count(&b.description)));
    }
    let parts = [("memory", memory, of_memory), ("skills", skills, of_skills), ("sub-agents", agents, listed)];
    let parts = parts.into_iter().filter(|(_, names, tokens)| !names.is_empty() || *tokens > 0);
    Ok(FromFiles { parts: parts.map(|(kind, names, tokens)| Part { kind, names, tokens }).collect(), warnings })
}

/// Answers instead of the model.
#[derive(Default)]
struct Look(Mutex<Observed>);

/// What it has seen.
#[derive(Default)]
struct Observed {
    request: Option<ModelRequest>,
    loaded: Loaded,
    warnings: Vec<String>,
}

impl Look {
    fn lock(&self) -> std::sync::MutexGuard<'_, Observed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunObserver for Look {
    fn model(
        self: Arc<Self>,
        _: ModelCall,
        _: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.lock().request.get_or_insert(request);
        let answer = ModelOutput::new(AssistantMessage::new(vec![Block::text("Hello.")]));
        Box::pin(stream::iter([Ok(ModelEvent::Finished(Box::new(answer)))]))
    }

    fn event(&self, event: &Event) {
        let mut seen = self.lock();
        if let Some(problems) = seen.loaded.take(event) {
            seen.warnings.extend(problems);
        }
    }
}
