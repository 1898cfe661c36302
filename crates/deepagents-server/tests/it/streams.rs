//! The content of run and thread streams, by mode.

use axum::http::Method;
use deepagents::middleware::Rubric;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, Journal, MemoryJournal, ModelError};
use deepagents_core::message::{AssistantMessage, Block, Origin, ProviderBlock, ProviderItem, Reasoning};
use deepagents_core::model::{ChatModel, ModelEvent, ModelOutput, ModelRequest};
use deepagents_core::store::MemoryStore;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

use crate::support::{City, Client, say, serve, serve_on};

/// Returns the data of a run's events in one mode.
async fn events(client: &Client, thread: &str, mode: Value, text: &str) -> Vec<(String, Value)> {
    let mut body = say(text);
    body["stream_mode"] = mode;
    client.frames(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await
}

#[tokio::test]
async fn langchain_events_nest_models_and_tools_under_their_agents() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let delegate = Turn::call("task", json!({"description": "count", "subagent_type": "counter"}));
    let model = ScriptedModel::new([
        delegate,
        Turn::call("count", json!({"city": "Oslo"})),
        Turn::text("One."),
        Turn::text("It is one."),
    ]);
    let count =
        deepagents::tool_fn("count", "Counts.", |args: City, _cx| async move { Ok(format!("{} is one", args.city)) });
    let counter = SubAgentSpec::new("counter", "Counts.");
    let agent =
        DeepAgent::builder().model(model).journal(journal.clone()).tool(count).sub_agent(counter).build().unwrap();
    let client = serve_on(agent, journal, Arc::new(MemoryStore::default())).await;
    let thread = client.thread().await;
    let all = events(&client, &thread, json!(["events"]), "how many").await;
    assert_eq!(all[0].0, "metadata");
    let of = |kind: &str, name: &str| {
        let found = |data: &&Value| data["event"] == kind && data["name"] == name;
        all.iter().map(|(_, data)| data).find(found).cloned().unwrap_or_else(|| panic!("no {kind} of {name}"))
    };
    let (run, task, counter) =
        (of("on_chain_start", "agent"), of("on_tool_start", "task"), of("on_chain_start", "counter"));
    assert_eq!((&run["run_id"], &run["parent_ids"]), (&all[0].1["run_id"], &json!([])));
    let above = counter["parent_ids"].as_array().unwrap();
    assert_eq!((above.first(), above.last()), (Some(&run["run_id"]), Some(&task["run_id"])));
    let counted = of("on_tool_end", "count");
    assert!(counted["parent_ids"].as_array().unwrap().contains(&counter["run_id"]));
    assert_eq!(counted["data"]["input"], json!({"city": "Oslo"}));
    assert_eq!(counted["data"]["output"]["content"], "Oslo is one");
    let text = |data: &Value| data["data"]["chunk"]["content"].as_str().map(str::to_owned);
    let main =
        |data: &&Value| data["event"] == "on_chat_model_stream" && data["parent_ids"].as_array().unwrap().len() == 2;
    let said: String = all.iter().map(|(_, data)| data).filter(main).filter_map(text).collect();
    assert_eq!(said, "It is one.");
    let last = &all.last().unwrap().1;
    assert_eq!((&last["event"], &last["run_id"]), (&json!("on_chain_end"), &run["run_id"]));
    assert_eq!(last["data"]["output"]["messages"][3]["content"], "It is one.");
    // Everything that started has ended.
    let ids = |kind: &str| {
        let of_kind = all.iter().filter(|(_, data)| data["event"].as_str().is_some_and(|event| event.ends_with(kind)));
        of_kind.map(|(_, data)| data["run_id"].as_str().unwrap().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ids("_start"), ids("_end"));
}

#[tokio::test]
async fn stream_modes_are_accepted_in_every_spelling_used_by_clients() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let thread = client.thread().await;
    let mut body = say("hi");
    body["stream_resumable"] = json!(true);
    body["stream_mode"] = json!(["values", "updates", "custom"]);
    let run = client.post(&format!("/threads/{thread}/runs"), body).await["run_id"].as_str().unwrap().to_owned();
    client.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    for query in [
        "stream_mode=values&stream_mode=updates",
        "stream_mode=values,updates",
        "stream_mode=%5B%22values%22%2C%22updates%22%5D",
        "stream_mode=updates&stream_mode=values&cancel_on_disconnect=0",
    ] {
        let names = client.events(Method::GET, &format!("{path}?{query}"), Some("-1"), &json!({})).await;
        let names: std::collections::BTreeSet<String> = names.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["metadata", "updates", "values"], "{query}");
    }
    let (status, _) = client.send(Method::GET, &format!("{path}?stream_mode=telepathy"), &json!({})).await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn a_thread_stream_can_carry_run_events_only_their_ends_or_state_updates() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let thread = client.thread().await;
    let path = format!("/threads/{thread}/stream");
    let first = client.post(&format!("/threads/{thread}/runs/wait"), say("first")).await;
    assert_eq!(first["messages"][1]["content"], "One.");
    let mut lifecycle = client.follow(&format!("{path}?stream_mode=lifecycle")).await;
    let mut states = client.follow(&format!("{path}?stream_modes=state_update")).await;
    let mut both = client.follow(&format!("{path}?stream_mode=run_modes&stream_mode=state_update")).await;
    let mut second = say("second");
    second["stream_mode"] = json!("values");
    client.post(&format!("/threads/{thread}/runs/wait"), second).await;
    for expected in ["attempt", "status", "attempt", "status"] {
        let (name, data) = lifecycle.next().await;
        assert!(name == "metadata" && data.get(expected).is_some(), "{name} {data}");
    }
    let update = json!({"values": {"messages": [{"role": "user", "content": "noted"}]}});
    client.post(&format!("/threads/{thread}/state"), update).await;
    let (name, data) = states.next().await;
    assert_eq!((name.as_str(), &data["thread_id"]), ("state_update", &json!(thread)));
    assert_eq!(data["state"]["values"]["messages"][4]["content"], "noted");
    let mut names = Vec::new();
    while names.last().map(String::as_str) != Some("state_update") {
        names.push(both.next().await.0);
    }
    assert!(names.iter().any(|name| name == "values"), "{names:?}");
    let (status, _) = client.send(Method::GET, &format!("{path}?stream_mode=telepathy"), &json!({})).await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn older_clients_see_the_growing_answer_in_full_and_each_result_once() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let delegate = Turn::call("task", json!({"description": "count", "subagent_type": "counter"}));
    let turns = [delegate, Turn::call("count", json!({"city": "Oslo"})), Turn::text("One."), Turn::text("It is one.")];
    let model = ScriptedModel::new(turns);
    let count =
        deepagents::tool_fn("count", "Counts.", |args: City, _cx| async move { Ok(format!("{} is one", args.city)) });
    let counter = SubAgentSpec::new("counter", "Counts.");
    let agent =
        DeepAgent::builder().model(model).journal(journal.clone()).tool(count).sub_agent(counter).build().unwrap();
    let client = serve_on(agent, journal, Arc::new(MemoryStore::default())).await;
    let thread = client.thread().await;
    let mut body = say("how many");
    (body["stream_mode"], body["stream_subgraphs"]) = (json!("messages"), json!(true));
    let all = client.frames(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await;
    let names: std::collections::BTreeSet<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["messages/complete", "messages/metadata", "messages/partial", "metadata"];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
    let mut announced = std::collections::BTreeSet::new();
    let mut calls = 0;
    for (name, data) in &all[1..] {
        if name == "messages/metadata" {
            announced.extend(data.as_object().unwrap().keys().cloned());
            continue;
        }
        let message = &data[0];
        assert!(announced.contains(message["id"].as_str().unwrap()), "{message}");
        assert_eq!(message["type"], if name == "messages/complete" { "tool" } else { "ai" });
        // Arguments are a JSON object at all times.
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            assert!(call["args"].is_object() && call["id"].is_string(), "{call}");
            calls += 1;
        }
    }
    assert!(calls > 3, "calls grow before they are complete");
    let (name, last) = all.last().unwrap();
    assert_eq!((name.as_str(), &last[0]["content"]), ("messages/partial", &json!("It is one.")));
    assert!(last[0]["usage_metadata"].is_object(), "{last}");
    let results = all.iter().filter(|(name, _)| name == "messages/complete").map(|(_, data)| &data[0]["content"]);
    assert_eq!(results.collect::<Vec<_>>(), ["Oslo is one", "One."]);
}

/// A model that fails when notified and answers at the next attempt.
struct BreaksOff(Arc<Notify>);

impl ChatModel for BreaksOff {
    fn name(&self) -> &str {
        "breaks off"
    }

    fn stream(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let (piece, go) = (|text: &str| ModelEvent::Text { block: 0, delta: text.to_owned() }, self.0.clone());
        let broken = async move {
            go.notified().await;
            ModelEvent::Retry { error: ModelError::transport("reset"), after: Duration::ZERO }
        };
        let answer = ModelOutput::new(AssistantMessage::new(vec![Block::text("Good day")]));
        let again = [piece("Good"), piece(" day"), ModelEvent::Finished(Box::new(answer))];
        stream::iter([piece("Hel")]).chain(stream::once(broken)).chain(stream::iter(again)).map(Ok).boxed()
    }
}

#[tokio::test]
async fn text_of_an_aborted_answer_is_not_prepended_to_the_next() {
    let (journal, go): (Arc<dyn Journal>, _) = (Arc::new(MemoryJournal::new()), Arc::new(Notify::new()));
    let agent = DeepAgent::builder().model(BreaksOff(go.clone())).journal(journal.clone()).build().unwrap();
    let client = serve_on(agent, journal, Arc::new(MemoryStore::default())).await;
    let mut body = say("hi");
    body["stream_mode"] = json!(["messages-tuple", "messages", "values"]);
    let mut stream = client.begin(&format!("/threads/{}/runs/stream", client.thread().await), &body).await;
    let mut all = Vec::new();
    while let Some((name, data)) = stream.read().await {
        if name == "messages" && data[0]["content"] == "Hel" {
            go.notify_one();
        }
        all.push((name, data));
    }
    let mut said: BTreeMap<&str, String> = BTreeMap::new();
    for (_, data) in all.iter().filter(|(name, data)| name == "messages" && data[0]["type"] == "AIMessageChunk") {
        let text = data[0]["content"].as_str().unwrap_or_default();
        said.entry(data[0]["id"].as_str().unwrap()).or_default().push_str(text);
    }
    let values = &all.iter().rev().find(|(name, _)| name == "values").unwrap().1["messages"][1];
    let kept = values["id"].as_str().unwrap();
    assert_eq!((&*said[kept], &values["content"]), ("Good day", &json!("Good day")), "{all:?}");
    let mut texts: Vec<&String> = said.values().collect();
    texts.sort();
    assert_eq!(texts, ["Good day", "Hel"]);
    let whole = all.iter().filter(|(name, data)| name == "messages/partial" && data[0]["id"] == kept);
    let whole: Vec<&Value> = whole.map(|(_, data)| &data[0]["content"]).collect();
    assert_eq!(whole, ["Good", "Good day", "Good day"]);
}

/// Returns the text of each message in a stream's `messages` events, by id.
fn said_by_id(all: &[(String, Value)]) -> BTreeMap<String, String> {
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for (_, data) in all.iter().filter(|(name, data)| name == "messages" && data[0]["type"] == "AIMessageChunk") {
        let text = data[0]["content"].as_str().unwrap_or_default();
        said.entry(data[0]["id"].as_str().unwrap().to_owned()).or_default().push_str(text);
    }
    said
}

#[tokio::test]
async fn an_answer_of_several_texts_is_streamed_once() {
    let search = ProviderBlock { native: ProviderItem::new(json!({"type": "server_tool_use", "id": "s1"})) };
    let thought = |text: &str| Block::Reasoning(Reasoning { text: text.to_owned(), native: None });
    for blocks in [
        vec![Block::text("Rome is old. "), Block::text("It is big.")],
        vec![Block::text("Rome is old. "), Block::ProviderItem(search), Block::text("It is big.")],
        vec![thought("Hm. "), thought("Yes."), Block::text("Rome is old. "), Block::text("It is big.")],
    ] {
        let client = serve(vec![Turn::blocks(blocks.clone())]).await;
        let thread = client.thread().await;
        let all = events(&client, &thread, json!(["messages-tuple", "messages"]), "rome").await;
        let said = said_by_id(&all);
        assert_eq!(said.values().collect::<Vec<_>>(), ["Rome is old. It is big."], "{blocks:?}: {all:?}");
        let ended = |event: &Value| event["params"]["data"]["event"] == "completed";
        let told = client.thread_events(&thread, &json!({"channels": ["messages", "lifecycle"]}), ended).await;
        let pieces = told.iter().filter_map(|event| event["params"]["data"]["delta"]["text"].as_str());
        assert_eq!(pieces.collect::<String>(), "Rome is old. It is big.", "{told:?}");
    }
}

#[tokio::test]
async fn results_that_middlewares_give_are_streamed() {
    let todos = || ("write_todos", json!({"todos": []}));
    let client = serve(vec![Turn::calls([todos(), todos()]), Turn::text("Once, then.")]).await;
    let thread = client.thread().await;
    let all = events(&client, &thread, json!(["messages-tuple", "updates", "values"]), "plan").await;
    let answered: Vec<&Value> =
        all.iter().filter(|(_, data)| data[0]["type"] == "tool").map(|(_, data)| data).collect();
    let last = &all.iter().rev().find(|(name, _)| name == "values").unwrap().1;
    let ids = |calls: &Value, key: &str| {
        calls.as_array().unwrap().iter().filter_map(|one| one[key].as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    let told: BTreeSet<String> =
        answered.iter().map(|data| data[0]["tool_call_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, ids(&last["messages"][1]["tool_calls"], "id"), "{all:?}");
    assert!(answered.iter().all(|data| data[1]["langgraph_node"] == "tools"));
    let updated = all.iter().filter(|(name, data)| name == "updates" && data.get("tools").is_some());
    assert_eq!(updated.count(), 2, "{all:?}");
}

#[tokio::test]
async fn a_call_that_an_input_supersedes_has_its_result_in_the_stream_of_that_input() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Fine.")]).await;
    let thread = client.thread().await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("book")).await;
    let all = events(&client, &thread, json!(["messages-tuple"]), "no, rather not").await;
    let results: Vec<&Value> =
        all.iter().filter(|(_, data)| data[0]["type"] == "tool").map(|(_, data)| &data[0]).collect();
    assert_eq!(results.len(), 1, "{all:?}");
    assert_eq!((&results[0]["name"], &results[0]["status"]), (&json!("book"), &json!("error")));
    // What a client sends is not returned to it.
    for place in ["input", "command"] {
        let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Fine.")]).await;
        let thread = client.thread().await;
        let waiting = client.post(&format!("/threads/{thread}/runs/wait"), say("book")).await;
        let call = &waiting["messages"][1]["tool_calls"][0]["id"];
        let given = json!({"messages": [{"role": "tool", "tool_call_id": call, "content": "by hand"}]});
        let mut body = json!({"assistant_id": "agent", "stream_mode": ["messages-tuple"]});
        body[place] = if place == "input" { given } else { json!({"update": given}) };
        let all = client.frames(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await;
        assert!(all.iter().all(|(_, data)| data[0]["type"] != "tool"), "{place}: {all:?}");
        let state = client.get(&format!("/threads/{thread}/state")).await;
        assert_eq!(state["values"]["messages"][2]["content"], "by hand", "{place}: {state}");
        let answers = all.iter().any(|(name, data)| name == "messages" && data[0]["content"] != "");
        assert!(place == "command" || answers, "{all:?}");
    }
}

#[tokio::test]
async fn messages_and_checkpoints_in_streams_carry_the_runs_tags_and_metadata() {
    let client = serve(vec![Turn::text("Hi.")]).await;
    let thread = client.thread().await;
    let mut body = say("hi");
    body["metadata"] = json!({"mine": 1});
    let kept = json!({"user": "u1", "api_key": "k", "__own": "o", "checkpoint_map": "m"});
    body["config"] = json!({"tags": ["a"], "configurable": kept});
    body["stream_mode"] = json!(["messages-tuple", "checkpoints"]);
    let all = client.frames(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await;
    for name in ["messages", "checkpoints"] {
        let found: Vec<&Value> = all.iter().filter(|(of, _)| of == name).map(|(_, data)| data).collect();
        assert!(!found.is_empty(), "{name}: {all:?}");
        for metadata in found.iter().map(|data| if name == "messages" { &data[1] } else { &data["metadata"] }) {
            assert_eq!((&metadata["mine"], &metadata["user"]), (&json!(1), &json!("u1")), "{name} {metadata}");
            assert!(name == "checkpoints" || metadata["tags"] == json!(["a"]), "{metadata}");
            let left_out = ["api_key", "__own", "checkpoint_map"].map(|key| metadata.get(key));
            assert_eq!(left_out, [None; 3], "{name} {metadata}");
        }
    }
}

#[tokio::test]
async fn the_stream_of_a_run_that_is_gone_is_empty() {
    let client = serve(vec![]).await;
    let thread = client.thread().await;
    let none = "00000000-0000-4000-8000-000000000000";
    let path = format!("/threads/{thread}/runs/{none}/stream");
    assert_eq!(client.text_of(Method::GET, &path, &json!({})).await, (reqwest::StatusCode::OK, String::new()));
    for (path, status) in
        [(format!("/threads/{none}/runs/{none}/stream"), 404), (format!("/threads/{thread}/runs/nope/stream"), 422)]
    {
        assert_eq!(client.send(Method::GET, &path, &json!({})).await.0, status, "{path}");
    }
}

#[tokio::test]
async fn providers_have_the_names_that_langchain_gives_them() {
    for (model, provider) in [("openai-chat:x", "openai"), ("google:x", "google_genai"), ("anthropic:x", "anthropic")] {
        let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
        let (service, name) = model.split_once(':').unwrap();
        let origin = Origin { provider: service.to_owned(), model: name.to_owned(), ..Origin::default() };
        let answer = AssistantMessage { origin: Some(origin), ..AssistantMessage::new(vec![Block::text("Hi.")]) };
        let answer = ModelEvent::Finished(Box::new(ModelOutput::new(answer)));
        let model = ScriptedModel::new([Turn::raw([Ok(answer)])]).with_name(model);
        let agent = DeepAgent::builder().model(model).journal(journal.clone()).build().unwrap();
        let client = serve_on(agent, journal, Arc::new(MemoryStore::default())).await;
        let all = events(&client, &client.thread().await, json!(["messages-tuple"]), "hi").await;
        let (_, data) = all.iter().find(|(name, _)| name == "messages").unwrap();
        assert_eq!((&data[1]["ls_provider"], &data[1]["ls_model_name"]), (&json!(provider), &json!("x")), "{data}");
    }
}

#[tokio::test]
async fn how_a_run_is_judged_by_its_goal_is_among_its_custom_events() {
    let judged = |result: &str, passed: bool| {
        let criterion = json!({"name": "two flowers", "passed": passed});
        Turn::text(json!({"result": result, "explanation": "So it is.", "criteria": [criterion]}).to_string())
    };
    let judge = ScriptedModel::new([judged("needs_revision", false), judged("satisfied", true)]);
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("Roses."), Turn::text("Roses and violets.")]);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).middleware(Rubric::default().model(judge));
    let client = serve_on(agent.build().unwrap(), journal, Arc::new(MemoryStore::default())).await;
    assert_eq!(client.get("/page/agents/agent").await["goals"], true);
    let thread = client.thread().await;
    let mut body = say("write a poem");
    body["input"]["rubric"] = json!("It names two flowers.");
    body["stream_mode"] = json!(["custom", "values"]);
    let all = client.frames(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await;
    let custom: Vec<&Value> = all.iter().filter(|(name, _)| name == "custom").map(|(_, data)| data).collect();
    let names: Vec<&str> = custom.iter().map(|event| event["name"].as_str().unwrap()).collect();
    let round = ["rubric_evaluation_started", "rubric_evaluated"];
    assert_eq!(names, [round, round].concat(), "{custom:?}");
    assert_eq!(custom[1]["data"]["missing"], json!(["two flowers"]));
    assert_eq!(custom[3]["data"]["passed"], json!(["two flowers"]));
    let state = client.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"]["rubric_progress"]["status"], "satisfied", "{all:?}");
}
