//! Tasks and checkpoints in the streams of a run.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::Method;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, InterruptPolicy, Journal, MemoryJournal, ModelError, ToolError, tool_fn};
use deepagents_core::store::MemoryStore;
use serde_json::{Value, json};

use crate::counted::Counted;
use crate::support::{City, Client, Nothing, say, serve_on};

/// Serves an agent with a counting tool, a failing tool, and a sub-agent whose tool needs approval.
async fn serving(turns: Vec<Turn>) -> Client {
    serving_on(ScriptedModel::new(turns), Arc::new(MemoryJournal::new())).await
}

async fn serving_on(model: ScriptedModel, journal: Arc<dyn Journal>) -> Client {
    let count = tool_fn("count", "Counts.", |args: City, _cx| async move { Ok(format!("{} is one", args.city)) });
    let book = tool_fn("book", "Books a trip.", |args: City, _cx| async move { Ok(format!("booked {}", args.city)) });
    let refuse = tool_fn("refuse", "Refuses.", |_: Nothing, _cx| async { Err::<&str, _>(ToolError::model("no luck")) });
    let asks: InterruptPolicy = serde_json::from_value(json!({"book": true})).unwrap();
    let builder = DeepAgent::builder().model(model).journal(journal.clone());
    let builder = builder.tool(count).tool(book).tool(refuse).interrupt_on(asks);
    let agent = builder.sub_agent(SubAgentSpec::new("booker", "Books.")).build().unwrap();
    serve_on(agent, journal, Arc::new(MemoryStore::default())).await
}

async fn streamed(client: &Client, thread: &str, modes: Value, mut body: Value) -> Vec<(String, Value)> {
    body["stream_mode"] = modes;
    body["stream_subgraphs"] = json!(true);
    client.frames(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await
}

fn of<'a>(events: &'a [(String, Value)], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|(own, _)| own == name).map(|(_, data)| data).collect()
}

#[tokio::test]
async fn each_call_is_a_task_with_its_input_and_its_updates() {
    let todos = json!([{"content": "plan", "status": "completed"}]);
    let calls = Turn::calls([("count", json!({"city": "Oslo"})), ("write_todos", json!({"todos": todos}))]);
    let client = serving(vec![calls, Turn::text("Done.")]).await;
    let thread = client.thread().await;
    let events = streamed(&client, &thread, json!(["tasks", "messages-tuple"]), say("go")).await;
    let tasks = of(&events, "tasks");
    let (begun, ended): (Vec<&Value>, Vec<&Value>) = tasks.iter().partition(|task| task.get("input").is_some());
    let names =
        |tasks: &[&Value]| tasks.iter().map(|task| task["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&begun), ["model", "tools", "tools", "model"]);
    assert_eq!(begun[0]["input"]["messages"][0]["content"], "go");
    // The stored list has ids and times in addition to the arguments.
    let words = |todos: &Value| (todos[0]["content"].clone(), todos[0]["status"].clone());
    assert_eq!(words(&begun[3]["input"]["todos"]), words(&todos), "the model is given the state");
    assert_eq!(begun[1]["triggers"], json!(["__pregel_push"]));
    for (task, (name, args)) in begun[1..3].iter().zip([("count", "city"), ("write_todos", "todos")]) {
        let call = &task["input"][0];
        assert_eq!((&call["name"], &call["type"]), (&json!(name), &json!("tool_call")));
        let end = ended.iter().find(|end| end["id"] == task["id"]).unwrap();
        let result = &end["result"]["messages"][0];
        assert_eq!(
            (&result["tool_call_id"], &end["error"], &end["interrupts"]),
            (&call["id"], &json!(null), &json!([]))
        );
        assert!(call["args"].get(args).is_some(), "{call}");
        assert_eq!(end["result"].get("todos").map(words), (name == "write_todos").then(|| words(&todos)));
    }
    // Results in other streams name the task that produced them.
    let told = of(&events, "messages").into_iter().find(|message| message[0]["type"] == "tool").unwrap();
    let namespace = told[1]["langgraph_checkpoint_ns"].as_str().unwrap().to_owned();
    assert!(begun.iter().any(|task| namespace == format!("tools:{}", task["id"].as_str().unwrap())), "{namespace}");
}

#[tokio::test]
async fn a_sub_agents_namespace_is_its_task_which_ends_at_an_interrupt_and_restarts() {
    let delegate = Turn::call("task", json!({"description": "Book it.", "subagent_type": "booker"}));
    let book = Turn::call("book", json!({"city": "Oslo"}));
    let client = serving(vec![delegate, book, Turn::text("Booked."), Turn::text("Done.")]).await;
    let thread = client.thread().await;
    let events = streamed(&client, &thread, json!(["tasks"]), say("go")).await;
    let call = of(&events, "tasks").into_iter().find(|task| task["name"] == "tools").unwrap().clone();
    let name = format!("tasks|tools:{}", call["id"].as_str().unwrap());
    assert_eq!(of(&events, &name)[0]["input"]["messages"][0]["content"], "Book it.");
    let end = of(&events, "tasks").pop().unwrap();
    assert_eq!((&end["id"], &end["result"], &end["error"]), (&call["id"], &json!({}), &json!(null)));
    assert_eq!(end["interrupts"][0]["value"]["action_requests"][0]["name"], "book");
    let resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    let events = streamed(&client, &thread, json!(["tasks", "checkpoints"]), resume).await;
    let waited = of(&events, "checkpoints")[0];
    assert_eq!(waited["tasks"][0]["id"], call["id"], "{waited}");
    assert_eq!(waited["tasks"][0]["interrupts"], end["interrupts"]);
    let own: Vec<&Value> = of(&events, "tasks").into_iter().filter(|task| task["id"] == call["id"]).collect();
    assert_eq!(own.len(), 2, "it begins and ends: {own:?}");
    assert_eq!(own[1]["result"]["messages"][0]["content"], "Booked.");
    assert!(of(&events, &name).iter().any(|task| task["result"]["messages"][0]["content"] == "booked Oslo"));
}

#[tokio::test]
async fn a_failing_task_ends_with_the_run_error_and_an_error_result_is_a_result() {
    let client = serving(vec![Turn::error(ModelError::invalid("no such model"))]).await;
    let thread = client.thread().await;
    let events = streamed(&client, &thread, json!(["tasks"]), say("go")).await;
    let end = of(&events, "tasks").pop().unwrap();
    assert_eq!((&end["name"], &end["error"], &end["result"]), (&json!("model"), of(&events, "error")[0], &json!({})));
    let client = serving(vec![Turn::call("refuse", json!({})), Turn::text("Well then.")]).await;
    let thread = client.thread().await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("go")).await;
    let wanted = json!({"channels": ["tools", "lifecycle"]});
    let told = client.thread_events(&thread, &wanted, |event| event["params"]["data"]["event"] == "completed").await;
    let words: Vec<&Value> = told.iter().map(|event| &event["params"]["data"]["event"]).collect();
    assert_eq!(words, ["running", "tool-started", "tool-finished", "completed"]);
    let output = &told[2]["params"]["data"]["output"];
    assert_eq!((&output["status"], &output["content"]), (&json!("error"), &json!("no luck")));
}

#[tokio::test]
async fn checkpoints_in_a_stream_match_those_in_the_history() {
    let count = || Turn::call("count", json!({"city": "Oslo"}));
    let client = serving(vec![count(), Turn::text("One."), count(), Turn::text("Two.")]).await;
    let thread = client.thread().await;
    let mut told: Vec<Value> = Vec::new();
    for text in ["first", "second"] {
        let events = streamed(&client, &thread, json!(["checkpoints", "tasks", "debug"]), say(text)).await;
        let own: Vec<Value> = of(&events, "checkpoints").into_iter().cloned().collect();
        assert_eq!((&own[0]["next"], &own[0]["metadata"]["source"]), (&json!(["__start__"]), &json!("input")));
        // The next tasks of a checkpoint are those that start after it.
        let begun: Vec<&Value> = of(&events, "tasks").into_iter().filter(|task| task.get("input").is_some()).collect();
        let next: Vec<&Value> = own[1..].iter().flat_map(|one| one["tasks"].as_array().unwrap()).collect();
        for task in &begun {
            assert!(next.iter().any(|next| next["id"] == task["id"] && next["name"] == task["name"]), "{task}");
        }
        let wrapped: Vec<&Value> = of(&events, "debug")
            .into_iter()
            .filter(|one| one["type"] == "checkpoint")
            .map(|one| &one["payload"])
            .collect();
        assert_eq!(wrapped, own.iter().collect::<Vec<_>>());
        told.extend(own);
    }
    let history = client.post(&format!("/threads/{thread}/history"), json!({"limit": 100})).await;
    let known: Vec<(&Value, &Value, &Value)> = history
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|state| (&state["checkpoint_id"], &state["metadata"]["step"], &state["parent_checkpoint_id"]))
        .collect();
    let streamed: Vec<(&Value, &Value, &Value)> = told
        .iter()
        .map(|one| {
            let parent = &one["parent_config"]["configurable"]["checkpoint_id"];
            (&one["config"]["configurable"]["checkpoint_id"], &one["metadata"]["step"], parent)
        })
        .collect();
    assert_eq!(streamed, known);
    assert_eq!((known[0].1, known[0].2), (&json!(-1), &json!(null)));
}

#[tokio::test]
async fn a_sub_agents_interrupt_is_in_its_own_values_and_those_of_the_thread() {
    let delegate = Turn::call("task", json!({"description": "Book it.", "subagent_type": "booker"}));
    let client = serving(vec![delegate, Turn::call("book", json!({"city": "Oslo"}))]).await;
    let thread = client.thread().await;
    let events = streamed(&client, &thread, json!(["values", "updates"]), say("go")).await;
    let asked: Vec<(&str, &Value)> = events
        .iter()
        .filter(|(_, data)| data["__interrupt__"].as_array().is_some_and(|asked| !asked.is_empty()))
        .map(|(name, data)| (name.split('|').next().unwrap(), &data["__interrupt__"][0]["id"]))
        .collect();
    let names: Vec<&str> = asked.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["updates", "values", "updates", "values"], "{events:?}");
    assert!(asked.iter().all(|(_, id)| *id == asked[0].1), "{asked:?}");
    let below: Vec<&String> =
        events.iter().map(|(name, _)| name).filter(|name| name.starts_with("values|tools:")).collect();
    assert!(!below.is_empty(), "{events:?}");
}

#[tokio::test]
async fn the_state_of_a_waiting_sub_agent_is_found_in_its_task_and_by_its_namespace() {
    let delegate = Turn::call("task", json!({"description": "Book it.", "subagent_type": "booker"}));
    let client = serving(vec![delegate, Turn::call("book", json!({"city": "Oslo"}))]).await;
    let thread = client.thread().await;
    let events = streamed(&client, &thread, json!(["values"]), say("go")).await;
    let below = events.iter().find_map(|(name, _)| name.strip_prefix("values|")).unwrap();
    let place = format!("/threads/{thread}/state");
    let state = client.get(&place).await;
    let task = &state["tasks"][0];
    assert_eq!((&task["checkpoint"]["checkpoint_ns"], &task["state"]), (&json!(below), &json!(null)), "{state}");
    let whole = client.get(&format!("{place}?subgraphs=true")).await;
    let own = &whole["tasks"][0]["state"];
    assert_eq!(own["values"]["messages"][0]["content"], "Book it.", "{whole}");
    assert_eq!(own["values"]["messages"][1]["name"], "booker", "{whole}");
    assert_eq!((&own["next"], &own["interrupts"]), (&json!(["tools"]), &state["interrupts"]));
    let at = json!({"checkpoint": {"checkpoint_ns": below}});
    assert_eq!(&client.post(&format!("{place}/checkpoint"), at).await, own);
    let newest = json!({"checkpoint": {"checkpoint_id": state["checkpoint_id"]}, "subgraphs": true});
    assert_eq!(client.post(&format!("{place}/checkpoint"), newest).await["tasks"], whole["tasks"]);
    let unknown = json!({"checkpoint": {"checkpoint_ns": "tools:none"}});
    let (status, _) = client.send(Method::POST, &format!("{place}/checkpoint"), &unknown).await;
    assert_eq!(status.as_u16(), 404);
}

#[tokio::test]
async fn the_recursion_limit_applies_to_each_agent_by_itself() {
    let delegate = || ("task", json!({"description": "count", "subagent_type": "booker"}));
    let count = |city: &str| Turn::call("count", json!({"city": city}));
    let turns = [
        Turn::calls([delegate()]),
        count("Oslo"),
        count("Rome"),
        Turn::text("Counted."),
        Turn::calls([delegate()]),
        count("Turin"),
        count("Paris"),
        Turn::text("Counted."),
        Turn::text("Done."),
    ];
    let client = serving(turns.into()).await;
    let mut body = say("go");
    body["config"] = json!({"recursion_limit": 8});
    let values = client.post("/runs/wait", body).await;
    let last = values["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"], "Done.", "{values}");
    // A sub-agent at its limit gives its agent a result.
    let turns = [Turn::calls([delegate()]), count("Oslo"), count("Rome"), count("Turin"), Turn::text("Done.")];
    let client = serving(turns.into()).await;
    let mut body = say("go");
    body["config"] = json!({"recursion_limit": 6});
    let values = client.post("/runs/wait", body).await;
    assert_eq!(values["messages"].as_array().unwrap().last().unwrap()["content"], "Done.", "{values}");
}

#[tokio::test]
async fn the_state_of_a_thread_that_was_pruned_while_its_sub_agent_waits_still_has_that_of_the_agent() {
    let delegate = Turn::call("task", json!({"description": "Book it.", "subagent_type": "booker"}));
    let client = serving(vec![delegate, Turn::call("book", json!({"city": "Oslo"}))]).await;
    let thread = client.thread().await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("go")).await;
    client.post("/threads/prune", json!({"thread_ids": [thread], "strategy": "keep_latest"})).await;
    let path = format!("/threads/{thread}/state?subgraphs=true");
    let (status, state) = client.send(Method::GET, &path, &json!({})).await;
    assert_eq!(status.as_u16(), 200, "{state}");
    let own = &state["tasks"][0]["state"];
    assert_eq!(own["values"]["messages"][0]["content"], "Book it.", "{state}");
    assert_eq!(own["interrupts"], state["interrupts"], "{state}");
}

#[tokio::test]
async fn the_log_is_read_once_for_all_sub_agents_that_wait() {
    let journal = Arc::new(Counted::default());
    let delegate = |city: &str| ("task", json!({"description": format!("Book {city}."), "subagent_type": "booker"}));
    let cities = ["Oslo", "Rome", "Turin", "Bern", "Graz", "Lyon"];
    let model = ScriptedModel::rules().always(Turn::with(move |request| {
        let asked = request.messages.iter().next_back().map(|message| message.text()).unwrap_or_default();
        if asked.starts_with("Book ") {
            return Turn::call("book", json!({"city": asked}));
        }
        Turn::calls(cities.iter().enumerate().map(|(at, city)| {
            let (name, args) = delegate(city);
            (["c0", "c1", "c2", "c3", "c4", "c5"][at], name, args)
        }))
    }));
    let client = serving_on(model.build(), journal.clone()).await;
    let thread = client.thread().await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("go")).await;
    let end = journal.threads().get(&thread).await.unwrap().unwrap().end;
    let read = async |query: &str| {
        journal.entries.store(0, Ordering::Relaxed);
        let state = client.get(&format!("/threads/{thread}/state{query}")).await;
        (state, journal.entries.load(Ordering::Relaxed))
    };
    read("").await;
    let ((_, alone), (state, whole)) = (read("").await, read("?subgraphs=true").await);
    let states: Vec<&Value> = state["tasks"].as_array().unwrap().iter().map(|task| &task["state"]).collect();
    assert_eq!(states.len(), cities.len());
    for (own, city) in states.iter().zip(cities) {
        assert_eq!(own["values"]["messages"][0]["content"], format!("Book {city}."), "{own}");
    }
    assert!(whole <= alone + end, "{whole} entries instead of {alone}, of {end}");
}
