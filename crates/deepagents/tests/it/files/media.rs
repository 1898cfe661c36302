//! What `read_file` attaches, and what it shows or refuses instead.

use deepagents::Block;
use deepagents::fs::LocalBackend;
use deepagents::models::scripted::Turn;
use serde_json::json;

use crate::{play, results};

/// Reads files of a directory with these contents, each in a call of its own.
async fn read(files: &[(&str, &[u8])], limit: i64) -> Vec<(String, bool)> {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let calls = files.iter().map(|(name, _)| ("read_file", json!({"file_path": format!("/{name}"), "limit": limit})));
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [Turn::calls(calls.collect::<Vec<_>>()), Turn::text("Done.")];
    let (outcome, _) = play(script, |b| b.backend(backend)).await;
    let attached = |block: &Block| matches!(block, Block::Media(_));
    let has_media = outcome.messages().iter().any(|message| message.content().iter().any(attached));
    assert!(!has_media, "nothing is attached");
    results(&outcome)
}

#[tokio::test]
async fn text_with_the_name_of_a_picture_or_document_is_shown_as_text_with_a_notice() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\n";
    let page = b"<html>not found</html>\n";
    let found =
        read(&[("logo.png", pointer), ("paper.PDF", page), ("sound.mp3", page), ("table.csv", b"a,b\n")], 9).await;
    let version = "     1\tversion https://git-lfs.github.com/spec/v1";
    let want = [
        format!("{version}\n[it is named .png but holds text]"),
        "     1\t<html>not found</html>\n[it is named .pdf but holds text]".to_owned(),
        "     1\t<html>not found</html>\n[it is named .mp3 but holds text]".to_owned(),
        "     1\ta,b".to_owned(),
    ];
    assert_eq!(found, want.map(|text| (text, false)));
}

#[tokio::test]
async fn pictures_and_documents_whose_bytes_models_do_not_take_are_refused() {
    let found = read(
        &[
            ("broken.png", b"\0\x01\x02"),
            ("photo.heic", b"\0\0\0\x18ftypheic\0"),
            ("paper.pdf", b"\0not a PDF"),
            ("table.xlsx", b"\0not an archive"),
        ],
        9,
    )
    .await;
    for (text, error) in &found {
        assert!(*error && text.starts_with("Error: "), "{text}");
    }
    for (at, path) in ["/broken.png", "/photo.heic"].iter().enumerate() {
        assert!(found[at].0.contains(&format!("{path} holds no picture that models take (PNG, ")), "{}", found[at].0);
    }
    assert!(found[2].0.ends_with("/paper.pdf does not hold what its name says: application/pdf"), "{}", found[2].0);
    assert!(found[3].0.contains("/table.xlsx does not hold what its name says"), "{}", found[3].0);
}

#[tokio::test]
async fn a_picture_larger_than_providers_accept_is_refused_with_its_size() {
    let large = [&b"\x89PNG\r\n\x1a\n"[..], &vec![0; 5 << 20]].concat();
    let found = read(&[("large.png", &large)], 9).await;
    assert_eq!(found, [("Error: /large.png is too large: 5242888 bytes, the limit is 5242880".to_owned(), true)]);
}

#[tokio::test]
async fn a_limit_of_zero_shows_only_that_a_file_is_blank() {
    let found = read(&[("blank", b" \n\t\n"), ("latin", b"caf\xe9\n"), ("utf16", b"\xff\xfea\0\n\0")], 0).await;
    let want = [
        "The file exists but holds nothing but white space: 2 lines of it.",
        "No lines of /latin were read, as limit was 0.",
        "No lines of /utf16 were read, as limit was 0.",
    ];
    assert_eq!(found, want.map(|text| (text.to_owned(), false)));
}
