//! Redaction of personal data and secrets before they are stored, sent or shown.

mod detector;
mod messages;
mod model;
mod rules;
mod span;
mod stream;

use std::sync::{Arc, Mutex};

use deepagents_core::error::{Error, Result};
use deepagents_core::event::{MiddlewareEvent, RedactedPlace};
use deepagents_core::message::{Block, Message, MessageOp};
use deepagents_core::middleware::{
    HookOutput, Middleware, ModelNext, ModelResponse, ToolNext, ToolRequest, ToolResponse, on_text,
};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, MessagesChannel};

use crate::blocked::listed;
use crate::digest::sha256_hex;
use crate::shared::lock;
use model::{Findings, RedactedModel};
use rules::{Rule, Rules};
use span::Found;
use stream::StreamRedactor;

pub use crate::blocked::RedactionBlocked;
pub use detector::{Detector, FunctionDetector};
pub use rules::{HashKey, Strategy};

/// Default maximum length in bytes of custom matches in streamed answers.
const DEFAULT_MAX_MATCH_BYTES: usize = 256;

/// Version of the built-in detectors; increment it when they find more.
const DETECTORS_VERSION: u32 = 2;

deepagents_core::last_value!(
    /// Number of messages checked, and the fingerprint of the rules.
    Redacted("redacted"): (usize, String) => private
);

/// Redacts personal data and secrets: in messages of people before they are stored, in answers of the model and the
/// arguments of its calls before any part of them is shown, and in results of tools before they are written to files or
/// reported.
///
/// All detectors are applied together, and overlapping matches are hidden as one. By default, only input is checked.
/// Messages of earlier runs without this middleware are rewritten at the start of a run.
///
/// Add it to the builder with [`redaction`](crate::DeepAgentBuilder::redaction), which places it so that no other
/// middleware sees what it hides, and adds it to sub-agents built from a spec. Files written by tools and the contents
/// of memory are not checked until a tool reads them.
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
        let rules = Arc::new(Rules { rules: Vec::new(), max_match_bytes: DEFAULT_MAX_MATCH_BYTES });
        Self { rules, input: true, output: false, tool_results: false }
    }
}

impl Redaction {
    /// Creates a middleware without detectors that checks input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Detects keys, tokens and private keys in input, answers and tool results.
    pub fn secrets() -> Self {
        Self::new().hide(Detector::ApiKey).hide(Detector::PrivateKey).output(true).tool_results(true)
    }

    /// Replaces matches with a mark.
    #[must_use]
    pub fn hide(self, detector: Detector) -> Self {
        self.with(detector, Strategy::Redact)
    }

    /// Applies this strategy to matches.
    #[must_use]
    pub fn with(self, detector: Detector, strategy: Strategy) -> Self {
        let name = detector.name();
        self.named(name, detector, strategy)
    }

    /// Applies this strategy to matches, with a custom name in marks and events.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>, detector: Detector, strategy: Strategy) -> Self {
        Arc::make_mut(&mut self.rules).rules.push(Rule { name: name.into(), detector, strategy });
        self
    }

    crate::shared::setters! {
        /// Sets whether messages of people are checked. On by default.
        input(on: bool) => input = on;

        /// Sets whether answers of the model and the arguments of its calls are checked; tools then receive the
        /// redacted arguments. Off by default. Streamed text is delayed by a word, and arguments until they are
        /// complete.
        output(on: bool) => output = on;

        /// Sets whether results and progress reports of tools are checked. Off by default.
        tool_results(on: bool) => tool_results = on;
    }

    /// Sets the maximum length in bytes of custom matches; 256 by default. This much of a streamed answer is held back.
    /// The built-in detectors do not need it.
    #[must_use]
    pub fn longest_match(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.rules).max_match_bytes = bytes;
        self
    }

    /// Redacts a text, regardless of whether input, answers and results are checked: for text that the application
    /// itself stores, such as the title of a conversation.
    ///
    /// # Errors
    /// Returns an error if a match is to be blocked.
    pub fn text(&self, text: String) -> std::result::Result<String, RedactionBlocked> {
        let mut found = Found::new();
        // Answers to several questions are JSON, which must stay valid JSON.
        let structured =
            text.starts_with(['{', '[']).then(|| serde_json::from_str::<serde_json::Value>(&text).ok()).flatten();
        if let Some(mut value) = structured {
            return Ok(if self.rules.redact_value(&mut value, &mut found)? { value.to_string() } else { text });
        }
        Ok(self.rules.redact(&text, &mut found)?.unwrap_or(text))
    }

    /// Returns a fingerprint of the rules and of what is checked. A thread that was checked with other rules or an
    /// older version is checked again.
    fn fingerprint(&self) -> String {
        let rules = self.rules.fingerprint();
        let rules = format!("{DETECTORS_VERSION} {} {} {} {rules}", self.input, self.output, self.tool_results);
        sha256_hex(rules, 16)
    }

    /// Returns the place of a message if such messages are checked.
    fn place(&self, message: &Message) -> Option<RedactedPlace> {
        match message {
            Message::User(_) => self.input.then_some(RedactedPlace::Input),
            Message::Assistant(_) => self.output.then_some(RedactedPlace::Output),
            Message::Tool(_) => self.tool_results.then_some(RedactedPlace::ToolResult),
            _ => None,
        }
    }
}

fn report_redaction(cx: &Context, place: RedactedPlace, found: Found) {
    if !found.is_empty() {
        cx.report(MiddlewareEvent::Redacted { place, found });
    }
}

/// Returns the result with all matches hidden, and the matches.
fn redacted_result(mut response: ToolResponse, rules: &Rules) -> (ToolResponse, Found) {
    let mut found = Found::new();
    let redacted = messages::redact_blocks(&mut response.content, rules, &mut found).and_then(|changed| {
        let artifact = response.artifact.as_mut().map(|artifact| rules.redact_value(artifact, &mut found));
        Ok(artifact.transpose()?.unwrap_or_default() || changed)
    });
    match redacted {
        Ok(true) => response.source = None,
        Ok(false) => {}
        Err(blocked) => {
            (response.content, response.is_error) = (vec![Block::text(blocked_notice(&blocked))], true);
            (response.artifact, response.source) = (None, None);
        }
    }
    (response, found)
}

/// Returns the text for the model in place of a blocked result.
fn blocked_notice(blocked: &RedactionBlocked) -> String {
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
        let from = if fingerprint == by { seen } else { 0 };
        let is_meant = |message: &&Arc<Message>| self.place(message).is_some() && !message.id().is_empty();
        let given: Vec<Arc<Message>> = cx.messages().tail(from).filter(is_meant).cloned().collect();
        let bytes = given.iter().map(|message| messages::bytes_of(message.content())).sum();
        // New messages were blocked before they were stored. One that is stored must not end all later runs.
        let rules = self.rules.without_blocking();
        let looked = on_text(bytes, move || {
            let (mut ops, mut found) = (Vec::new(), Found::new());
            for message in given {
                let mut redacted = (*message).clone();
                if messages::redact_message(&mut redacted, &rules, &mut found)? {
                    ops.push(MessageOp::put(redacted));
                }
            }
            Ok::<_, RedactionBlocked>((ops, found))
        });
        let (ops, found) = looked.await.map_err(Error::other)?;
        report_redaction(cx, RedactedPlace::History, found);
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
        let Findings { found, blocked } = std::mem::take(&mut *lock(&report));
        report_redaction(next.cx(), RedactedPlace::Output, found);
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
            // Text that a rule blocks is not shown at all.
            let shown = lock(&holding).push(&text, &rules).unwrap_or_default();
            (!shown.is_empty()).then_some(shown)
        });
        let answer = next.run(request).await;
        let mut left = std::mem::take(&mut *lock(&held));
        let rules = self.rules.clone();
        let left = on_text(left.len(), move || left.finish(&rules).unwrap_or_default()).await;
        if !left.is_empty() {
            cx.progress(left);
        }
        let rules = self.rules.clone();
        let (answer, found) = match answer {
            Ok(response) => {
                let artifact = response.artifact.as_ref().map_or(0, messages::bytes_of_value);
                let bytes = messages::bytes_of(&response.content) + artifact;
                let (response, found) = on_text(bytes, move || redacted_result(response, &rules)).await;
                (Ok(response), found)
            }
            // The text of an error that ends the call reaches the model too.
            Err(Error::ToolCall { text, source }) => {
                let bytes = text.len();
                let redact = move || {
                    let mut found = Found::new();
                    let hidden =
                        rules.redact(&text, &mut found).unwrap_or_else(|blocked| Some(blocked_notice(&blocked)));
                    (text, hidden, found)
                };
                let (text, hidden, found) = on_text(bytes, redact).await;
                let source = source.filter(|_| hidden.is_none());
                (Err(Error::ToolCall { source, text: hidden.unwrap_or(text) }), found)
            }
            Err(error) => return Err(error),
        };
        report_redaction(&cx, RedactedPlace::ToolResult, found);
        answer
    }
}
