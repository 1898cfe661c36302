//! The displayed parts of a conversation.

use std::sync::Arc;
use std::time::Duration;

use deepagents::channels::Todo;
use deepagents::core::message::{Author, Block, Media, MediaKind, MediaSource, Message};
use deepagents::core::run::interrupted_words;
use serde_json::Value;

use crate::session::images::described;

/// The notice after an answer that the user has interrupted.
const INTERRUPTED: &str = "interrupted";
/// Maximum number of images whose data is kept.
const MAX_IMAGES: usize = 8;

/// A finished part of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// The program's banner.
    Head { lines: Vec<String> },
    /// A message of the user.
    User(String),
    /// An answer, in Markdown.
    Answer(String),
    /// What had arrived of an answer that broke off, in Markdown. The thread does not contain it.
    CutAnswer(String),
    /// A thought of the model.
    Thinking(String),
    /// A tool call and its result.
    Call(Call),
    /// A change of a file.
    FileDiff { title: String, old: String, new: String },
    /// An image in a message or a result.
    Picture(Picture),
    /// The work of a sub-agent.
    Agent(AgentWork),
    /// A shell command of the user.
    Shell { command: String, output: String, code: Option<i32>, shared: bool },
    /// The to-do list.
    Todos(Vec<Todo>),
    /// A notice of the program.
    Note { text: String, bad: bool },
    /// The result of a slash command: a title and lines.
    Card { title: String, body: String },
}

impl Item {
    /// Returns whether this is a message of the thread, and not the program's own.
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
}

/// An image in a message or a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picture {
    /// Its description.
    pub(crate) about: String,
    /// Its data in base64, as received, while it is kept.
    pub(crate) data: Option<Arc<str>>,
}

impl Picture {
    /// Creates the picture of an image that the user sends.
    pub(crate) fn sent(media: &Media) -> Self {
        Self { about: format!("with the image {}", described(media)), ..Self::of_result(media) }
    }

    /// Creates the picture of an image in a tool result.
    fn of_result(media: &Media) -> Self {
        let data = match &media.source {
            MediaSource::Base64(data) => Some(data.as_str().into()),
            _ => None,
        };
        Self { about: format!("image {}", described(media)), data }
    }
}

/// Returns the images in a result.
pub(crate) fn pictures_of(content: &[Block]) -> impl Iterator<Item = Picture> {
    images(content).map(Picture::of_result)
}

fn images(content: &[Block]) -> impl Iterator<Item = &Media> {
    content.iter().filter_map(|block| match block {
        Block::Media(media) if media.kind == MediaKind::Image => Some(media),
        _ => None,
    })
}

/// Drops the data of all but the last images.
pub(crate) fn forget_pictures(items: &mut [Item]) {
    let pictures = items.iter_mut().rev().filter_map(|item| match item {
        Item::Picture(picture) => Some(picture),
        _ => None,
    });
    // The data of earlier images has been dropped already.
    for picture in pictures.skip(MAX_IMAGES) {
        if picture.data.take().is_none() {
            break;
        }
    }
}

/// The work of a sub-agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AgentWork {
    pub(crate) name: String,
    pub(crate) task: String,
    pub(crate) items: Vec<Item>,
    pub(crate) answer: String,
    pub(crate) failed: bool,
    pub(crate) calls: usize,
    pub(crate) tokens: u64,
    /// The cost, as far as it is known.
    pub(crate) dollars: f64,
    pub(crate) elapsed: Option<Duration>,
    /// Whether the call that runs it has no result yet.
    pub(crate) is_open: bool,
}

/// Converts the messages of a thread to items.
pub(crate) fn items_of<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Item> {
    laid_out(messages).0
}

/// Like [`items_of`], but stops before the first call without a result, as the items from there on will change.
pub(crate) fn settled_items_of<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Item> {
    let (mut items, open) = laid_out(messages);
    items.truncate(open.into_iter().min().unwrap_or(usize::MAX));
    items
}

/// Like [`items_of`], but marks calls without a result as failed, because no process works on them any more.
pub(crate) fn cut_off_items_of<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Item> {
    let (mut items, open) = laid_out(messages);
    for at in open {
        match items.get_mut(at) {
            Some(Item::Call(call)) => call.failed = true,
            Some(Item::Agent(work)) => work.failed = true,
            _ => {}
        }
    }
    items
}

/// Returns the items of messages, and the indices of the calls without a result.
pub(super) fn laid_out<'a>(messages: impl Iterator<Item = &'a Message>) -> (Vec<Item>, Vec<usize>) {
    let mut items: Vec<Item> = Vec::new();
    // The ids and item indices of calls without a result.
    let mut open: Vec<(String, usize)> = Vec::new();
    for message in messages {
        match message {
            Message::User(user) if user.author == Author::Human => {
                items.push(Item::User(message.text()));
                items.extend(images(&user.content).map(Picture::sent).map(Item::Picture));
            }
            Message::User(_) => {}
            Message::Assistant(answer) => {
                // Calls of an earlier answer get no further results, and providers may reuse their ids.
                open.clear();
                for block in &answer.content {
                    let mut call = |id: &String, name: &String, args: Value| {
                        open.push((id.clone(), items.len()));
                        items.push(Item::Call(Call { name: name.clone(), args, ..Call::default() }));
                    };
                    match block {
                        Block::Text(text) if !text.text.trim().is_empty() => {
                            let words = interrupted_words(&text.text);
                            items.push(Item::Answer(words.unwrap_or(&text.text).to_owned()));
                            items.extend(words.map(|_| Item::Note { text: INTERRUPTED.to_owned(), bad: false }));
                        }
                        Block::Reasoning(thought) if !thought.text.trim().is_empty() => {
                            items.push(Item::Thinking(thought.text.clone()));
                        }
                        Block::ToolCall(made) => call(&made.id, &made.name, made.args.clone()),
                        Block::InvalidToolCall(made) => call(&made.id, &made.name, Value::String(made.raw.clone())),
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
    (items, open.into_iter().map(|(_, at)| at).collect())
}

/// Returns a text argument of a call, or an empty string if there is none.
pub(crate) fn text_arg<'a>(args: &'a Value, name: &str) -> &'a str {
    args.get(name).and_then(Value::as_str).unwrap_or_default()
}
