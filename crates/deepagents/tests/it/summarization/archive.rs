//! What is evicted is stored before.

use std::sync::Arc;

use deepagents::core::message::{Media, MediaKind, MediaSource, UserMessage};
use deepagents::core::state::{State, Update};
use deepagents::fs::{
    Backend, ByteRange, FileRead, FsError, Listing, LocalBackend, Stat, StateBackend, VPath, WriteMode, Written,
};
use deepagents::middleware::subagents::SubAgentSpec;
use deepagents::models::scripted::Turn;
use deepagents::{Block, BoxError, DeepAgent, DeepAgentBuilder, MemoryJournal, Message, ModelError, RunInput};
use futures_util::future::BoxFuture;

use super::*;
use crate::memory::told;

/// Shows all and tells what was evicted, for a conversation of five messages of which two are to stay.
async fn run(configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> (Vec<String>, Vec<Value>) {
    let model = talker();
    let builder = DeepAgent::builder().model(model.clone()).summarization(by_messages(5, 2));
    let agent = configure(builder).build().unwrap();
    let failures = told(&agent, RunInput::messages(conversation("H A H A H")), "compaction_failed").await;
    (texts(requests(&model).1.last().unwrap()), failures)
}

#[tokio::test]
async fn nothing_is_evicted_when_the_history_cannot_be_written_and_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    // A file where the folder has to be.
    std::fs::write(dir.path().join("conversation_history"), "in the way").unwrap();
    let (shown, failures) = run(|b| b.backend(LocalBackend::open(dir.path()).unwrap())).await;
    assert_eq!(shown, ["question 0", "answer 1", "question 2", "answer 3", "question 4"]);
    assert!(failures[0]["error"].as_str().unwrap().contains("could not be stored"), "{failures:?}");
}

/// Says that it has written and forgets.
struct Forgetful(StateBackend);

impl Backend for Forgetful {
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
            let written = self.0.write(state, path, data, mode).await?;
            Ok(Written { update: Update::none(), ..written })
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
async fn nothing_is_evicted_when_what_was_written_cannot_be_read_back() {
    let (shown, failures) = run(|b| b.backend(Forgetful(StateBackend::new()))).await;
    assert_eq!(shown.len(), 5);
    assert_eq!(failures.len(), 1);
}

#[tokio::test]
async fn nothing_is_evicted_when_no_summary_can_be_had_and_it_is_not_tried_at_every_step() {
    let refused = || Turn::error(ModelError::invalid("no"));
    let calls = (0..9).map(|_| Turn::call("ls", json!({"path": "/"}))).chain([Turn::text("Done.")]);
    let model = model((0..9).map(|_| refused()), calls);
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(5, 2)).build().unwrap();
    let failures = told(&agent, RunInput::messages(conversation("H A H A H")), "compaction_failed").await;
    assert!(failures[0]["error"].as_str().unwrap().contains("no summary could be made"), "{failures:?}");
    let (summaries, sent) = requests(&model);
    // Nine calls are eighteen messages: once more after ten.
    assert_eq!((summaries.len(), failures.len(), sent.len()), (2, 2, 10));
    assert_eq!(sent[9].messages.len(), 5 + 18);
}

#[tokio::test]
async fn a_lighter_model_writes_the_summaries_and_the_main_one_where_it_fails() {
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
async fn pictures_are_stored_once_by_their_content_and_referred_to() {
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
async fn a_sub_agent_has_a_history_of_its_own() -> Result<(), BoxError> {
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
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].contains("task") && names[0] != "t1.md", "{names:?}");
    Ok(())
}

#[tokio::test]
async fn what_was_stored_before_a_failure_is_not_stored_twice() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Arc::new(MemoryJournal::new());
    for answer in [Turn::error(ModelError::transport("gone")), Turn::text("Done.")] {
        let model = model([Turn::text("A SUMMARY")], [answer]);
        let agent = DeepAgent::builder()
            .model(model)
            .dyn_journal(journal.clone())
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
