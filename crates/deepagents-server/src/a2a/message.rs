//! Messages from clients.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::record::TaskRecord;
use super::view::pauses;
use crate::app::App;
use crate::json::set;
use crate::rpc::{self, RpcError};
use crate::wire::OpenInterrupt;

/// Maximum length of a message id in bytes.
const MAX_ID: usize = 256;

#[derive(Deserialize)]
struct Params {
    message: Wire,
    #[serde(default)]
    configuration: Configuration,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    blocking: Option<bool>,
    /// The name and inverse meaning of `blocking` in version 1.0.
    return_immediately: Option<bool>,
    history_length: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    message_id: String,
    #[serde(default)]
    parts: Vec<Part>,
    context_id: Option<String>,
    task_id: Option<String>,
}

/// A part of a message. Version 0.3 has a `kind` and wraps files in an object; version 1.0 has only the content fields.
#[derive(Deserialize)]
#[serde(try_from = "WirePart")]
enum Part {
    Text { text: String },
    Data { data: Value },
    File { file: File },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePart {
    text: Option<String>,
    data: Option<Value>,
    file: Option<File>,
    raw: Option<String>,
    url: Option<String>,
    filename: Option<String>,
    media_type: Option<String>,
}

impl TryFrom<WirePart> for Part {
    type Error = &'static str;

    fn try_from(part: WirePart) -> Result<Self, &'static str> {
        let own = (part.raw.is_some() || part.url.is_some()).then_some(File {
            name: part.filename,
            mime_type: part.media_type,
            bytes: part.raw,
            uri: part.url,
        });
        match (part.text, part.data, part.file.or(own)) {
            (Some(text), None, None) => Ok(Self::Text { text }),
            (None, Some(data), None) => Ok(Self::Data { data }),
            (None, None, Some(file)) => Ok(Self::File { file }),
            _ => Err("a part must be text, data or a file"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    name: Option<String>,
    mime_type: Option<String>,
    bytes: Option<String>,
    uri: Option<String>,
}

/// A validated message.
pub(super) struct Message {
    pub(super) id: String,
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
    pub(super) blocking: bool,
    pub(super) history: Option<usize>,
    parts: Vec<Part>,
}

impl Message {
    pub(super) fn read(params: &Value) -> Result<Self, RpcError> {
        let Params { message, configuration } = rpc::params(params)?;
        if message.message_id.is_empty() || message.message_id.len() > MAX_ID {
            return Err(RpcError::invalid(format!("`messageId` must have 1 to {MAX_ID} bytes")));
        }
        if message.parts.is_empty() {
            return Err(RpcError::invalid("a message needs `parts`"));
        }
        Ok(Self {
            id: message.message_id,
            context: message.context_id.filter(|id| !id.is_empty()),
            task: message.task_id,
            blocking: configuration.blocking.unwrap_or(configuration.return_immediately != Some(true)),
            history: configuration.history_length,
            parts: message.parts,
        })
    }

    /// Builds the input of a run.
    pub(super) fn input(&self) -> Map<String, Value> {
        let blocks: Vec<Value> = self.parts.iter().map(block).collect();
        let content = match self.parts.as_slice() {
            [Part::Text { text }] => json!(text),
            _ => json!(blocks),
        };
        Map::from_iter([("messages".to_owned(), json!([{"role": "user", "content": content}]))])
    }

    /// Returns the value that resumes a task with pending interrupts. The message holds the decisions either as data,
    /// `{"resume": …}`, or in words.
    pub(super) async fn resume(&self, app: &App, task: &TaskRecord) -> Result<Value, RpcError> {
        let open = pauses(app, task).await?;
        if open.is_empty() {
            return Err(RpcError::invalid(
                "the task is not waiting for an answer; omit `taskId` to continue in its context",
            ));
        }
        let data = self.parts.iter().find_map(|part| match part {
            Part::Data { data } => data.get("resume").cloned(),
            _ => None,
        });
        if let Some(resume) = data {
            return Ok(resume);
        }
        let words: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let words = words.join("\n");
        let decisions: Result<Vec<Value>, RpcError> =
            open.iter().flat_map(requests).map(|allowed| decision(words.trim(), &allowed)).collect();
        Ok(json!({"decisions": decisions?}))
    }
}

/// Returns the allowed decisions for each call of an interrupt.
fn requests(open: &OpenInterrupt) -> Vec<Vec<String>> {
    let configs = open.value.get("review_configs").and_then(Value::as_array).into_iter().flatten();
    let allowed = |config: &Value| {
        let kinds = config.get("allowed_decisions").and_then(Value::as_array).into_iter().flatten();
        kinds.filter_map(|kind| kind.as_str().map(str::to_owned)).collect()
    };
    configs.map(allowed).collect()
}

/// Parses a decision in words: `approve`, `reject` followed by a reason, or otherwise a response in place of the call's
/// result.
fn decision(words: &str, allowed: &[String]) -> Result<Value, RpcError> {
    let (first, rest) = words.split_once([' ', ':', ',']).unwrap_or((words, ""));
    let may = |kind: &str| allowed.iter().any(|one| one == kind);
    match first.to_lowercase().as_str() {
        "approve" | "approved" | "yes" | "ok" if may("approve") && rest.trim().is_empty() => {
            Ok(json!({"type": "approve"}))
        }
        "reject" | "rejected" | "no" if may("reject") => {
            let reason = rest.trim();
            Ok(if reason.is_empty() { json!({"type": "reject"}) } else { json!({"type": "reject", "message": reason}) })
        }
        _ if may("respond") => Ok(json!({"type": "respond", "message": words})),
        _ => Err(RpcError::invalid(format!(
            "the task is waiting for one of: {}; send one of these words, or decisions as data, {{\"resume\": …}}",
            allowed.join(", ")
        ))),
    }
}

fn block(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Data { data } => json!({"type": "text", "text": data.to_string()}),
        Part::File { file } => {
            let mime = file.mime_type.as_deref().unwrap_or("application/octet-stream");
            let kind =
                mime.split('/').next().filter(|kind| ["image", "audio", "video"].contains(kind)).unwrap_or("file");
            let mut block = json!({"type": kind, "mime_type": mime});
            for (key, value) in [("base64", &file.bytes), ("url", &file.uri), ("filename", &file.name)] {
                if let Some(value) = value {
                    set(&mut block, key, value.as_str());
                }
            }
            block
        }
    }
}
