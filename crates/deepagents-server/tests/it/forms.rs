//! Messages of inputs in the forms of other libraries and providers.

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal};
use deepagents_core::message::{Block, MediaKind, MediaSource, Message, ProviderItem, Text};
use deepagents_core::store::MemoryStore;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::support::{Client, roles, serve, serve_on};

fn input(messages: &Value) -> Value {
    json!({"assistant_id": "agent", "input": {"messages": messages}})
}

async fn waited(client: &Client, messages: &Value) -> Value {
    client.post("/runs/wait", input(messages)).await
}

/// Returns the messages that a model receives for an input.
async fn received(messages: &Value) -> Vec<Message> {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(model.clone()).journal(journal.clone()).build().unwrap();
    let client = serve_on(agent, journal, Arc::new(MemoryStore::default())).await;
    waited(&client, messages).await;
    model.requests()[0].messages.iter().map(|message| (**message).clone()).collect()
}

#[tokio::test]
async fn calls_among_the_blocks_of_an_answer_are_those_beside_it() {
    let call = json!({"id": "c1", "name": "ls", "args": {"path": "/"}});
    for block in [
        json!({"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}}),
        json!({"type": "tool_call", "id": "c1", "name": "ls", "args": {"path": "/"}}),
        json!({"type": "function_call", "id": "fc", "call_id": "c1", "name": "ls", "arguments": "{\"path\": \"/\"}"}),
        json!({"type": "tool_call_chunk", "id": "c1", "name": "ls", "args": "{\"pa", "index": 0}),
    ] {
        let client = serve(vec![Turn::text("Done.")]).await;
        let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "x"});
        let answer = json!({
            "role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, block], "tool_calls": [call],
        });
        let result = json!({"role": "tool", "tool_call_id": "c1", "content": "x"});
        let user = |text: &str| json!({"role": "user", "content": text});
        let values = waited(&client, &json!([user("hi"), answer, result, user("go on")])).await;
        assert_eq!(roles(&values), ["human", "ai", "tool", "human", "ai"], "{block}: {values}");
        let read = &values["messages"][1];
        assert_eq!(read["tool_calls"].as_array().unwrap().len(), 1, "{block}: {read}");
        let shown = json!([{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "I look."}]);
        assert_eq!((&read["tool_calls"][0]["args"], &read["content"]), (&json!({"path": "/"}), &shown));
    }
}

#[tokio::test]
async fn calls_that_only_blocks_or_the_providers_fields_have_are_calls() {
    let raw = json!({"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\": \"/\"}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
    let legacy = json!({"role": "function", "name": "ls", "content": "x"});
    for (answer, result) in [
        (json!({"content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}}]}), result("c1")),
        (json!({"content": "", "additional_kwargs": {"tool_calls": [raw]}}), result("c1")),
        (json!({"additional_kwargs": {"tool_calls": [raw]}}), result("c1")),
        (
            json!({"content": "", "additional_kwargs": {"function_call": {"name": "ls", "arguments": "{\"path\": \"/\"}"}}}),
            legacy,
        ),
    ] {
        let client = serve(vec![Turn::text("Done.")]).await;
        let mut answer = answer;
        answer["role"] = json!("assistant");
        let values = waited(&client, &json!([{"role": "user", "content": "hi"}, answer, result])).await;
        assert_eq!(roles(&values), ["human", "ai", "tool", "ai"], "{answer}: {values}");
        assert_eq!(values["messages"][1]["tool_calls"][0]["args"], json!({"path": "/"}), "{answer}: {values}");
    }
}

#[tokio::test]
async fn blocks_in_the_forms_of_providers_reach_the_model_as_text_and_media() {
    let media = |kind: MediaKind, mime: &str, source: MediaSource| (kind, mime.to_owned(), source);
    let bytes = || MediaSource::Base64("aGk=".to_owned());
    let url = || MediaSource::Url("https://example.org/x".to_owned());
    for (block, expected) in [
        (
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}),
            media(MediaKind::Image, "image/png", bytes()),
        ),
        (
            json!({"type": "image", "source": {"type": "url", "url": "https://example.org/x"}}),
            media(MediaKind::Image, "", url()),
        ),
        (
            json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}),
            media(MediaKind::File, "application/pdf", bytes()),
        ),
        (
            json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "x.pdf"}}),
            media(MediaKind::File, "application/pdf", bytes()),
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}}),
            media(MediaKind::Audio, "audio/mpeg", bytes()),
        ),
        (json!({"type": "input_image", "image_url": "https://example.org/x"}), media(MediaKind::Image, "", url())),
        (
            json!({"type": "image", "source_type": "url", "url": "https://example.org/x", "mime_type": "image/png"}),
            media(MediaKind::Image, "image/png", url()),
        ),
        (
            json!({"type": "media", "mime_type": "video/mp4", "data": "aGk="}),
            media(MediaKind::Video, "video/mp4", bytes()),
        ),
    ] {
        let content = json!([{"type": "input_text", "text": "Look."}, block]);
        let seen = received(&json!([{"role": "user", "content": content}])).await;
        let [Block::Text(text), Block::Media(seen)] = seen[0].content() else { panic!("{block}: {seen:?}") };
        assert_eq!(text.text, "Look.");
        assert_eq!((seen.kind, seen.mime.clone(), seen.source.clone()), expected, "{block}");
    }
}

#[tokio::test]
async fn blocks_of_unknown_types_are_kept_and_never_refused() {
    let odd = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}});
    let call = json!({"id": "c1", "name": "ls", "args": {}});
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "hi"}, odd, {"value": 1}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, odd], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "json", "json": {"n": 1}}, 7]},
    ]);
    let seen = received(&messages).await;
    assert_eq!(seen[0].text(), "hi");
    assert_eq!(seen[1].text(), "I look.");
    let result = seen[2].text();
    let (object, number) = result.split_once('\n').unwrap();
    let object: Value = serde_json::from_str(object).unwrap();
    assert_eq!((object, number), (json!({"type": "json", "json": {"n": 1}}), "7"));
    let client = serve(vec![Turn::text("Done.")]).await;
    let values = waited(&client, &messages).await;
    assert_eq!(values["messages"][0]["content"], messages[0]["content"], "{values}");
}

#[tokio::test]
async fn a_message_may_have_a_role_and_a_type_and_its_role_counts() {
    let client = serve(vec![Turn::text("Done.")]).await;
    let chat = json!({
        "lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "ChatMessage"],
        "kwargs": {"content": "again", "type": "chat", "role": "user"},
    });
    let stored = json!({"type": "human", "data": {"content": "stored", "type": "human", "id": "m3"}});
    let messages = json!([{"role": "user", "type": "human", "content": "hi"}, {"role": "user", "type": "message", "content": "ho"}, chat, stored]);
    let values = waited(&client, &messages).await;
    assert_eq!(roles(&values), ["human", "human", "human", "human", "ai"], "{values}");
    assert_eq!((&values["messages"][2]["content"], &values["messages"][3]["id"]), (&json!("again"), &json!("m3")));
}

#[tokio::test]
async fn a_system_message_in_a_pair_is_one_and_results_may_be_any_json() {
    let client = serve(vec![Turn::text("Done.")]).await;
    let call = |id: &str| json!({"id": id, "name": "ls", "args": {}});
    let messages = json!([
        ["system", "Be short."],
        ["user", "hi"],
        {"role": "assistant", "content": "", "tool_calls": [call("c1"), call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": {"n": 1}},
        {"role": "tool", "tool_call_id": "c2", "content": 7},
    ]);
    let values = waited(&client, &messages).await;
    assert_eq!(roles(&values), ["system", "human", "ai", "tool", "tool", "ai"], "{values}");
    assert_eq!(
        (&values["messages"][3]["content"], &values["messages"][4]["content"]),
        (&json!("{\"n\":1}"), &json!("7"))
    );
}

#[tokio::test]
async fn ids_may_be_numbers() {
    let client = serve(vec![Turn::text("Done.")]).await;
    let call = json!({"id": 5, "name": "ls", "args": {}});
    let messages = json!([
        {"role": "user", "content": "hi", "id": 7},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": 5, "content": "x"},
    ]);
    let values = waited(&client, &messages).await;
    assert_eq!((&values["messages"][0]["id"], &values["messages"][2]["tool_call_id"]), (&json!("7"), &json!("5")));
}

#[tokio::test]
async fn a_message_without_content_is_refused() {
    let client = serve(vec![]).await;
    for message in [
        json!({"role": "user", "text": "hi"}),
        json!({"role": "assistant"}),
        json!({"role": "system", "value": "x"}),
        json!({"role": "tool", "tool_call_id": "c1"}),
    ] {
        let (status, answer) = client.send(Method::POST, "/runs/wait", &input(&json!([message]))).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{message}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains("`content`"), "{answer}");
    }
}

#[tokio::test]
async fn removals_among_the_messages_of_an_input_apply_in_order() {
    let user = |id: &str, text: &str| json!({"role": "user", "id": id, "content": text});
    let remove = |id: &str| json!({"type": "remove", "id": id});
    for (messages, expected) in [
        (json!([user("a", "a"), remove("__remove_all__"), user("b", "b")]), vec!["b", "Done."]),
        (json!([user("a", "a"), user("b", "b"), remove("a")]), vec!["before", "Before.", "b", "Done."]),
        (json!([remove("before"), user("before", "anew")]), vec!["Before.", "anew", "Done."]),
        (json!({"__overwrite__": [user("b", "b")]}), vec!["b", "Done."]),
        (json!({"type": "__overwrite__", "value": [user("b", "b")]}), vec!["b", "Done."]),
    ] {
        let client = serve(["Before.", "Done."].map(Turn::text).into()).await;
        let thread = client.thread().await;
        let path = format!("/threads/{thread}/runs/wait");
        client.post(&path, input(&json!([user("before", "before")]))).await;
        let values = client.post(&path, input(&messages)).await;
        let texts: Vec<&str> =
            values["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(texts, expected, "{messages}");
    }
}

#[tokio::test]
async fn the_sources_that_an_answer_cites_are_shown_as_annotations() {
    let cited =
        |native: Value| Block::Text(Text { text: "Rome is old.".into(), native: Some(ProviderItem::new(native)) });
    let expected = json!({"type": "citation", "url": "https://example.org", "title": "Rome"});
    for native in [
        json!({"type": "text", "citations": [{"type": "web", "url": "https://example.org", "title": "Rome"}]}),
        json!({"type": "message", "content": [{"annotations": [{"url": "https://example.org", "title": "Rome"}]}]}),
        json!({"annotations": [{"type": "url_citation", "url_citation": {"url": "https://example.org", "title": "Rome"}}]}),
    ] {
        let client = serve(vec![Turn::blocks([cited(native)])]).await;
        let values = waited(&client, &json!([{"role": "user", "content": "rome"}])).await;
        let content = json!([{"type": "text", "text": "Rome is old.", "annotations": [expected]}]);
        assert_eq!(values["messages"][1]["content"], content);
    }
}
