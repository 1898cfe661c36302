//! Skills: instructions in files that the model reads when needed.
//!
//! A skill is a directory with a file `SKILL.md` that begins with YAML front matter: `name` and `description`, and
//! optionally `license`, `compatibility`, `version`, `author`, `metadata`, `allowed-tools`, `tools`, `agents`. Only the
//! front matter is loaded, and requests include only the fields that tell the model whether to read on.

mod agents;
mod list;
mod load;
mod parse;
mod pins;
mod render;
mod source;
mod tool_gating;

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::MessageOp;
use deepagents_core::middleware::{
    HookOutput, Middleware, ModelNext, ModelResponse, ToolNext, ToolRequest, ToolResponse,
};
use deepagents_core::model::{ModelRequest, SystemBlock};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, MessagesChannel, Update};
use deepagents_core::tool::DynTool;
use deepagents_fs::Backend;

use crate::channels::{PinnedSkills, SkillCatalogue, SkillPin, SkillsMetadata};
use crate::shared::Shared;
use crate::workspace::Workspace;
use source::Source;
use tool_gating::{ReadsUpdate, SkillReads};

pub use source::SkillSource;

pub(crate) use agents::read as read_agents;
pub(crate) use parse::skill as read_skill;

/// Lists skills for the model, shows it the skills that the caller pins, and offers the tools of those it has read.
///
/// Sources are checked at the start of a run and read again after changes. If two skills have the same name, that of
/// the later source is used. Problems with a source or a skill are shown to the model, marked as untrusted, and
/// reported to the application with the event `skills_loaded`; the run continues.
///
/// ```
/// use deepagents::middleware::Skills;
/// use deepagents_fs::StateBackend;
/// let skills = Skills::new(StateBackend::new(), ["/skills/user", "/skills/project"])?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Skills {
    workspace: Workspace,
    sources: Vec<Source>,
    template: Arc<str>,
    tools: Vec<Shared<dyn DynTool>>,
    tool_names: BTreeSet<String>,
}

impl Skills {
    /// Uses the skills in these directories of a backend.
    ///
    /// # Errors
    /// Returns an error if a path is invalid.
    pub fn new<S: Into<SkillSource>>(
        backend: impl Backend,
        sources: impl IntoIterator<Item = S>,
    ) -> Result<Self, BuildError> {
        Self::on(Workspace::one(backend), sources)
    }

    pub(crate) fn on<S: Into<SkillSource>>(
        workspace: Workspace,
        sources: impl IntoIterator<Item = S>,
    ) -> Result<Self, BuildError> {
        let sources = sources.into_iter().map(|source| Source::parse(source.into())).collect::<Result<_, _>>()?;
        let template = include_str!("../../prompts/skills.md").trim_end().into();
        Ok(Self { workspace, sources, template, tools: Vec::new(), tool_names: BTreeSet::new() })
    }

    /// Sets the text around the list. `{skills_locations}`, `{skills_load_warnings}` and `{skills_list}` stand for its
    /// parts; an empty template shows nothing.
    ///
    /// # Errors
    /// Returns an error if one of the three is missing.
    pub fn template(mut self, template: impl Into<Arc<str>>) -> Result<Self, BuildError> {
        let template = template.into();
        let missing: Vec<&str> = render::PLACEHOLDERS.into_iter().filter(|part| !template.contains(part)).collect();
        if !template.is_empty() && !missing.is_empty() {
            return Err(BuildError::Option(format!("the skills template does not contain {}", missing.join(", "))));
        }
        self.template = template;
        Ok(self)
    }

    /// Adds a skill tool. It is offered and executed only after the model has read a skill that names it, under `tools`
    /// or under `include_tools` in its metadata, and only while that text is still visible to the model.
    #[must_use]
    pub fn tool(mut self, tool: impl DynTool) -> Self {
        self.tool_names.insert(tool.spec().name);
        self.tools.push(Shared(Arc::new(tool)));
        self
    }
}

fn catalogue(cx: &Context) -> Option<&SkillCatalogue> {
    cx.state().get::<SkillsMetadata>().and_then(Option::as_ref)
}

impl Middleware for Skills {
    fn name(&self) -> &str {
        "Skills"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        let own = [
            ChannelSpec::new::<SkillsMetadata>(),
            ChannelSpec::new::<PinnedSkills>(),
            ChannelSpec::new::<SkillReads>(),
        ];
        self.workspace.channels().into_iter().chain(own).collect()
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.tools.iter().map(|tool| tool.0.clone()).collect()
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let known = catalogue(cx);
        if known.is_some_and(|known| known.fingerprint.is_none()) {
            return Ok(HookOutput::next());
        }
        let backend = self.workspace.backend_for(cx);
        let Some(found) = load::refreshed(&*backend, cx.state(), &self.sources, known).await else {
            return Ok(HookOutput::next());
        };
        let skills = found.skills.iter().map(|skill| skill.name.clone()).collect();
        cx.report(MiddlewareEvent::SkillsLoaded { skills, warnings: found.warnings.clone() });
        Ok(HookOutput::set::<SkillsMetadata>(Some(found)))
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let mut update = Update::none();
        if let (false, Some(catalogue)) = (self.tools.is_empty(), catalogue(cx))
            && let Some(scanned) = cx.get::<SkillReads>().scan(cx.messages(), catalogue)
        {
            update = update.with::<SkillReads>(scanned);
        }
        if cx.state().get::<PinnedSkills>().is_none_or(Vec::is_empty) {
            return Ok(HookOutput::update(update));
        }
        let pins = pins::take(cx, &*self.workspace.backend_for(cx)).await;
        if !pins.skipped.is_empty() {
            cx.report(MiddlewareEvent::PinnedSkillsSkipped { warnings: pins.skipped });
        }
        update = update.with::<PinnedSkills>(SkillPin::Shown { shown: pins.names });
        if !self.tools.is_empty() {
            let read = pins.shown.iter().map(|(skill, message)| (skill.path.clone(), message.id().to_owned()));
            update = update.with::<SkillReads>(ReadsUpdate::Pinned(read.collect()));
        }
        let messages = pins.shown.into_iter().map(|(_, message)| MessageOp::put(message)).collect();
        Ok(HookOutput::update(update.with::<MessagesChannel>(messages)))
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        if let Some(catalogue) = catalogue(cx)
            && !self.template.is_empty()
        {
            request.system.push(SystemBlock::new(render::section(&self.template, &self.sources, catalogue)));
        }
        Ok(request)
    }

    async fn wrap_model_call(&self, mut request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
        if self.tools.is_empty() {
            return next.run(request).await;
        }
        let cx = next.cx().clone();
        let reads = cx.get::<SkillReads>();
        let none = SkillCatalogue::default();
        let catalogue = catalogue(&cx).unwrap_or(&none);
        let unlocked: BTreeSet<String> = reads
            .unlocked(&request.messages, catalogue)
            .filter(|name| self.tool_names.contains(*name))
            .map(str::to_owned)
            .collect();
        request.tools.retain(|tool| !self.tool_names.contains(&tool.name) || unlocked.contains(&tool.name));
        let mut response = next.run(request).await?;
        if unlocked != reads.offered {
            cx.report(MiddlewareEvent::SkillToolsOffered { tools: unlocked.clone() });
            response.update = response.update.with::<SkillReads>(ReadsUpdate::Offered(unlocked));
        }
        Ok(response)
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let name = &request.call.name;
        let offered = || request.cx.get::<SkillReads>().offered.contains(name);
        if !self.tool_names.contains(name) || offered() {
            return next.run(request).await;
        }
        let brings = catalogue(&request.cx).and_then(|c| c.skills.iter().find(|skill| skill.tools.contains(name)));
        let text = match brings {
            Some(skill) => format!("Error: {name} comes with the skill {}; read {} first.", skill.name, skill.path),
            None => format!("Error: {name} is not a tool you have."),
        };
        Ok(ToolResponse::error(text).refused())
    }
}
