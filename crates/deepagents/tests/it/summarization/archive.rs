//! Evicted messages are stored first.

use std::sync::Arc;

use deepagents::core::message::{Media, MediaKind, MediaSource, UserMessage};
use deepagents::core::state::{State, Update};
use deepagents::fs::{
    Backend, ByteRange, FileRead, FsError, Listing, LocalBackend, Stat, StateBackend, VPath, WriteMode, Written,
};
use deepagents::models::scripted::Turn;
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    Block, BoxError, DeepAgent, DeepAgentBuilder, MemoryJournal, Message, ModelError, RunInput, StopReason,
};
use futures_util::future::BoxFuture;

use super::*;
use crate::memory::told;

/// Runs a conversation of five messages, of which two are to stay. Returns the messages shown, and the failures.
async fn run(configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> (Vec<String>, Vec<Value>) {
    let model = talker();
    let builder = DeepAgent::builder().model(model.clone()).summarization(by_messages(5, 2));
    let agent = configure(builder).build().unwrap();
    let failures = told(&agent, RunInput::messages(conversation("H A H A H")), "compaction_failed").await;
    (texts(requests(&model).1.last().unwrap()), failures)
}

#[tokio::test]
async fn nothing_is_evicted_if_the_history_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    // A file in the place of the directory.
    std::fs::write(dir.path().join("conversation_history"), "in the way").unwrap();
    let (shown, failures) = run(|b| b.backend(LocalBackend::open(dir.path()).unwrap())).await;
    assert_eq!(shown, ["question 0", "answer 1", "question 2", "answer 3", "question 4"]);
    assert!(failures[0]["error"].as_str().unwrap().contains("could not be stored"), "{failures:?}");
}

/// Reports a successful write, but returns other content, or none.
struct Odd(StateBackend, fn(bytes::Bytes) -> Option<bytes::Bytes>);

impl Backend for Odd {
    fn stat<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Stat, FsError>> {
        self.0.stat(state, path)
    }
    fn read<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<FileRead, FsError>> {
        self.0.read(state, path, range)
    }
    fn list<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Listing, FsError>> {
        self.0.list(state, path)
    }
    fn write<'a>(
        &'a self,
        state: &'a State,
        path: &'a VPath,
        data: bytes::Bytes,
        mode: WriteMode,
    ) -> BoxFuture<'a, Result<Written, FsError>> {
        Box::pin(async move {
            match self.1(data.clone()) {
                Some(data) => self.0.write(state, path, data, mode).await,
                None => {
                    let written = self.0.write(state, path, data, mode).await?;
                    Ok(Written { update: Update::none(), ..written })
                }
            }
        })
    }
    fn delete<'a>(&'a self, state: &'a State, path: &'a VPath) -> BoxFuture<'a, Result<Update, FsError>> {
        self.0.delete(state, path)
    }
    fn channels(&self) -> Vec<deepagents::core::state::ChannelSpec> {
        self.0.channels()
    }
}

#[tokio::test]
async fn nothing_is_evicted_if_the_written_history_cannot_be_read_back() {
    let half = |data: bytes::Bytes| Some(data.slice(..data.len() / 2));
    for odd in [Odd(StateBackend::new(), |_| None), Odd(StateBackend::new(), half)] {
        let (shown, failures) = run(|b| b.backend(odd)).await;
        assert_eq!((shown.len(), failures.len()), (5, 1));
    }
}

#[tokio::test]
async fn additions_by_another_process_do_not_block_compaction() {
    let added = |data: bytes::Bytes| Some([data.as_ref(), b"\n## by somebody else\n"].concat().into());
    let (shown, failures) = run(|b| b.backend(Odd(StateBackend::new(), added))).await;
    assert_eq!((shown.len(), failures.len()), (3, 0));
}

#[tokio::test]
async fn without_a_summary_nothing_is_evicted_and_retries_are_spaced_out() {
    let refused = || Turn::error(ModelError::invalid("no"));
    let calls = (0..9).map(|_| Turn::call("ls", json!({"path": "/"}))).chain([Turn::text("Done.")]);
    let model = model((0..9).map(|_| refused()), calls);
    let builder = DeepAgent::builder().model(model.clone()).without("LoopDetection");
    let agent = builder.summarization(by_messages(5, 2)).build().unwrap();
    let failures = told(&agent, RunInput::messages(conversation("H A H A H")), "compaction_failed").await;
    assert!(failures[0]["error"].as_str().unwrap().contains("no summary could be made"), "{failures:?}");
    let (summaries, sent) = requests(&model);
    // Nine calls are eighteen messages; compaction is tried again after ten.
    assert_eq!((summaries.len(), failures.len(), sent.len()), (2, 2, 10));
    assert_eq!(sent[9].messages.len(), 5 + 18);
}

#[tokio::test]
async fn text_of_a_declined_or_truncated_answer_is_not_a_summary() {
    for stop in [StopReason::Refusal, StopReason::Other("network_error".into())] {
        let light = Turn::text("I cannot help with that.").stop(stop.clone());
        let light = deepagents::models::scripted::ScriptedModel::new([light]).with_name("scripted:light");
        let main = model([Turn::text("Sorry.").stop(stop.clone())], [Turn::text("Done.")]);
        let options = by_messages(5, 2).model(light.clone());
        let agent = DeepAgent::builder().model(main.clone()).summarization(options).build().unwrap();
        let failures = told(&agent, RunInput::messages(conversation("H A H A H")), "compaction_failed").await;
        assert!(failures[0]["error"].as_str().unwrap().contains("no summary could be made"), "{failures:?}");
        let (summaries, sent) = requests(&main);
        assert_eq!((light.requests().len(), summaries.len()), (1, 1), "each is asked once");
        assert_eq!(texts(&sent[0])[0], "question 0", "{stop:?}");
    }
}

#[tokio::test]
async fn a_lighter_model_writes_summaries_and_the_main_model_is_the_fallback() {
    for (light, summary) in [(Turn::text("LIGHT"), "LIGHT"), (Turn::error(ModelError::invalid("no")), "MAIN")] {
        let light = deepagents::models::scripted::ScriptedModel::new([light]).with_name("scripted:light");
        let main = model([Turn::text("MAIN")], [Turn::text("Done.")]);
        let agent = DeepAgent::builder()
            .model(main.clone())
            .summarization(by_messages(5, 2).model(light.clone()))
            .build()
            .unwrap();
        agent.invoke(RunInput::messages(conversation("H A H A H"))).await.unwrap();
        assert_eq!(light.requests().len(), 1);
        assert!(texts(requests(&main).1.last().unwrap())[0].contains(summary));
    }
}

#[tokio::test]
async fn images_are_stored_once_by_content_and_referenced() {
    let picture = || {
        Block::Media(Media {
            kind: MediaKind::Image,
            mime: "image/png".into(),
            source: MediaSource::Base64("aGVsbG8=".into()),
            name: None,
        })
    };
    let with = |text: &str| {
        Message::User(UserMessage { content: vec![Block::text(text), picture()], ..UserMessage::default() })
    };
    let model = talker();
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(5, 2)).build().unwrap();
    let messages =
        [with("first"), Message::assistant("Nice."), with("second"), Message::assistant("Same."), "And?".into()];
    let outcome = agent.invoke(RunInput::messages(messages)).await.unwrap();
    let files = outcome.state.get::<Files>().unwrap();
    let stored: Vec<_> = files.iter().filter(|(path, _)| path.as_str().contains("/media/")).collect();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].1.content().bytes(), b"hello");
    let tag = format!("<image file=\"{}\"/>", stored[0].0);
    let asked = texts(&requests(&model).0[0]).concat();
    assert_eq!((asked.matches(&tag).count(), history(&outcome).matches(&tag).count()), (2, 2));
    assert!(!asked.contains("aGVsbG8="));
}

#[tokio::test]
async fn media_in_data_urls_are_stored_and_remote_ones_are_named() {
    let media = |kind, mime: &str, source| Block::Media(Media { kind, mime: mime.into(), source, name: None });
    let content = vec![
        media(MediaKind::Audio, "audio/mpeg", MediaSource::Url("data:audio/mpeg;base64,aGVsbG8=".into())),
        media(MediaKind::Image, "image/png", MediaSource::Url("https://example.org/cat.png".into())),
        media(MediaKind::File, "application/pdf", MediaSource::FileId("file_1".into())),
        media(MediaKind::Video, "video/mp4", MediaSource::Base64("not base64!".into())),
    ];
    let model = talker();
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(5, 2)).build().unwrap();
    let mut messages = conversation("H A H A H");
    messages[0] = Message::User(UserMessage { content, ..UserMessage::default() });
    let outcome = agent.invoke(RunInput::messages(messages)).await.unwrap();
    let files = outcome.state.get::<Files>().unwrap();
    let of = |ending: &str| files.iter().find(|(path, _)| path.as_str().ends_with(ending)).unwrap();
    assert_eq!(of(".mp3").1.content().bytes(), b"hello");
    assert_eq!(of(".mp4").1.content().bytes(), b"not base64!", "what cannot be read is not lost");
    let tags = [
        format!("<audio file=\"{}\"/>", of(".mp3").0),
        "<image url=\"https://example.org/cat.png\"/>".to_owned(),
        "<file id=\"file_1\"/>".to_owned(),
        format!("<video file=\"{}\"/>", of(".mp4").0),
    ];
    for tag in tags {
        assert!(history(&outcome).contains(&tag), "{tag}");
    }
}

#[tokio::test]
async fn a_thread_has_its_own_file_whatever_its_id() {
    let model = talker();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .journal(MemoryJournal::new())
        .summarization(by_messages(5, 2))
        .build()
        .unwrap();
    let mut paths = Vec::new();
    for thread in ["plain-1", "../up", "a/b", "a:b"] {
        let outcome = agent.invoke(RunInput::messages(conversation("H A H A H")).thread(thread)).await.unwrap();
        let files = outcome.state.get::<Files>().unwrap();
        let mut of_thread: Vec<String> = files.iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(of_thread.len(), 1);
        paths.append(&mut of_thread);
    }
    assert_eq!(paths[0], "/conversation_history/plain-1.md");
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 4);
    assert!(paths.iter().all(|path| path.matches('/').count() == 2), "{paths:?}");
}

#[tokio::test]
async fn a_sub_agent_has_its_own_history() -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    let below = (0..6).map(|n| Turn::call("ls", json!({"path": format!("/below-{n}")}))).chain([Turn::text("Found.")]);
    let main = [
        Turn::calls([("task_1", "task", json!({"description": "Look.", "subagent_type": "looker"}))]),
        Turn::text("Done."),
    ];
    let model = deepagents::models::scripted::ScriptedModel::rules()
        .when(|r| r.tools.is_empty(), (0..9).map(|_| Turn::text("A SUMMARY")))
        .when(|r| r.system_text().contains("LOOKER"), below)
        .otherwise(main)
        .build();
    let agent = DeepAgent::builder()
        .model(model)
        .backend(LocalBackend::open(dir.path())?)
        .journal(MemoryJournal::new())
        .sub_agent(SubAgentSpec::new("looker", "Looks.").system_prompt("LOOKER"))
        .summarization(by_messages(8, 2))
        .build()?;
    agent.invoke(RunInput::new("Look around.").thread("t1")).await?;
    let names: Vec<String> = std::fs::read_dir(dir.path().join("conversation_history"))?
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".gitignore")
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].contains("task") && names[0] != "t1.md", "{names:?}");
    Ok(())
}

#[tokio::test]
async fn messages_stored_before_a_failure_are_not_stored_twice() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::new());
    for answer in [Turn::error(ModelError::transport("gone")), Turn::text("Done.")] {
        let model = model([Turn::text("A SUMMARY")], [answer]);
        let agent = DeepAgent::builder()
            .model(model)
            .journal(journal.clone())
            .backend(LocalBackend::open(dir.path()).unwrap())
            .summarization(by_messages(5, 2))
            .build()
            .unwrap();
        let known = agent.state("t1").await.unwrap().messages().len();
        let input = if known == 0 { RunInput::messages(conversation("H A H A H")) } else { RunInput::messages([]) };
        let _ = agent.invoke(input.thread("t1")).await;
    }
    let file = std::fs::read_to_string(dir.path().join("conversation_history/t1.md")).unwrap();
    assert_eq!(file.matches("question 0").count(), 1, "{file}");
}

#[tokio::test]
async fn concurrent_additions_to_one_history_all_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let backend = LocalBackend::open(dir.path()).unwrap();
    let runs = (0..8).map(|n| {
        let backend = backend.clone();
        let builder = DeepAgent::builder().model(talker()).backend(backend).journal(MemoryJournal::new());
        let agent = builder.summarization(by_messages(5, 2)).build().unwrap();
        let mut messages = conversation("H A H A H");
        messages[0] = Message::user(format!("I am number {n}."));
        async move { told(&agent, RunInput::messages(messages).thread("shared"), "compaction_failed").await }
    });
    let failures: Vec<_> = futures_util::future::join_all(runs).await.concat();
    let file = std::fs::read_to_string(dir.path().join("conversation_history/shared.md")).unwrap();
    assert!(failures.is_empty(), "{failures:?}");
    for n in 0..8 {
        assert_eq!(file.matches(&format!("I am number {n}.")).count(), 1, "{file}");
    }
}

#[tokio::test]
async fn a_long_history_is_split_into_files_and_the_summary_names_the_last() {
    let model = talker();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .journal(MemoryJournal::new())
        .summarization(by_messages(3, 1))
        .build()
        .unwrap();
    let mut outcome = None;
    for n in 0..6 {
        let text = format!("question {n} {}", "word ".repeat(150_000));
        outcome = Some(agent.invoke(RunInput::new(text).thread("t1")).await.unwrap());
    }
    let outcome = outcome.unwrap();
    // Very long user messages are stored in a separate file next to the history.
    let files = outcome.state.get::<Files>().unwrap();
    let parts = files.iter().filter(|(path, _)| path.as_str().starts_with("/conversation_history/t1"));
    let parts: Vec<(String, String)> = parts
        .map(|(path, file)| (path.to_string(), String::from_utf8_lossy(file.content().bytes()).into_owned()))
        .collect();
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["t1-2", "t1-3", "t1"].map(|name| format!("/conversation_history/{name}.md")));
    for n in 0..5 {
        let of_question = parts.iter().map(|(_, text)| text.matches(&format!("question {n} ")).count());
        assert_eq!(of_question.sum::<usize>(), 1, "question {n}");
    }
    let shown = &texts(requests(&model).1.last().unwrap())[0];
    assert!(shown.contains("/conversation_history/t1-3.md"), "{}", shown.chars().take(300).collect::<String>());
}
