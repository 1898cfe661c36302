//! The todo list and its rules.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deepagents::channels::{Todo, TodoStatus, TodoUpdate, Todos};
use deepagents::core::env::{Clock, Timestamp};
use deepagents::core::state::Channel;
use deepagents::middleware::TodoList;
use deepagents::middleware::limits::ToolCallLimit;
use deepagents::middleware::todo::{ListPlanner, Planner, TodoPolicy, planner_fn};
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::profile::ProfileConfig;
use deepagents::subagents::{Mode, SubAgentSpec};
use deepagents::{
    BoxError, Context, Decision, DeepAgent, EventKind, FinishReason, HookOutput, InterruptOn, InterruptPolicy,
    MemoryJournal, Message, MiddlewareEvent, ModelRequest, Outcome, Preset, RunInput, Update, before_model,
};
use futures_util::StreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::{play, results};

fn write(items: &[(&str, &str)]) -> Turn {
    Turn::call("write_todos", todos(items))
}

fn todos(items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> =
        items.iter().map(|(content, status)| json!({"content": content, "status": status})).collect();
    json!({ "todos": items })
}

fn list(outcome: &Outcome) -> Vec<(String, TodoStatus)> {
    outcome.state.get::<Todos>().unwrap().iter().map(|t| (t.content.clone(), t.status)).collect()
}

#[tokio::test]
async fn a_write_replaces_the_whole_list() {
    let script = [
        write(&[("Read", "in_progress"), ("Write", "pending")]),
        write(&[("Read", "completed"), ("Write", "completed")]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert_eq!(
        list(&outcome),
        [("Read".to_owned(), TodoStatus::Completed), ("Write".to_owned(), TodoStatus::Completed)]
    );
}

#[tokio::test]
async fn every_item_of_a_list_of_thousands_gets_an_id_of_its_own() {
    let item = |n: u32| json!({"content": format!("Step {n}"), "status": "completed"});
    let items: Vec<Value> = (1..=3_000).map(item).collect();
    let script = [Turn::call("write_todos", json!({"todos": items})), Turn::text("Done.")];
    let (outcome, _) = play(script, |b| b).await;
    let ids = outcome.state.get::<Todos>().unwrap().iter().map(|todo| todo.id.clone());
    assert!(ids.eq((1..=3_000).map(|n| n.to_string())));
}

#[tokio::test]
async fn items_of_a_list_of_thousands_keep_their_ids_in_another_order() {
    let items = |order: &mut dyn Iterator<Item = u32>| -> Value {
        let items: Vec<Value> = order.map(|n| json!({"content": format!("Step {n}"), "status": "pending"})).collect();
        json!({ "todos": items })
    };
    let script = [
        Turn::call("write_todos", items(&mut (1..=3_000))),
        Turn::call("write_todos", items(&mut (1..=3_000).rev())),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.todos(TodoPolicy::off())).await;
    let ids = outcome.state.get::<Todos>().unwrap().iter().map(|todo| todo.id.clone());
    assert!(ids.eq((1..=3_000).rev().map(|n| n.to_string())));
}

#[tokio::test]
async fn a_numeric_id_is_accepted_and_one_of_another_type_is_ignored() {
    let script = [
        write(&[("Read", "in_progress")]),
        Turn::call("write_todos", json!({"todos": [{"id": 1, "content": "Read it all", "status": "completed"}]})),
        Turn::call("write_todos", json!({"todos": [{"id": ["x"], "content": "Send", "status": "completed"}]})),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.todos(TodoPolicy::off())).await;
    let ids: Vec<_> = outcome.state.get::<Todos>().unwrap().iter().map(|t| (t.id.clone(), t.content.clone())).collect();
    assert_eq!(ids, [("2".to_owned(), "Send".to_owned())]);
    let told: Vec<String> = results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert!(told.iter().all(|text| !text.contains("Error")), "{told:?}");
}

#[tokio::test]
async fn two_writes_in_one_turn_are_both_rejected_and_other_calls_run() {
    let script = [
        Turn::calls([
            ("write_todos", todos(&[("A", "pending")])),
            ("ls", json!({"path": "/"})),
            ("write_todos", todos(&[("B", "pending")])),
        ]),
        Turn::text("Sorry."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert!(list(&outcome).is_empty());
    let errors: Vec<bool> = results(&outcome).into_iter().map(|(_, error)| error).collect();
    assert_eq!(errors.iter().filter(|e| **e).count(), 2);
    assert_eq!(errors.len(), 3);
}

#[tokio::test]
async fn of_two_writes_in_one_turn_one_may_be_beyond_a_limit_and_each_has_one_result() {
    let writes = || ("write_todos", todos(&[("Read", "completed")]));
    let script = [Turn::calls([writes(), writes()]), Turn::text("Done.")];
    let limit = ToolCallLimit::for_tool("write_todos", None, Some(1)).unwrap();
    let (outcome, _) = play(script, |b| b.middleware(limit)).await;
    check_history(outcome.messages()).unwrap();
    let results = results(&outcome);
    let refused = |(text, _): &&(String, bool)| text.contains("limit of these calls is reached");
    assert_eq!((results.len(), results.iter().filter(refused).count()), (2, 1), "{results:?}");
    assert_eq!(list(&outcome), [("Read".to_owned(), TodoStatus::Completed)]);
}

#[tokio::test]
async fn an_unknown_status_is_an_error_that_names_its_position() {
    let (outcome, _) = play([write(&[("A", "doing")]), Turn::text("Hm.")], |b| b).await;
    let (text, error) = results(&outcome).remove(0);
    assert!(error && text.contains("/todos/0/status"), "{text}");
}

#[tokio::test]
async fn an_items_id_and_time_survive_changes_of_status_or_text() {
    let rename = json!({"todos": [{"id": "1", "content": "Read all of it", "status": "completed"}]});
    let script = [write(&[("Read", "pending")]), Turn::call("write_todos", rename), Turn::text("Done.")];
    let (outcome, _) = play(script, |b| b).await;
    let todos = outcome.state.get::<Todos>().unwrap();
    assert_eq!((todos[0].id.as_str(), todos[0].content.as_str()), ("1", "Read all of it"));
    assert!(!todos[0].created_at.is_empty());
}

#[tokio::test]
async fn finished_items_omitted_from_a_write_are_kept_and_the_model_is_told() {
    let script =
        [write(&[("Read", "completed"), ("Write", "pending")]), write(&[("Write", "completed")]), Turn::text("Done.")];
    let (outcome, _) = play(script.clone(), |b| b).await;
    assert_eq!(list(&outcome).len(), 2);
    assert!(results(&outcome)[1].0.contains("have been kept: Read"), "{:?}", results(&outcome));

    let (outcome, _) = play(script, |b| b.todos(TodoPolicy::off())).await;
    assert_eq!(list(&outcome).len(), 1);
}

#[tokio::test]
async fn an_unknown_item_field_is_ignored() {
    let odd = json!({"todos": [{"content": "A", "status": "completed", "priority": "high"}]});
    let (outcome, _) = play([Turn::call("write_todos", odd), Turn::text("Done.")], |b| b).await;
    assert_eq!((list(&outcome).len(), results(&outcome)[0].1), (1, false));
}

#[tokio::test]
async fn an_empty_list_clears_the_todos() {
    let (outcome, _) = play([write(&[("A", "completed")]), write(&[]), Turn::text("Done.")], |b| b).await;
    assert!(list(&outcome).is_empty());
}

#[tokio::test]
async fn a_run_about_to_end_with_open_items_is_asked_once() {
    let script = [write(&[("A", "pending")]), Turn::text("Finished."), Turn::text("Really.")];
    let (outcome, model) = play(script.clone(), |b| b).await;
    assert_eq!((outcome.stop.clone(), outcome.text().as_str()), (FinishReason::Done, "Really."));
    assert!(model.requests()[2].messages.last().unwrap().text().contains("- [pending] A"));

    let (outcome, _) = play(script, |b| b.todos(TodoPolicy { ask_before_end: false, ..TodoPolicy::default() })).await;
    assert_eq!(outcome.text(), "Finished.");
}

#[tokio::test]
async fn a_stagnant_list_is_repeated_at_the_end_of_the_conversation() {
    let look = || Turn::call("ls", json!({"path": "/"}));
    let script = [
        write(&[("A", "in_progress")]),
        look(),
        look(),
        look(),
        look(),
        write(&[("A", "completed")]),
        Turn::text("Done."),
    ];
    let policy = TodoPolicy { remind_after: Some(2), ..TodoPolicy::default() };
    let (outcome, model) = play(script, |b| b.todos(policy)).await;
    let reminders: Vec<usize> = (0..outcome.messages().len())
        .filter(|&at| outcome.messages().get(at).unwrap().text().starts_with("Reminder:"))
        .collect();
    assert_eq!(reminders.len(), 2, "one for every two calls: {reminders:?}");
    // Reminders are stored, so that later requests start with the same messages.
    assert!(matches!(&**model.requests()[3].messages.last().unwrap(), Message::User(_)));
}

/// A model that updates its list only when told these words. Otherwise it looks three times and ends.
fn careless(words: &'static str) -> ScriptedModel {
    let look = || Turn::call("ls", json!({"path": "/"}));
    let told = move |request: &ModelRequest| {
        let last = request.messages.last().map(|m| m.text()).unwrap_or_default();
        last.contains(words)
    };
    ScriptedModel::rules()
        .when(told, [write(&[("A", "completed")])])
        .otherwise([write(&[("A", "in_progress")]), look(), look(), look(), Turn::text("Done."), Turn::text("Done.")])
        .build()
}

async fn ended(model: ScriptedModel, policy: TodoPolicy) -> TodoStatus {
    let outcome = DeepAgent::builder().model(model).todos(policy).build().unwrap().invoke("Go.").await.unwrap();
    outcome.state.get::<Todos>().unwrap()[0].status
}

#[tokio::test]
async fn a_model_that_forgets_its_list_finishes_it_only_when_reminded() {
    let model = || careless("Reminder:");
    assert_eq!(ended(model(), TodoPolicy::off()).await, TodoStatus::InProgress);
    assert_eq!(ended(model(), TodoPolicy { remind_after: Some(3), ..TodoPolicy::off() }).await, TodoStatus::Completed);
    assert_eq!(
        ended(model(), TodoPolicy { remind_after: Some(4), ..TodoPolicy::off() }).await,
        TodoStatus::InProgress,
        "too late"
    );
}

#[tokio::test]
async fn a_model_that_ends_too_early_finishes_its_list_only_when_asked() {
    let model = || careless("still has open items");
    assert_eq!(ended(model(), TodoPolicy::off()).await, TodoStatus::InProgress);
    assert_eq!(ended(model(), TodoPolicy { ask_before_end: true, ..TodoPolicy::off() }).await, TodoStatus::Completed);
}

#[tokio::test]
async fn omitted_finished_items_are_lost_unless_they_are_kept_by_policy() {
    let report = Turn::with(|request| Turn::text(request.messages.last().map(|m| m.text()).unwrap_or_default()));
    let script = [
        write(&[("Read", "completed"), ("Write", "pending")]),
        write(&[("Write", "completed")]),
        Turn::call("read_todos", json!({})),
        report,
    ];
    let (outcome, _) = play(script.clone(), |b| b.todos(TodoPolicy::off())).await;
    assert_eq!(outcome.text(), "2. [completed] Write");
    let (outcome, _) = play(script, |b| b.todos(TodoPolicy { keep_finished: true, ..TodoPolicy::off() })).await;
    assert_eq!(outcome.text(), "1. [completed] Read\n2. [completed] Write");
}

#[tokio::test]
async fn write_limits_statuses_ids_and_times_hold_under_every_policy() {
    #[derive(Default)]
    struct Ticks(AtomicUsize);
    impl Clock for Ticks {
        fn now(&self) -> Timestamp {
            Timestamp::from_second(self.0.fetch_add(1, Ordering::SeqCst) as i64).unwrap()
        }
    }
    let script = [
        Turn::calls([("write_todos", todos(&[("A", "pending")])), ("write_todos", todos(&[("B", "pending")]))]),
        write(&[("A", "doing")]),
        write(&[("", "pending")]),
        write(&[("A", "pending")]),
        write(&[("B", "pending"), ("A", "completed")]),
        Turn::call("write_todos", json!({"todos": [{"id": "77", "content": "C", "status": "completed"}]})),
        Turn::text("Done."),
    ];
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let watch = before_model(move |cx| {
        notes.lock().unwrap().push(cx.get::<Todos>());
        async { Ok(HookOutput::next()) }
    });
    let (outcome, _) = play(script, |b| b.todos(TodoPolicy::off()).clock(Ticks::default()).middleware(watch)).await;
    let errors: Vec<bool> = results(&outcome).into_iter().map(|(_, error)| error).collect();
    assert_eq!(errors, [true, true, true, true, false, false, false]);
    let seen = seen.lock().unwrap();
    let (first, second) = (&seen[4], &seen[5]);
    assert_eq!((second[1].id.as_str(), &second[1].created_at), (first[0].id.as_str(), &first[0].created_at));
    assert_ne!(second[0].id, second[1].id);
    assert!(second[0].created_at > second[1].created_at, "{second:?}");
    assert_ne!(list(&outcome)[0].0, "", "an id that no item has makes a new item");
}

#[tokio::test]
async fn read_todos_shows_the_list() {
    let script = [
        Turn::call("read_todos", json!({})),
        write(&[("A", "completed")]),
        Turn::call("read_todos", json!({})),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b).await;
    assert_eq!(results(&outcome)[0].0, "The todo list is empty.");
    assert_eq!(results(&outcome)[2].0, "1. [completed] A");
}

/// A planner that counts its calls.
fn counting(asked: &Arc<AtomicUsize>, items: &'static [&'static str]) -> impl Planner + use<> {
    let asked = asked.clone();
    planner_fn(move |_task, _cx| {
        asked.fetch_add(1, Ordering::SeqCst);
        async move { Ok(items.iter().map(|item| (*item).to_owned()).collect()) }
    })
}

#[tokio::test]
async fn a_planner_fills_the_list_before_the_first_model_call_and_the_model_is_told() {
    let script = [write(&[("Read", "completed"), ("Write", "completed")]), Turn::text("Done.")];
    let asked = Arc::default();
    let (outcome, model) = play(script, |b| b.planner(counting(&asked, &["Read", " Write "]))).await;
    let first = &model.requests()[0].messages;
    let texts: Vec<String> = first.iter().map(|m| m.text()).collect();
    assert_eq!(texts[0], "Go.");
    assert!(texts[1].contains("1. Read\n2. Write\n"), "{texts:?}");
    let todos = outcome.state.get::<Todos>().unwrap();
    assert_eq!(
        todos.iter().map(|t| (t.id.as_str(), t.content.as_str())).collect::<Vec<_>>(),
        [("1", "Read"), ("2", "Write")]
    );
    assert!(todos.iter().all(|t| t.status == TodoStatus::Completed && !t.created_at.is_empty()));
    assert_eq!(asked.load(Ordering::SeqCst), 1, "not again before the second call");
}

#[tokio::test]
async fn a_type_with_a_plain_async_fn_can_be_a_planner_and_sees_the_task() {
    struct Words;
    impl Planner for Words {
        async fn plan(&self, task: &str, cx: &Context) -> Result<Vec<String>, BoxError> {
            tokio::task::yield_now().await;
            Ok(vec![format!("{} does {task}", cx.agent_name())])
        }
    }
    let (outcome, _) = play([Turn::text("Done."), Turn::text("Done.")], |b| b.name("clerk").planner(Words)).await;
    assert_eq!(list(&outcome)[0].0, "clerk does Go.");
}

#[tokio::test]
async fn a_failing_planner_is_reported_and_the_run_continues_without_a_list() {
    let failing = planner_fn(|_, _| async { Err("no idea".into()) });
    let blank = planner_fn(|_, _| async { Ok(vec!["Read".to_owned(), " ".to_owned()]) });
    let (failing, blank) = (TodoList::default().planner(failing), TodoList::default().planner(blank));
    for (todos, words) in [(failing, "no idea"), (blank, "item 2 of the plan has no text")] {
        let model = ScriptedModel::new([Turn::text("Done.")]);
        let mut run = DeepAgent::builder().model(model).middleware(todos).build().unwrap().run("Go.");
        let mut told = Vec::new();
        while let Some(event) = run.next().await {
            if let EventKind::Middleware(event) = event.kind {
                told.push(event);
            }
        }
        told.retain(|event| !matches!(event, MiddlewareEvent::ContextWindowUnknown { .. }));
        assert_eq!(told, [MiddlewareEvent::PlanningFailed { error: words.to_owned() }]);
        let outcome = run.outcome().await.unwrap();
        assert_eq!((outcome.text().as_str(), list(&outcome).len()), ("Done.", 0));
    }
}

#[tokio::test]
async fn a_thread_with_a_list_or_a_resumed_one_is_not_planned() {
    let journal = Arc::new(MemoryJournal::new());
    let asked = Arc::default();
    let ask = |turns: Vec<Turn>| {
        let gate = InterruptPolicy::new().before("ls", InterruptOn::any());
        DeepAgent::builder()
            .model(ScriptedModel::new(turns))
            .journal(journal.clone())
            .planner(counting(&asked, &["Read"]))
            .interrupt_on(gate)
            .build()
            .unwrap()
    };
    let look = || Turn::call("ls", json!({"path": "/"}));
    let waiting = ask(vec![look()]).invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!((waiting.stop.clone(), asked.load(Ordering::SeqCst)), (FinishReason::Interrupted, 1));
    // The list is empty, so only the fact that the run is resumed prevents another call of the planner.
    let id = waiting.action_requests()[0].id.clone();
    let resumed = ask(vec![write(&[]), Turn::text("Done.")]);
    let done = resumed.invoke(RunInput::resume("t").decide(id, Decision::Approve)).await.unwrap();
    assert_eq!((list(&done).len(), asked.load(Ordering::SeqCst)), (0, 1));
    let next = ask(vec![Turn::text("Done."), Turn::text("Yes.")]);
    let next = next.invoke(RunInput::new("And this.").thread("t")).await.unwrap();
    assert_eq!((list(&next).len(), asked.load(Ordering::SeqCst)), (1, 2), "a new task is planned for");
    let last = ask(vec![Turn::text("Done."), Turn::text("Yes.")]);
    last.invoke(RunInput::new("And that.").thread("t")).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2, "there is a list already");
}

#[tokio::test]
async fn the_built_in_list_planner_is_used_only_if_configured() {
    let task = "Please do this:\n1. Read /a.txt\n2. Count its lines\n3. Report";
    for wanted in [true, false] {
        let model = ScriptedModel::new([Turn::text("Done."), Turn::text("Yes.")]);
        let builder = DeepAgent::builder().model(model.clone());
        let builder = if wanted { builder.planner(ListPlanner) } else { builder };
        let outcome = builder.build().unwrap().invoke(task).await.unwrap();
        let items: Vec<String> = list(&outcome).into_iter().map(|(item, _)| item).collect();
        let expected: &[&str] = if wanted { &["Read /a.txt", "Count its lines", "Report"] } else { &[] };
        assert_eq!(items, expected);
        // With a list, the run asks about open items before it ends.
        assert_eq!(outcome.model_calls, if wanted { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_sub_agents_task_is_planned_on_its_own_list() {
    let script = [
        Turn::call("task", json!({"description": "1. Look\n2. Tell", "subagent_type": "general-purpose"})),
        write(&[("Look", "completed"), ("Tell", "completed")]),
        Turn::text("Told."),
        Turn::text("Done."),
    ];
    let (outcome, model) = play(script, |b| b.planner(ListPlanner)).await;
    assert!(model.requests()[1].messages.get(1).unwrap().text().contains("1. Look\n2. Tell"));
    assert!(list(&outcome).is_empty());
}

#[tokio::test]
async fn a_fork_is_not_asked_about_its_parents_list() {
    let twin = SubAgentSpec::new("twin", "Shares the conversation.").mode(Mode::Fork);
    let script = [
        write(&[("Part one", "in_progress"), ("Part two", "pending")]),
        Turn::call("task", json!({"description": "Do part one.", "subagent_type": "twin"})),
        Turn::text("Part one is done."),
        write(&[("Part one", "completed"), ("Part two", "completed")]),
        Turn::text("Done."),
    ];
    let (outcome, model) = play(script, |b| b.sub_agent(twin)).await;
    assert_eq!((outcome.text().as_str(), model.requests().len()), ("Done.", 5));
    assert!(list(&outcome).iter().all(|(_, status)| *status == TodoStatus::Completed));
}

#[test]
fn a_planner_without_the_standard_todo_list_is_rejected() {
    let builder = || DeepAgent::builder().model(ScriptedModel::new([])).planner(ListPlanner);
    let excluded = ProfileConfig { excluded_middleware: ["TodoList".to_owned()].into(), ..ProfileConfig::default() };
    for builder in [
        builder().preset(Preset::Lean),
        builder().without("TodoList"),
        builder().middleware(TodoList::default()),
        builder().profile(excluded),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains("a planner fills the list of the standard `TodoList`"), "{error}");
    }
    assert!(builder().build().is_ok());
}

fn spelled_out(task: &str) -> Vec<String> {
    ListPlanner::items(task)
}

#[test]
fn numbered_and_bulleted_lists_are_plans() {
    let plans: [(&str, &[&str]); 12] = [
        ("1. Read\n2. Write", &["Read", "Write"]),
        ("Tidy up.\n\n1) Read\n2) Write\n3) Send it.", &["Read", "Write", "Send it"]),
        ("(1) Read\n(2) Write", &["Read", "Write"]),
        ("1、读文件\n2、写总结", &["读文件", "写总结"]),
        (
            "1. Read\n   - all of it\n   slowly\n2. Write\n\n   ```\n   3. not this\n   ```\n3. Send",
            &["Read", "Write", "Send"],
        ),
        ("1. Read a line\nthat goes on\n2. Write\n- a bullet of its own\n3. Send", &["Read a line", "Write", "Send"]),
        ("- Read\n- Write", &["Read", "Write"]),
        ("Fix these bugs:\n* Crash at start\n* Wrong colour", &["Crash at start", "Wrong colour"]),
        ("## Tasks\n\n- [ ] Read\n- [x] Begun already\n- [ ] Write", &["Read", "Write"]),
        ("**Steps:**\n• Read\n• Write\nThank you!", &["Read", "Write"]),
        ("请完成以下任务：\n- 读文件\n- 写总结", &["读文件", "写总结"]),
        ("We have three services. Your tasks are:\n- stop api\n- stop web", &["stop api", "stop web"]),
    ];
    for (task, items) in plans {
        assert_eq!(spelled_out(task), items, "{task:?}");
    }
}

#[test]
fn code_quotations_and_single_items_are_no_plan() {
    let other = [
        "",
        "Read the report and write a summary.",
        "1. Read it all",
        "There is more than one thing here.\n- api\n- web",
        "Run this:\n```\n1. not\n2. this\n```",
        "Run this:\n~~~sh\n- a\n- b",
        "They wrote:\n> 1. Read\n> 2. Write",
        "Like so:\n\n    1. Read\n    2. Write",
        "2. Read\n3. Write",
        "Version 1.5 is out.\n1.5 is better than 1.4.",
        "Do A:\n1. Read\n2. Write\nDo B:\n1. Send\n2. Wait",
        "- - -\n* * *\n---",
    ];
    for task in other {
        assert_eq!(spelled_out(task), [""; 0], "{task:?}");
    }
    let long: String = (1..=51).map(|n| format!("{n}. Read\n")).collect();
    assert_eq!(spelled_out(&long), [""; 0], "that many are data");
    let wide = format!("1. Read\n2. {}", "很长".repeat(500));
    assert!(spelled_out(&wide)[1].ends_with('…') && spelled_out(&wide)[1].chars().count() == 200);
}

/// Lists of items, some of them equal or with the same id.
fn any_list() -> impl Strategy<Value = Vec<Todo>> {
    let item = |(id, content): (u8, u8)| Todo {
        id: id.to_string(),
        content: content.to_string(),
        status: TodoStatus::Pending,
        created_at: String::new(),
    };
    vec((0..6_u8, 0..3_u8).prop_map(item), 0..8)
}

proptest! {
    #[test]
    fn the_update_between_two_lists_turns_one_into_the_other(before in any_list(), after in any_list()) {
        let mut list = before.clone();
        Todos::reduce(&mut list, TodoUpdate::between(&before, &after)).unwrap();
        prop_assert_eq!(list, after);
    }

    #[test]
    fn planned_items_are_few_short_lines_with_words_for_any_task(task in task()) {
        let items = spelled_out(&task);
        prop_assert!(items.is_empty() || (2..=50).contains(&items.len()));
        for item in items {
            prop_assert!(item.chars().any(char::is_alphanumeric) && item.chars().count() <= 200, "{item:?}");
            prop_assert!(!item.contains('\n') && item.trim() == item, "{item:?}");
        }
    }

    #[test]
    fn a_numbered_list_is_extracted_as_written(items in vec("[A-Z][a-z]{1,9}( [a-z]{1,9}){0,4}", 2..20)) {
        let lines = items.iter().enumerate().map(|(at, item)| format!("{}. {item}\n", at + 1));
        let task = format!("Please:\n{}", lines.collect::<String>());
        prop_assert_eq!(spelled_out(&task), items);
    }
}

/// Texts built from list markers, sequence words and arbitrary text.
fn task() -> impl Strategy<Value = String> {
    let pieces = [
        "1. ",
        "2. ",
        "3) ",
        "(1) ",
        "1、",
        "- ",
        "* ",
        "• ",
        "[x] ",
        "[ ] ",
        "\n",
        "\n\n",
        "    ",
        "\t",
        "```",
        "~~~",
        "> ",
        "# ",
        ":",
        "：",
        "First ",
        "first, ",
        "Then ",
        "next ",
        "Finally, ",
        "首先",
        "然后",
        "最后",
        "，",
        "。",
        ". ",
        "!",
        "read it",
        "读",
    ];
    let piece = prop_oneof![6 => select(pieces.to_vec()).prop_map(str::to_owned), 1 => any::<String>()];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

#[tokio::test]
async fn a_todo_list_in_the_input_is_rejected_and_nothing_is_stored() {
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(model.clone()).journal(MemoryJournal::new()).build().unwrap();
    let json = json!({"todos": [{"id": "1", "content": "A", "status": "pending", "created_at": ""}]});
    let given = Update::from_json(agent.schema(), json.as_object().unwrap().clone()).unwrap();
    let error = agent.invoke(RunInput::new("Go.").thread("t").update(given.clone())).await.unwrap_err();
    assert!(error.to_string().contains("`todos` cannot be set by the input"), "{error}");
    assert_eq!((error.kind(), model.requests().len()), ("state", 0));
    assert!(agent.state("t").await.unwrap().messages().is_empty());
    // Between runs, an application may change the list.
    agent.update_state("t", given).await.unwrap();
    let outcome = agent.invoke(RunInput::new("Go.").thread("t").max_model_calls(1)).await.unwrap();
    assert_eq!(list(&outcome), [("A".to_owned(), TodoStatus::Pending)]);
}
