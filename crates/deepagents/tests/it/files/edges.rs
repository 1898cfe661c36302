//! Edge cases of reading and changing files.

use deepagents::core::message::MediaSource;
use deepagents::fs::{LocalBackend, StateBackend};
use deepagents::middleware::filesystem::{FilesystemOptions, ReadFormat};
use deepagents::models::scripted::Turn;
use deepagents::{Block, Outcome};
use serde_json::{Value, json};

use crate::{play, results};

/// A directory with some files, and the results of calls on it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        Self(folder)
    }

    async fn outcome(&self, calls: &[(&str, Value)], options: FilesystemOptions) -> Outcome {
        let backend = LocalBackend::open(self.0.path()).unwrap();
        // One turn per call, because later calls depend on earlier ones.
        let turns = calls.iter().map(|(tool, args)| Turn::call(*tool, args.clone()));
        play(turns.chain([Turn::text("Done.")]), |b| b.backend(backend).files(options)).await.0
    }

    async fn calls(&self, calls: &[(&str, Value)]) -> Vec<(String, bool)> {
        results(&self.outcome(calls, FilesystemOptions::default()).await)
    }

    fn content(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(name)).unwrap()
    }
}

fn read(path: &str, offset: i64, limit: i64) -> (&'static str, Value) {
    ("read_file", json!({"file_path": path, "offset": offset, "limit": limit}))
}

#[tokio::test]
async fn read_windows_before_the_start_past_the_end_and_empty_are_distinguished() {
    let folder = Folder::with(&[("three", b"one\ntwo\nthree\n"), ("gap", b"a\n\n\n\nb\n"), ("blank", b" \n\n\t\n")]);
    let results = folder
        .calls(&[
            read("/three", 0, 100),
            read("/three", 1, 1),
            read("/three", 3, 100),
            read("/three", -5, 100),
            read("/three", 0, 0),
            read("/three", 0, -3),
            read("/gap", 1, 2),
            read("/blank", 0, 100),
            read("/blank", 1, 1),
        ])
        .await;
    let want = [
        ("     1\tone\n     2\ttwo\n     3\tthree", false),
        ("     2\ttwo\n[lines 2-2 of 3; continue with offset 2]", false),
        ("Error: offset 3 is past the end of /three, which has 3 lines", true),
        (
            "     1\tone\n     2\ttwo\n     3\tthree\n[offset -5 is before the start of the file; line 1 is the first]",
            false,
        ),
        ("No lines of /three were read, as limit was 0.", false),
        ("No lines of /three were read, as limit was -3.", false),
        ("     2\t\n     3\t\n[lines 2-3 of 5; continue with offset 3]", false),
        ("The file exists but holds nothing but white space: 3 lines of it.", false),
        ("     2\t\n[lines 2-2 of 3; continue with offset 2]", false),
    ];
    assert_eq!(results, want.map(|(text, error)| (text.to_owned(), error)));
}

#[tokio::test]
async fn a_column_behind_the_end_of_its_lines_does_not_make_a_file_blank() {
    let folder = Folder::with(&[("one", b"abc\n")]);
    let results = folder.calls(&[("read_file", json!({"file_path": "/one", "column": 10}))]).await;
    assert!(!results[0].0.contains("white space"), "{results:?}");
}

#[tokio::test]
async fn an_empty_file_is_reported_as_empty_whatever_its_name() {
    let folder = Folder::with(&[("a.txt", b""), ("a.png", b""), ("a.pdf", b"")]);
    let results = folder.calls(&[read("/a.txt", 0, 0), read("/a.png", 0, 9), read("/a.pdf", 0, 9)]).await;
    assert_eq!(results, vec![("The file exists but is empty.".to_owned(), false); 3]);
}

#[tokio::test]
async fn notices_appear_above_the_plain_format_header() {
    let folder = Folder::with(&[("bad", b"ok\nbad \xff\n")]);
    let plain = FilesystemOptions { read_format: ReadFormat::Plain, ..FilesystemOptions::default() };
    // The invalid bytes are beyond the part that is checked.
    std::fs::write(folder.0.path().join("late"), [&b"a\n".repeat(5000)[..], b"\xff\n"].concat()).unwrap();
    let outcome = folder.outcome(&[read("/late", -1, 1), read("/late", 5000, 1)], plain).await;
    let results = results(&outcome);
    assert!(results[0].0.starts_with("[offset -1 is before the start"), "{}", results[0].0);
    assert!(results[0].0.ends_with("]\n@@ lines 1-1 of 5001 | next offset 1 @@\na"), "{}", results[0].0);
    assert!(results[1].0.starts_with("[bytes that are not UTF-8"), "{}", results[1].0);
    assert!(results[1].0.ends_with("@@ lines 5001-5001 of 5001 @@\n\u{fffd}"), "{}", results[1].0);
}

#[tokio::test]
async fn an_overlong_line_can_be_read_to_its_end() {
    let line: String = ('a'..='z').chain('α'..='ω').cycle().take(25_000).collect();
    let folder = Folder::with(&[("long", format!("{line}\nnext\n").as_bytes())]);
    let options = || FilesystemOptions { result_tokens: Some(3_000), ..FilesystemOptions::default() };
    let (mut column, mut whole) = (0, String::new());
    for _ in 0..10 {
        let args = json!({"file_path": "/long", "limit": 1, "column": column});
        let outcome = folder.outcome(&[("read_file", args)], options()).await;
        let (text, error) = results(&outcome).remove(0);
        assert!(!error && text.chars().count() <= 12_300, "{text}");
        let shown = text.lines().filter(|row| !row.starts_with('[')).filter_map(|row| Some(row.split_once('\t')?.1));
        whole.extend(shown);
        match text.split_once("continue with offset 0 and column ") {
            Some((_, rest)) => column = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(whole, line);
}

#[tokio::test]
async fn non_text_files_are_attached_with_the_type_of_their_content() {
    let folder = Folder::with(&[
        ("dot.png", b"\x89PNG\r\n\x1a\n"),
        ("photo.png", b"\xff\xd8\xff\xe0 jpeg"),
        ("sound.wav", b"RIFF\x00\x00\x00\x00WAVE"),
        ("film.mp4", b"\x00\x00\x00\x14ftypisom"),
        ("paper.pdf", b"%PDF-1.4 in letters alone"),
        ("data.dat", b"\xff\x00\x01\x02"),
        ("fine.dat", b"text"),
    ]);
    let names = ["dot.png", "photo.png", "sound.wav", "film.mp4", "paper.pdf", "data.dat", "fine.dat"];
    let calls: Vec<_> = names.iter().map(|name| read(&format!("/{name}"), 5, 1)).collect();
    let outcome = folder.outcome(&calls[..6], FilesystemOptions::default()).await;
    let messages = outcome.messages();
    let blocks: Vec<&Block> = messages.iter().filter_map(|m| m.as_tool()).flat_map(|t| &t.content).collect();
    let mimes = ["image/png", "image/jpeg", "audio/wav", "video/mp4", "application/pdf", "application/octet-stream"];
    assert_eq!(blocks.len(), mimes.len());
    for ((block, mime), name) in blocks.into_iter().zip(mimes).zip(names) {
        let Block::Media(media) = block else { panic!("{name}: {block:?}") };
        assert_eq!((media.mime.as_str(), media.name.as_deref()), (mime, Some(name)));
        let MediaSource::Base64(data) = &media.source else { panic!("{name}: {media:?}") };
        assert!(data.ends_with('=') || data.len() % 4 == 0, "{data}");
        assert_ne!(data.as_bytes(), folder.content(name), "{name} is encoded");
    }
    let text = folder.calls(&[read("/fine.dat", 0, 1)]).await;
    assert_eq!(text[0].0, "     1\ttext");
}

#[tokio::test]
async fn text_in_other_encodings_is_shown_and_searched_but_not_edited() {
    let utf16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect()
    };
    let text = "one\r\nn\u{ef}ve \u{1f600}\r\n";
    let folder = Folder::with(&[
        ("little.txt", &utf16(text, u16::to_le_bytes)),
        ("big.txt", &utf16(text, u16::to_be_bytes)),
        ("latin.c", b"/* caf\xe9 */\nint one;\n"),
        ("marks.dat", b"\xff\xfe"),
        ("broken.dat", b"\xff\xfea\0\0\xd8"),
    ]);
    let edit = |name: &str| ("edit_file", json!({"file_path": name, "old_string": "one", "new_string": "two"}));
    let results = folder
        .calls(&[
            read("/little.txt", 0, 100),
            read("/big.txt", 1, 1),
            read("/latin.c", 0, 100),
            ("grep", json!({"pattern": "one"})),
            edit("/little.txt"),
            edit("/latin.c"),
        ])
        .await;
    let note = "[it is UTF-16, shown as text; it cannot be edited";
    assert_eq!(results[0].0, format!("     1\tone\n     2\tn\u{ef}ve \u{1f600}\n{note}]"));
    assert!(results[1].0.starts_with("     2\tn\u{ef}ve"), "{}", results[1].0);
    assert!(results[2].0.starts_with("     1\t/* caf\u{fffd} */\n     2\tint one;\n["), "{}", results[2].0);
    assert!(results[2].0.contains("it cannot be edited"), "{}", results[2].0);
    for name in ["/little.txt", "/big.txt", "/latin.c"] {
        assert!(results[3].0.contains(name), "{}", results[3].0);
    }
    assert!(results[4].1 && results[5].1, "{results:?}");
    let attached = folder.outcome(&[read("/broken.dat", 0, 1)], FilesystemOptions::default()).await;
    assert!(attached.messages().iter().filter_map(|m| m.as_tool()).any(|t| matches!(t.content[0], Block::Media(_))));
}

#[tokio::test]
async fn a_file_too_large_to_attach_is_rejected_with_its_size() {
    let folder = Folder::with(&[("big.png", &[0x89; 2000]), ("big.dat", &[0; 2000]), ("big.txt", &[b'a'; 2000])]);
    let options = FilesystemOptions { max_media_bytes: 1999, ..FilesystemOptions::default() };
    let outcome =
        folder.outcome(&[read("/big.png", 0, 1), read("/big.dat", 0, 1), read("/big.txt", 0, 1)], options).await;
    let results = results(&outcome);
    for (at, path) in ["/big.png", "/big.dat"].iter().enumerate() {
        assert_eq!(results[at], (format!("Error: {path} is too large: 2000 bytes, the limit is 1999"), true));
    }
    assert!(!results[2].1);
}

#[tokio::test]
async fn line_endings_and_the_byte_order_mark_survive_edits() {
    let folder = Folder::with(&[("dos.txt", "\u{feff}one\r\ntwo\r\nthree\r\n".as_bytes())]);
    let edit = json!({"file_path": "/dos.txt", "old_string": "one\ntwo", "new_string": "1\n2",
                      "edits": [{"old_string": "three\n", "new_string": "3\n4\n"}]});
    let results = folder.calls(&[read("/dos.txt", 0, 100), ("edit_file", edit)]).await;
    assert_eq!(results[0].0, "     1\tone\n     2\ttwo\n     3\tthree");
    assert_eq!(results[1], ("Edited /dos.txt: replaced 2 places".to_owned(), false));
    assert_eq!(folder.content("dos.txt"), "\u{feff}1\r\n2\r\n3\r\n4\r\n".as_bytes());
}

#[tokio::test]
async fn a_failed_edit_says_what_would_help() {
    let folder = Folder::with(&[("a.rs", b"fn main() {\n    let total = price;\n}\nfn main() {\nend")]);
    let edit = |old: &str| ("edit_file", json!({"file_path": "/a.rs", "old_string": old, "new_string": "x"}));
    let calls = [
        read("/a.rs", 0, 9),
        edit("let total = prices;"),
        edit("fn main() {\n\tlet total = price;"),
        edit("fn main() {"),
        edit("end\n"),
        edit(""),
        ("edit_file", json!({"file_path": "/none", "old_string": "a", "new_string": "b"})),
        (
            "edit_file",
            json!({"file_path": "/a.rs", "old_string": "total", "new_string": "sum", "edits": [{"old_string": "nowhere", "new_string": ""}]}),
        ),
    ];
    let results = folder.calls(&calls).await;
    let want = [
        "Error: the text to replace is not in /a.rs; similar lines:\n  2:     let total = price;",
        "Error: the text to replace is not in /a.rs, but with other white space in lines 1-2; exactly:\nfn main() {\n    let total = price;",
        "Error: the text to replace is in /a.rs 2 times, in lines 1, 4; add surrounding lines to make it unique or replace all",
        "Error: the text to replace ends with a newline that is not at the end of /a.rs; leave it out",
        "Error: the old text is empty; give the exact text to replace in /a.rs",
        "Error: /none does not exist",
        "Error: edit 2 of 2: the text to replace is not in /a.rs",
    ];
    for (result, want) in results[1..].iter().zip(want) {
        assert_eq!(result, &(want.to_owned(), true));
    }
}

#[tokio::test]
async fn an_error_about_a_parent_that_is_a_file_names_the_requested_path() {
    let folder = Folder::with(&[("a", b"text")]);
    let edit = json!({"file_path": "/a/below", "old_string": "x", "new_string": "y"});
    let calls = [
        read("/a/below", 0, 9),
        ("ls", json!({"path": "/a/below"})),
        ("write_file", json!({"file_path": "/a/below", "content": "x"})),
        ("edit_file", edit),
        ("delete", json!({"file_path": "/a/below"})),
    ];
    for result in folder.calls(&calls).await {
        assert_eq!(result, ("Error: /a/below: /a is a file, not a directory".to_owned(), true));
    }
}

#[tokio::test]
async fn one_path_in_two_spellings_is_changed_in_call_order() {
    let write = |path: &str, content: &str| ("write_file", json!({"file_path": path, "content": content}));
    let turn = Turn::calls([
        write("/x", "first"),
        ("edit_file", json!({"file_path": "x", "old_string": "first", "new_string": "second"})),
        write("//d//y", "gone"),
        ("delete", json!({"file_path": "/d/"})),
        write("/d/./y", "there again"),
    ]);
    let calls = [turn, Turn::call("grep", json!({"pattern": "e", "output_mode": "content"})), Turn::text("Done.")];
    let (outcome, _) = play(calls, |b| b.backend(StateBackend::new())).await;
    let results = results(&outcome);
    assert!(results.iter().all(|result| !result.1), "{results:?}");
    assert_eq!(results[5].0, "/d/y:\n  1: there again\n/x:\n  1: second");
}

#[tokio::test]
async fn errors_quote_a_path_that_would_break_their_line() {
    let folder = Folder::with(&[("a\nb", b"text\n")]);
    let edit = |old: &str| ("edit_file", json!({"file_path": "/a\nb", "old_string": old, "new_string": "x"}));
    let calls = [read("/a\nb", 0, 9), read("/a\nb", 9, 9), read("/a\nb", 0, 0), edit("nowhere"), edit("")];
    for (text, _) in &folder.calls(&calls).await[1..] {
        assert!(text.contains(r#""/a\nb""#) && !text.contains('\n'), "{text}");
    }
    let only = vec![deepagents::fs::VPath::parse("/other").unwrap()];
    let options = FilesystemOptions { allowed_prefixes: only, ..FilesystemOptions::default() };
    let text = results(&folder.outcome(&[read("/a\nb", 0, 9)], options).await)[0].0.clone();
    assert_eq!(text, r#"Error: "/a\nb" is out of reach; give a path below /other"#);
}
