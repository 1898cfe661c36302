//! How changes apply to a history, and how a history is represented as JSON.

use std::sync::Arc;

use deepagents_core::message::{
    AssistantMessage, Author, Block, InvalidToolCall, Media, MediaKind, MediaSource, Message, MessageOp, Messages,
    Origin, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall, ToolMessage, Usage, UserMessage, media_type_of,
};
use deepagents_core::middleware::{HookOutput, before_model};
use deepagents_core::run::Context;
use deepagents_core::state::MessagesChannel;
use deepagents_models::scripted::{ScriptedModel, Turn};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{agent, assert_sound, echo};

fn put(id: &str, text: &str) -> MessageOp {
    let mut message = Message::user(text);
    message.set_id(id.to_owned());
    MessageOp::put(message)
}

fn remove(id: &str) -> MessageOp {
    MessageOp::Remove(id.to_owned())
}

fn after(ops: impl IntoIterator<Item = MessageOp>) -> Vec<(String, String)> {
    let mut messages = Messages::new();
    messages.apply(ops.into_iter().collect());
    pairs(&messages)
}

fn pairs(messages: &Messages) -> Vec<(String, String)> {
    messages.iter().map(|m| (m.id().to_owned(), m.text())).collect()
}

fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_message_with_a_new_id_is_appended() {
    assert_eq!(after([put("a", "1"), put("b", "2")]), owned(&[("a", "1"), ("b", "2")]));
}

#[test]
fn a_message_with_a_known_id_replaces_the_old_one_in_place() {
    assert_eq!(after([put("a", "1"), put("b", "2"), put("a", "3")]), owned(&[("a", "3"), ("b", "2")]));
}

#[test]
fn messages_without_an_id_never_replace_each_other() {
    assert_eq!(after([put("", "1"), put("", "2")]), owned(&[("", "1"), ("", "2")]));
}

#[test]
fn removing_deletes_one_message_and_ignores_unknown_ids() {
    let ops = [put("a", "1"), put("b", "2"), put("c", "3"), remove("b"), remove("nobody")];
    assert_eq!(after(ops), owned(&[("a", "1"), ("c", "3")]));
}

#[test]
fn a_message_removed_and_added_again_moves_to_the_end() {
    assert_eq!(after([put("a", "1"), put("b", "2"), remove("a"), put("a", "3")]), owned(&[("b", "2"), ("a", "3")]));
}

#[test]
fn only_messages_after_the_last_remove_all_are_kept() {
    let all = MessageOp::RemoveAll;
    let ops = [put("a", "1"), all.clone(), put("b", "2"), all, put("c", "3"), put("a", "4")];
    assert_eq!(after(ops), owned(&[("c", "3"), ("a", "4")]));
    assert_eq!(after([put("a", "1"), MessageOp::RemoveAll]), owned(&[]));
}

#[test]
fn an_older_version_of_a_history_does_not_see_later_changes() {
    let mut messages = Messages::new();
    messages.apply(vec![put("a", "1"), put("b", "2")]);
    let older = messages.clone();
    messages.apply(vec![put("a", "changed"), remove("b"), put("c", "3")]);
    assert_eq!(pairs(&older), owned(&[("a", "1"), ("b", "2")]));
    assert_eq!(older.by_id("a").unwrap().text(), "1");
    assert!(older.by_id("c").is_none());
}

#[test]
fn every_kind_of_block_and_message_survives_json() {
    let native = || Some(ProviderItem::new(json!({"type": "x", "signature": "s", "deep": {"list": [1, null]}})));
    let media = |source| Block::Media(Media { kind: MediaKind::Image, mime: "image/png".into(), source, name: None });
    let blocks = vec![
        Block::Text(Text { text: "a\u{0}é😀".into(), native: native() }),
        Block::text("plain"),
        Block::Reasoning(Reasoning { text: String::new(), native: native() }),
        media(MediaSource::Base64("AAAA".into())),
        media(MediaSource::Url("https://example.invalid/a.png".into())),
        media(MediaSource::FileId("file_1".into())),
        Block::ToolCall(ToolCall { id: "c".into(), name: "n".into(), args: json!({"a": [1]}), native: native() }),
        Block::InvalidToolCall(InvalidToolCall {
            id: "d".into(),
            name: String::new(),
            raw: "{\"a\":".into(),
            error: "cut".into(),
            native: native(),
        }),
        Block::ProviderItem(ProviderBlock { native: ProviderItem::new(json!({"type": "server_tool_use"})) }),
    ];
    let history: Messages = [
        Message::User(UserMessage { id: "1".into(), content: blocks.clone(), author: Author::Harness, as_sent: None }),
        Message::Assistant(AssistantMessage {
            id: "2".into(),
            content: blocks.clone(),
            origin: Some(Origin { api: "a".into(), provider: "p".into(), model: "m".into() }),
            name: Some("agent".into()),
            usage: Some(Usage {
                input: 1,
                output: 2,
                cache_read: 3,
                cache_write: 4,
                cache_write_hour: 2,
                reasoning: 5,
            }),
        }),
        Message::Tool(ToolMessage {
            id: "3".into(),
            call_id: "c".into(),
            name: "n".into(),
            content: blocks,
            is_error: true,
            is_synthetic: true,
            artifact: Some(json!({"rows": 3})),
        }),
    ]
    .into_iter()
    .collect();
    let text = serde_json::to_string(&history).unwrap();
    assert_eq!(serde_json::from_str::<Messages>(&text).unwrap(), history);
}

#[test]
fn a_history_in_json_is_a_list_of_messages_with_roles_and_typed_blocks() {
    let call = ToolCall { id: "c1".into(), name: "ls".into(), args: json!({"path": "/"}), native: None };
    let history: Messages = vec![
        Message::user("hi"),
        Message::Assistant(AssistantMessage::new(vec![Block::text("Looking."), Block::ToolCall(call.clone())])),
        Message::tool(&call, "a.txt"),
    ]
    .into();
    insta::assert_json_snapshot!("history", history);
}

#[tokio::test]
async fn messages_without_an_id_get_one_and_existing_ids_are_kept() {
    let model = ScriptedModel::new([Turn::call("echo", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(echo()).build().unwrap();
    let mut known = Message::user("first");
    known.set_id("mine".to_owned());
    let input = deepagents_core::run::RunInput::messages([known, Message::user("second")]);
    let outcome = agent.invoke(input).await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(outcome.messages().get(0).unwrap().id(), "mine");
    assert_eq!(outcome.messages().len(), 5);
}

#[tokio::test]
async fn histories_that_providers_reject_are_errors_naming_the_message_and_the_call() {
    let call = ToolCall { id: "c1".into(), name: "echo".into(), args: json!({}), native: None };
    let answer = Message::Assistant(AssistantMessage::new(vec![Block::ToolCall(call.clone())]));
    let result = || Message::tool(&call, "ok");
    let refused = [
        (vec![Message::user("hi"), result()], "message 1 is a result of `c1`"),
        (vec![Message::user("hi"), answer.clone(), result(), result()], "message 3 is a result of `c1`"),
        (vec![Message::user("hi"), answer.clone(), Message::user("and?"), result()], "before message 2 the calls c1"),
        (vec![Message::user("hi"), answer], "before message 2 the calls c1"),
    ];
    for (input, words) in refused {
        let model = ScriptedModel::new([Turn::text("never")]);
        let agent = agent(model.clone()).tool(echo()).build().unwrap();
        let error = agent.invoke(deepagents_core::run::RunInput::messages(input)).await.unwrap_err();
        assert_eq!(error.kind(), "history");
        assert!(error.to_string().contains(words), "{error}");
        assert!(model.requests().is_empty());
    }
}

#[tokio::test]
async fn a_checked_history_is_rechecked_when_an_older_message_is_removed_or_changed() {
    let changes: [fn(&Messages) -> MessageOp; 2] = [
        |messages| MessageOp::Remove(messages.get(2).unwrap().id().to_owned()),
        |messages| {
            let mut other = Message::user("not a result");
            other.set_id(messages.get(2).unwrap().id().to_owned());
            MessageOp::put(other)
        },
    ];
    for change in changes {
        let model = ScriptedModel::new([Turn::call("echo", json!({})), Turn::call("echo", json!({}))]);
        let agent = agent(model.clone())
            .middleware(before_model(move |cx: Context| async move {
                let late = cx.messages().len() == 5;
                Ok(if late {
                    HookOutput::set::<MessagesChannel>(vec![change(cx.messages())])
                } else {
                    HookOutput::next()
                })
            }))
            .tool(echo())
            .build()
            .unwrap();
        let error = agent.invoke("hi").await.unwrap_err();
        assert_eq!(error.kind(), "history", "{error}");
        assert_eq!(model.requests().len(), 2);
    }
}

/// A second, plain implementation of the rules.
fn plain(list: &mut Vec<(String, String)>, op: &MessageOp) {
    match op {
        MessageOp::Put(message) => {
            let (id, text) = (message.id().to_owned(), message.text());
            match list.iter_mut().find(|(known, _)| !id.is_empty() && *known == id) {
                Some(slot) => slot.1 = text,
                None => list.push((id, text)),
            }
        }
        MessageOp::Remove(id) => list.retain(|(known, _)| id.is_empty() || known != id),
        MessageOp::RemoveAll => list.clear(),
        _ => unreachable!(),
    }
}

fn any_op() -> impl Strategy<Value = MessageOp> {
    let id = "[a-e]?";
    prop_oneof![
        6 => (id, "[x-z]{1,3}").prop_map(|(id, text)| put(&id, &text)),
        2 => id.prop_map(|id| {
            let media = Media {
                kind: MediaKind::Image,
                mime: "image/png".into(),
                source: MediaSource::Base64("aGk=".into()),
                name: None,
            };
            MessageOp::put(Message::User(UserMessage { id, content: vec![Block::Media(media)], ..UserMessage::default() }))
        }),
        3 => id.prop_map(MessageOp::Remove),
        1 => Just(MessageOp::RemoveAll),
    ]
}

proptest! {
    #[test]
    fn a_history_obeys_the_rules_for_any_changes_in_any_grouping(
        groups in prop::collection::vec(prop::collection::vec(any_op(), 0..8), 0..8)
    ) {
        let (mut messages, mut list) = (Messages::new(), Vec::new());
        for ops in &groups {
            messages.apply(ops.clone());
            ops.iter().for_each(|op| plain(&mut list, op));
            prop_assert_eq!(pairs(&messages), list.clone());
            let media = messages.iter().any(|m| m.content().iter().any(|block| matches!(block, Block::Media(_))));
            prop_assert_eq!(messages.has_media(), media);
        }
        let mut at_once = Messages::new();
        at_once.apply(groups.concat());
        prop_assert_eq!(&at_once, &messages);
        for (id, text) in list.iter().filter(|(id, _)| !id.is_empty()) {
            prop_assert_eq!(&messages.by_id(id).unwrap().text(), text);
        }
        let json = serde_json::to_string(&messages).unwrap();
        prop_assert_eq!(serde_json::from_str::<Messages>(&json).unwrap(), messages.clone());
        let rebuilt: Messages = messages.iter().cloned().map(|m: Arc<Message>| m).collect();
        prop_assert_eq!(rebuilt, messages);
    }
}

#[test]
fn media_types_are_recognised_by_their_first_bytes() {
    for (bytes, mime) in [
        (&b"\x89PNG\r\n\x1a\n\0\0"[..], "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n", "application/pdf"),
    ] {
        assert_eq!(media_type_of(bytes), Some(mime));
        // Data that ends before the signature does is unknown.
        assert_eq!(media_type_of(&bytes[..2]), None, "{mime}");
    }
    for other in [&b""[..], b"not a picture", b"RIFF\x24\0\0\0WAVEfmt ", b"BM6\0\0\0", b"<svg/>", b"\x89PNG\n"] {
        assert_eq!(media_type_of(other), None, "{other:?}");
    }
}
