//! `deepagents threads show` and `export`.

use anyhow::Result;
use deepagents::core::journal::{Journal, ThreadInfo, encode};
use deepagents::core::message::Author;
use deepagents::{Block, DeepAgent, Message, State};
use serde_json::{Value, json};

use super::list;
use crate::render::style::printable;
use crate::render::{tool_error, tool_line};

/// The conversation, as text or as JSON.
pub(super) async fn show(agent: &DeepAgent, info: &ThreadInfo, at: Option<u64>, as_json: bool) -> Result<String> {
    let state = match at {
        Some(position) => agent.state_at(&info.id, position).await?,
        None => agent.state(&info.id).await?,
    };
    if as_json {
        return Ok(serde_json::to_string_pretty(&json!({"thread": list::info(info), "state": state.to_json(false)?}))?);
    }
    let mut out = format!("thread {} · {} · {} records\n", info.id, list::standing(info), info.end);
    for message in state.messages().iter() {
        out += &said(message, &state);
    }
    Ok(printable(out.trim_end()).into_owned())
}

/// A message as a person reads it. The result of a call is shown with the call.
fn said(message: &Message, state: &State) -> String {
    let mut out = String::new();
    match message {
        Message::User(user) if user.author == Author::Harness => {}
        Message::User(_) => out += &format!("\n> {}\n", message.text().trim_end().replace('\n', "\n> ")),
        Message::Assistant(answer) => {
            let text = answer.text();
            if !text.trim().is_empty() {
                out += &format!("\n{}\n", text.trim());
            }
            for block in &answer.content {
                let Block::ToolCall(call) = block else { continue };
                let results = state.messages().iter().filter_map(|message| message.as_tool());
                let result = results.into_iter().find(|result| result.call_id == call.id);
                let line = tool_line(&call.name, &call.args);
                out += &match result {
                    Some(result) if result.is_error => {
                        format!("✗ {line}  {}\n", tool_error(&Message::Tool(result.clone()).text()))
                    }
                    Some(_) => format!("✓ {line}\n"),
                    None => format!("… {line}\n"),
                };
            }
        }
        _ => {}
    }
    out
}

/// The thread with its state and its log.
pub(super) async fn export(agent: &DeepAgent, journal: &dyn Journal, info: &ThreadInfo) -> Result<String> {
    let state = agent.state(&info.id).await?.to_json(true)?;
    let mut records = Vec::new();
    for entry in journal.read(&info.id, 0..info.end).await? {
        let record: Value = serde_json::from_str(&encode(&entry.record)?)?;
        records.push(json!({"position": entry.position, "at": entry.at.to_string(), "record": record}));
    }
    let document = json!({"v": 1, "thread": list::info(info), "state": state, "records": records});
    Ok(serde_json::to_string_pretty(&document)?)
}
