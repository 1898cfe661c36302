//! Personal data and secrets are hidden before they are stored, sent or shown.

mod detector;
mod messages;
mod model;
mod rules;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};

use deepagents_core::error::{Error, Result};
use deepagents_core::event::{MiddlewareEvent, RedactedPlace};
use deepagents_core::message::{Block, Message, MessageOp};
use deepagents_core::middleware::{
    HookOutput, Middleware, ModelNext, ModelResponse, ToolNext, ToolRequest, ToolResponse,
};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, MessagesChannel};
use sha2::{Digest, Sha256};

use model::{Findings, RedactedModel};
use rules::{Found, Rule, Rules, listed};
use stream::StreamRedactor;

pub use detector::{Detector, FunctionDetector};
pub use rules::{HashKey, RedactionBlocked, Strategy};

/// Bytes of the longest that an expression or a function of the application finds while an answer comes.
const LONGEST: usize = 256;

/// Counts up with what the built-in kinds find.
const FINDS: u32 = 2;

deepagents_core::last_value!(
    /// Messages that have been looked at, and what was looked for.
    Redacted("redacted"): (usize, String) => private
);

/// Hides personal data and secrets: in what people say before it is stored, in answers of the model and the arguments of its
/// calls before anybody sees a piece of them, in results of tools before they are put into files or told.
///
/// All that is looked for is looked for at once, and what overlaps is hidden as one. By default only what comes in is
/// looked at. A message of an earlier run, from before this middleware was there, is rewritten when a run begins.
///
/// It is given to the builder with [`redaction`](crate::DeepAgentBuilder::redaction), which puts it where no other part sees
/// what it hides, and gives it to sub-agents that are described. What tools write to files and what memory holds is not
/// looked at until a tool reads it.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::redaction::{Detector, Redaction, Strategy};
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let redaction = Redaction::new()
///     .hide(Detector::Email)
///     .with(Detector::CreditCard, Strategy::Mask)
///     .named("ticket", Detector::pattern(r"TCK-\d+")?, Strategy::Redact);
/// let model = ScriptedModel::new([Turn::text("Noted.")]);
/// let agent = DeepAgent::builder().model(model.clone()).redaction(redaction).build()?;
/// agent.invoke("I am ann@example.org, about TCK-1.").await?;
/// assert_eq!(model.requests()[0].messages.get(0).map(|m| m.text()).as_deref(),
///     Some("I am [REDACTED_EMAIL], about [REDACTED_TICKET]."));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Redaction {
    rules: Arc<Rules>,
    input: bool,
    output: bool,
    tool_results: bool,
}

impl Default for Redaction {
    fn default() -> Self {
        let rules = Arc::new(Rules { rules: Vec::new(), longest: LONGEST });
        Self { rules, input: true, output: false, tool_results: false }
    }
}

impl Redaction {
    /// Looks for nothing yet, in what comes in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for keys, tokens and private keys, in what comes in, in answers and in results.
    pub fn secrets() -> Self {
        Self::new().hide(Detector::ApiKey).hide(Detector::PrivateKey).output(true).tool_results(true)
    }

    /// Puts a mark in the place of what is found.
    #[must_use]
    pub fn hide(self, detector: Detector) -> Self {
        self.with(detector, Strategy::Redact)
    }

    /// Does this with what is found.
    #[must_use]
    pub fn with(self, detector: Detector, strategy: Strategy) -> Self {
        let name = detector.name();
        self.named(name, detector, strategy)
    }

    /// Does this with what is found, under a name of its own in marks and events.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>, detector: Detector, strategy: Strategy) -> Self {
        Arc::make_mut(&mut self.rules).rules.push(Rule { name: name.into(), detector, strategy });
        self
    }

    /// Whether what people say is looked at; it is.
    #[must_use]
    pub fn input(mut self, on: bool) -> Self {
        self.input = on;
        self
    }

    /// Whether answers of the model are looked at, and the arguments of its calls, which tools are given as they are then; not
    /// unless switched on. Pieces of an answer come a word later, and arguments once they are complete.
    #[must_use]
    pub fn output(mut self, on: bool) -> Self {
        self.output = on;
        self
    }

    /// Whether results of tools are looked at, and what they tell of their progress; not unless switched on.
    #[must_use]
    pub fn tool_results(mut self, on: bool) -> Self {
        self.tool_results = on;
        self
    }

    /// Bytes of the longest that an expression or a function of the application finds; 256. While an answer comes, so much is
    /// held back. The built-in kinds need no such length.
    #[must_use]
    pub fn longest_match(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.rules).longest = bytes;
        self
    }

    /// A text with what was found in it hidden, wherever texts are looked at: for what an application keeps of one itself, such
    /// as the name of a conversation.
    ///
    /// # Errors
    /// When what was found is to be blocked.
    pub fn text(&self, text: String) -> std::result::Result<String, RedactionBlocked> {
        let mut found = Found::new();
        // Answers to several questions are written as JSON, which stays JSON.
        let structured =
            text.starts_with(['{', '[']).then(|| serde_json::from_str::<serde_json::Value>(&text).ok()).flatten();
        if let Some(mut value) = structured {
            return Ok(if self.rules.redact_value(&mut value, &mut found)? { value.to_string() } else { text });
        }
        Ok(self.rules.redact(&text, &mut found)?.unwrap_or(text))
    }

    /// What is looked for where, as text: a thread that was looked at with other rules, or by a program that finds less, is
    /// looked at again.
    fn fingerprint(&self) -> String {
        let rules =
            format!("{FINDS} {} {} {} {}", self.input, self.output, self.tool_results, self.rules.fingerprint());
        Sha256::digest(rules).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The place of a message, where those there are looked at.
    fn place(&self, message: &Message) -> Option<RedactedPlace> {
        match message {
            Message::User(_) => self.input.then_some(RedactedPlace::Input),
            Message::Assistant(_) => self.output.then_some(RedactedPlace::Output),
            Message::Tool(_) => self.tool_results.then_some(RedactedPlace::ToolResult),
            _ => None,
        }
    }
}

fn told(cx: &Context, place: RedactedPlace, found: Found) {
    if !found.is_empty() {
        cx.report(MiddlewareEvent::Redacted { place, found });
    }
}

/// What the model is told of a result that a rule blocks.
fn withheld(blocked: &RedactionBlocked) -> String {
    format!("Error: the result was withheld: it holds {}.", listed(&blocked.found))
}

impl Middleware for Redaction {
    fn name(&self) -> &str {
        "Redaction"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Redacted>()]
    }

    fn receive_message(&self, mut message: Message) -> Result<Message> {
        if self.place(&message).is_some() {
            messages::redact_message(&mut message, &self.rules, &mut Found::new()).map_err(Error::other)?;
        }
        Ok(message)
    }

    fn receive_text(&self, text: String) -> Result<String> {
        if !self.input {
            return Ok(text);
        }
        self.text(text).map_err(Error::other)
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let (seen, by) = cx.get::<Redacted>();
        let fingerprint = self.fingerprint();
        let from = if by == fingerprint { seen } else { 0 };
        let mut ops = Vec::new();
        let mut found = Found::new();
        for message in cx.messages().tail(from) {
            if self.place(message).is_none() || message.id().is_empty() {
                continue;
            }
            let mut redacted = (**message).clone();
            if messages::redact_message(&mut redacted, &self.rules, &mut found).map_err(Error::other)? {
                ops.push(MessageOp::put(redacted));
            }
        }
        told(cx, RedactedPlace::History, found);
        let output = HookOutput::set::<Redacted>((cx.messages().len(), fingerprint));
        Ok(if ops.is_empty() { output } else { HookOutput::update(output.update.with::<MessagesChannel>(ops)) })
    }

    async fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
        if !self.output {
            return next.run(request).await;
        }
        let report: Arc<Mutex<Findings>> = Arc::default();
        let (rules, shared) = (self.rules.clone(), report.clone());
        let layered =
            next.layered(move |model| Arc::new(RedactedModel { model, rules: rules.clone(), report: shared.clone() }));
        let answer = layered.run(request).await;
        let Findings { found, blocked } = std::mem::take(&mut *report.lock().unwrap_or_else(PoisonError::into_inner));
        told(next.cx(), RedactedPlace::Output, found);
        match blocked {
            Some(blocked) => Err(Error::other(blocked)),
            None => answer,
        }
    }

    async fn wrap_tool_call(&self, mut request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        if !self.tool_results {
            return next.run(request).await;
        }
        let cx = request.cx.clone();
        let (rules, held) = (self.rules.clone(), Arc::new(Mutex::new(StreamRedactor::default())));
        let holding = held.clone();
        request.cx = cx.with_progress(move |text| {
            // What a rule blocks is not shown at all.
            let shown = holding.lock().unwrap_or_else(PoisonError::into_inner).push(&text, &rules).unwrap_or_default();
            (!shown.is_empty()).then_some(shown)
        });
        let answer = next.run(request).await;
        let left = held.lock().unwrap_or_else(PoisonError::into_inner).finish(&self.rules).unwrap_or_default();
        if !left.is_empty() {
            cx.progress(left);
        }
        let mut found = Found::new();
        let mut response = match answer {
            Ok(response) => response,
            // The words of an error that ends the call reach the model too.
            Err(Error::ToolCall { text, source }) => {
                let hidden = match self.rules.redact(&text, &mut found) {
                    Ok(hidden) => hidden,
                    Err(blocked) => Some(withheld(&blocked)),
                };
                told(&cx, RedactedPlace::ToolResult, found);
                return Err(Error::ToolCall {
                    source: source.filter(|_| hidden.is_none()),
                    text: hidden.unwrap_or(text),
                });
            }
            Err(error) => return Err(error),
        };
        let redacted = messages::redact_blocks(&mut response.content, &self.rules, &mut found).and_then(|changed| {
            let artifact = response.artifact.as_mut().map(|artifact| self.rules.redact_value(artifact, &mut found));
            Ok(artifact.transpose()?.unwrap_or_default() || changed)
        });
        told(&cx, RedactedPlace::ToolResult, found);
        match redacted {
            Ok(true) => response.source = None,
            Ok(false) => {}
            Err(blocked) => {
                (response.content, response.is_error) = (vec![Block::text(withheld(&blocked))], true);
                (response.artifact, response.source) = (None, None);
            }
        }
        Ok(response)
    }
}
