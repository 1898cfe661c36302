//! The items of a thread that grows: each message is converted once.

use std::sync::Arc;

use deepagents::core::message::{HistoryVersion, Messages};

use super::transcript::{Item, forget_pictures, laid_out};

/// The items of a thread that is read again and again.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    /// The messages that were converted last.
    last: Option<HistoryVersion>,
    /// The number of messages before the last answer, whose items no longer change, and the number of these items.
    settled: usize,
    settled_items: usize,
    items: Arc<Vec<Item>>,
}

impl Converted {
    /// Returns the items of these messages. Only those that are new since the last time are converted, unless the
    /// earlier ones have changed. If the thread `goes_on`, the items end before the first call without a result, as they
    /// will change from there on.
    pub(crate) fn items_of(&mut self, messages: &Messages, goes_on: bool) -> Arc<Vec<Item>> {
        if self.last.as_ref().is_none_or(|last| messages.shared_with(last) < self.settled) {
            *self = Self::default();
        }
        let known = self.settled;
        let last_answer = messages.last_assistant().unwrap_or(0).max(known);
        let new = || messages.tail(known).map(|message| &**message);
        let items = Arc::make_mut(&mut self.items);
        items.truncate(self.settled_items);
        items.extend(laid_out(new().take(last_answer - known)).0);
        (self.settled, self.settled_items) = (last_answer, items.len());
        let (mut last, open) = laid_out(new().skip(last_answer - known));
        if goes_on {
            last.truncate(open.into_iter().min().unwrap_or(usize::MAX));
        }
        items.extend(last);
        forget_pictures(items);
        self.last = Some(messages.mark());
        self.items.clone()
    }
}

#[cfg(test)]
mod tests {
    use deepagents::core::message::{AssistantMessage, ToolCall, ToolMessage};
    use deepagents::{Block, Message};
    use serde_json::json;

    use super::super::transcript::{items_of, settled_items_of};
    use super::*;

    fn conversation() -> Vec<Message> {
        let call = |id: &str| ToolCall::new(id, "read_file", json!({"file_path": "/a"}));
        let calls = |ids: &[&str]| ids.iter().map(|id| Block::ToolCall(call(id))).collect::<Vec<_>>();
        let answer = |content: Vec<Block>| Message::Assistant(AssistantMessage::new(content));
        let result = |id: &str, text: &str| Message::Tool(ToolMessage::text(&call(id), text));
        let mut messages = vec![
            Message::user("one"),
            answer(calls(&["1", "2"])),
            result("1", "first"),
            result("2", "second"),
            answer(calls(&["1"])),
            Message::user("wait"),
            result("1", "third"),
            answer(vec![Block::text("Done.")]),
            Message::user("two"),
        ];
        for (at, message) in messages.iter_mut().enumerate() {
            message.set_id(format!("m{at}"));
        }
        messages
    }

    #[test]
    fn the_items_of_a_growing_thread_are_those_of_its_messages() {
        let (all, mut messages) = (conversation(), Messages::new());
        let (mut whole, mut so_far) = (Converted::default(), Converted::default());
        for (to, message) in all.iter().enumerate() {
            messages.put(Arc::new(message.clone()));
            assert_eq!(*whole.items_of(&messages, false), items_of(all[..=to].iter()), "{to}");
            assert_eq!(*so_far.items_of(&messages, true), settled_items_of(all[..=to].iter()), "{to}");
        }
        // After a rewind.
        let earlier = all[..3].iter().cloned().collect();
        assert_eq!(*whole.items_of(&earlier, false), items_of(all[..3].iter()));
    }

    #[test]
    fn what_has_been_converted_is_not_converted_again() {
        let (all, mut messages) = (conversation(), Messages::new());
        let mut converted = Converted::default();
        let begun = |items: &Arc<Vec<Item>>| match &items[..] {
            [Item::User(text), ..] => Some(text.as_ptr()),
            _ => None,
        };
        all[..5].iter().for_each(|message| messages.put(Arc::new(message.clone())));
        let first = begun(&converted.items_of(&messages, true));
        all[5..].iter().for_each(|message| messages.put(Arc::new(message.clone())));
        assert!(first.is_some() && begun(&converted.items_of(&messages, true)) == first);
    }
}
