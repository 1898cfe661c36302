use std::sync::Arc;

use deepagents_core::state::State;
use deepagents_fs::edit::{self, Edit, EditError, apply};
use deepagents_fs::lines::{LineRange, window};
use deepagents_fs::{Backend, ByteRange, LocalBackend, VPath, Version, WriteMode};
use proptest::prelude::*;

fn p() -> VPath {
    VPath::parse("/f").unwrap()
}

fn one(content: &str, old: &str, new: &str) -> Result<String, EditError> {
    let (after, _) = apply(&p(), content.as_bytes(), &[Edit::new(old, new)])?;
    Ok(String::from_utf8(after).unwrap())
}

#[test]
fn replaces_the_one_occurrence() {
    assert_eq!(one("a b c", "b", "x").unwrap(), "a x c");
    assert_eq!(one("aaa", "aa", "x").unwrap(), "xa", "occurrences do not overlap");
    assert_eq!(one("same", "same", "same").unwrap(), "same");
}

#[test]
fn line_endings_are_matched_loosely_and_preserved() {
    assert_eq!(one("a\r\nb\r\nc", "a\nb", "x\ny\nz").unwrap(), "x\r\ny\r\nz\r\nc");
    assert_eq!(one("a\r\nb\r\n", "a\r\nb\r\n", "x\r\n").unwrap(), "x\r\n");
    assert_eq!(one("a\nb\n", "a\r\nb", "x\r\ny").unwrap(), "x\ny\n", "a file without \\r\\n stays without");
    assert_eq!(one("a\nb\n", "a", "x\r").unwrap(), "x\r\nb\n", "a lone \\r is text");
    assert_eq!(one("a\nb\r\nc\n", "c", "d").unwrap(), "a\nb\r\nd\n", "lines that are not touched stay");
    assert_eq!(one("\u{feff}a\r\n", "a\n", "b\n").unwrap(), "\u{feff}b\r\n");
}

#[test]
fn line_endings_that_are_given_explicitly_are_replaced_exactly() {
    let all = |content: &str, old: &str, new: &str| {
        let (after, replaced) = apply(&p(), content.as_bytes(), &[Edit::new(old, new).all()])?;
        Ok::<_, EditError>((String::from_utf8(after).unwrap(), replaced[0]))
    };
    assert_eq!(all("a\r\nb\r\n", "\r\n", "\n").unwrap(), ("a\nb\n".to_owned(), 2));
    assert_eq!(all("a\r\nb\nc\r\n", "\r\n", "\n").unwrap(), ("a\nb\nc\n".to_owned(), 2));
    assert_eq!(all("a\r\nb\n", "\n", "\r\n").unwrap(), ("a\r\nb\r\n".to_owned(), 2));
    assert_eq!(all("a\nb\n", "\n", "\r\n").unwrap(), ("a\r\nb\r\n".to_owned(), 2));
    assert_eq!(one("a\r\nb\r\n", "a\r\nb", "a\nb").unwrap(), "a\nb\r\n");
    for (content, old, new) in [("a\r\nb\r\n", "\n", "\r\n"), ("a\nb\n", "a\r\nb", "a\nb")] {
        let error = all(content, old, new).unwrap_err();
        assert_eq!(error, EditError::NoChange { path: p(), index: 0 });
        assert_eq!(error.index(), Some(0));
    }
}

#[test]
fn new_text_gets_the_line_endings_of_the_place_where_they_are_mixed() {
    assert_eq!(one("a\nb\r\nc", "a", "x\ny").unwrap(), "x\ny\nb\r\nc");
    assert_eq!(one("a\nb\r\nc", "b", "x\ny").unwrap(), "a\nx\r\ny\r\nc");
    assert_eq!(one("a\nb\r\nc", "c", "x\ny").unwrap(), "a\nb\r\nx\r\ny");
    assert_eq!(one("a\nb\r\nc", "a\nb", "x\ny").unwrap(), "x\ny\r\nc");
    assert_eq!(one("a\r\nb\nc\n", "b", "x\r\ny").unwrap(), "a\r\nx\r\ny\nc\n", "given explicitly");
    let edits = [Edit::new("a", "x\ny").all()];
    let (after, replaced) = apply(&p(), b"a\na\r\na", &edits).unwrap();
    assert_eq!((&after[..], replaced), (&b"x\ny\nx\r\ny\r\nx\r\ny"[..], vec![3]));
}

#[test]
fn several_edits_apply_in_order_or_not_at_all() {
    let edits = [Edit::new("one", "two"), Edit::new("two\n", "three\n")];
    let (after, replaced) = apply(&p(), b"one\n", &edits).unwrap();
    assert_eq!((&after[..], replaced), (&b"three\n"[..], vec![1, 1]));
    let (after, replaced) = apply(&p(), b"x x x", &[Edit::new("x", "xx").all()]).unwrap();
    assert_eq!((&after[..], replaced), (&b"xx xx xx"[..], vec![3]));
    assert!(matches!(apply(&p(), b"x", &[]), Err(EditError::NoEdits(_))));
}

#[test]
fn model_name_errors_say_how_to_fix_them() {
    assert!(matches!(one("x", "", "y"), Err(EditError::EmptyOld { index: 0, .. })));
    let error = one("a\nb a\n a\n", "a", "y").unwrap_err();
    assert!(matches!(&error, EditError::NotUnique { count: 3, lines, .. } if *lines == [1, 2, 3]), "{error:?}");
    assert!(matches!(one("x\nend", "end\n", "y"), Err(EditError::NoFinalNewline { count: 1, .. })));
    assert!(matches!(one("a\0b", "a", "y"), Err(EditError::Binary(_))));
    assert!(matches!(apply(&p(), b"\xff", &[Edit::new("a", "b")]), Err(EditError::Binary(_))));
}

#[test]
fn a_failed_match_suggests_similar_lines() {
    let text = "fn main() {\n    let total = price * count;\n    print(total);\n}\n";
    let error = one(text, "let total = price * counts;", "").unwrap_err();
    let EditError::NotFound { nearest, .. } = &error else { panic!("{error}") };
    assert_eq!((nearest[0].number, nearest[0].text.as_str()), (2, "    let total = price * count;"));
    assert_eq!(
        error.to_string(),
        "the text to replace is not in /f; similar lines:\n  2:     let total = price * count;"
    );
    let huge = "x".repeat(1 << 20);
    let error = one(&huge, &format!("{huge}y"), "").unwrap_err();
    assert!(error.to_string().len() < 2000, "what is echoed is bounded");
}

/// Returns the error of an edit and the exact text that it shows.
fn shown_by(content: &str, old: &str) -> (String, String) {
    let error = one(content, old, "new").unwrap_err();
    let EditError::OtherWhiteSpace { places, .. } = &error else { panic!("{error}") };
    (error.to_string(), places[0].text.clone())
}

#[test]
fn a_text_with_other_white_space_is_not_replaced_but_shown_exactly_as_the_next_edit_needs_it() {
    let cases = [
        ("if x {\n\tcall(a, b);\n\treturn;\n}\n", "    call(a, b);\n    return;", "\tcall(a, b);\n\treturn;"),
        ("one  \ntwo\t\nthree\n", "one\ntwo\n", "one  \ntwo\t"),
        ("one \r\n  two\r\nthree\r\n", "one\r\ntwo", "one \n  two"),
        ("f( a,b )\n", "f(a, b)", "f( a,b )"),
        ("let a = 1;\n\n\nlet b = 2;\n", "let a = 1;\nlet b = 2;", "let a = 1;\n\n\nlet b = 2;"),
        ("call(\n    a,\n    b,\n)\n", "call(a, b,)", "call(\n    a,\n    b,\n)"),
        ("prix\u{a0}: 3\u{202f}€\n", "prix : 3 €", "prix\u{a0}: 3\u{202f}€"),
    ];
    for (content, old, exact) in cases {
        let (error, shown) = shown_by(content, old);
        assert_eq!(shown, exact);
        assert!(error.starts_with("the text to replace is not in /f, but with other white space in line"), "{error}");
        assert!(error.ends_with(exact), "{error}");
        assert!(one(content, &shown, "new").unwrap().contains("new"), "the shown text can be replaced");
    }
    let (error, _) = shown_by("a\n\tb c;\n\td;\n", "  b c;\n  d;");
    assert_eq!(
        error,
        "the text to replace is not in /f, but with other white space in lines 2-3; exactly:\n\tb c;\n\td;"
    );
}

#[test]
fn white_space_that_separates_words_is_no_difference_to_overlook() {
    for (content, old) in [("print(x)\n", "in t"), ("return x\n", "returnx"), ("a_b = 1\n", "a _b"), ("   \n", "\t")] {
        let error = one(content, old, "new").unwrap_err();
        assert!(matches!(error, EditError::NotFound { .. }), "{error}");
    }
}

#[test]
fn several_places_with_other_white_space_are_all_named_and_the_first_ones_shown() {
    let content = "\tx = 1;\n    x = 1;\nx  = 1;\ny\n".repeat(2);
    let error = one(&content, "  x =  1;", "new").unwrap_err();
    let EditError::OtherWhiteSpace { places, count: 6, .. } = &error else { panic!("{error}") };
    let at: Vec<_> = places.iter().map(|place| (place.first, place.last, place.text.as_str())).collect();
    assert_eq!(at, [(1, 1, "\tx = 1;"), (2, 2, "    x = 1;"), (3, 3, "x  = 1;")]);
    assert_eq!(
        error.to_string(),
        "the text to replace is not in /f, but with other white space in line 1; exactly:\n\tx = 1;\nand in line 2:\n    \
         x = 1;\nand in line 3:\nx  = 1;\nand in 3 more places"
    );
}

#[test]
fn what_is_shown_of_other_white_space_is_bounded() {
    let minified = format!("{}f( a )\n{0}", "x;".repeat(1 << 20));
    let (error, shown) = shown_by(&minified, "f(a)");
    assert_eq!(shown, "f( a )", "only the place itself, since its line is too long");
    assert!(error.len() < 200);
    let long: String = (0..5000).map(|n| format!("\té{n};\n")).collect();
    let (error, _) = shown_by(&long, &long.replace('\t', "    "));
    assert!(error.len() < 5000 && error.ends_with("(cut here; read the rest)"), "{error}");
    let many = "a  b ".repeat(1 << 20);
    let error = one(&many, "a\tb", "new").unwrap_err();
    assert!(matches!(error, EditError::OtherWhiteSpace { count: 1_048_576, .. }));
    assert!(error.to_string().len() < 5000);
}

#[test]
fn a_text_of_several_lines_that_begins_like_the_file_is_answered_with_the_lines_that_differ() {
    let text = "fn a() {\n    1\n}\nfn a() {\n    let x = 1;\n    let y = 2;\n    x + y\n}\n";
    let error = one(text, "fn a() {\n    let x = 1;\n    let y = 3;\n    x + y\n}", "").unwrap_err();
    assert_eq!(error.to_string(), "the text to replace is not in /f; similar lines:\n  6:     let y = 2;");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_edits_of_one_file_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let files = Arc::new(LocalBackend::open(dir.path()).unwrap());
    let state = State::default();
    let content: String = (0..200).map(|n| format!("<{n}>\n")).collect();
    files.write(&state, &p(), content.into(), WriteMode::Create).await.unwrap();
    // A second path to the file, whose edits take another lock.
    std::os::unix::fs::symlink("f", dir.path().join("link")).unwrap();
    let tasks = (0..200).map(|n| {
        let files = files.clone();
        tokio::spawn(async move {
            let path = if n % 10 == 0 { VPath::parse("/link").unwrap() } else { p() };
            let edits = [Edit::new(format!("<{n}>"), format!("[{n}]"))];
            edit::edit(&*files, &State::default(), &path, &edits, None).await.map(|edited| edited.replaced)
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap().unwrap(), [1]);
    }
    let after = files.read(&state, &p(), ByteRange::ALL).await.unwrap().bytes;
    let want: String = (0..200).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(String::from_utf8(after.to_vec()).unwrap(), want);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
}

proptest! {
    #[test]
    fn text_shown_by_a_read_can_be_used_in_an_edit(
        parts in prop::collection::vec(prop::sample::select(vec!["a", "b", "é", "\n", "\r\n", "\r", " "]), 1..40),
        bom in any::<bool>(), skip in 0_usize..10, take in 1_usize..4,
    ) {
        let content = format!("{}{}", if bom { "\u{feff}" } else { "" }, parts.concat());
        let shown = window(content.as_bytes(), LineRange::new(0, 1000), Version::new("v")).lines;
        let old = shown.iter().skip(skip).take(take).cloned().collect::<Vec<_>>().join("\n");
        prop_assume!(!old.is_empty());
        let (after, replaced) = apply(&p(), content.as_bytes(), &[Edit::new(old.as_str(), old.as_str()).all()]).unwrap();
        prop_assert!(replaced[0] >= 1);
        let again = window(&after, LineRange::new(0, 1000), Version::new("v")).lines;
        prop_assert_eq!(again, shown);
    }

    #[test]
    fn an_edit_changes_nothing_outside_of_it(
        before in "[ab\r\n]{0,10}", after in "[ab\r\n]{0,10}", new in "[xy]{0,5}",
    ) {
        let content = format!("{before}MARK{after}");
        prop_assert_eq!(one(&content, "MARK", &new).unwrap(), format!("{before}{new}{after}"));
    }
}
