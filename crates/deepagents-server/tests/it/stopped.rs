//! Threads that were stopped part way: how they appear, and how they are changed and resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, InterruptPolicy, Journal, MemoryJournal, Message, ModelError, Update, tool_fn};
use deepagents_core::journal::{Record, RecordUpdate};
use deepagents_core::message::{AssistantMessage, Block};
use deepagents_core::model::{ChatModel, ModelEvent, ModelOutput, ModelRequest};
use deepagents_core::store::{MemoryStore, Store};
use deepagents_core::tool::ToolError;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::counted::Counted;
use crate::support::{City, Client, Nothing, agent, roles, say, serve, serve_on, soon, until};

fn list() -> Turn {
    Turn::call("ls", json!({"path": "/"}))
}

fn note() -> Value {
    json!({"todos": [{"content": "a", "status": "completed"}]})
}

/// Creates a thread that stopped before the tools.
async fn before_tools(client: &Client) -> (String, Value) {
    let id = client.thread().await;
    let mut body = say("look");
    body["interrupt_before"] = json!(["tools"]);
    client.post(&format!("/threads/{id}/runs/wait"), body).await;
    let state = client.get(&format!("/threads/{id}/state")).await;
    assert_eq!(state["next"], json!(["tools"]), "{state}");
    (id, state)
}

/// Returns the state and the thread, and checks that both agree with the newest history entry.
async fn seen(client: &Client, id: &str) -> (Value, Value) {
    let state = client.get(&format!("/threads/{id}/state")).await;
    let thread = client.get(&format!("/threads/{id}")).await;
    let history = client.post(&format!("/threads/{id}/history"), json!({"limit": 1})).await;
    assert_eq!((&thread["values"], &history[0]), (&state["values"], &state));
    (state, thread)
}

async fn go_on(client: &Client, id: &str) -> Value {
    client.post(&format!("/threads/{id}/runs/wait"), json!({"assistant_id": "agent"})).await
}

#[tokio::test]
async fn a_change_at_a_breakpoint_is_visible_at_once_and_used_on_resume() {
    let client = serve(vec![list(), Turn::text("Done.")]).await;
    let (id, stopped) = before_tools(&client).await;
    let place = format!("/threads/{id}/state");
    client.post(&place, json!({"values": note()})).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((&state["values"]["todos"][0]["content"], &state["next"]), (&json!("a"), &json!(["tools"])), "{state}");
    assert_eq!(thread["status"], "interrupted");
    let mut answer = stopped["values"]["messages"][1].clone();
    answer["tool_calls"][0]["args"] = json!({"path": "/elsewhere"});
    client.post(&place, json!({"values": {"messages": [answer]}})).await;
    let (state, _) = seen(&client, &id).await;
    assert_eq!(state["values"]["messages"][1]["tool_calls"][0]["args"]["path"], "/elsewhere", "{state}");
    // There is no interrupt, so any response only resumes the thread.
    let resume = json!({"assistant_id": "agent", "command": {"resume": true}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), resume).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "ai"], "{values}");
    assert!(values["messages"][2]["content"].as_str().unwrap().contains("/elsewhere"), "{values}");
    assert_eq!(seen(&client, &id).await.1["status"], "idle");
}

#[tokio::test]
async fn an_update_as_a_node_decides_where_a_breakpoint_is_left() {
    let client = serve(vec![list(), list(), list(), Turn::text("Seen by hand.")]).await;
    let (id, _) = before_tools(&client).await;
    client.post(&format!("/threads/{id}/state"), json!({"values": null, "as_node": "__end__"})).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((&state["next"], &thread["status"]), (&json!([]), &json!("idle")));

    let (id, _) = before_tools(&client).await;
    let by_hand = json!({"messages": [{"role": "assistant", "content": "By hand."}]});
    client.post(&format!("/threads/{id}/state"), json!({"values": by_hand, "as_node": "model"})).await;
    let (state, _) = seen(&client, &id).await;
    assert_eq!(roles(&state["values"]), ["human", "ai", "tool", "ai"], "the call is answered as not made: {state}");
    assert_eq!(go_on(&client, &id).await, state["values"]);

    let (id, stopped) = before_tools(&client).await;
    let call = &stopped["values"]["messages"][1]["tool_calls"][0]["id"];
    let result = json!({"messages": [{"role": "tool", "tool_call_id": call, "name": "ls", "content": "nothing"}]});
    client.post(&format!("/threads/{id}/state"), json!({"values": result, "as_node": "tools"})).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((&state["next"], &thread["status"]), (&json!(["model"]), &json!("interrupted")));
    assert_eq!(go_on(&client, &id).await["messages"][3]["content"], "Seen by hand.");
}

/// Starts a server whose agent has a tool that hangs on its first calls. Also returns a notification of each call.
async fn serve_slow(turns: Vec<Turn>, slow: usize) -> (Client, Arc<Notify>) {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let (calls, called) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let tells = called.clone();
    let tool = tool_fn("work", "Works.", move |_: Nothing, _cx| {
        let (number, tells) = (calls.fetch_add(1, Ordering::Relaxed), tells.clone());
        async move {
            tells.notify_one();
            if number < slow {
                std::future::pending::<()>().await;
            }
            Ok("worked".to_owned())
        }
    });
    let model = ScriptedModel::new(turns);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).tool(tool).build().unwrap();
    (serve_on(agent, journal, Arc::new(MemoryStore::default())).await, called)
}

/// Cancels the run in flight and returns its id.
async fn cancel(client: &Client, id: &str) -> String {
    let run = client.get(&format!("/threads/{id}/runs?status=running")).await[0]["run_id"].clone();
    let run = run.as_str().unwrap().to_owned();
    client.post(&format!("/threads/{id}/runs/{run}/cancel?wait=1"), json!({})).await;
    run
}

#[tokio::test]
async fn a_cancelled_run_looks_the_same_everywhere_and_repeats_its_call_on_resume() {
    let turns = vec![Turn::call("work", json!({})), Turn::text("Worked.")];
    let (client, called) = serve_slow(turns, 2).await;
    let id = client.thread().await;
    let mut body = say("work");
    body["stream_mode"] = json!("values");
    let (streaming, path) = (client.clone(), format!("/threads/{id}/runs/stream"));
    let stream = tokio::spawn(async move { streaming.frames(Method::POST, &path, &body).await });
    soon(called.notified()).await;
    let run = cancel(&client, &id).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((roles(&state["values"]), &state["next"]), (vec!["human".into(), "ai".into()], &json!(["tools"])));
    assert_eq!(thread["status"], "interrupted");
    let frames = soon(stream).await.unwrap();
    let last = frames.iter().rev().find(|(name, _)| name == "values").unwrap();
    assert_eq!(last.1["messages"], state["values"]["messages"]);
    let joined = client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    assert_eq!(joined["messages"], state["values"]["messages"]);

    // After a resume and another cancellation, the state is the same.
    client.post(&format!("/threads/{id}/runs"), json!({"assistant_id": "agent"})).await;
    soon(called.notified()).await;
    cancel(&client, &id).await;
    let (again, thread) = seen(&client, &id).await;
    assert_eq!((&again["values"], &again["next"]), (&state["values"], &json!(["tools"])), "{again}");
    assert_eq!(thread["status"], "interrupted");
    client.post(&format!("/threads/{id}/state"), json!({"values": note()})).await;
    let (changed, thread) = seen(&client, &id).await;
    assert_eq!(changed["values"]["todos"][0]["content"], "a", "{changed}");
    assert_eq!((&changed["next"], &thread["status"]), (&json!(["tools"]), &json!("interrupted")));
    let values = go_on(&client, &id).await;
    assert_eq!(
        (&values["messages"][2]["content"], &values["messages"][3]["content"]),
        (&json!("worked"), &json!("Worked."))
    );
    assert_eq!(seen(&client, &id).await.1["status"], "idle");
}

#[tokio::test]
async fn a_run_cancelled_before_its_turn_ends_at_once() {
    let (client, called) = serve_slow(vec![Turn::call("work", json!({}))], 1).await;
    let id = client.thread().await;
    let runs = format!("/threads/{id}/runs");
    let first = client.post(&runs, say("work")).await["run_id"].clone();
    soon(called.notified()).await;
    for action in ["interrupt", "rollback"] {
        let run = client.post(&runs, say("never")).await["run_id"].clone();
        let run = format!("{runs}/{}", run.as_str().unwrap());
        assert_eq!(client.post(&format!("{run}/cancel?wait=1&action={action}"), json!({})).await, json!({}));
        let (status, shown) = client.send(Method::GET, &run, &json!({})).await;
        match action {
            "rollback" => assert_eq!(status, StatusCode::NOT_FOUND),
            _ => assert_eq!(shown["status"], "interrupted"),
        }
        assert_eq!(client.get(&format!("{runs}/{}", first.as_str().unwrap())).await["status"], "running");
        assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "busy");
    }
    cancel(&client, &id).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((roles(&state["values"]).len(), &thread["status"]), (2, &json!("interrupted")), "{state}");
}

#[tokio::test]
async fn a_run_cancelled_before_its_first_checkpoint_stands_at_its_input() {
    let journal = Arc::new(Counted::default());
    let agent = agent(vec![Turn::text("Hello."), Turn::text("Again.")], journal.clone());
    let client = serve_on(agent, journal.clone(), Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    let runs = format!("/threads/{id}/runs");
    for messages in [1, 3] {
        let held = journal.gate.write().await;
        let run = client.post(&runs, say("hi")).await["run_id"].clone();
        let run = format!("{runs}/{}", run.as_str().unwrap());
        until(async || client.get(&run).await["status"] == "running").await;
        client.post(&format!("{run}/cancel"), json!({})).await;
        // By the time that this is answered, the run knows that it is cancelled.
        client.get(&format!("/threads/{id}")).await;
        drop(held);
        client.get(&format!("{run}/join")).await;
        let (state, thread) = seen(&client, &id).await;
        assert_eq!((&state["next"], &thread["status"]), (&json!(["model"]), &json!("interrupted")), "{state}");
        assert_eq!(roles(&state["values"]).len(), messages);
        assert_eq!(roles(&go_on(&client, &id).await).len(), messages + 1);
    }
}

/// A model that books a trip when notified.
struct Books(Arc<Notify>);

impl ChatModel for Books {
    fn name(&self) -> &str {
        "books"
    }

    fn stream(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let go = self.0.clone();
        let answer = async move {
            go.notified().await;
            let call = Block::call("c1", "book", json!({"city": "Oslo"}));
            Ok(ModelEvent::Finished(Box::new(ModelOutput::new(AssistantMessage::new(vec![call])))))
        };
        stream::once(answer).boxed()
    }
}

#[tokio::test]
async fn a_run_cancelled_as_it_asks_looks_the_same_everywhere_and_asks_again_on_resume() {
    let (journal, go) = (Arc::new(Counted::default()), Arc::new(Notify::new()));
    let book = tool_fn("book", "Books a trip.", |args: City, _cx| async move { Ok(format!("booked {}", args.city)) });
    let asks: InterruptPolicy = serde_json::from_value(json!({"book": true})).unwrap();
    let agent = DeepAgent::builder().model(Books(go.clone())).journal(journal.clone()).tool(book).interrupt_on(asks);
    let client = serve_on(agent.build().unwrap(), journal.clone(), Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    let run = client.post(&format!("/threads/{id}/runs"), say("book")).await["run_id"].clone();
    let run = format!("/threads/{id}/runs/{}", run.as_str().unwrap());
    until(async || client.get(&format!("/threads/{id}/state")).await["next"] == json!(["model"])).await;
    // The cancellation comes while the answer with the question is being stored.
    let (held, begun) = (journal.gate.write().await, journal.appends.load(Ordering::Relaxed));
    go.notify_one();
    until(async || journal.appends.load(Ordering::Relaxed) > begun).await;
    client.post(&format!("{run}/cancel"), json!({})).await;
    client.get(&format!("/threads/{id}")).await;
    drop(held);
    client.get(&format!("{run}/join")).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((&state["next"], &state["interrupts"]), (&json!(["model"]), &json!([])), "{state}");
    assert_eq!((&thread["status"], &thread["interrupts"]), (&json!("interrupted"), &json!({})));
    go.notify_one();
    let values = go_on(&client, &id).await;
    assert_eq!(roles(&values), ["human", "ai"], "{values}");
    assert_eq!(values["__interrupt__"][0]["value"]["action_requests"][0]["name"], "book");
    let (state, _) = seen(&client, &id).await;
    assert_eq!(state["interrupts"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thread_is_idle_for_whoever_knows_that_its_run_has_ended() {
    let model = ScriptedModel::rules().always(Turn::text("Hi."));
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = DeepAgent::builder().model(model.build()).journal(journal.clone()).build().unwrap();
    let client = serve_on(agent, journal, Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    let mut body = say("hi");
    body["multitask_strategy"] = json!("reject");
    for _ in 0..60 {
        client.post(&format!("/threads/{id}/runs/wait"), body.clone()).await;
        assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "idle");
    }
}

#[tokio::test]
async fn deleting_a_running_run_removes_what_it_did() {
    let (client, called) = serve_slow(vec![Turn::text("Hi."), Turn::call("work", json!({}))], 1).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("hello")).await;
    let run = client.post(&format!("/threads/{id}/runs"), say("work")).await["run_id"].clone();
    soon(called.notified()).await;
    let place = format!("/threads/{id}/runs/{}", run.as_str().unwrap());
    assert_eq!(client.send(Method::DELETE, &place, &json!({})).await.0, StatusCode::NO_CONTENT);
    assert_eq!(client.send(Method::GET, &place, &json!({})).await.0, StatusCode::NOT_FOUND);
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((roles(&state["values"]).len(), &thread["status"]), (2, &json!("idle")));
}

#[tokio::test]
async fn a_state_shows_why_its_run_failed_until_it_is_changed() {
    let fails = Turn::error(ModelError::Invalid("no such model".into()));
    let client = serve(vec![fails, Turn::text("Back.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    let (state, thread) = seen(&client, &id).await;
    assert!(state["tasks"][0]["error"].as_str().unwrap().contains("no such model"), "{state}");
    assert_eq!(thread["status"], "error");
    let more = json!({"messages": [{"role": "user", "content": "please"}]});
    client.post(&format!("/threads/{id}/state"), json!({"values": more})).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((&state["tasks"][0]["error"], &state["next"]), (&Value::Null, &json!(["model"])));
    assert_eq!((&thread["status"], &thread["error"]), (&json!("interrupted"), &Value::Null));
    assert_eq!(go_on(&client, &id).await["messages"][2]["content"], "Back.");
}

#[tokio::test]
async fn pending_calls_that_are_changed_are_asked_about_again() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("book")).await;
    let place = format!("/threads/{id}/state");
    client.post(&place, json!({"values": note()})).await;
    let (state, _) = seen(&client, &id).await;
    assert_eq!(state["interrupts"].as_array().unwrap().len(), 1, "other changes leave what is asked");
    let mut answer = state["values"]["messages"][1].clone();
    answer["tool_calls"][0]["args"] = json!({"city": "Rome"});
    client.post(&place, json!({"values": {"messages": [answer]}})).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((&state["interrupts"], &state["next"]), (&json!([]), &json!(["tools"])), "{state}");
    assert_eq!(thread["status"], "interrupted");
    let values = go_on(&client, &id).await;
    assert_eq!(values["__interrupt__"][0]["value"]["action_requests"][0]["args"]["city"], "Rome", "{values}");
    let resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), resume).await;
    assert_eq!(values["messages"][2]["content"], "booked Rome");
}

#[tokio::test]
async fn a_message_at_a_breakpoint_before_the_tools_follows_their_results() {
    let client = serve(vec![list(), Turn::text("Done.")]).await;
    let (id, _) = before_tools(&client).await;
    let said = json!({"messages": [{"role": "user", "content": "also"}]});
    let command = json!({"assistant_id": "agent", "command": {"update": said}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), command).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "human", "ai"], "{values}");
    assert_eq!(seen(&client, &id).await.1["status"], "idle");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_breakpoint_before_the_model_stops_even_the_fastest_run() {
    let client = serve(vec![Turn::text("Done.")]).await;
    let runs = (0..100).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let id = client.thread().await;
            let mut body = say("hi");
            body["interrupt_before"] = json!("*");
            client.post(&format!("/threads/{id}/runs/wait"), body).await;
            client.get(&format!("/threads/{id}/state")).await
        })
    });
    for run in runs.collect::<Vec<_>>() {
        let state = run.await.unwrap();
        assert_eq!((roles(&state["values"]).len(), &state["next"]), (1, &json!(["model"])), "{state}");
    }
}

#[tokio::test]
async fn messages_of_a_rolled_back_run_are_in_no_state_of_the_thread() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let tells = Arc::new(Notify::new());
    let served = async |turns: Vec<Turn>| {
        let tells = tells.clone();
        let work = tool_fn("work", "Works.", move |_: Nothing, _cx| {
            tells.notify_one();
            std::future::pending::<Result<String, ToolError>>()
        });
        let agent = DeepAgent::builder().model(ScriptedModel::new(turns)).journal(journal.clone()).tool(work);
        serve_on(agent.build().unwrap(), journal.clone(), store.clone()).await
    };
    let client = served(vec![Turn::text("Hi."), Turn::call("work", json!({}))]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("hello")).await;
    let run = client.post(&format!("/threads/{id}/runs"), say("a secret")).await["run_id"].clone();
    soon(tells.notified()).await;
    let history = format!("/threads/{id}/history");
    let secret = client.get(&format!("/threads/{id}/state")).await["checkpoint"]["checkpoint_id"].clone();
    let (all, run) = (json!({"limit": 100}), run.as_str().unwrap());
    client.post(&format!("/threads/{id}/runs/{run}/cancel?wait=1&action=rollback"), json!({})).await;
    let seen_now = client.post(&history, all.clone()).await;
    assert!(!seen_now.to_string().contains("a secret"), "{seen_now}");
    let old = format!("/threads/{id}/state/{}", secret.as_str().unwrap());
    assert_eq!(client.send(Method::GET, &old, &json!({})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(roles(&seen(&client, &id).await.0["values"]), ["human", "ai"]);

    // The checkpoints also stay hidden from the next process and after the next run.
    let client = served(vec![Turn::text("Once more.")]).await;
    client.post(&format!("/threads/{id}/runs/wait"), say("again")).await;
    let later = client.post(&history, all).await;
    assert!(!later.to_string().contains("a secret"), "{later}");
    let later = later.as_array().unwrap();
    assert_eq!(json!(later[later.len() - seen_now.as_array().unwrap().len()..]), seen_now);
    for pair in later.windows(2) {
        assert_eq!(pair[0]["parent_checkpoint"], pair[1]["checkpoint"]);
        assert_eq!(pair[0]["metadata"]["step"].as_i64().unwrap(), pair[1]["metadata"]["step"].as_i64().unwrap() + 1);
    }
}

/// A call with the same id each time, as many providers give it in every turn.
fn same(name: &str, args: Value) -> Turn {
    Turn::calls([("call_0", name, args)])
}

#[tokio::test]
async fn a_call_with_the_id_of_an_earlier_one_waits_for_a_result_of_its_own() {
    let ls = || same("ls", json!({"path": "/"}));
    let client = serve(vec![ls(), Turn::text("One."), ls(), ls(), Turn::text("Two.")]).await;
    let id = client.thread().await;
    let wait = format!("/threads/{id}/runs/wait");
    client.post(&wait, say("look")).await;
    let mut body = say("look again");
    body["interrupt_after"] = json!(["model"]);
    client.post(&wait, body).await;
    let (state, thread) = seen(&client, &id).await;
    assert_eq!((&state["next"], &thread["status"]), (&json!(["tools"]), &json!("interrupted")), "{state}");
    // An answer added by hand, with a call of the same id and its result, is no result for the earlier call.
    let by_hand = json!({"messages": [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_0", "name": "ls", "args": {"path": "/"}}]},
        {"role": "tool", "tool_call_id": "call_0", "name": "ls", "content": "nothing"},
        {"role": "assistant", "content": "By hand."},
    ]});
    client.post(&format!("/threads/{id}/state"), json!({"values": by_hand, "as_node": "model"})).await;
    let (state, _) = seen(&client, &id).await;
    let all = ["human", "ai", "tool", "ai", "human", "ai", "tool", "ai", "tool", "ai"];
    assert_eq!(roles(&state["values"]), all, "{state}");
}

#[tokio::test]
async fn a_conversation_is_resolved_where_the_waiting_call_has_the_id_of_an_earlier_one() {
    let turns = vec![same("ls", json!({"path": "/"})), Turn::text("One."), same("book", json!({"city": "Oslo"}))];
    let client = serve(turns).await;
    let id = client.thread().await;
    let wait = format!("/threads/{id}/runs/wait");
    client.post(&wait, say("look")).await;
    client.post(&wait, say("book")).await;
    client.post(&wait, json!({"assistant_id": "agent", "command": {"goto": "__end__"}})).await;
    let (state, thread) = seen(&client, &id).await;
    let all = ["human", "ai", "tool", "ai", "human", "ai", "tool"];
    assert_eq!((roles(&state["values"]), &thread["status"]), (all.map(str::to_owned).to_vec(), &json!("idle")));
}

#[tokio::test]
async fn a_thread_that_was_made_for_a_run_goes_with_it_also_where_that_fails_at_first() {
    let journal = Arc::new(Counted::default());
    let work = tool_fn("work", "Works.", |_: Nothing, _cx| async {
        std::future::pending::<()>().await;
        Ok(String::new())
    });
    let model = ScriptedModel::new([Turn::call("work", json!({}))]);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).tool(work).build().unwrap();
    let client = serve_on(agent, journal.clone(), Arc::new(MemoryStore::default())).await;
    let made = client.post("/runs", say("go")).await;
    let (thread, run) = (made["thread_id"].as_str().unwrap(), made["run_id"].as_str().unwrap());
    until(async || client.get(&format!("/threads/{thread}/runs/{run}")).await["status"] == "running").await;
    journal.stuck.store(1, Ordering::Relaxed);
    client.post(&format!("/threads/{thread}/runs/{run}/cancel?wait=1&action=rollback"), json!({})).await;
    assert_eq!(client.post("/threads/search", json!({})).await, json!([]));
}

#[tokio::test]
async fn a_rollback_does_not_undo_what_others_have_added_since_the_run_ended() {
    let journal = Arc::new(Counted::default());
    let work = tool_fn("work", "Works.", |_: Nothing, _cx| std::future::pending::<Result<String, ToolError>>());
    let model = ScriptedModel::new([Turn::text("Hi."), Turn::call("work", json!({}))]);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).tool(work).build().unwrap();
    let client = serve_on(agent, journal.clone(), Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("hello")).await;
    let run = client.post(&format!("/threads/{id}/runs"), say("work")).await["run_id"].clone();
    let run = format!("/threads/{id}/runs/{}", run.as_str().unwrap());
    until(async || client.get(&run).await["status"] == "running").await;
    let added = RecordUpdate::Live(Update::message(Message::user("from elsewhere")));
    *journal.before_rewind.lock().unwrap() = vec![Record::StateUpdated { update: added, run: None }];
    client.post(&format!("{run}/cancel?wait=1&action=rollback"), json!({})).await;
    assert_eq!(client.send(Method::GET, &run, &json!({})).await.0, StatusCode::NOT_FOUND);
    let values = seen(&client, &id).await.0["values"].to_string();
    assert!(values.contains("from elsewhere") && values.contains("hello"), "{values}");
}
