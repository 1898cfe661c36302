//! Tool calls that raise interrupts themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents_core::agent::Agent;
use deepagents_core::env::{RandomIds, Timestamp};
use deepagents_core::event::EventKind;
use deepagents_core::interrupt::{ActionRequest, Decision, DecisionKind, EditedAction};
use deepagents_core::journal::{Journal, MemoryJournal};
use deepagents_core::message::{Block, Message};
use deepagents_core::run::{FinishReason, Outcome, RunInput};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{CallId, DynTool, ToolError};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{Notes, agent, assert_sound, lines, tool, watch};

const YES: Decision = Decision::Approve;

/// A tool that interrupts twice.
fn asks(notes: &Notes) -> impl DynTool + use<> {
    let notes = notes.clone();
    tool("asks", move |_, cx| {
        let notes = notes.clone();
        async move {
            notes.add("asks");
            let first = cx.interrupt("First?", [DecisionKind::Approve])?;
            let second = cx.interrupt("Second?", [DecisionKind::Approve, DecisionKind::Respond])?;
            Ok(format!("{} {}", first.kind(), second.kind()))
        }
    })
}

fn works(notes: &Notes) -> impl DynTool + use<> {
    let notes = notes.clone();
    tool("works", move |_, _| {
        notes.add("works");
        async { Ok("worked") }
    })
}

fn ids(outcome: &Outcome) -> Vec<String> {
    outcome.action_requests().into_iter().map(|q| q.id).collect()
}

async fn answer(agent: &Agent, id: &str) -> Outcome {
    agent.invoke(RunInput::resume("t").decide(id, YES)).await.unwrap()
}

#[tokio::test]
async fn pending_questions_are_read_without_running_the_thread() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::call("asks", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(asks(&notes)).journal(MemoryJournal::new()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let waiting = async || agent.state("t").await.unwrap().action_requests();
    assert_eq!(waiting().await, outcome.action_requests());
    answer(&agent, "0.0?0").await;
    let second: Vec<String> = waiting().await.into_iter().map(|question| question.text).collect();
    assert_eq!(second, ["Second?"]);
    answer(&agent, "0.0?1").await;
    assert!(waiting().await.is_empty());
}

#[tokio::test]
async fn only_an_asking_call_pauses_and_it_reruns_until_it_has_no_more_questions() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::calls([("asks", json!({})), ("works", json!({}))]), Turn::text("done")]);
    let agent = agent(model).tool(asks(&notes)).tool(works(&notes)).journal(MemoryJournal::new()).build().unwrap();
    let (events, outcome) = watch(agent.run(RunInput::new("go").thread("t"))).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.stop.clone(), ids(&outcome)), (FinishReason::Interrupted, vec!["0.0?0".to_owned()]));
    assert_eq!(events.iter().filter(|e| matches!(e.kind, EventKind::ActionRequested { .. })).count(), 1);
    assert_eq!(outcome.action_requests()[0].text, "First?");
    let mut made = notes.list();
    made.sort();
    assert_eq!(made, ["asks", "works"], "the sibling has finished");
    let outcome = answer(&agent, "0.0?0").await;
    assert_eq!(ids(&outcome), ["0.0?1"]);
    let respond = Decision::Respond { message: "well".to_owned() };
    let outcome = agent.invoke(RunInput::resume("t").decide("0.0?1", respond)).await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["result: approve respond", "result: worked", "assistant: done"]);
    assert_eq!(notes.list().iter().filter(|n| *n == "works").count(), 1, "what has finished is not made again");
    assert_eq!(notes.list().iter().filter(|n| *n == "asks").count(), 3);
    assert_sound(outcome.messages());
}

#[tokio::test]
async fn of_several_asking_calls_the_answered_one_continues() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::calls((0..3).map(|_| ("asks", json!({})))), Turn::text("done")]);
    let agent = agent(model).tool(asks(&notes)).journal(MemoryJournal::new()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(ids(&outcome), ["0.0?0", "0.1?0", "0.2?0"]);
    assert_eq!(ids(&answer(&agent, "0.1?0").await), ["0.0?0", "0.1?1", "0.2?0"]);
    assert_eq!(ids(&answer(&agent, "0.1?1").await), ["0.0?0", "0.2?0"]);
    assert_eq!(notes.list().len(), 5, "the others are not made again");
    for id in ["0.2?0", "0.0?0", "0.2?1"] {
        assert_eq!(answer(&agent, id).await.stop, FinishReason::Interrupted);
    }
    let outcome = answer(&agent, "0.0?1").await;
    assert_eq!(outcome.text(), "done");
    assert_sound(outcome.messages());
}

#[tokio::test]
async fn extra_messages_from_tools_are_kept_when_the_thread_continues_unanswered() {
    use deepagents_core::message::Message;
    use deepagents_core::state::Update;
    use deepagents_core::tool::ToolOutput;
    let notes = Notes::default();
    let says = tool("says", |_, _| async {
        Ok(ToolOutput::text("said").with_update(Update::message(Message::user("beside"))))
    });
    let model = ScriptedModel::new([Turn::calls([("asks", json!({})), ("says", json!({}))]), Turn::text("done")]);
    let agent = agent(model).tool(asks(&notes)).tool(says).journal(MemoryJournal::new()).build().unwrap();
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let outcome = agent.invoke(RunInput::new("never mind").thread("t")).await.unwrap();
    assert_sound(outcome.messages());
    let lines = lines(outcome.messages());
    assert!(lines[2].starts_with("error: The call of asks was never made: the conversation went on"), "{lines:?}");
    assert_eq!(lines[3..], ["result: said", "user: beside", "user: never mind", "assistant: done"]);
    assert_eq!(agent.state("t").await.unwrap().messages(), outcome.messages());
}

#[tokio::test]
async fn results_supplied_for_pending_calls_are_put_in_their_places() {
    use deepagents_core::message::{Message, ToolMessage};
    let result = |id: &str| {
        let content = vec![Block::text(format!("by hand {id}"))];
        Message::Tool(ToolMessage { call_id: id.to_owned(), content, ..ToolMessage::default() })
    };
    let refused = "error: The call of asks was never made: the conversation went on before it was decided on.";
    let cases = [
        (vec![result("a")], ["result: by hand a", "result: worked", refused]),
        (vec![result("c"), Message::user("Well?")], [refused, "result: worked", "result: by hand c"]),
        (
            vec![Message::user("Well?"), result("c"), result("a")],
            ["result: by hand a", "result: worked", "result: by hand c"],
        ),
    ];
    for (given, expected) in cases {
        let notes = Notes::default();
        let calls = [("a", "asks", json!({})), ("b", "works", json!({})), ("c", "asks", json!({}))];
        let model = ScriptedModel::new([Turn::calls(calls), Turn::text("done")]);
        let journal = MemoryJournal::new();
        let agent = agent(model).tool(asks(&notes)).tool(works(&notes)).journal(journal).build().unwrap();
        agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
        let said = given.iter().filter(|m| m.as_tool().is_none()).count();
        let outcome = agent.invoke(RunInput::messages(given).thread("t")).await.unwrap();
        assert_sound(outcome.messages());
        let lines = lines(outcome.messages());
        assert_eq!(lines[2..5], expected);
        assert_eq!(lines.len(), 6 + said, "{lines:?}");
        let names = outcome.messages().iter().filter_map(|m| m.as_tool()).map(|result| result.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["asks", "works", "asks"]);
        assert_eq!(agent.state("t").await.unwrap().messages(), outcome.messages());
    }
}

#[tokio::test]
async fn a_failing_sibling_ends_the_run_and_pending_calls_are_answered() {
    let notes = Notes::default();
    let fails = tool("fails", |_, _| async { Err::<&str, _>(ToolError::fatal("broken")) });
    let model = ScriptedModel::new([Turn::calls([("asks", json!({})), ("fails", json!({}))])]);
    let agent = agent(model).tool(asks(&notes)).tool(fails).journal(MemoryJournal::new()).build().unwrap();
    let error = agent.invoke(RunInput::new("go").thread("t")).await.unwrap_err();
    assert!(error.to_string().contains("broken"));
    let state = agent.state("t").await.unwrap();
    assert_sound(state.messages());
    assert_eq!(lines(state.messages())[2], "error: The call of asks was not completed: the run failed.");
}

/// An agent whose tool runs another agent, which interrupts.
fn above(journal: &Arc<MemoryJournal>, notes: &Notes, depth: usize) -> Agent {
    let inner = if depth == 0 {
        agent(
            ScriptedModel::rules()
                .when(|r| r.messages.len() == 1, vec![Turn::call("asks", json!({})); 4])
                .always(Turn::text("answered"))
                .build(),
        )
        .ids(RandomIds)
        .tool(asks(notes))
    } else {
        return outer(journal, above(journal, notes, depth - 1), 1);
    };
    outer(journal, inner.name("inner").build().unwrap(), 2)
}

fn outer(journal: &Arc<MemoryJournal>, child: Agent, calls: usize) -> Agent {
    let task = tool("task", move |_, cx| {
        let child = child.clone();
        async move {
            let state = State::new(child.schema().clone());
            Ok(cx.run_child(&child, "task", state, "do it").await?.result?.text())
        }
    });
    let model = ScriptedModel::rules()
        .when(|r| r.messages.len() == 1, vec![Turn::calls((0..calls).map(|_| ("task", json!({})))); 4])
        .always(Turn::text("done"))
        .build();
    agent(model).ids(RandomIds).tool(task).journal(journal.clone() as Arc<dyn Journal>).build().unwrap()
}

#[tokio::test]
async fn waiting_sub_agents_are_answered_one_by_one_through_rebuilt_agents() {
    for depth in [0, 1, 2] {
        let (journal, notes) = (Arc::new(MemoryJournal::new()), Notes::default());
        let build = || above(&journal, &notes, depth);
        let mut outcome = build().invoke(RunInput::new("go").thread("t")).await.unwrap();
        assert_eq!(outcome.action_requests().len(), 2, "depth {depth}");
        let mut rounds = 0;
        while let Some(question) = outcome.action_requests().pop() {
            assert_eq!(question.call.path.len(), depth + 1);
            outcome = build().invoke(RunInput::resume("t").decide(question.id, YES)).await.unwrap();
            rounds += 1;
        }
        assert_eq!((rounds, outcome.text()), (4, "done".to_owned()), "depth {depth}");
        assert_eq!(notes.list().len(), 6, "each of two calls is made three times");
        assert_sound(outcome.messages());
    }
}

#[tokio::test]
async fn sub_agents_continue_when_the_thread_resumes_from_an_earlier_position() {
    let (journal, notes) = (Arc::new(MemoryJournal::new()), Notes::default());
    let agent = above(&journal, &notes, 0);
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let at = crate::support::records(&*journal, "t").await.len() as u64;
    let mut outcome = answer(&agent, "task:0.0/0.0?0").await;
    for (rewound, ids) in [(true, 2), (false, 2), (false, 1), (false, 1)] {
        let question = if rewound {
            outcome = agent.invoke(RunInput::resume("t").at(at)).await.unwrap();
            outcome.action_requests().remove(0)
        } else {
            outcome.action_requests().remove(0)
        };
        assert_eq!(outcome.action_requests().len(), ids);
        outcome = answer(&agent, &question.id).await;
    }
    assert_eq!(outcome.text(), "done");
    assert_eq!(lines(outcome.messages())[2..4], ["result: answered", "result: answered"]);
    assert_sound(outcome.messages());
}

#[tokio::test]
async fn decisions_without_resume_are_refused_and_leave_the_question_open() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::call("asks", json!({})), Turn::text("done")]);
    let journal = Arc::new(MemoryJournal::new());
    let agent = agent(model).tool(asks(&notes)).journal(journal.clone()).build().unwrap();
    let waits = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let end = journal.threads().get("t").await.unwrap().unwrap().end;
    let wrong = RunInput::new("go on").thread("t").decide(&ids(&waits)[0], YES);
    let refused = agent.invoke(wrong).await.unwrap_err();
    assert!(refused.to_string().contains("pass answers with `RunInput::resume`"), "{refused}");
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().end, end, "nothing is written");
    let second = answer(&agent, &ids(&waits)[0]).await;
    assert_eq!(answer(&agent, &ids(&second)[0]).await.text(), "done");
}

#[tokio::test]
async fn messages_sent_while_a_call_waits_are_kept_and_follow_its_result() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::call("asks", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(asks(&notes)).journal(MemoryJournal::new()).build().unwrap();
    let waits = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let said = agent.invoke(RunInput::resume("t").message("one more thing")).await.unwrap();
    assert_eq!((said.stop.clone(), ids(&said)), (FinishReason::Interrupted, ids(&waits)));
    let both = RunInput::resume("t").decide(&ids(&said)[0], YES).message("and hurry");
    let second = agent.invoke(both).await.unwrap();
    assert_eq!(second.stop, FinishReason::Interrupted);
    let done = answer(&agent, &ids(&second)[0]).await;
    assert_sound(done.messages());
    let expected = ["result: approve approve", "user: one more thing", "user: and hurry", "assistant: done"];
    assert_eq!(lines(done.messages())[2..], expected);
    let over = agent.invoke(RunInput::resume("t").message("too late")).await.unwrap_err();
    assert!(over.to_string().contains("has ended and takes no more messages"), "{over}");
}

#[tokio::test]
async fn an_invalid_update_leaves_the_question_open() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::call("asks", json!({})), Turn::text("done")]);
    let journal = Arc::new(MemoryJournal::new());
    let agent = agent(model).tool(asks(&notes)).journal(journal.clone()).build().unwrap();
    let waits = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let end = journal.threads().get("t").await.unwrap().unwrap().end;
    let between = Update::message(Message::user("between the call and its result"));
    let wrong = RunInput::resume("t").decide(&ids(&waits)[0], YES).update(between);
    assert_eq!(agent.invoke(wrong).await.unwrap_err().kind(), "history");
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().end, end, "nothing is written");
    let second = answer(&agent, &ids(&waits)[0]).await;
    assert_eq!(answer(&agent, &ids(&second)[0]).await.text(), "done");
}

#[tokio::test]
async fn an_answer_applies_to_the_question_asked_and_not_to_its_position() {
    let (notes, calls) = (Notes::default(), Arc::new(AtomicUsize::new(0)));
    let (noted, made) = (notes.clone(), calls.clone());
    // The repeated call has another file to delete.
    let delete = tool("delete", move |_, cx| {
        let (notes, file) = (noted.clone(), made.fetch_add(1, Ordering::Relaxed).min(1));
        async move {
            let decision =
                cx.interrupt(format!("Delete file-{file}?"), [DecisionKind::Approve, DecisionKind::Reject])?;
            notes.add(format!("file-{file} {decision:?}"));
            Ok("deleted")
        }
    });
    let model = ScriptedModel::new([Turn::call("delete", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(delete).journal(MemoryJournal::new()).build().unwrap();
    let waits = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(waits.action_requests()[0].text, "Delete file-0?");
    let again = answer(&agent, &ids(&waits)[0]).await;
    assert_eq!(again.action_requests().len(), 1);
    assert_eq!(again.action_requests()[0].text, "Delete file-1?", "it is asked about what it is about now");
    assert!(notes.list().is_empty());
    assert_eq!(answer(&agent, &ids(&again)[0]).await.text(), "done");
    assert_eq!(notes.list(), ["file-1 Approve"]);
}

#[tokio::test]
async fn an_invalid_answer_that_tries_to_take_over_a_thread_leaves_its_run_alone() {
    let notes = Notes::default();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (entered, open) = (Arc::new(tokio::sync::Notify::new()), gate.clone());
    let inside = entered.clone();
    let waits = tool("slow", move |_, _| {
        let (open, inside) = (open.clone(), inside.clone());
        async move {
            inside.notify_one();
            let _permit = open.acquire().await.unwrap();
            Ok("slow")
        }
    });
    let model = ScriptedModel::new([Turn::call("asks", json!({})), Turn::call("slow", json!({})), Turn::text("done")]);
    let agent =
        agent(model).ids(RandomIds).tool(asks(&notes)).tool(waits).journal(MemoryJournal::new()).build().unwrap();
    let first = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let second = agent.invoke(RunInput::resume("t").decide(&ids(&first)[0], YES)).await.unwrap();
    let live = agent.run(RunInput::resume("t").decide(&ids(&second)[0], YES));
    entered.notified().await;
    let wrong = agent.invoke(RunInput::resume("t").take_over().decide(&ids(&second)[0], YES)).await.unwrap_err();
    assert_eq!(wrong.kind(), "answer", "{wrong}");
    gate.add_permits(1);
    assert_eq!(live.outcome().await.unwrap().text(), "done");
}

#[tokio::test]
async fn a_waiting_run_that_is_cancelled_says_so_and_its_thread_can_continue() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::calls([("asks", json!({}))]), Turn::text("done")]);
    let agent = agent(model).tool(asks(&notes)).journal(MemoryJournal::new()).build().unwrap();
    let waiting = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(waiting.stop, FinishReason::Interrupted);
    let run = agent.run(RunInput::resume("t"));
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    let outcome = agent.invoke(RunInput::new("next").thread("t")).await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(outcome.text(), "done");
}

#[test]
fn an_edit_to_a_tool_that_is_not_allowed_is_refused_with_the_tools_that_are() {
    let request = ActionRequest::about(&CallId::default(), "mail", json!({}), "2026-01-01T00:00:00Z").tools(["letter"]);
    let edited_action = EditedAction { name: "fax".to_owned(), args: json!({}) };
    let error = request.check(&Decision::Edit { edited_action }, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(error.to_string().ends_with("`fax`, which the agent does not have; it has mail, letter"), "{error}");
}

#[tokio::test]
async fn the_outcome_of_a_waiting_run_is_the_state_of_its_thread() {
    let notes = Notes::default();
    let calls = Turn::calls([("asks", json!({})), ("works", json!({}))]).and_text("Both.");
    let model = ScriptedModel::new([calls, Turn::text("done")]);
    let agent = agent(model).tool(asks(&notes)).tool(works(&notes)).journal(MemoryJournal::new()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    assert_eq!(lines(outcome.messages())[2..], ["result: worked"]);
    assert_eq!(outcome.messages(), agent.state("t").await.unwrap().messages());
    assert_eq!(outcome.text(), "Both.", "a result beside a waiting call is no answer");
    answer(&agent, "0.0?0").await;
    let outcome = answer(&agent, "0.0?1").await;
    assert_eq!(lines(outcome.messages())[2..], ["result: approve approve", "result: worked", "assistant: done"]);
    assert_eq!(notes.list().iter().filter(|n| *n == "works").count(), 1);
    assert_sound(outcome.messages());
}
