//! State changes made as if a node of a run had made them.

use deepagents_core::agent::Agent;
use deepagents_core::error::Error;
use deepagents_core::journal::{CheckpointSource, LogPosition, MemoryJournal};
use deepagents_core::message::{AssistantMessage, Block, Message, MessageOp, ToolMessage};
use deepagents_core::middleware::{HookOutput, after_model};
use deepagents_core::run::{Context, FinishReason, Node, RunInput};
use deepagents_core::state::{MessagesChannel, Update};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{Notes, agent, assert_sound, lines, tool};

/// An agent on a thread after one run and then a change. Its tool and hook record that they ran.
async fn changed(node: Node, update: Update) -> (Agent, Notes, Result<LogPosition, Error>) {
    let notes = Notes::default();
    let noted = notes.clone();
    let model = ScriptedModel::new([Turn::text("first"), Turn::text("after")]);
    let echo = tool("echo", move |args, _| {
        noted.add(format!("echo {args}"));
        async { Ok("echoed") }
    });
    let hooked = notes.clone();
    let hook = after_model(move |cx: Context| {
        hooked.add(format!("after_model of {} messages", cx.messages().len()));
        async { Ok(HookOutput::next()) }
    });
    let agent = agent(model).tool(echo).middleware(hook).journal(MemoryJournal::new()).build().unwrap();
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let position = agent.update_state_as("t", node, update).await;
    (agent, notes, position)
}

fn answer_with_a_call() -> Update {
    let call = Block::call("c9", "echo", json!({"by": "hand"}));
    Update::message(Message::Assistant(AssistantMessage::new(vec![call])))
}

#[tokio::test]
async fn calls_in_an_update_made_as_the_model_run_after_the_hooks() {
    let (agent, notes, position) = changed(Node::Model, answer_with_a_call()).await;
    let history = agent.history("t", None, 9).await.unwrap();
    assert_eq!((history[0].position, history[0].origin), (position.unwrap(), CheckpointSource::Update));
    assert_eq!(history[0].parent, Some(history[1].position));
    let outcome = agent.resume("t").outcome().await.unwrap();
    assert_eq!(
        lines(outcome.messages())[2..],
        [r#"assistant: [echo {"by":"hand"}]"#, "result: echoed", "assistant: after"]
    );
    assert_eq!(notes.list()[1..], ["after_model of 3 messages", r#"echo {"by":"hand"}"#, "after_model of 5 messages"]);
    assert_sound(outcome.messages());
    let again = agent.state_at("t", history[0].position).await.unwrap();
    assert_eq!(again.messages().len(), 3, "the state at the change is still there");
}

#[tokio::test]
async fn an_update_as_the_model_may_replace_an_answer_with_pending_calls() {
    let (agent, _, position) = changed(Node::Model, answer_with_a_call()).await;
    position.unwrap();
    let state = agent.state("t").await.unwrap();
    let mut answer = state.messages().last().unwrap().as_assistant().unwrap().clone();
    answer.content = vec![Block::call("c9", "echo", json!({"by": "another"}))];
    agent.update_state_as("t", Node::Model, Update::message(Message::Assistant(answer))).await.unwrap();
    let outcome = agent.resume("t").outcome().await.unwrap();
    assert_eq!(
        lines(outcome.messages())[2..],
        [r#"assistant: [echo {"by":"another"}]"#, "result: echoed", "assistant: after"]
    );
}

#[tokio::test]
async fn an_update_as_the_tools_is_followed_by_the_model() {
    let (agent, _, position) = changed(Node::Model, answer_with_a_call()).await;
    position.unwrap();
    let refused = agent.update_state_as("t", Node::Model, answer_with_a_call()).await.unwrap_err();
    assert!(refused.to_string().contains("waiting for results"), "{refused}");
    let result = ToolMessage {
        call_id: "c9".to_owned(),
        name: "echo".to_owned(),
        content: vec![Block::text("from elsewhere")],
        ..ToolMessage::default()
    };
    agent.update_state_as("t", Node::Tools, Update::message(Message::Tool(result))).await.unwrap();
    let outcome = agent.resume("t").outcome().await.unwrap();
    assert_eq!(lines(outcome.messages())[3..], ["result: from elsewhere", "assistant: after"]);
}

#[tokio::test]
async fn an_update_as_the_input_starts_a_run_and_one_as_the_end_leaves_nothing_to_do() {
    let (agent, _, _) = changed(Node::Input, Update::message(Message::user("and now?"))).await;
    let outcome = agent.resume("t").outcome().await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["user: and now?", "assistant: after"]);

    let (agent, notes, _) = changed(Node::End, Update::none()).await;
    let outcome = agent.resume("t").outcome().await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.messages().len()), (FinishReason::Ended, 2));
    assert_eq!(notes.list().len(), 1);

    let (agent, _, refused) = changed(Node::Model, Update::message(Message::user("no answer"))).await;
    assert!(refused.unwrap_err().to_string().contains("the model's answer"));
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 2, "nothing was changed");
}

#[tokio::test]
async fn a_result_of_a_later_call_with_the_same_id_is_none_of_the_call_that_waits() {
    let (agent, _, position) = changed(Node::Model, answer_with_a_call()).await;
    position.unwrap();
    let call = Block::call("c9", "echo", json!({"by": "another hand"}));
    let result = ToolMessage { call_id: "c9".to_owned(), content: vec![Block::text("done")], ..ToolMessage::default() };
    let messages = [
        Message::Assistant(AssistantMessage::new(vec![call])),
        Message::Tool(result),
        Message::assistant("All is done."),
    ];
    let update = Update::new::<MessagesChannel>(messages.map(MessageOp::put).into());
    let error = agent.update_state_as("t", Node::Model, update).await.unwrap_err();
    assert!(error.to_string().contains("calls of the last answer are waiting for results"), "{error}");
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 3);
}
