//! The agents of a scenario, as built by one process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use deepagents::middleware::summarization::{CacheReuse, Size, SummarizationOptions, Trigger};
use deepagents::subagents::{AgentSubAgent, SubAgentSpec};
use deepagents::{
    Decision, DecisionKind, DeepAgent, DeepAgentBuilder, Effect, InterruptOn, InterruptPolicy, ModelError,
    ModelRequest, Preset, Tool, ToolContext, ToolError, ToolOutput, Usage,
};
use deepagents_models::scripted::{ScriptedModel, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::clock::SharedClock;
use super::journal::FaultyJournal;
use super::process::Process;
use super::scenario::{MAIN, Operation};
use super::script::{Tag, View, report, task};
use super::world::World;

/// The usage of each request.
pub(crate) const USAGE: Usage =
    Usage { input: 100, output: 10, cache_read: 0, cache_write: 0, cache_write_hour: 0, reasoning: 0 };

/// What agents are built from.
#[derive(Clone)]
pub(crate) struct Cast {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    /// The thread that the process works on.
    pub(crate) thread: String,
}

impl Cast {
    /// Builds the main agent with all agents below it.
    pub(crate) fn main(&self) -> Result<DeepAgent> {
        Ok(self.builder(MAIN)?.build()?)
    }

    fn builder(&self, name: &str) -> Result<DeepAgentBuilder> {
        let world = &self.world;
        // An agent that raises interrupts needs a journal, even if it writes to that of the agent above.
        let journal = FaultyJournal { world: world.clone(), process: self.process.clone() };
        let mut builder = DeepAgent::builder()
            .journal(journal)
            .preset(Preset::Lean)
            .name(name)
            .model(self.model())
            .general_purpose(false)
            .background_agents(name == MAIN && world.scenario.has_background())
            .clock(SharedClock(world.clock.clone()))
            .ids(world.ids.clone());
        for operation in
            [Operation::Send, Operation::Put, Operation::Look, Operation::Pay, Operation::Steal, Operation::Ask]
        {
            builder = builder.tool(Outside { operation, cast: self.clone() });
        }
        if world.scenario.compacts {
            let options = SummarizationOptions::default().trigger(Trigger::messages(8)).keep(Size::Messages(4));
            builder = builder.summarization(options.prefix(CacheReuse::Never));
        }
        let policy = InterruptPolicy::new().before("pay", InterruptOn::any()).before("steal", InterruptOn::any());
        builder = builder.interrupt_on(policy);
        for agent in world.scenario.below(name) {
            let (below, description) = (agent.name.as_str(), format!("Does the part of {}.", agent.name));
            builder = if world.scenario.below(below).next().is_none() {
                builder.sub_agent(SubAgentSpec::new(below, description).system_prompt("You do your part."))
            } else {
                builder.sub_agent(AgentSubAgent::new(below, description, &*self.builder(below)?.build()?))
            };
        }
        Ok(builder)
    }

    fn model(&self) -> ScriptedModel {
        let cast = self.clone();
        ScriptedModel::rules().always(Turn::with(move |request| cast.answer(request).usage(USAGE))).build()
    }

    fn answer(&self, request: &ModelRequest) -> Turn {
        let world = &self.world;
        let view = View::new(request);
        if !self.process.has_ended() {
            world.asked(&view);
        }
        if world.happens(world.scenario.weather.model) && self.process.takes_fault() {
            world.fault("a model that fails");
            return Turn::error(ModelError::transport("injected: the model is gone"));
        }
        let turn = if request.tools.is_empty() {
            let last = view.last.as_ref().map(Tag::to_string).unwrap_or_default();
            Turn::text(format!("agent={}; The last call was {last}", view.agent))
        } else {
            match view.next(&world.scenario) {
                calls if calls.is_empty() => Turn::text(report(&view.agent)),
                calls => Turn::calls(calls.into_iter().map(|(tag, operation)| {
                    let args = arguments(&operation, &tag);
                    (tag.to_string(), operation.tool(), args)
                })),
            }
        };
        turn.delay(world.random_time(1_500))
    }
}

fn arguments(operation: &Operation, tag: &Tag) -> Value {
    match operation {
        Operation::Write => json!({"file_path": path(tag), "content": format!("written by {tag}")}),
        Operation::Delegate(name) | Operation::Start(name) => json!({"description": task(name), "subagent_type": name}),
        _ => json!({"tag": tag.to_string()}),
    }
}

/// Returns the path of the file that a call creates.
pub(crate) fn path(tag: &Tag) -> String {
    format!("/made/{tag}.md")
}

/// A tool with an external effect, under the tag in its arguments.
struct Outside {
    operation: Operation,
    cast: Cast,
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The call.
    tag: String,
    /// Whether a person has changed the call.
    #[serde(default)]
    edited: bool,
}

impl Tool for Outside {
    type Args = Args;

    fn name(&self) -> &str {
        self.operation.tool()
    }

    fn description(&self) -> &str {
        "Takes effect outside."
    }

    fn effect(&self, _: &Args) -> Effect {
        if self.operation == Operation::Look { Effect::Read } else { Effect::External }
    }

    fn idempotent(&self, _: &Args) -> bool {
        self.operation == Operation::Put
    }

    async fn call(&self, Args { tag, edited }: Args, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let (world, process) = (&self.cast.world, &self.cast.process);
        process.gate().await;
        let decided = World::decision(&tag, self.name());
        match self.operation {
            Operation::Steal => world.broken(&format!("call {tag} is made, and a person had rejected it")),
            Operation::Pay => {
                let asked = world.lock().decided.contains(&tag);
                world.check(asked, || format!("call {tag} is made before anybody decided about it"));
                let right = edited == (decided == DecisionKind::Edit);
                world.check(right, || format!("call {tag} was to be {decided:?}, and edited is {edited}"));
            }
            Operation::Ask if !self.may(&tag, &cx)? => return Ok(format!("not done {tag}").into()),
            _ => {}
        }
        tokio::time::sleep(world.random_time(1_000)).await;
        process.gate().await;
        // A sub-agent has no thread of its own. The thread of a background agent is copied with the main one.
        let thread = cx.thread().unwrap_or(&self.cast.thread);
        let repeatable = matches!(self.operation, Operation::Put | Operation::Look);
        world.effect(thread, &tag, &cx.key(), repeatable);
        tokio::time::sleep(world.random_time(1_000)).await;
        process.gate().await;
        Ok(format!("done {tag}").into())
    }
}

impl Outside {
    /// Asks two questions, in a different order each time the call is made: each answer must go with its question.
    fn may(&self, tag: &str, cx: &ToolContext) -> Result<bool, ToolError> {
        let world = &self.cast.world;
        let mut questions = [format!("May I {tag}?"), format!("Really {tag}?")];
        let times = {
            let mut known = world.lock();
            let times = known.asking.entry(tag.to_owned()).or_default();
            *times += 1;
            *times
        };
        if times % 2 == 0 {
            questions.reverse();
        }
        let mut may = true;
        for question in questions {
            let decision = cx.interrupt(question.clone(), DecisionKind::ALL)?;
            let (kind, decided) = (decision.kind(), World::decision(&question, self.name()));
            let mine = decision_text(&decision).is_none_or(|said| said == format!("About {question}"));
            world.check(kind == decided && mine, || format!("{question:?} was answered {decision:?}, not {decided:?}"));
            may &= kind == DecisionKind::Approve;
        }
        Ok(may)
    }
}

/// Returns what a person said with a decision.
fn decision_text(decision: &Decision) -> Option<&str> {
    match decision {
        Decision::Respond { message } => Some(message),
        Decision::Reject { message } => message.as_deref(),
        _ => None,
    }
}

/// How long a process may own a thread without renewing its lease.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
