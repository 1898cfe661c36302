//! The scenario files.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use deepagents::core::message::{AssistantMessage, ToolMessage};
use deepagents::fs::permissions::Rule;
use deepagents::{Block, InterruptPolicy, Message};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    #[serde(default = "anthropic")]
    pub(crate) provider: String,
    pub(crate) agent: AgentSpec,
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) steps: Vec<StepSpec>,
}

fn anthropic() -> String {
    "anthropic".to_owned()
}

#[derive(Deserialize)]
pub(crate) struct AgentSpec {
    pub(crate) model: Option<String>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) recursion_limit: Option<u32>,
    #[serde(default = "yes")]
    pub(crate) todo: bool,
    #[serde(default)]
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) backend: Option<BackendSpec>,
    pub(crate) response_format: Option<Value>,
    pub(crate) memory: Option<Vec<String>>,
    pub(crate) skills: Option<Vec<String>>,
    pub(crate) interrupt_on: Option<InterruptPolicy>,
    #[serde(default)]
    pub(crate) permissions: Vec<Rule>,
    pub(crate) evict: Option<usize>,
    #[serde(default)]
    pub(crate) subagents: Vec<SubAgentEntry>,
    pub(crate) summarization: Option<SummarizationSpec>,
    /// Parts of an agent that this runner does not support.
    #[serde(flatten)]
    pub(crate) other: BTreeMap<String, Value>,
}

fn yes() -> bool {
    true
}

/// A unit of size and a number.
type SizeSpec = (String, Value);

#[derive(Deserialize)]
pub(crate) struct SummarizationSpec {
    pub(crate) trigger: Option<SizeSpec>,
    pub(crate) keep: Option<SizeSpec>,
    pub(crate) truncate_args: Option<TruncateArgsSpec>,
}

#[derive(Deserialize)]
pub(crate) struct TruncateArgsSpec {
    pub(crate) trigger: Option<SizeSpec>,
    pub(crate) keep: Option<SizeSpec>,
    pub(crate) max_length: Option<usize>,
    pub(crate) truncation_text: Option<String>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct ToolSpec {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    pub(crate) parameters: Value,
    #[serde(default)]
    pub(crate) returns: String,
    pub(crate) raises: Option<String>,
    pub(crate) repeat: Option<usize>,
    #[serde(default)]
    pub(crate) subagent_only: bool,
}

/// A sub-agent: the fields that differ from the library's format, and the rest unchanged.
#[derive(Deserialize)]
pub(crate) struct SubAgentEntry {
    /// Names of scenario tools, in addition to the built-in ones.
    pub(crate) tools: Option<Vec<String>>,
    /// A model of the scenario's provider.
    pub(crate) model: Option<String>,
    pub(crate) response_format: Option<Value>,
    #[serde(flatten)]
    pub(crate) spec: Map<String, Value>,
}

#[derive(Deserialize)]
pub(crate) struct BackendSpec {
    pub(crate) kind: String,
    pub(crate) namespace: Option<Vec<String>>,
    pub(crate) default: Option<Box<BackendSpec>>,
    #[serde(default)]
    pub(crate) routes: BTreeMap<String, BackendSpec>,
}

impl BackendSpec {
    /// Creates a specification of files in the thread's state.
    pub(crate) fn state() -> Self {
        Self { kind: "state".to_owned(), namespace: None, default: None, routes: BTreeMap::new() }
    }

    /// Whether any files are in the state.
    pub(crate) fn has_state(&self) -> bool {
        match self.kind.as_str() {
            "composite" => {
                self.default.as_ref().is_none_or(|default| default.has_state())
                    || self.routes.values().any(Self::has_state)
            }
            kind => kind == "state",
        }
    }

    /// Whether files that match no route are on disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        match (self.kind.as_str(), &self.default) {
            ("composite", Some(default)) => default.is_on_disk(),
            (kind, _) => matches!(kind, "filesystem" | "local_shell"),
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct StepSpec {
    pub(crate) input: Option<InputSpec>,
    pub(crate) resume: Option<ResumeSpec>,
    pub(crate) thread: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ResumeSpec {
    pub(crate) decisions: Vec<Value>,
}

#[derive(Deserialize)]
pub(crate) struct InputSpec {
    pub(crate) messages: Vec<MessageSpec>,
}

#[derive(Deserialize)]
pub(crate) struct MessageSpec {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Vec<CallSpec>,
    tool_call_id: Option<String>,
    /// `error` if the call failed.
    status: Option<String>,
}

#[derive(Deserialize)]
struct CallSpec {
    id: String,
    name: String,
    args: Value,
}

/// Converts the input of a step. Results take the names of their tools from the preceding calls.
pub(crate) fn messages(specs: &[MessageSpec]) -> Result<Vec<Message>> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    specs
        .iter()
        .map(|spec| {
            let text = text(&spec.content)?;
            names.extend(spec.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
            Ok(match spec.role.as_str() {
                "user" | "human" => Message::user(text),
                "assistant" | "ai" => {
                    let text = (!text.is_empty()).then(|| Block::text(text));
                    let calls = spec.tool_calls.iter().map(|c| Block::call(&c.id, &c.name, c.args.clone()));
                    Message::Assistant(AssistantMessage::new(text.into_iter().chain(calls).collect()))
                }
                "tool" => {
                    let id = spec.tool_call_id.as_deref().context("a tool message without tool_call_id")?;
                    Message::Tool(ToolMessage {
                        call_id: id.to_owned(),
                        name: names.get(id).copied().unwrap_or_default().to_owned(),
                        content: vec![Block::text(text)],
                        is_error: spec.status.as_deref() == Some("error"),
                        ..ToolMessage::default()
                    })
                }
                other => bail!("messages of role `{other}` are not known"),
            })
        })
        .collect()
}

fn text(content: &Value) -> Result<String> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let texts: Option<Vec<&str>> = blocks.iter().map(|b| b.get("text").and_then(Value::as_str)).collect();
            Ok(texts.context("only text blocks are known")?.join("\n"))
        }
        _ => bail!("content is neither text nor blocks"),
    }
}
