//! Editing.

use deepagents_core::state::State;
use deepagents_fs::edit::{self, Edit, EditError};
use deepagents_fs::{FsError, Version};

use super::{Files, p};

/// The result contains the new version.
pub async fn the_one_occurrence_is_replaced(mut files: Files) {
    files.write("/f", "one two\n").await.unwrap();
    let edited = files.edit("/f", &[Edit::new("two", "2")]).await.unwrap();
    assert_eq!(files.read("/f").await.unwrap(), b"one 2\n");
    assert_eq!((edited.replaced, edited.version), (vec![1], files.version("/f").await));
    assert_eq!((&edited.before[..], &edited.after[..]), (&b"one two\n"[..], &b"one 2\n"[..]));
}

/// Without `all`, the file is unchanged.
pub async fn several_occurrences_are_counted_and_replaced_when_all_are_meant(mut files: Files) {
    files.write("/f", "a\nb a\na\n").await.unwrap();
    let error = files.edit("/f", &[Edit::new("a", "x")]).await.unwrap_err();
    assert!(matches!(&error, EditError::NotUnique { count: 3, lines, .. } if *lines == [1, 2, 3]), "{error:?}");
    assert_eq!(files.read("/f").await.unwrap(), b"a\nb a\na\n");
    let edited = files.edit("/f", &[Edit::new("a", "x").all()]).await.unwrap();
    assert_eq!(edited.replaced, [3]);
    assert_eq!(files.read("/f").await.unwrap(), b"x\nb x\nx\n");
}

/// Occurrences are found from left to right.
pub async fn occurrences_do_not_overlap(mut files: Files) {
    files.write("/f", "aaa").await.unwrap();
    assert_eq!(files.edit("/f", &[Edit::new("aa", "x")]).await.unwrap().replaced, [1]);
    assert_eq!(files.read("/f").await.unwrap(), b"xa");
}

/// This counts as a replacement.
pub async fn text_may_be_replaced_by_itself(mut files: Files) {
    files.write("/f", "same").await.unwrap();
    assert_eq!(files.edit("/f", &[Edit::new("same", "same")]).await.unwrap().replaced, [1]);
    assert_eq!(files.read("/f").await.unwrap(), b"same");
}

/// Old text with plain newlines matches, because lines are read that way.
pub async fn line_endings_and_the_mark_are_kept(mut files: Files) {
    files.write("/f", "\u{feff}one\r\ntwo\r\ntwo\r\n").await.unwrap();
    files.edit("/f", &[Edit::new("one\ntwo", "1\n2\n2.5")]).await.unwrap();
    assert_eq!(files.read("/f").await.unwrap(), "\u{feff}1\r\n2\r\n2.5\r\ntwo\r\n".as_bytes());
    files.write("/mixed", "a\nb\r\nc\n").await.unwrap();
    files.edit("/mixed", &[Edit::new("c", "d")]).await.unwrap();
    assert_eq!(files.read("/mixed").await.unwrap(), b"a\nb\r\nd\n", "lines that are not touched stay");
}

/// The error counts the occurrences of the text without the newline.
pub async fn a_newline_that_the_end_of_the_file_lacks_is_pointed_out(mut files: Files) {
    files.write("/f", "end\nthe end").await.unwrap();
    let error = files.edit("/f", &[Edit::new("end\n", "")]).await;
    assert_eq!(error.unwrap().replaced, [1], "where the newline is there, it counts");
    let error = files.edit("/f", &[Edit::new("the end\n", "x\n")]).await.unwrap_err();
    assert!(matches!(error, EditError::NoFinalNewline { count: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("newline"), "{error}");
}

/// The closest lines come first, and only a few are shown.
pub async fn a_miss_shows_the_closest_lines(mut files: Files) {
    files.write("/f", "fn main() {\n    let total = price * count;\n    print(total);\n}\n").await.unwrap();
    let error = files.edit("/f", &[Edit::new("let total = price * counts;", "")]).await.unwrap_err();
    let EditError::NotFound { nearest, .. } = &error else { panic!("{error}") };
    assert_eq!((nearest[0].number, nearest[0].text.as_str()), (2, "    let total = price * count;"));
    assert!(error.to_string().contains("2:     let total = price * count;"), "{error}");
}

/// An empty text would match everywhere.
pub async fn an_empty_old_text_is_refused(mut files: Files) {
    files.write("/f", "x").await.unwrap();
    assert!(matches!(files.edit("/f", &[Edit::new("", "y")]).await, Err(EditError::EmptyOld { index: 0, .. })));
    assert!(matches!(files.edit("/f", &[]).await, Err(EditError::NoEdits(_))));
}

/// Each edit sees the result of those before it.
pub async fn several_edits_are_made_whole_or_not_at_all(mut files: Files) {
    files.write("/f", "one\n").await.unwrap();
    let failed = files.edit("/f", &[Edit::new("one", "two"), Edit::new("nowhere", "")]).await.unwrap_err();
    assert!(matches!(failed, EditError::NotFound { index: 1, .. }), "{failed}");
    assert_eq!(files.read("/f").await.unwrap(), b"one\n");
    let edited = files.edit("/f", &[Edit::new("one", "two"), Edit::new("two\n", "three\n")]).await.unwrap();
    assert_eq!(edited.replaced, [1, 1]);
    assert_eq!(files.read("/f").await.unwrap(), b"three\n");
}

/// The file must still have the version that was read.
pub async fn an_edit_of_another_version_is_refused(mut files: Files) {
    let first = files.write("/f", "1").await.unwrap();
    files.write("/f", "1 and more").await.unwrap();
    for stale in [first, Version::new("stale")] {
        let late = edit::edit(&*files.backend, &files.state, &p("/f"), &[Edit::new("1", "2")], Some(&stale)).await;
        assert_eq!(late.unwrap_err(), EditError::Fs(FsError::Changed(p("/f"))));
    }
    assert_eq!(files.read("/f").await.unwrap(), b"1 and more");
}

/// Its bytes are unchanged.
pub async fn what_is_not_text_is_not_edited(mut files: Files) {
    for content in [&b"a\xff"[..], b"a\0b"] {
        files.write("/f", content.to_vec()).await.unwrap();
        assert!(matches!(files.edit("/f", &[Edit::new("a", "b")]).await, Err(EditError::Binary(_))));
        assert_eq!(files.read("/f").await.unwrap(), content);
    }
}

/// The errors are those of reading.
pub async fn what_is_missing_or_a_directory_is_not_edited(mut files: Files) {
    files.write("/d/f", "x").await.unwrap();
    let edits = [Edit::new("a", "b")];
    let missing = FsError::NotFound(p("/none"));
    assert_eq!(files.edit("/none", &edits).await.unwrap_err(), EditError::Fs(missing));
    let directory = FsError::IsDirectory(p("/d"));
    assert_eq!(files.edit("/d", &edits).await.unwrap_err(), EditError::Fs(directory));
}

/// Number of concurrent edits of one file.
const WRITERS: usize = 50;

/// None of them fails, either. Backends that keep files in the state are skipped, because their edits are never
/// concurrent.
pub async fn edits_at_once_lose_nothing(mut files: Files) {
    if !files.backend.channels().is_empty() {
        return;
    }
    let lines = |open: char, close: char| (0..WRITERS).map(|n| format!("{open}{n}{close}\n")).collect::<String>();
    files.write("/f", lines('<', '>')).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..WRITERS {
        let backend = files.backend.clone();
        tasks.spawn(async move {
            let edits = [Edit::new(format!("<{n}>"), format!("[{n}]"))];
            edit::edit(&*backend, &State::default(), &p("/f"), &edits, None).await.map(|edited| edited.replaced)
        });
    }
    while let Some(result) = tasks.join_next().await {
        assert_eq!(result.unwrap().unwrap(), [1]);
    }
    assert_eq!(String::from_utf8(files.read("/f").await.unwrap()).unwrap(), lines('[', ']'));
}

/// A small edit must not create a file too large to hold in memory.
pub async fn an_edit_that_makes_a_file_too_large_is_refused(mut files: Files) {
    files.write("/f", "a".repeat(100)).await.unwrap();
    let grow = Edit::new("a", "b".repeat(1 << 20)).all();
    let error = files.edit("/f", &[grow]).await.unwrap_err();
    assert!(matches!(error, EditError::TooLarge { size: 104_857_600, .. }), "{error}");
    assert_eq!(files.read("/f").await.unwrap(), "a".repeat(100).into_bytes());
}
