//! Media of results in requests that exceed the context window.

use deepagents::core::model::ErrorInfo;
use deepagents::fs::{LocalBackend, StateBackend};
use deepagents::{DeepAgent, MemoryJournal, ModelError, RunInput};

use super::*;

fn media(request: &ModelRequest) -> usize {
    let is_media = |block: &&Block| matches!(block, Block::Media(_));
    request.messages.iter().map(|message| message.content().iter().filter(is_media).count()).sum()
}

/// A model that reads eight pictures in one turn and refuses requests with more than three.
fn short_sighted() -> ScriptedModel {
    let calls = |n: usize| ("read_file", json!({"file_path": format!("/{n}.png")}));
    let first = Turn::calls((0..8).map(calls).collect::<Vec<_>>());
    let too_long = || Turn::error(ModelError::ContextLength(ErrorInfo::from("request_too_large")));
    ScriptedModel::rules()
        .when(|request| media(request) > 3, (0..9).map(move |_| too_long()))
        .when(|request| request.tools.is_empty(), [Turn::text("A SUMMARY")])
        .otherwise([first, Turn::text("Seen."), Turn::text("Still seen.")])
        .build()
}

#[tokio::test]
async fn pictures_of_the_last_turn_are_replaced_by_their_paths_if_a_request_is_too_long() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..8 {
        let picture = [&b"\x89PNG\r\n\x1a\n"[..], &vec![0; 100 * (n + 1)]].concat();
        std::fs::write(folder.path().join(format!("{n}.png")), picture).unwrap();
    }
    let model = short_sighted();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let agent =
        DeepAgent::builder().model(model.clone()).backend(backend).journal(MemoryJournal::new()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Look.").thread("t")).await.unwrap();
    assert_eq!(outcome.text(), "Seen.");
    assert_eq!(outcome.messages().iter().filter(|m| m.as_tool().is_some()).count(), 8);
    let kept = outcome.messages().iter().flat_map(|m| m.content()).filter(|b| matches!(b, Block::Media(_))).count();
    assert_eq!(kept, 8, "the thread keeps them");
    let outcome = agent.invoke(RunInput::new("Sure?").thread("t")).await.unwrap();
    assert_eq!(outcome.text(), "Still seen.");
    let (_, sent) = requests(&model);
    let last = sent.last().unwrap();
    assert!((1..=3).contains(&media(last)), "{}", media(last));
    let shown = texts(last);
    let largest = "[image 7.png (image/png) is not shown to save room; it is in /7.png]";
    assert!(shown.iter().any(|text| text == largest), "{shown:?}");
}

#[tokio::test]
async fn a_picture_that_is_in_no_file_is_stored_before_it_is_left_out() {
    use deepagents::core::message::{Media, MediaKind, MediaSource};
    use deepagents::core::tool::ToolOutput;
    let picture = |n: usize| {
        let source = MediaSource::Base64("iVBORw0KGgo".to_owned() + &"A".repeat(4 * n + 1));
        Block::Media(Media { kind: MediaKind::Image, mime: "image/png".to_owned(), source, name: None })
    };
    let draw = deepagents::json_tool("draw", "Draws.", json!({"type": "object"}), move |_, _| async move {
        Ok(ToolOutput::blocks((0..8).map(picture).collect()))
    });
    let too_long = || Turn::error(ModelError::ContextLength(ErrorInfo::from("request_too_large")));
    let model = ScriptedModel::rules()
        .when(|request| media(request) > 3, (0..9).map(move |_| too_long()))
        .otherwise([Turn::call("draw", json!({})), Turn::text("Seen.")])
        .build();
    let agent = DeepAgent::builder().model(model.clone()).tool(draw).backend(StateBackend::new()).build().unwrap();
    let outcome = agent.invoke("Draw.").await.unwrap();
    let request = model.requests().pop().unwrap();
    let shown: Vec<&str> = request
        .messages
        .iter()
        .filter(|m| m.as_tool().is_some())
        .flat_map(|m| m.content())
        .filter_map(Block::as_text)
        .collect();
    assert_eq!(shown.len(), 8, "{shown:?}");
    for text in shown {
        let path = text.split_once("; it is in ").unwrap().1.trim_end_matches(']');
        let path = deepagents::fs::VPath::parse(path).unwrap();
        assert!(path.as_str().starts_with("/conversation_history/media/"), "{text}");
        assert!(outcome.state.get::<Files>().unwrap().get(&path).is_some(), "{text}");
    }
}
