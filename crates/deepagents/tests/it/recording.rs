//! A recorded run is replayed without its model and tools, and reports divergences.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deepagents::core::agent::Agent;
use deepagents::middleware::HumanInTheLoop;
use deepagents::models::recording::ReplayModel;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::recording::{
    Completeness, Divergence, RecordRefused, RecordingError, Replayed, RunRecorder, RunRecording, Tools,
};
use deepagents::{
    ChatModel, Decision, DecisionKind, DeepAgent, DeepAgentBuilder, Error, Event, EventKind, FinishReason, HookOutput,
    InterruptOn, InterruptPolicy, JumpTo, MemoryJournal, Message, ModelError, ModelRequest, RunInput, ToolContext,
    ToolError, ToolOutput, after_agent, after_model, json_tool,
};
use futures_util::StreamExt;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A file for output whose content a test can read.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn read(text: &str) -> Result<RunRecording, RecordingError> {
    RunRecording::from_reader(text.as_bytes())
}

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

fn task(description: &str) -> (&'static str, Value) {
    ("task", json!({"description": description, "subagent_type": "general-purpose"}))
}

/// Runs and records, approving everything. Returns the recording and the events.
async fn record(agent: &Agent, input: RunInput) -> (String, Vec<Event>) {
    let sink = Sink::default();
    let recorder = RunRecorder::new(sink.clone(), json!({"made": "by a test"})).unwrap();
    let mut events = Vec::new();
    let mut input = input;
    loop {
        let mut run = agent.run(input.observer(recorder.clone()));
        while let Some(event) = run.next().await {
            events.push(event);
        }
        let Ok(outcome) = run.outcome().await else { break };
        if outcome.stop != FinishReason::Interrupted {
            break;
        }
        let answers = outcome.action_requests();
        let resumed = RunInput::resume(outcome.thread.unwrap());
        input = answers.into_iter().fold(resumed, |input, question| input.decide(question.id, Decision::Approve));
    }
    recorder.finish().await.unwrap();
    (sink.text(), events)
}

async fn replay(text: &str, agent: &Agent, tools: Tools) -> Result<Replayed, Divergence> {
    read(text).unwrap().replay(tools).run(agent).await
}

/// Plans, works in parallel, delegates twice, and needs approval before it sends.
fn busy_model() -> ScriptedModel {
    let write = |path: &str| ("write_file", json!({"file_path": path, "content": format!("{path}\n")}));
    let todos = ("write_todos", json!({"todos": [{"content": "all of it", "status": "completed"}]}));
    ScriptedModel::rules()
        .when(
            first_asked("Count"),
            [Turn::calls([write("/birds.txt"), ("slow", json!({}))]), Turn::text("Three birds.")],
        )
        .when(first_asked("Paint"), [Turn::call("quick", json!({})), Turn::text("Painted them blue.")])
        .otherwise([
            Turn::calls([todos, ("slow", json!({})), ("quick", json!({})), write("/a.txt"), ("none", json!({}))])
                .and_text("I'll begin with several things at once, and tell of it in many words.")
                .thinking("What first?"),
            Turn::calls([task("Count the birds."), task("Paint the birds.")]),
            Turn::call("send", json!({"to": "ada"})),
            Turn::text("All of it is done."),
        ])
        .build()
        .with_chunk_size(12)
}

/// An agent whose tools finish in another order than they start, and count their calls.
fn busy(model: impl ChatModel, ran: &Arc<AtomicUsize>) -> DeepAgentBuilder {
    let schema = || json!({"type": "object", "properties": {}});
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (open, count) = (gate.clone(), ran.clone());
    let slow = json_tool("slow", "Waits for the quick one.", schema(), move |_, cx: ToolContext| {
        let gate = gate.clone();
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.progress("waiting");
            gate.acquire().await.map_err(|error| ToolError::model(error.to_string()))?.forget();
            Ok("slow")
        }
    });
    let count = ran.clone();
    let quick = json_tool("quick", "Lets the slow one go on.", schema(), move |_, _cx: ToolContext| {
        open.add_permits(1);
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok("quick") }
    });
    let count = ran.clone();
    let to = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let send = json_tool("send", "Sends it.", to, move |args: Value, _cx: ToolContext| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("sent to {}", args["to"])) }
    });
    DeepAgent::builder()
        .model(model)
        .tool(slow)
        .tool(quick)
        .tool(send)
        .journal(MemoryJournal::new())
        .interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any()))
}

fn busy_input() -> RunInput {
    RunInput::new("Do all of it.").thread("t")
}

async fn busy_recording() -> String {
    let agent = busy(busy_model(), &Arc::default()).build().unwrap();
    record(&agent, busy_input()).await.0
}

#[tokio::test]
async fn a_run_with_tools_sub_agents_and_an_approval_replays_without_model_or_tools() {
    let ran = Arc::new(AtomicUsize::new(0));
    let agent = busy(busy_model(), &ran).build().unwrap();
    let (text, events) = record(&agent, busy_input()).await;
    assert!(ran.load(Ordering::SeqCst) >= 5, "the tools were run to be recorded");
    assert!(matches!(events.last().unwrap().kind, EventKind::RunFinished { stop: FinishReason::Done, .. }));

    let recording = read(&text).unwrap();
    assert_eq!(
        (recording.header().model.as_str(), &recording.header().options["made"]),
        ("scripted:script", &json!("by a test"))
    );
    assert_eq!(recording.inputs().len(), 2, "the answer is an input");
    assert_eq!((recording.completeness(), recording.is_cut()), (Completeness::Finished, false));
    for _ in 0..5 {
        let again = Arc::new(AtomicUsize::new(0));
        let agent = busy(recording.model(), &again).build().unwrap();
        let replayed = recording.clone().replay(Tools::Recorded).run(&agent).await.unwrap();
        assert_eq!(replayed.text().as_deref(), Some("All of it is done."));
        assert_eq!(again.load(Ordering::SeqCst), 0, "no tool is run");
        let outcome = replayed.result.unwrap().unwrap();
        let files = outcome.state.get::<deepagents::channels::Files>().unwrap();
        assert_eq!(files.iter().count(), 2, "what tools and sub-agents wrote is there");
    }
}

#[tokio::test]
async fn replayed_events_match_the_recorded_ones_agent_by_agent() {
    let agent = busy(busy_model(), &Arc::default()).build().unwrap();
    let (text, recorded) = record(&agent, busy_input()).await;
    let recording = read(&text).unwrap();
    let agent = busy(recording.model(), &Arc::default()).build().unwrap();
    let replay = recording.clone().replay(Tools::Recorded);
    let mut played = Vec::new();
    for input in recording.inputs().to_vec() {
        let mut run = agent.run(input.into_input(agent.schema()).unwrap().observer(replay.clone()));
        while let Some(event) = run.next().await {
            played.push(event);
        }
        run.outcome().await.unwrap();
    }
    replay.finish().unwrap();
    let kinds = |events: &[Event], path: &[&str]| -> Vec<String> {
        let of_path = events.iter().filter(|event| event.path.iter().eq(path.iter().copied()));
        let words = of_path.map(|event| serde_json::to_value(event).unwrap());
        let words = words.filter(|event| event["type"] != "tool_progress");
        words.map(|e| format!("{} {} {} {}", e["type"], e["call"], e["text"], e["name"])).collect()
    };
    for path in [&[][..], &["task:1.0"], &["task:1.1"]] {
        assert!(kinds(&recorded, path).len() > 5);
        assert_eq!(kinds(&recorded, path), kinds(&played, path));
    }
    let told = |events: &[Event]| events.iter().filter(|e| matches!(e.kind, EventKind::ToolProgress { .. })).count();
    assert_eq!((told(&recorded), told(&played)), (2, 2));
}

#[tokio::test]
async fn a_changed_prompt_diverges_at_the_first_request_with_its_location() {
    let text = busy_recording().await;
    let model = read(&text).unwrap().model();
    let agent = busy(model, &Arc::default()).system_prompt("Be brief.").build().unwrap();
    let divergence = replay(&text, &agent, Tools::Recorded).await.unwrap_err();
    let Divergence::Request { path, turn, difference } = &divergence else { panic!("{divergence}") };
    assert_eq!((path.len(), *turn, difference.path.as_str()), (0, 0, "system[0].text"));
    assert!(divergence.to_string().starts_with("turn 0 of main: the request differs at system[0].text: expected \""));
    assert!(divergence.to_string().contains("Be brief."), "{divergence}");
}

#[tokio::test]
async fn a_change_visible_only_in_a_sub_agent_is_found_there() {
    let text = std::fs::read_to_string(kept(1)).unwrap();
    let agent = keeper(read(&text).unwrap().model(), "Count twice.");
    let divergence = replay(&text, &agent, Tools::Recorded).await.unwrap_err();
    let Divergence::Request { path, turn: 0, difference } = &divergence else { panic!("{divergence}") };
    assert!(path[0].starts_with("task:0."), "{divergence}");
    assert_eq!(difference.path, "system[0].text");
    assert!(divergence.to_string().starts_with(&format!("turn 0 of {}: ", path[0])), "{divergence}");
}

#[tokio::test]
async fn an_agent_that_ends_earlier_or_later_diverges_at_its_end() {
    let model = ScriptedModel::new([Turn::call("ls", json!({"path": "/"})), Turn::text("Nothing there.")]);
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let (text, _) = record(&agent, RunInput::new("Look.")).await;
    let builder = || DeepAgent::builder().model(read(&text).unwrap().model());
    let sooner = builder().middleware(after_model(|_cx| async { Ok(HookOutput::go(JumpTo::End)) })).build().unwrap();
    let divergence = replay(&text, &sooner, Tools::Recorded).await.unwrap_err();
    let Divergence::Event { kind, difference, .. } = &divergence else { panic!("{divergence}") };
    assert_eq!((kind.as_str(), difference.got.as_str()), ("tool_started", "\"agent_finished\""), "{divergence}");
    let later = after_agent(|_cx| async { Ok(HookOutput::go(JumpTo::Model)) });
    let later = builder().middleware(later).build().unwrap();
    let divergence = replay(&text, &later, Tools::Recorded).await.unwrap_err();
    assert!(matches!(&divergence, Divergence::Event { kind, .. } if kind == "agent_finished"), "{divergence}");
}

#[tokio::test]
async fn live_tools_must_return_their_recorded_results() {
    let answer = |text: &'static str| {
        let schema = json!({"type": "object", "properties": {}});
        json_tool("look", "Looks.", schema, move |_, _cx: ToolContext| async move { Ok(text) })
    };
    let model = ScriptedModel::new([Turn::call("look", json!({})), Turn::text("Seen.")]);
    let agent = DeepAgent::builder().model(model).tool(answer("a bird")).build().unwrap();
    let (text, _) = record(&agent, RunInput::new("Look.")).await;
    let agent = |text: &'static str, model| DeepAgent::builder().model(model).tool(answer(text)).build().unwrap();
    let model = || read(&text).unwrap().model();
    assert_eq!(replay(&text, &agent("a bird", model()), Tools::Live).await.unwrap().text().as_deref(), Some("Seen."));
    let divergence = replay(&text, &agent("a fish", model()), Tools::Live).await.unwrap_err();
    let Divergence::Event { kind, difference, .. } = &divergence else { panic!("{divergence}") };
    assert_eq!((kind.as_str(), difference.path.as_str()), ("tool_finished", "text"));
    assert!(divergence.to_string().contains("a fish"));
    assert!(replay(&text, &agent("a fish", model()), Tools::Recorded).await.is_ok(), "the tool is not run");
}

#[tokio::test]
async fn model_and_tool_failures_are_replayed_as_recorded() {
    let schema = || json!({"type": "object", "properties": {}});
    let tools = |builder: DeepAgentBuilder| {
        builder
            .tool(json_tool("fail", "Fails.", schema(), |_, _cx: ToolContext| async {
                Err::<&str, _>(ToolError::model("no"))
            }))
            .tool(json_tool("crash", "Crashes.", schema(), |_, _cx: ToolContext| async {
                if true { panic!("broken") } else { Ok("") }
            }))
            .tool(json_tool("end", "Ends it.", schema(), |_, _cx: ToolContext| async {
                Err::<&str, _>(ToolError::fatal("out of paper"))
            }))
    };
    let cases: [(Vec<Turn>, &str); 2] = [
        (vec![Turn::calls([("fail", json!({})), ("crash", json!({}))]), Turn::call("end", json!({}))], "out of paper"),
        (vec![Turn::call("fail", json!({})), Turn::error(ModelError::invalid("no such model"))], "no such model"),
    ];
    for (turns, words) in cases {
        let agent = tools(DeepAgent::builder().model(ScriptedModel::new(turns))).build().unwrap();
        let (text, _) = record(&agent, RunInput::new("Go.")).await;
        let recording = read(&text).unwrap();
        assert_eq!(recording.completeness(), Completeness::Finished);
        let agent = DeepAgent::builder().model(recording.model());
        let agent = ["fail", "crash", "end"].into_iter().fold(agent, |agent, name| {
            let words = match name {
                "fail" => "Fails.",
                "crash" => "Crashes.",
                _ => "Ends it.",
            };
            agent.tool(json_tool(name, words, schema(), |_, _cx: ToolContext| async { Ok("never run") }))
        });
        let agent = agent.build().unwrap();
        let replayed = recording.replay(Tools::Recorded).run(&agent).await.unwrap();
        let error = replayed.result.unwrap().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_tool_that_interrupts_asks_again_in_a_replay() {
    let tools = |builder: DeepAgentBuilder, ran: &Arc<AtomicUsize>| {
        let ran = ran.clone();
        let schema = json!({"type": "object", "properties": {}});
        builder.tool(json_tool("pay", "Pays.", schema, move |_, cx: ToolContext| {
            let asked = cx
                .interrupt("Pay 10?", DecisionKind::ALL)
                .and_then(|_| cx.interrupt("Really?", [DecisionKind::Approve]));
            ran.fetch_add(1, Ordering::SeqCst);
            async move {
                asked?;
                Ok("paid")
            }
        }))
    };
    let model = ScriptedModel::new([Turn::call("pay", json!({})), Turn::text("Paid.")]);
    let ran = Arc::default();
    let agent = tools(DeepAgent::builder().model(model).journal(MemoryJournal::new()), &ran).build().unwrap();
    let (text, events) = record(&agent, RunInput::new("Pay.").thread("t")).await;
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    assert_eq!(events.iter().filter(|e| matches!(e.kind, EventKind::ActionRequested { .. })).count(), 2);
    let ran = Arc::default();
    let model = read(&text).unwrap().model();
    let agent = tools(DeepAgent::builder().model(model).journal(MemoryJournal::new()), &ran).build().unwrap();
    let replayed = replay(&text, &agent, Tools::Recorded).await.unwrap();
    assert_eq!((replayed.text().as_deref(), ran.load(Ordering::SeqCst)), (Some("Paid."), 0));
}

#[tokio::test]
async fn a_truncated_recording_is_replayed_as_far_as_it_goes() {
    let text = busy_recording().await;
    let lines: Vec<&str> = text.lines().collect();
    let model = read(&text).unwrap().model();
    for keep in 1..lines.len() {
        let mut text = format!("{}\n", lines[..keep].join("\n"));
        let is_cut = keep % 2 == 0;
        if is_cut {
            text.extend(lines[keep].chars().take(lines[keep].chars().count() / 2));
        }
        let recording = read(&text).unwrap();
        assert_eq!(recording.is_cut(), is_cut);
        let completeness = recording.completeness();
        let agent = busy(model.clone(), &Arc::default()).build().unwrap();
        let replayed = recording.replay(Tools::Recorded).run(&agent).await;
        let replayed = replayed.unwrap_or_else(|divergence| panic!("{keep}: {divergence}"));
        assert_eq!(replayed.completeness, completeness);
    }
}

#[tokio::test]
async fn a_cancelled_run_is_replayed_to_that_point_with_the_rest_reported() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let tool = |begun: &Arc<tokio::sync::Notify>| {
        let begun = begun.clone();
        let schema = json!({"type": "object", "properties": {}});
        json_tool("wait", "Waits.", schema, move |_, _cx: ToolContext| {
            begun.notify_one();
            std::future::pending::<Result<&str, ToolError>>()
        })
    };
    let model = ScriptedModel::new([Turn::call("wait", json!({})).and_text("One moment.")]);
    let agent = DeepAgent::builder().model(model).tool(tool(&begun)).build().unwrap();
    let sink = Sink::default();
    let recorder = RunRecorder::new(sink.clone(), Value::Null).unwrap();
    let run = agent.run(RunInput::new("Wait.").observer(recorder.clone()));
    begun.notified().await;
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    recorder.finish().await.unwrap();

    let recording = read(&sink.text()).unwrap();
    assert_eq!(recording.completeness(), Completeness::Halted(FinishReason::Cancelled));
    let agent = DeepAgent::builder().model(recording.model()).tool(tool(&begun)).build().unwrap();
    let replay = recording.replay(Tools::Recorded);
    let replayed = replay.run(&agent).await.unwrap();
    assert_eq!(replayed.result.unwrap().unwrap().stop, FinishReason::Cancelled);
    assert!(matches!(replay.unplayed().last().unwrap().kind, EventKind::RunFinished { .. }));
}

#[tokio::test]
async fn a_run_that_cannot_be_recorded_is_rejected() {
    let journal = Arc::new(MemoryJournal::new());
    let model = || ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let agent = DeepAgent::builder().model(model()).journal(journal).build().unwrap();
    agent.invoke(RunInput::new("Hi.").thread("old")).await.unwrap();
    let refused = async |agent: &DeepAgent, recorder: &Arc<RunRecorder>, thread: &str| {
        let error = agent.invoke(RunInput::new("Hi.").thread(thread).observer(recorder.clone())).await.unwrap_err();
        let Error::Other(source) = &*error.error else { panic!("{error}") };
        source.downcast_ref::<RecordRefused>().unwrap().clone()
    };
    let recorder = RunRecorder::new(Sink::default(), Value::Null).unwrap();
    assert!(matches!(refused(&agent, &recorder, "old").await, RecordRefused::OldThread));
    agent.invoke(RunInput::new("Hi.").thread("new").observer(recorder.clone())).await.unwrap();
    agent.invoke(RunInput::new("And again.").thread("new").observer(recorder.clone())).await.unwrap();
    assert!(matches!(refused(&agent, &recorder, "other").await, RecordRefused::AnotherRun));
    let earlier = agent.history("new", None, 9).await.unwrap().pop().unwrap().position;
    let back = RunInput::new("Again.").thread("new").at(earlier).observer(recorder.clone());
    assert!(agent.invoke(back).await.unwrap_err().to_string().contains("an earlier position of its thread"));
    let spec = deepagents::subagents::SubAgentSpec::new("helper", "Helps.");
    let agent = DeepAgent::builder().model(model()).sub_agent(spec).background_agents(true);
    let agent = agent.journal(MemoryJournal::new()).build().unwrap();
    let recorder = RunRecorder::new(Sink::default(), Value::Null).unwrap();
    assert!(matches!(refused(&agent, &recorder, "new").await, RecordRefused::Background));
}

#[tokio::test]
async fn an_invalid_recording_is_rejected_with_the_reason() {
    let text = busy_recording().await;
    let words = |text: &str| read(text).unwrap_err().to_string();
    assert!(words("").contains("it is empty"));
    assert!(words("hello\n").contains("not JSON"));
    assert!(
        words("{\"kind\":\"recording\",\"v\":1,\"model\":\"m:m\",\"profile\":{\"cache_marks\":true}}\n")
            .contains("ReplayModel")
    );
    assert!(words("{\"kind\":\"run\"}\n").contains("`recording`"));
    let newer = text.replacen("\"v\":2", "\"v\":3", 1);
    assert!(matches!(read(&newer), Err(RecordingError::Newer { found: 3 })));
    let mut lines: Vec<&str> = text.lines().collect();
    lines[3] = "{\"kind\":\"event\"}";
    assert!(matches!(read(&lines.join("\n")), Err(RecordingError::Damaged { line: 4, .. })));
    let altered = text.replacen("Do all of it.\"", "Do some of it.\"", 9);
    let damaged = read(&altered).unwrap_err().to_string();
    assert!(damaged.contains("the digest does not match the request"), "{damaged}");
    let steered = json!({"kind": "event", "event": {"type": "steered", "path": [], "text": "Faster."}});
    let first = "{\"kind\":\"event\"";
    let steered = text.replacen(first, &format!("{steered}\n{first}"), 1);
    assert!(matches!(read(&steered), Err(RecordingError::Unplayable(_))));
    let missing = RunRecording::open(PathBuf::from("/none/run.jsonl")).await.unwrap_err();
    assert!(missing.to_string().contains("/none/run.jsonl"), "{missing}");
}

#[tokio::test]
async fn a_recording_stores_each_message_once() {
    let turns = (0..20).map(|_| Turn::call("ls", json!({"path": "/"}))).chain([Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(ScriptedModel::new(turns)).build().unwrap();
    let (text, _) = record(&agent, RunInput::new("A task that is told once.")).await;
    assert_eq!(text.matches("A task that is told once.").count(), 2, "in the input and in the first request");
    assert_eq!(text.matches("\"write_todos\"").count(), 1, "the tools are there once");
}

/// The agent of the stored recordings. It uses only the core, whose text does not change.
fn keeper(model: impl ChatModel, below: &str) -> Agent {
    let model: Arc<dyn ChatModel> = Arc::new(model);
    let counter = Agent::builder(model.clone()).system_prompt(below).build().unwrap();
    let text = |field: &str| json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
    let count = json_tool("count", "Has something counted.", text("what"), move |args: Value, cx: ToolContext| {
        let counter = counter.clone();
        async move {
            let state = cx.state().fork(counter.schema().clone())?;
            let task = format!("Count the {}.", args["what"].as_str().unwrap_or_default());
            let ended = cx.run_child(&counter, "task", state, task).await?;
            let text = ended.result.map(|outcome| outcome.text())?;
            Ok(ToolOutput::text(text).with_child_state(ended.child_state))
        }
    });
    let note = json_tool("note", "Notes a line.", text("line"), |args: Value, _cx: ToolContext| async move {
        Ok(format!("noted {}", args["line"]))
    });
    Agent::builder(model)
        .system_prompt("Keep the list.")
        .tool(count)
        .tool(note)
        .middleware(HumanInTheLoop::new(InterruptPolicy::new().before("note", InterruptOn::any().text("Note it?"))))
        .journal(MemoryJournal::new())
        .build()
        .unwrap()
}

fn kept(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/v{version}.jsonl"))
}

/// Writes the recording of the current version. Run by hand when the format's version increases, never to make the test
/// below pass.
#[tokio::test]
#[ignore = "writes a file into the source"]
async fn keep_a_recording_of_this_version() {
    let model = ScriptedModel::rules()
        .when(first_asked("Count"), [Turn::text("Three."), Turn::text("Four.")])
        .otherwise([
            Turn::calls([("count", json!({"what": "birds"})), ("count", json!({"what": "bees"}))])
                .and_text("I'll have them counted."),
            Turn::calls([("note", json!({"line": "birds"})), ("note", json!({"line": "bees"}))]),
            Turn::text("Noted."),
        ])
        .build();
    let (text, _) = record(&keeper(model, "Count."), RunInput::new("Keep it.").thread("kept")).await;
    std::fs::write(kept(2), text).unwrap();
}

#[tokio::test]
async fn recordings_of_every_format_version_can_be_replayed() {
    for version in [1, 2] {
        let text = std::fs::read_to_string(kept(version)).unwrap();
        let agent = keeper(read(&text).unwrap().model(), "Count.");
        let replayed = replay(&text, &agent, Tools::Recorded).await.unwrap_or_else(|divergence| panic!("{divergence}"));
        assert_eq!(replayed.text().as_deref(), Some("Noted."));
        let said: Vec<String> =
            replayed.result.unwrap().unwrap().messages().iter().map(|m: &Arc<Message>| m.text()).collect();
        assert_eq!(said.len(), 8, "{said:?}");
    }
}

#[tokio::test]
async fn only_the_models_of_a_recorded_run_can_be_replayed() {
    let model = ReplayModel::from_reader(std::fs::File::open(kept(2)).map(std::io::BufReader::new).unwrap()).unwrap();
    let outcome = keeper(model.clone(), "Count.").invoke(RunInput::new("Keep it.").thread("kept")).await.unwrap();
    assert_eq!((outcome.stop, model.remaining()), (FinishReason::Interrupted, 1));
}

proptest! {
    #[test]
    fn no_input_makes_the_reader_panic(
        lines in prop::collection::vec(prop_oneof![
            Just(r#"{"kind":"run_recording","v":1,"program":"p","agent":"a","model":"m:m","profile":{"cache_marks":true}}"#.to_owned()),
            Just(r#"{"kind":"recording","v":2,"agent":"a","model":"m:m","profile":{"cache_marks":true}}"#.to_owned()),
            Just(r#"{"kind":"input","input":{"messages":[]}}"#.to_owned()),
            (0u64..3, 0usize..3).prop_map(|(n, kept)| format!(
                r#"{{"kind":"request","path":[],"n":{n},"turn":0,"digest":"x","kept":{kept},"messages":[{{}}]}}"#
            )),
            (0u64..3).prop_map(|n| format!(r#"{{"kind":"answer","path":[],"n":{n},"events":[]}}"#)),
            "[a-z_]{0,12}".prop_map(|kind| json!({"kind": "event", "event": {"type": kind, "path": [1, "a:b"]}}).to_string()),
            ".{0,20}",
        ], 0..8),
        cut in 0usize..40,
    ) {
        let text = lines.join("\n");
        let bytes = text.as_bytes();
        if let Ok(recording) = RunRecording::from_reader(&bytes[..bytes.len().saturating_sub(cut)]) {
            let _ = recording.completeness();
            let _ = recording.replay(Tools::Recorded).unplayed();
        }
    }
}

#[test]
fn a_recording_cut_at_any_point_can_be_read() {
    let text = std::fs::read(kept(2)).unwrap();
    let first = text.iter().position(|byte| *byte == b'\n').unwrap();
    for at in (first + 1..text.len()).step_by(37) {
        let recording = RunRecording::from_reader(&text[..at]).unwrap();
        let _ = recording.replay(Tools::Recorded).unplayed();
    }
}
