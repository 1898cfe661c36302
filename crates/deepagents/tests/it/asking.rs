//! The agent's questions to a person, and the order of middleware.

use std::sync::Arc;

use deepagents::core::interrupt::DecisionKind;
use deepagents::middleware::redaction::{Detector, Redaction};
use deepagents::middleware::retry::{Backoff, ToolRetry};
use deepagents::middleware::tool_errors::{ToolErrorAction, ToolErrors};
use deepagents::middleware::{AskUser, ToolEmulator};
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{
    Decision, DeepAgent, FinishReason, Journal, MemoryJournal, Middleware, ModelRequest, Outcome, RunInput, json_tool,
};
use deepagents_persist::Sqlite;
use serde_json::{Value, json};

use crate::approval::{Office, read, send};
use crate::results;

/// Asks, and answers until nothing is pending. Returns the questions and the outcome.
async fn asked(args: Value, answers: Vec<Decision>) -> (Vec<String>, Outcome) {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::call("ask_user", args), Turn::text("Done.")]);
    let built = || {
        let builder = DeepAgent::builder().model(model.clone()).middleware(AskUser);
        builder.journal(journal.clone()).build().unwrap()
    };
    let mut outcome = built().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let mut read = Vec::new();
    for answer in answers {
        assert_eq!(outcome.stop, FinishReason::Interrupted);
        let question = outcome.action_requests().remove(0);
        assert_eq!(question.allowed, [DecisionKind::Respond, DecisionKind::Reject]);
        read.push(question.text.clone());
        // Another process resumes.
        outcome = built().invoke(RunInput::resume("t").decide(question.id, answer)).await.unwrap();
    }
    (read, outcome)
}

fn respond(message: &str) -> Decision {
    Decision::Respond { message: message.to_owned() }
}

#[tokio::test]
async fn a_question_can_be_answered_from_another_process_by_text_or_choices() {
    let (read, outcome) = asked(json!({"question": "Which name?"}), vec![respond("Ann")]).await;
    assert_eq!(
        (read, results(&outcome)),
        (vec!["Which name?".to_owned()], vec![("The user answered: Ann".to_owned(), false)])
    );
    check_history(outcome.messages()).unwrap();

    let choice = json!({"question": "Which colour?", "choices": ["red", "blue"]});
    let (read, outcome) = asked(choice.clone(), vec![respond("2")]).await;
    insta::assert_snapshot!(read[0], @r"
    Which colour?
    1. red
    2. blue
    Answer with a number, or in your own words.
    ");
    assert_eq!(results(&outcome)[0].0, "The user chose: blue");
    let (_, outcome) = asked(choice, vec![respond("green, rather")]).await;
    assert_eq!(results(&outcome)[0].0, "The user answered: green, rather");

    let several = json!({"question": "Which?", "choices": ["red", "blue", "green"], "several": true});
    let (_, outcome) = asked(several, vec![respond("3, red")]).await;
    assert_eq!(results(&outcome)[0].0, "The user chose: green, red");
}

#[tokio::test]
async fn an_invalid_answer_is_asked_for_again_and_a_person_may_decline() {
    let choice = json!({"question": "Which colour?", "choices": ["red", "blue"]});
    let (read, outcome) = asked(choice.clone(), vec![respond("7"), respond(" "), respond("1")]).await;
    assert!(read[1].starts_with("There is no choice 7.\nWhich colour?"), "{read:?}");
    assert!(read[2].starts_with("Nothing was answered.\n"), "{read:?}");
    assert_eq!(results(&outcome)[0].0, "The user chose: red");
    let (_, outcome) = asked(choice, vec![Decision::Reject { message: Some("no idea".to_owned()) }]).await;
    assert_eq!(results(&outcome), [("The user declined to answer: no idea.".to_owned(), false)]);
}

#[tokio::test]
async fn an_unanswerable_question_is_an_error_for_the_model_and_nobody_is_asked() {
    let (_, outcome) = asked(json!({"question": "Which?", "choices": ["one"]}), vec![]).await;
    assert_eq!(outcome.stop, FinishReason::Done);
    assert_eq!(results(&outcome), [("Error: give two choices or more, each with words, or none.".to_owned(), true)]);
}

#[test]
fn ask_user_without_a_journal_is_rejected_at_build_time() {
    let error = DeepAgent::builder().model(ScriptedModel::new([])).middleware(AskUser).build().unwrap_err();
    assert!(error.to_string().contains("kept in a journal until they are answered"), "{error}");
}

struct Own(&'static str);

impl Middleware for Own {
    fn name(&self) -> &str {
        self.0
    }
}

fn refused(builder: deepagents::DeepAgentBuilder) -> String {
    builder.model(ScriptedModel::new([])).build().unwrap_err().to_string()
}

#[test]
fn an_invalid_middleware_order_is_rejected_with_advice() {
    let redaction = || Redaction::new().hide(Detector::Email);
    let hooks = || Own("Hooks");
    let before_hooks = refused(DeepAgent::builder().middleware(redaction()).middleware(hooks()));
    let wanted = "`Redaction` comes before `Hooks`: hooks would see what it hides; give it to the builder with \
                  `.redaction(...)`";
    assert!(before_hooks.ends_with(wanted), "{before_hooks}");
    let errors = || ToolErrors::new(|_| ToolErrorAction::Unchanged);
    let retry = || ToolRetry::new(Backoff::default()).unwrap();
    let wrong = refused(DeepAgent::builder().middleware(retry()).middleware(errors()));
    assert!(wrong.ends_with("give `ToolErrors` to the builder before `ToolRetry`"), "{wrong}");
    let emulated =
        refused(DeepAgent::builder().middleware(ToolEmulator::new(ScriptedModel::new([]))).middleware(retry()));
    assert!(emulated.contains("`ToolEmulator` comes before `ToolRetry`"), "{emulated}");
    let edits = refused(
        DeepAgent::builder()
            .middleware(Own("ContextEditing"))
            .without("Summarization")
            .middleware(Own("Summarization")),
    );
    assert!(edits.contains("`ContextEditing` comes before `Summarization`"), "{edits}");

    let right = DeepAgent::builder()
        .model(ScriptedModel::new([]))
        .middleware(errors())
        .middleware(retry())
        .redaction(redaction());
    let names: Vec<String> =
        right.build().unwrap().explain().middlewares.iter().map(|part| part.name.clone()).collect();
    assert_eq!(names.last().map(String::as_str), Some("Redaction"));
}

/// A subagent with two megabytes of files interrupts before each of ten small steps.
#[tokio::test]
async fn a_waiting_sub_agent_logs_only_what_each_step_added() {
    let folder = tempfile::tempdir().unwrap();
    let database = Sqlite::open(folder.path().join("threads.db")).await.unwrap();
    let model = ScriptedModel::rules().always(Turn::with(|request: &ModelRequest| {
        let turns = request.messages.iter().filter(|message| message.as_assistant().is_some()).count();
        let is_below = request.messages.get(0).is_some_and(|first| first.text().contains("Count"));
        match (is_below, turns) {
            (true, 0) => Turn::calls((0..40).map(|at| {
                let content = format!("{at} {}", "x".repeat(50_000));
                ("write_file", json!({"file_path": format!("/f{at}.md"), "content": content}))
            })),
            (true, ..12) => Turn::call("work", json!({"step": turns})),
            (true, _) => Turn::text("All are counted."),
            (false, 0) => Turn::call("task", json!({"description": "Count.", "subagent_type": "general-purpose"})),
            (false, _) => Turn::text("Done."),
        }
    }));
    let work = json_tool("work", "Works.", json!({"type": "object"}), |_: Value, cx| async move {
        cx.interrupt("Go on?", DecisionKind::ALL)?;
        Ok("worked")
    });
    let agent = DeepAgent::builder().model(model.build()).journal(database.clone()).tool(work).build().unwrap();
    let mut outcome = agent.invoke(RunInput::new("Begin.").thread("t")).await.unwrap();
    let mut sizes = Vec::new();
    while let [question] = &outcome.action_requests()[..] {
        sizes.push(database.threads().get("t").await.unwrap().unwrap().bytes);
        let yes = RunInput::resume("t").decide(question.id.as_str(), Decision::Approve);
        outcome = agent.invoke(yes).await.unwrap();
    }
    assert_eq!((outcome.stop.clone(), sizes.len()), (FinishReason::Done, 11));
    let written = sizes[10] - sizes[0];
    assert!(written < 200_000, "ten small steps wrote {written} bytes: {sizes:?}");
}

#[tokio::test]
async fn after_a_new_message_a_waiting_sub_agent_is_reported_as_unfinished() {
    let task = Turn::call("task", json!({"description": "A.", "subagent_type": "general-purpose"}));
    let office = Office::new([task, Turn::calls([read(1)]), Turn::calls([send(2)]), Turn::text("Understood.")]);
    office.go().await;
    let next = office.agent().invoke(RunInput::new("Never mind.").thread("t")).await.unwrap();
    let [(text, true)] = &results(&next)[..] else { panic!("{:?}", results(&next)) };
    assert!(text.contains("was interrupted: the conversation went on") && !text.contains("never made"), "{text}");
    assert_eq!(office.made(), ["read 1"]);
}
