//! Media that a model does not support.

use std::sync::Arc;
use std::time::Duration;

use deepagents::core::forward_model;
use deepagents::core::message::{Media, MediaKind, MediaSource, UserMessage};
use deepagents::core::model::{ChatModel, ModelError, ModelProfile, ModelRequest, model_fn};
use deepagents::fs::LocalBackend;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Block, DeepAgent, MemoryJournal, Message, RunInput, wrap_model_call};
use serde_json::json;

fn media(kind: MediaKind, mime: &str, source: MediaSource) -> Block {
    Block::Media(Media { kind, mime: mime.to_owned(), source, name: Some("thing".to_owned()) })
}

fn inline() -> MediaSource {
    MediaSource::Base64("AAAA".to_owned())
}

fn user(content: Vec<Block>) -> Message {
    Message::User(UserMessage { content, ..UserMessage::default() })
}

fn blind() -> ModelProfile {
    let mut profile = ModelProfile::default();
    (profile.images, profile.audio, profile.video, profile.pdf) = (Some(false), Some(false), Some(false), Some(false));
    profile
}

fn all() -> Vec<Block> {
    vec![
        Block::text("Look."),
        media(MediaKind::Image, "image/png", inline()),
        media(MediaKind::Audio, "audio/mpeg", inline()),
        media(MediaKind::Video, "video/mp4", MediaSource::Url("https://example.invalid/v".to_owned())),
        media(MediaKind::File, "application/pdf", inline()),
        media(MediaKind::File, "application/pdf", MediaSource::FileId("file_1".to_owned())),
        media(MediaKind::File, "text/csv", inline()),
    ]
}

async fn sent(profile: ModelProfile) -> (Vec<String>, Vec<Block>) {
    let model = ScriptedModel::new([Turn::text("Seen.")]).with_profile(profile);
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::new(user(all()))).await.unwrap();
    let shown = |block: &Block| match block {
        Block::Text(text) => text.text.clone(),
        Block::Media(media) => media.mime.clone(),
        other => format!("{other:?}"),
    };
    let request = &model.requests()[0];
    let sent = request.messages.get(0).unwrap().content().iter().map(shown).collect();
    (sent, outcome.messages().get(0).unwrap().content().to_vec())
}

#[tokio::test]
async fn unsupported_content_is_replaced_by_a_note_but_kept_in_the_thread() {
    let (sent, kept) = sent(blind()).await;
    let gone = |kind: &str, mime: &str| {
        format!("[thing was not attached because this model does not support {kind} content ({mime}).]")
    };
    let expected = [
        "Look.".to_owned(),
        gone("image", "image/png"),
        gone("audio", "audio/mpeg"),
        gone("video", "video/mp4"),
        gone("PDF", "application/pdf"),
        "application/pdf".to_owned(),
        gone("file", "text/csv"),
    ];
    assert_eq!(sent, expected, "a PDF that is only referred to passes");
    assert_eq!(kept, all());
}

#[tokio::test]
async fn unknown_support_counts_as_supported_except_for_non_pdf_documents() {
    let (sent, _) = sent(ModelProfile::default()).await;
    assert_eq!(sent[..6], ["Look.", "image/png", "audio/mpeg", "video/mp4", "application/pdf", "application/pdf"]);
    assert!(sent[6].contains("does not support file content (text/csv)"), "{}", sent[6]);
}

#[tokio::test]
async fn documents_are_sent_to_a_model_that_takes_their_type() {
    let mut profile = ModelProfile::default();
    profile.documents = vec!["text/csv".to_owned()];
    let model = ScriptedModel::new([Turn::text("Seen.")]).with_profile(profile);
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    let url = |mime: &str| MediaSource::Url(format!("data:{mime};base64,AAAA"));
    let given = vec![
        media(MediaKind::File, "text/csv", inline()),
        media(MediaKind::File, "text/html", inline()),
        media(MediaKind::File, "text/csv", url("text/csv")),
        media(MediaKind::File, "text/html", url("text/html")),
    ];
    agent.invoke(RunInput::new(user(given))).await.unwrap();
    let requests = model.requests();
    let passes: Vec<bool> =
        requests[0].messages.get(0).unwrap().content().iter().map(|block| matches!(block, Block::Media(_))).collect();
    assert_eq!(passes, [true, false, true, false]);
}

#[tokio::test]
async fn a_result_names_the_tool_that_attached_unsupported_content() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let script = [Turn::call("read_file", json!({"file_path": "/dot.png"})), Turn::text("Seen.")];
    let model = ScriptedModel::new(script).with_profile(blind());
    let backend = LocalBackend::open(folder.path()).unwrap();
    let agent = DeepAgent::builder().model(model.clone()).backend(backend).build().unwrap();
    let outcome = agent.invoke("Look.").await.unwrap();
    let request = &model.requests()[1];
    let result = request.messages.iter().find(|m| m.as_tool().is_some()).unwrap();
    assert_eq!(
        result.text(),
        "[read_file: dot.png was not attached because this model does not support image content (image/png).]"
    );
    let kept = outcome.messages().iter().find(|m| m.as_tool().is_some()).unwrap().clone();
    assert!(matches!(kept.content(), [Block::Media(_)]));
}

#[tokio::test]
async fn a_model_chosen_by_a_middleware_gets_the_content_it_supports() {
    let seeing = ScriptedModel::new([Turn::text("I see.")]);
    let other: Arc<dyn deepagents::ChatModel> = Arc::new(seeing.clone());
    let route = wrap_model_call(move |request, next| {
        let next = next.with_model(other.clone());
        async move { next.run(request).await }
    });
    let first = ScriptedModel::new([]).with_profile(blind());
    let agent = DeepAgent::builder().model(first).middleware(route).build().unwrap();
    agent.invoke(RunInput::new(user(vec![media(MediaKind::Image, "image/png", inline())]))).await.unwrap();
    let request = &seeing.requests()[0];
    assert!(matches!(request.messages.get(0).unwrap().content(), [Block::Media(_)]));
}

/// A directory with a picture, and a model that refuses requests with media as often as it is asked.
fn picky(answers: impl IntoIterator<Item = Turn>) -> (tempfile::TempDir, LocalBackend, ScriptedModel) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dot.png"), b"\x89PNG\r\n\x1a\n cut off").unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let refused = || Turn::error(ModelError::invalid("could not process image"));
    let model = ScriptedModel::rules()
        .when(|request| request.messages.has_media(), (0..9).map(move |_| refused()))
        .otherwise(answers)
        .build();
    (folder, backend, model)
}

#[tokio::test]
async fn media_of_results_that_the_provider_refuses_are_left_out_of_this_and_later_requests() {
    let script =
        [Turn::call("read_file", json!({"file_path": "/dot.png"})), Turn::text("No picture."), Turn::text("Yes.")];
    let (_folder, backend, model) = picky(script);
    let build = || DeepAgent::builder().model(model.clone()).backend(backend.clone());
    let journal = Arc::new(MemoryJournal::new());
    let agent = build().journal(journal.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Look.").thread("t")).await.unwrap();
    assert_eq!(outcome.text(), "No picture.");
    let kept = outcome.messages().iter().find(|m| m.as_tool().is_some()).unwrap().clone();
    assert!(matches!(kept.content(), [Block::Media(_)]), "the thread keeps them");
    // Another object of the agent, as in another process.
    let agent = build().journal(journal).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Sure?").thread("t")).await.unwrap();
    assert_eq!(outcome.text(), "Yes.");
    let requests = model.requests();
    let shown: Vec<String> = requests
        .iter()
        .filter_map(|request| request.messages.iter().find(|m| m.as_tool().is_some()).map(|m| m.text()))
        .collect();
    let note = "[read_file: dot.png was not attached because the provider refused the request with it (image/png).]";
    assert_eq!(shown, ["", note, note], "the later run sends no media at all");
}

/// Returns whether each of these requests begins with the very messages of the one before, so that what was checked and
/// encoded of them is used again.
fn each_continues(requests: &[ModelRequest]) -> bool {
    let shared = |pair: &[ModelRequest]| pair[1].messages.shared_with(&pair[0].messages.mark());
    requests.windows(2).all(|pair| shared(pair) == pair[0].messages.len())
}

#[tokio::test]
async fn requests_with_notes_continue_those_before_them() {
    let list = || Turn::call("ls", json!({"path": "/"}));
    let look = || Turn::call("read_file", json!({"file_path": "/dot.png"}));
    let (_folder, backend, model) = picky([look(), list(), list(), list(), Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(model.clone()).backend(backend).build().unwrap();
    agent.invoke("Look.").await.unwrap();
    let requests = model.requests();
    assert!(requests[1].messages.has_media() && requests.len() == 6);
    assert!(each_continues(&requests[3..]), "the first one without the refused picture is another conversation");

    let (_folder, backend, _) = picky([]);
    let script = [list(), look(), list(), look(), list(), Turn::text("Done.")];
    let model = ScriptedModel::new(script).with_profile(blind());
    let agent = DeepAgent::builder().model(model.clone()).backend(backend).build().unwrap();
    agent.invoke("Look.").await.unwrap();
    let requests = model.requests();
    assert!(each_continues(&requests[..2]) && each_continues(&requests[2..]) && requests.len() == 6);
    assert!(requests.iter().all(|request| !request.messages.has_media()));
}

/// A model that takes no media, and keeps no requests.
struct Blind<M>(M);

impl<M: ChatModel> ChatModel for Blind<M> {
    forward_model!([.0]; name, stream);

    fn profile(&self) -> ModelProfile {
        blind()
    }
}

#[tokio::test]
async fn an_agent_keeps_no_messages_of_runs_that_have_ended() {
    let model = Blind(model_fn("blind", |_request| async { Ok("Not seen.") }));
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let outcome = agent.invoke(RunInput::messages([user(all()), Message::user("What is it?")])).await.unwrap();
    let message = Arc::downgrade(outcome.messages().get(1).unwrap());
    drop(outcome);
    let gone = async {
        while message.upgrade().is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    drop(agent);
}

#[tokio::test]
async fn a_request_that_is_refused_without_its_media_too_fails_with_the_first_error() {
    let read = Turn::call("read_file", json!({"file_path": "/dot.png"}));
    let (_folder, backend, model) = picky([read, Turn::error(ModelError::invalid("no such tool choice"))]);
    let agent = DeepAgent::builder().model(model.clone()).backend(backend).build().unwrap();
    let error = agent.invoke("Look.").await.unwrap_err();
    assert!(error.to_string().contains("could not process image"), "{error}");
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn a_request_without_new_media_is_not_repeated_when_it_is_refused() {
    let model = ScriptedModel::new([Turn::error(ModelError::invalid("no"))]);
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    // A person's picture: its sender is told.
    let picture = user(vec![media(MediaKind::Image, "image/png", inline())]);
    agent.invoke(RunInput::new(picture)).await.unwrap_err();
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn the_unsupported_content_middleware_can_be_removed() {
    let model = ScriptedModel::new([Turn::text("Seen.")]).with_profile(blind());
    let agent = DeepAgent::builder().model(model.clone()).without("UnsupportedContent").build().unwrap();
    agent.invoke(RunInput::new(user(vec![media(MediaKind::Image, "image/png", inline())]))).await.unwrap();
    assert!(matches!(model.requests()[0].messages.get(0).unwrap().content(), [Block::Media(_)]));
}
