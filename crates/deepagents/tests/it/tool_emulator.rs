//! Tools emulated by a model.

use std::sync::Arc;

use deepagents::core::agent::Agent;
use deepagents::middleware::ToolEmulator;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::recording::{RunRecorder, RunRecording, Tools};
use deepagents::{
    ChatModel, Decision, DeepAgent, DeepAgentBuilder, Effect, FinishReason, InterruptOn, InterruptPolicy,
    MemoryJournal, RunInput, json_tool,
};
use serde_json::{Value, json};

use crate::killed::{killed_everywhere, shape};
use crate::results;

#[tokio::test]
async fn tools_are_emulated_by_a_model_and_not_run() {
    let real = || {
        json_tool("send", "Sends mail.", json!({"type": "object"}), |_: Value, _cx| async { Ok("It was really sent.") })
    };
    let run = |emulator: ToolEmulator| async {
        let model = ScriptedModel::new([
            Turn::calls([("send", json!({"to": "a"})), ("unheard_of", json!({}))]),
            Turn::text("Done."),
        ]);
        let agent = DeepAgent::builder().model(model).tool(real()).middleware(emulator).build().unwrap();
        results(&agent.invoke("Go.").await.unwrap())
    };
    let plays = || {
        ScriptedModel::rules()
            .always(Turn::with(|r| {
                let asked = r.messages.get(0).unwrap().text();
                Turn::text(if asked.contains("Sends mail.") && asked.contains(r#"{"to":"a"}"#) {
                    "Queued."
                } else {
                    "Nothing."
                })
            }))
            .build()
    };
    let all = run(ToolEmulator::new(plays())).await;
    assert_eq!(all, [("Queued.".to_owned(), false), ("Nothing.".to_owned(), false)]);
    let one = run(ToolEmulator::new(plays()).tools(["send"])).await;
    assert!(one[0].0 == "Queued." && one[1].1, "{one:?}");
    let none = run(ToolEmulator::new(plays()).tools(Vec::<String>::new())).await;
    assert_eq!(none[0].0, "It was really sent.");
}

/// An agent with emulated tools, whose real tools return a telltale result.
fn rehearsal(model: impl ChatModel, plays: &ScriptedModel) -> DeepAgentBuilder {
    let real = |name: &'static str| {
        json_tool(name, "Is not to be run.", json!({"type": "object"}), |_: Value, _cx| async { Ok("It was run.") })
            .effect(Effect::Read)
    };
    let emulator = ToolEmulator::new(plays.clone()).tools(["look", "send"]);
    DeepAgent::builder().model(model).tool(real("look")).tool(real("send")).middleware(emulator)
}

fn looks_then_sends() -> ScriptedModel {
    ScriptedModel::new([Turn::call("look", json!({})), Turn::call("send", json!({})), Turn::text("Done.")])
}

#[tokio::test]
async fn emulated_results_from_before_an_interrupt_are_kept_on_resume() {
    let (model, journal) = (looks_then_sends(), Arc::new(MemoryJournal::new()));
    let process = |plays: &ScriptedModel| {
        let before_sending = InterruptPolicy::new().before("send", InterruptOn::any());
        rehearsal(model.clone(), plays).journal(journal.clone()).interrupt_on(before_sending).build().unwrap()
    };
    let first = ScriptedModel::new([Turn::text("Three birds.")]);
    let waiting = process(&first).invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!((waiting.stop.clone(), first.requests().len()), (FinishReason::Interrupted, 1));

    let second = ScriptedModel::new([Turn::text("Sent.")]);
    let resumed = waiting
        .action_requests()
        .into_iter()
        .fold(RunInput::resume("t"), |input, asked| input.decide(asked.id, Decision::Approve));
    let outcome = process(&second).invoke(resumed).await.unwrap();
    assert_eq!(results(&outcome), [("Three birds.".to_owned(), false), ("Sent.".to_owned(), false)]);
    assert_eq!(second.requests().len(), 1, "only the call that had no result is played");
}

#[tokio::test]
async fn emulated_results_are_the_same_after_a_crash_at_any_point() {
    let build = || {
        let model = ScriptedModel::rules()
            .always(Turn::with(|request| match results_in(request) {
                0 => Turn::call("look", json!({})),
                1 => Turn::call("send", json!({})),
                _ => Turn::text("Done."),
            }))
            .build();
        let plays = ScriptedModel::rules()
            .always(Turn::with(|request| {
                let asked = request.messages.get(0).map(|message| message.text()).unwrap_or_default();
                Turn::text(if asked.contains("Tool: look") { "Three birds." } else { "Sent." })
            }))
            .build();
        rehearsal(model, &plays)
    };
    let input = || RunInput::new("Go.");
    killed_everywhere(build, input, |outcome| {
        assert_eq!(results(outcome), [("Three birds.".to_owned(), false), ("Sent.".to_owned(), false)]);
        shape(outcome)
    })
    .await;
}

fn results_in(request: &deepagents::ModelRequest) -> usize {
    request.messages.iter().filter(|message| message.as_assistant().is_some()).count()
}

async fn recorded(agent: &Agent) -> RunRecording {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    let recorder = RunRecorder::create(&file).await.unwrap();
    agent.invoke(RunInput::new("Go.").observer(recorder.clone())).await.unwrap();
    recorder.finish().await.unwrap();
    RunRecording::open(file).await.unwrap()
}

#[tokio::test]
async fn emulated_results_of_a_recorded_run_are_repeated_in_its_replay() {
    let plays = ScriptedModel::new([Turn::text("Three birds."), Turn::text("Sent.")]);
    let recording = recorded(&rehearsal(looks_then_sends(), &plays).build().unwrap()).await;
    for tools in [Tools::Recorded, Tools::Live] {
        let nobody = ScriptedModel::new([]);
        let agent = rehearsal(recording.model(), &nobody).build().unwrap();
        let replayed = recording.clone().replay(tools).run(&agent).await.unwrap();
        let outcome = replayed.result.unwrap().unwrap();
        assert_eq!(results(&outcome), [("Three birds.".to_owned(), false), ("Sent.".to_owned(), false)], "{tools:?}");
        assert_eq!(nobody.requests().len(), 0, "no model is asked");
    }
}
