//! Conversations stay within the model's window.

mod archive;
mod kept;
mod long_run;
mod media;
mod overflow;
mod settings;
mod sizes;
mod view;

use deepagents::channels::Files;
use deepagents::core::message::AssistantMessage;
use deepagents::core::model::ModelProfile;
use deepagents::middleware::summarization::{Size, SummarizationOptions, Trigger};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Block, Message, ModelRequest, Outcome, Usage};
use serde_json::{Value, json};

/// A model with a separate script for summaries, which are requests without tools.
fn model(summaries: impl IntoIterator<Item = Turn>, turns: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    ScriptedModel::rules().when(|request| request.tools.is_empty(), summaries).otherwise(turns).build()
}

/// A model that responds to everything with a few words, including summaries.
fn talker() -> ScriptedModel {
    let answer = |request: &ModelRequest| Turn::text(if request.tools.is_empty() { "A SUMMARY" } else { "All right." });
    ScriptedModel::rules().always(Turn::with(answer)).build()
}

fn window(tokens: u64) -> ModelProfile {
    let mut profile = ModelProfile::default();
    profile.context_window = Some(tokens);
    profile
}

fn by_messages(trigger: usize, keep: usize) -> SummarizationOptions {
    SummarizationOptions::default().trigger(Trigger::messages(trigger)).keep(Size::Messages(keep))
}

/// A conversation in short form: `H` and `A` are messages with their position, `A2` makes two calls with results.
fn conversation(words: &str) -> Vec<Message> {
    let mut out = Vec::new();
    for (at, word) in words.split(' ').enumerate() {
        match word {
            "H" => out.push(Message::user(format!("question {at}"))),
            "A" => out.push(Message::assistant(format!("answer {at}"))),
            calls => {
                let count: usize = calls.trim_start_matches('A').parse().unwrap();
                let calls: Vec<Block> =
                    (0..count).map(|n| Block::call(format!("c{at}_{n}"), "ls", json!({"path": "/"}))).collect();
                let answer = AssistantMessage::new(calls);
                let results: Vec<Message> =
                    answer.tool_calls().map(|call| Message::tool(call, format!("listing {}", call.id))).collect();
                out.push(Message::Assistant(answer));
                out.extend(results);
            }
        }
    }
    out
}

/// The requests for summaries, and the others.
fn requests(model: &ScriptedModel) -> (Vec<ModelRequest>, Vec<ModelRequest>) {
    model.requests().into_iter().partition(|request| request.tools.is_empty())
}

/// The texts of a request, one per message.
fn texts(request: &ModelRequest) -> Vec<String> {
    request
        .messages
        .iter()
        .map(|m| match &**m {
            Message::Assistant(a) if a.has_calls() => a.call_ids().collect::<Vec<_>>().join(" "),
            m => m.text(),
        })
        .collect()
}

/// Everything in a request, including system prompt and arguments.
fn everything(request: &ModelRequest) -> String {
    format!("{}\n{}", request.system_text(), serde_json::to_string(&request.messages).unwrap())
}

/// The history files in the state, concatenated.
fn history(outcome: &Outcome) -> String {
    let files = outcome.state.get::<Files>().unwrap();
    let of_history = files.iter().filter(|(path, _)| path.as_str().starts_with("/conversation_history/"));
    of_history.map(|(_, file)| String::from_utf8_lossy(file.content().bytes()).into_owned()).collect()
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}
