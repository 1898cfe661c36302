//! Recordings contain what happened, and replaying them reproduces it.

use std::io::{self, BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::message::{Message, Usage};
use deepagents_core::model::{ChatModel, ErrorInfo, ModelError, ModelEvent, ModelProfile, ModelRequest, SystemBlock};
use deepagents_models::recording::{Matching, RecordingError, RecordingModel, ReplayModel};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// A writer whose content a test can read.
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
    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
    fn replay(&self) -> Result<ReplayModel, RecordingError> {
        ReplayModel::from_reader(BufReader::new(self.text().as_bytes()))
    }
}

fn record(turns: impl IntoIterator<Item = Turn>) -> (RecordingModel, Sink) {
    let mut profile = ModelProfile::default();
    profile.context_window = Some(1000);
    let sink = Sink::default();
    let model = ScriptedModel::new(turns).with_name("scripted:test").with_profile(profile);
    (RecordingModel::new(Arc::new(model), sink.clone()).unwrap(), sink)
}

fn ask(text: &str) -> ModelRequest {
    let mut request = ModelRequest::new(text);
    request.system = vec![SystemBlock::new("Be brief.")];
    request
}

async fn heard(model: &impl ChatModel, request: ModelRequest) -> String {
    let events: Vec<_> = model.stream(request).collect().await;
    format!("{events:?}")
}

fn overloaded() -> ModelError {
    ModelError::Overloaded(ErrorInfo {
        message: "too busy".into(),
        status: Some(529),
        code: Some("overloaded_error".into()),
        retry_after: Some(Duration::from_millis(1500)),
        request_id: Some("req_1".into()),
    })
}

#[tokio::test]
async fn every_kind_of_response_is_replayed_event_by_event() {
    let retry = ModelEvent::Retry { error: overloaded(), after: Duration::from_secs(2) };
    let delta = || Ok(ModelEvent::Text { block: 0, delta: "Hel".to_owned() });
    let usage = Usage { input: 7, output: 3, cache_read: 2, ..Usage::default() };
    let (recording, sink) = record([
        Turn::call("ls", json!({"path": "/"})).and_text("Looking.").thinking("Where?").usage(usage),
        Turn::raw([Ok(retry), delta(), Err(ModelError::truncated("gone"))]),
        Turn::error(overloaded()),
        Turn::raw([delta()]),
    ]);
    let asked = ["a", "b", "c", "d"];
    let mut first = Vec::new();
    for text in asked {
        first.push(heard(&recording, ask(text)).await);
    }
    let replay = sink.replay().unwrap().with_matching(Matching::InOrder);
    assert_eq!(replay.name(), "scripted:test");
    assert_eq!(replay.profile().context_window, Some(1000));
    for (text, first) in asked.iter().zip(first) {
        assert_eq!(heard(&replay, ask(text)).await, first);
    }
    assert_eq!(replay.remaining(), 0);
}

#[tokio::test]
async fn an_exchange_is_recorded_before_its_last_event_is_delivered() {
    let (recording, sink) = record([Turn::text("Hello!")]);
    let mut events = recording.stream(ask("hi"));
    while let Some(event) = events.next().await {
        if matches!(event, Ok(ModelEvent::Finished(_))) {
            assert_eq!(sink.lines().len(), 3);
        }
    }
    let lines = sink.lines();
    assert_eq!((&lines[0]["kind"], &lines[0]["v"]), (&json!("recording"), &json!(2)));
    assert_eq!((&lines[1]["kind"], &lines[1]["n"]), (&json!("request"), &json!(0)));
    assert_eq!(lines[1]["fields"]["system"][0]["text"], "Be brief.");
    assert_eq!((&lines[2]["kind"], &lines[2]["n"]), (&json!("answer"), &json!(0)));
    assert_eq!(lines[2]["events"][0], json!({"kind": "text", "block": 0, "delta": "Hello!"}));
    assert_eq!(lines[2]["output"]["stop"], "end");
}

#[tokio::test]
async fn a_call_dropped_midway_is_recorded_up_to_that_point() {
    let (recording, sink) = record([Turn::text("Hello, hello, hello!")]);
    let mut events = recording.stream(ask("hi"));
    events.next().await.unwrap().unwrap();
    drop(events);
    recording.flush().await.unwrap();
    let replay = sink.replay().unwrap();
    let events: Vec<_> = replay.stream(ask("hi")).collect().await;
    assert!(matches!(&events[..], [Ok(ModelEvent::Text { .. })]), "{events:?}");
}

#[tokio::test]
async fn recorded_requests_match_in_any_order() {
    let (recording, sink) =
        record(["a", "b", "a"].iter().enumerate().map(|(n, text)| Turn::text(format!("{text}{n}"))));
    for text in ["a", "b", "a"] {
        recording.invoke(ask(text)).await.unwrap();
    }
    let replay = sink.replay().unwrap();
    for (text, expected) in [("b", "b1"), ("a", "a0"), ("a", "a2")] {
        assert_eq!(replay.invoke(ask(text)).await.unwrap().message.text(), expected);
    }
    let error = replay.invoke(ask("a")).await.unwrap_err();
    assert!(error.to_string().contains("no exchange left (3 played)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn exchanges_are_recorded_in_the_order_they_started() {
    let slow = Turn::text("slow").delay(Duration::from_secs(5));
    let (recording, sink) = record([slow, Turn::text("quick")]);
    let (a, b) = tokio::join!(recording.invoke(ask("a")), recording.invoke(ask("b")));
    a.unwrap();
    b.unwrap();
    assert_eq!(
        (&sink.lines()[3]["kind"], &sink.lines()[3]["n"]),
        (&json!("answer"), &json!(1)),
        "the quick one ends first"
    );
    let replay = sink.replay().unwrap().with_matching(Matching::InOrder);
    assert_eq!(replay.invoke(ask("a")).await.unwrap().message.text(), "slow");
    assert_eq!(replay.invoke(ask("b")).await.unwrap().message.text(), "quick");
}

#[tokio::test]
async fn a_mismatched_request_is_reported_with_the_point_of_difference() {
    let (recording, sink) = record([Turn::text("1"), Turn::text("2")]);
    recording.invoke(ask("read the file")).await.unwrap();
    recording.invoke(ask("write the file")).await.unwrap();
    for matching in [Matching::InOrder, Matching::ByRequest] {
        let replay = sink.replay().unwrap().with_matching(matching);
        let error = replay.invoke(ask("read the book")).await.unwrap_err();
        assert!(matches!(error, ModelError::Invalid(_)));
        assert_eq!(
            error.info().message,
            "the request differs from the recording (exchange 0) at messages[0].content[0].text: \
             expected \"read the file\", got \"read the book\""
        );
        assert_eq!(replay.remaining(), 2);
    }
}

#[tokio::test]
async fn ids_and_timeouts_do_not_affect_request_matching() {
    let (recording, sink) = record([Turn::text("1")]);
    recording.invoke(ask("hi")).await.unwrap();
    let mut message = Message::user("hi");
    message.set_id("another".into());
    let mut request = ModelRequest::new(vec![message]);
    request.system = vec![SystemBlock::new("Be brief.")];
    request.settings.timeout = Some(Duration::from_secs(9));
    assert_eq!(sink.replay().unwrap().invoke(request).await.unwrap().message.text(), "1");
}

#[tokio::test]
async fn a_damaged_recording_is_rejected_with_its_line_number() {
    let (recording, sink) = record([Turn::text("one"), Turn::text("two")]);
    recording.invoke(ask("a")).await.unwrap();
    recording.invoke(ask("b")).await.unwrap();
    let good = sink.text();
    let lines: Vec<&str> = good.lines().collect();
    let cut: String = good.chars().take(good.chars().count() - 20).collect();
    let altered = good.replacen("Be brief.", "Be long.", 1);
    let cases = [
        (cut, 5),
        (altered, 2),
        (format!("{}\n{}\n", lines[0], lines[2]), 2),
        (format!("{}\n{}\n{2}\n{2}\n", lines[0], lines[1], lines[2]), 4),
        (format!("{}\n{}\n", lines[0], lines[3]), 2),
        (format!("{0}\n{0}\n", lines[0]), 2),
        (good.replacen("\"v\":2,", "", 1), 1),
        (good.replace("\"kind\":\"text\"", "\"kind\":\"smell\""), 3),
    ];
    for (text, at) in cases {
        let error = ReplayModel::from_reader(text.as_bytes()).unwrap_err();
        assert!(matches!(error, RecordingError::Damaged { line, .. } if line == at), "line {at}: {error}");
    }
    for text in [String::new(), format!("{}\n", lines[1])] {
        assert!(matches!(ReplayModel::from_reader(text.as_bytes()), Err(RecordingError::Foreign(_))));
    }
    let newer = good.replace("\"v\":2,", "\"v\":3,");
    let error = ReplayModel::from_reader(newer.as_bytes()).unwrap_err();
    assert!(matches!(error, RecordingError::Newer { found: 3 }), "{error}");
}

#[tokio::test]
async fn a_conversation_is_recorded_once_however_often_it_is_resent() {
    let (recording, sink) = record([Turn::text("1"), Turn::text("2")]);
    let mut request = ask("A task that is told once.");
    let answer = recording.invoke(request.clone()).await.unwrap();
    request.messages = request
        .messages
        .iter()
        .cloned()
        .chain([Arc::new(Message::Assistant(answer.message)), Arc::new(Message::user("Go on."))])
        .collect();
    recording.invoke(request.clone()).await.unwrap();
    assert_eq!(sink.text().matches("A task that is told once.").count(), 1);
    assert_eq!(sink.text().matches("Be brief.").count(), 1);
    assert_eq!(sink.replay().unwrap().invoke(request).await.unwrap().message.text(), "2");
}

#[tokio::test]
async fn a_version_1_recording_can_be_played() {
    let replay = ReplayModel::from_reader(include_bytes!("../recordings/v1.jsonl").as_slice()).unwrap();
    assert_eq!((replay.name(), replay.profile().context_window), ("scripted:test", Some(1000)));
    assert_eq!(replay.remaining(), 3);
    let replay = replay.with_matching(Matching::InOrder);
    assert_eq!(replay.invoke(ask("a")).await.unwrap().message.text(), "slow");
    assert_eq!(replay.invoke(ask("b")).await.unwrap().message.text(), "quick");
    assert!(
        matches!(replay.invoke(ask("c")).await, Err(ModelError::Overloaded(info)) if info.retry_after == Some(Duration::from_millis(1500)))
    );
    let altered = include_str!("../recordings/v1.jsonl").replacen("Be brief.", "Be long.", 1);
    let error = ReplayModel::from_reader(altered.as_bytes()).unwrap_err();
    assert!(matches!(error, RecordingError::Damaged { line: 2, .. }), "{error}");
}

#[tokio::test]
async fn files_are_created_but_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let model = Arc::new(ScriptedModel::new([Turn::text("hi")]));
    RecordingModel::create(model.clone(), &path).await.unwrap().invoke(ask("a")).await.unwrap();
    assert_eq!(ReplayModel::open(&path).await.unwrap().remaining(), 1);
    let again = RecordingModel::create(model, &path).await.unwrap_err();
    assert!(matches!(again, RecordingError::Open { source, .. } if source.kind() == io::ErrorKind::AlreadyExists));
    let missing = ReplayModel::open(folder.path().join("none")).await.unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
}

#[tokio::test]
async fn a_recording_write_failure_fails_the_call() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::StorageFull, "disk full"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let model = Arc::new(ScriptedModel::new([Turn::text("hi")]));
    let recording = RecordingModel::new(model, Full).unwrap();
    let error = recording.invoke(ask("a")).await.unwrap_err();
    assert!(error.to_string().contains("disk full"), "{error}");
    assert!(matches!(recording.flush().await, Err(RecordingError::Write(_))));
}
