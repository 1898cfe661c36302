//! The contents of the model's context window.

use deepagents::State;
use deepagents::channels::MemoryContents;
use deepagents::core::message::{Author, Block, Message};

use super::{Result, Session};
use crate::text::grouped;

/// Width of the bar in cells.
const BAR_CELLS: u64 = 40;
/// The fill character of each part, in order.
const FILLS: [char; 6] = ['█', '▓', '▒', '░', '▞', '▪'];
/// The character for free space.
const FREE: char = '·';

/// A part of the request and its estimated tokens.
struct Part {
    name: &'static str,
    tokens: u64,
}

impl Session {
    /// Describes the contents of the context window: a bar, and a line for each part. The total is measured from the
    /// last request and its answer, if there was one. The shares of the parts are estimates.
    pub(super) async fn context(&self, used: u64) -> Result<String> {
        let connection = self.connection().await?;
        let explained = connection.agent.explain();
        let state = match self.thread() {
            Some(thread) => connection.agent.state(&thread).await.unwrap_or_default(),
            None => State::default(),
        };
        let notes = match state.get::<MemoryContents>() {
            Some(notes) => estimate_all(notes.values().map(|file| file.text.len())),
            None => 0,
        };
        let tokens = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let tools = explained.tools.iter().map(|tool| tokens(tool.tokens)).sum();
        let mut parts = vec![
            Part { name: "instructions", tokens: tokens(explained.system_tokens) },
            Part { name: "tools", tokens: tools },
            Part { name: "notes", tokens: notes },
        ];
        parts.extend(of_messages(state.messages().iter().map(|message| &**message)));
        fit(&mut parts, used);
        Ok(drawn(&parts, used, connection.window))
    }
}

/// Estimates the number of tokens of texts of these lengths.
fn estimate_all(lengths: impl Iterator<Item = usize>) -> u64 {
    lengths.map(|length| u64::try_from(length.div_ceil(4)).unwrap_or(u64::MAX)).sum()
}

fn of_messages<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Part> {
    let (mut yours, mut answers, mut results) = (0, 0, 0);
    for message in messages {
        let text = estimate_all([message.text().len()].into_iter());
        match message {
            Message::User(user) if user.author == Author::Human => yours += text,
            Message::Assistant(answer) => {
                let calls = answer.content.iter().map(|block| match block {
                    Block::ToolCall(call) => call.args.to_string().len(),
                    _ => 0,
                });
                answers += text + estimate_all(calls);
            }
            _ => results += text,
        }
    }
    vec![
        Part { name: "your messages", tokens: yours },
        Part { name: "answers and calls", tokens: answers },
        Part { name: "results", tokens: results },
    ]
}

/// Scales the parts so that they add up to the measured total, if there is one.
fn fit(parts: &mut [Part], used: u64) {
    let sum: u64 = parts.iter().map(|part| part.tokens).sum();
    if used == 0 || sum == 0 {
        return;
    }
    for part in parts {
        let share = u128::from(part.tokens) * u128::from(used) / u128::from(sum);
        part.tokens = u64::try_from(share).unwrap_or(u64::MAX);
    }
}

fn drawn(parts: &[Part], used: u64, window: Option<u64>) -> String {
    let sum: u64 = parts.iter().map(|part| part.tokens).sum();
    let all = if used > 0 { used } else { sum };
    let window = window.filter(|window| *window > 0);
    let whole = window.unwrap_or(all).max(1);
    let mut bar = String::new();
    let (mut so_far, mut cells) = (0_u64, 0);
    for (part, fill) in parts.iter().zip(FILLS) {
        so_far = so_far.saturating_add(part.tokens);
        // Cells are computed from the running total, so that rounding errors do not add up.
        let end = (u128::from(so_far) * u128::from(BAR_CELLS) / u128::from(whole)).min(u128::from(BAR_CELLS));
        let end = u64::try_from(end).unwrap_or(BAR_CELLS);
        bar.extend((cells..end).map(|_| fill));
        cells = end.max(cells);
    }
    bar.extend((cells..BAR_CELLS).map(|_| FREE));
    let mut out = match window {
        Some(window) => format!(
            "{bar} {} %\n{} of {} tokens in use",
            all.saturating_mul(100) / window,
            grouped(all),
            grouped(window)
        ),
        None => format!("{bar}\n{} tokens in use; the model's context window is not known", grouped(all)),
    };
    out += if used > 0 { ", about:" } else { ", estimated:" };
    for (part, fill) in parts.iter().zip(FILLS) {
        out += &format!("\n{fill} {:<20} {:>10}", part.name, grouped(part.tokens));
    }
    if let Some(window) = window {
        out += &format!("\n{FREE} {:<20} {:>10}", "free", grouped(window.saturating_sub(all)));
    }
    out
}
