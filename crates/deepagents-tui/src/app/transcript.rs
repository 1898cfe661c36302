//! What has been said and done, as it is shown.

use std::sync::Arc;
use std::time::Duration;

use deepagents::channels::Todo;
use deepagents::core::message::{Author, Block, Media, MediaKind, MediaSource, Message};
use deepagents::core::run::interrupted_words;
use serde_json::Value;

use crate::session::images::described;

/// What is said behind an answer that a person has interrupted.
const INTERRUPTED: &str = "interrupted";
/// Pictures whose bytes are kept.
const PICTURES: usize = 8;

/// One finished part of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// The program's own head.
    Head { lines: Vec<String> },
    /// A person's words.
    User(String),
    /// An answer, Markdown.
    Answer(String),
    /// What the model thought.
    Thinking(String),
    /// A tool call and its result.
    Call(Call),
    /// How a file would change.
    FileDiff { title: String, old: String, new: String },
    /// A picture in a message or a result.
    Picture(Picture),
    /// The work of a sub-agent.
    Agent(AgentWork),
    /// A command of the person.
    Shell { command: String, output: String, code: Option<i32>, shared: bool },
    /// The plan.
    Todos(Vec<Todo>),
    /// The program says something.
    Note { text: String, bad: bool },
    /// What a command of the person came to: a title and lines.
    Card { title: String, body: String },
}

impl Item {
    /// Whether it is one of the messages of the thread, and not the program's own.
    pub(crate) fn is_of_thread(&self) -> bool {
        matches!(
            self,
            Self::User(_) | Self::Answer(_) | Self::Thinking(_) | Self::Call(_) | Self::Picture(_) | Self::Agent(_)
        )
    }
}

/// A tool call and its result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: Value,
    pub(crate) result: String,
    pub(crate) failed: bool,
    /// The text of the file before, where it was read.
    pub(crate) file: Option<String>,
}

/// A picture in a message or a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    /// What it is, in words.
    pub(crate) about: String,
    /// Its bytes as base64, as whoever sent it wrote them, while they are kept.
    pub(crate) data: Option<Arc<str>>,
}

impl Picture {
    /// One that the person sends along.
    pub(crate) fn sent(media: &Media) -> Self {
        Self { about: format!("with the image {}", described(media)), ..Self::of_result(media) }
    }

    /// One in the result of a call.
    fn of_result(media: &Media) -> Self {
        let data = match &media.source {
            MediaSource::Base64(data) => Some(data.as_str().into()),
            _ => None,
        };
        Self { about: format!("image {}", described(media)), data }
    }
}

/// The pictures in a result.
pub(crate) fn pictures_of(content: &[Block]) -> impl Iterator<Item = Picture> {
    images(content).map(Picture::of_result)
}

fn images(content: &[Block]) -> impl Iterator<Item = &Media> {
    content.iter().filter_map(|block| match block {
        Block::Media(media) if media.kind == MediaKind::Image => Some(media),
        _ => None,
    })
}

/// Lets go of the bytes of all but the last pictures.
pub(crate) fn forget_pictures(items: &mut [Item]) {
    let pictures = items.iter_mut().rev().filter_map(|item| match item {
        Item::Picture(picture) => Some(picture),
        _ => None,
    });
    // Those before one that is forgotten are forgotten already.
    for picture in pictures.skip(PICTURES) {
        if picture.data.take().is_none() {
            break;
        }
    }
}

/// What a sub-agent did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AgentWork {
    pub(crate) name: String,
    pub(crate) task: String,
    pub(crate) items: Vec<Item>,
    pub(crate) answer: String,
    pub(crate) failed: bool,
    pub(crate) calls: usize,
    pub(crate) tokens: u64,
    /// What they have cost, as far as that is known.
    pub(crate) dollars: f64,
    pub(crate) elapsed: Option<Duration>,
    /// Whether the call that runs it has no result yet.
    pub(crate) is_open: bool,
}

/// The parts that the messages of a thread are shown as.
pub(crate) fn items_of<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Item> {
    laid_out(messages).0
}

/// The same as far as it will not change: without the first call that waits for its result, and what is behind it.
pub(crate) fn settled_items_of<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Item> {
    let (mut items, open) = laid_out(messages);
    items.truncate(open.unwrap_or(usize::MAX));
    items
}

/// What is shown of messages, and where among it the first call is that has no result.
fn laid_out<'a>(messages: impl Iterator<Item = &'a Message>) -> (Vec<Item>, Option<usize>) {
    let mut items: Vec<Item> = Vec::new();
    // Calls by their ids that wait for their results.
    let mut open: Vec<(String, usize)> = Vec::new();
    for message in messages {
        match message {
            Message::User(user) if user.author == Author::Human => {
                items.push(Item::User(message.text()));
                items.extend(images(&user.content).map(Picture::sent).map(Item::Picture));
            }
            Message::User(_) => {}
            Message::Assistant(answer) => {
                for block in &answer.content {
                    match block {
                        Block::Text(text) if !text.text.trim().is_empty() => {
                            let words = interrupted_words(&text.text);
                            items.push(Item::Answer(words.unwrap_or(&text.text).to_owned()));
                            items.extend(words.map(|_| Item::Note { text: INTERRUPTED.to_owned(), bad: false }));
                        }
                        Block::Reasoning(thought) if !thought.text.trim().is_empty() => {
                            items.push(Item::Thinking(thought.text.clone()));
                        }
                        Block::ToolCall(call) => {
                            open.push((call.id.clone(), items.len()));
                            items.push(Item::Call(Call {
                                name: call.name.clone(),
                                args: call.args.clone(),
                                ..Call::default()
                            }));
                        }
                        Block::InvalidToolCall(call) => {
                            open.push((call.id.clone(), items.len()));
                            items.push(Item::Call(Call {
                                name: call.name.clone(),
                                args: Value::String(call.raw.clone()),
                                ..Call::default()
                            }));
                        }
                        _ => {}
                    }
                }
            }
            Message::Tool(result) => {
                let at = open.iter().position(|(id, _)| *id == result.call_id).map(|at| open.swap_remove(at).1);
                if let Some(Item::Call(call)) = at.and_then(|at| items.get_mut(at)) {
                    call.result = message.text();
                    call.failed = result.is_error;
                }
                items.extend(pictures_of(&result.content).map(Item::Picture));
            }
            _ => {}
        }
    }
    forget_pictures(&mut items);
    for (at, item) in items.iter_mut().enumerate() {
        if let Item::Call(call) = item
            && call.name == "task"
        {
            *item = Item::Agent(AgentWork {
                name: text_arg(&call.args, "subagent_type").to_owned(),
                task: text_arg(&call.args, "description").to_owned(),
                answer: std::mem::take(&mut call.result),
                failed: call.failed,
                is_open: open.iter().any(|(_, open)| *open == at),
                ..AgentWork::default()
            });
        }
    }
    (items, open.into_iter().map(|(_, at)| at).min())
}

/// A text among the arguments of a call; empty where there is none.
pub(crate) fn text_arg<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}
