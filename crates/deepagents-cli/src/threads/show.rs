//! `deepagents threads show` and `export`.

use std::collections::HashMap;

use anyhow::{Result, bail};
use deepagents::core::agent::ThreadAccess;
use deepagents::core::journal::{Journal, SubAgentInfo, ThreadInfo, encode};
use deepagents::core::message::Author;
use deepagents::core::run::interrupted_words;
use deepagents::{Block, Message, State};
use serde_json::{Value, json};

use super::database::tasks_of;
use super::decisions::{self, Decided};
use super::list;
use crate::exit::WrongUsage;
use crate::render::style::printable;
use crate::render::{json_text, tool_failure, tool_line};

/// Returns the conversation, as text or as JSON.
pub(super) async fn show(
    threads: &ThreadAccess,
    journal: &dyn Journal,
    info: &ThreadInfo,
    at: Option<u64>,
    as_json: bool,
) -> Result<String> {
    let state = match at {
        Some(position) => threads.state_at(&info.id, position).await?,
        None => threads.state(&info.id).await?,
    };
    let mut sub_agents = threads.sub_agents(&info.id).await?;
    sub_agents.retain(|agent| at.is_none_or(|at| agent.start < at));
    let decided = decisions::of_thread(journal, info).await?;
    if as_json {
        let sub_agents: Vec<Value> = sub_agents.iter().map(described).collect();
        let document = json!({
            "thread": list::info(info),
            "state": state.to_json(false)?,
            "sub_agents": sub_agents,
            "decisions": decided,
        });
        return Ok(json_text(&document)?);
    }
    let mut out = format!("thread {} · {} · {} records\n", info.id, list::standing(info), info.end);
    out += &conversation(&state);
    if !decided.is_empty() {
        let lines: Vec<String> = decided.iter().map(Decided::line).collect();
        out += &format!("\ndecisions:\n{}\n", lines.join("\n"));
    }
    if !sub_agents.is_empty() {
        out += "\nsub-agents (show one with --path):\n";
        for SubAgentInfo { path, agent, status, .. } in &sub_agents {
            out += &format!("  {}  {agent}  {}\n", path.join("/"), status.as_str());
        }
    }
    Ok(printable(out.trim_end()).into_owned())
}

/// Returns the conversation of a sub-agent, as text or as JSON.
pub(super) async fn sub_agent(threads: &ThreadAccess, info: &ThreadInfo, path: &str, as_json: bool) -> Result<String> {
    let path: Vec<String> = path.split('/').map(str::to_owned).collect();
    let all = threads.sub_agents(&info.id).await?;
    let Some(found) = all.iter().find(|known| known.path == path) else {
        let known: Vec<String> = all.iter().map(|known| known.path.join("/")).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        bail!(WrongUsage::new(format!("thread {} has no sub-agent {}: {known}", info.id, path.join("/"))));
    };
    let state = threads.sub_agent_state(&info.id, &path).await?;
    if as_json {
        let document =
            json!({"thread": list::info(info), "sub_agent": described(found), "state": state.to_json(false)?});
        return Ok(json_text(&document)?);
    }
    let (place, status) = (path.join("/"), found.status.as_str());
    let out = format!("thread {} · {place} · {} · {status}\n{}", info.id, found.agent, conversation(&state));
    Ok(printable(out.trim_end()).into_owned())
}

fn described(agent: &SubAgentInfo) -> Value {
    json!({"path": agent.path, "agent": agent.agent, "status": agent.status.as_str(), "start": agent.start})
}

fn conversation(state: &State) -> String {
    let (mut parts, mut results) = (Vec::new(), HashMap::new());
    // Results come after their calls. Providers may reuse the IDs of calls in earlier answers.
    for message in state.messages().iter().rev() {
        match &**message {
            Message::Tool(result) => {
                results.insert(&*result.call_id, message.as_ref());
            }
            _ => parts.push(format_message(message, &results)),
        }
        if message.as_assistant().is_some() {
            results.clear();
        }
    }
    parts.into_iter().rev().collect()
}

/// Formats a message. The result of a call is shown with the call.
fn format_message(message: &Message, results: &HashMap<&str, &Message>) -> String {
    let mut out = String::new();
    match message {
        Message::User(user) if user.author == Author::Harness => {}
        Message::User(_) => out += &format!("\n> {}\n", message.text().trim_end().replace('\n', "\n> ")),
        Message::Assistant(answer) => {
            let text = answer.text();
            let interrupted = interrupted_words(&text);
            let words = interrupted.unwrap_or(&text).trim();
            if !words.is_empty() {
                out += &format!("\n{words}\n");
            }
            if interrupted.is_some() {
                out += "· interrupted\n";
            }
            for block in &answer.content {
                let Block::ToolCall(call) = block else { continue };
                let line = tool_line(&call.name, &call.args);
                let result = results.get(&*call.id).and_then(|result| Some((result.as_tool()?, result.text())));
                let failure = result.map(|(result, text)| tool_failure(&result.name, result.is_error, &text));
                out += &match failure {
                    Some(Some(failure)) => format!("✗ {line}  {failure}\n"),
                    Some(None) => format!("✓ {line}\n"),
                    None => format!("… {line}\n"),
                };
            }
        }
        _ => {}
    }
    out
}

/// Returns the thread with its state and its log.
pub(super) async fn export(threads: &ThreadAccess, journal: &dyn Journal, info: &ThreadInfo) -> Result<String> {
    Ok(json_text(&exported(threads, journal, info).await?)?)
}

async fn exported(threads: &ThreadAccess, journal: &dyn Journal, info: &ThreadInfo) -> Result<Value> {
    let state = threads.state(&info.id).await?.to_json(true)?;
    let mut records = Vec::new();
    for entry in journal.read(&info.id, 0..info.end).await? {
        let record: Value = serde_json::from_str(&encode(&entry.record)?)?;
        records.push(json!({"position": entry.position, "at": entry.at.to_string(), "record": record}));
    }
    let mut children = Vec::new();
    for task in tasks_of(journal, info).await? {
        children.push(Box::pin(exported(threads, journal, &task)).await?);
    }
    let mut document = json!({"v": 1, "thread": list::info(info), "state": state, "records": records});
    if let (Some(fields), false) = (document.as_object_mut(), children.is_empty()) {
        fields.insert("children".to_owned(), children.into());
    }
    Ok(document)
}
