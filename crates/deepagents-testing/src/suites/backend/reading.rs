//! Reading bytes and lines.

use deepagents_fs::lines::LineRange;
use deepagents_fs::{ByteRange, FsError, Kind};

use super::{Files, p};

/// Any bytes are read back, and the metadata match.
pub async fn what_was_written_is_read_back_byte_for_byte(mut files: Files) {
    let contents = [&b""[..], b"one\ntwo", b"\r\n\r\n", b"\xff\x00binary\xfe", b"\xef\xbb\xbfmark", "🦀".as_bytes()];
    for content in contents {
        let written = files.write("/dir/sub/file.txt", content.to_vec()).await.unwrap();
        assert_eq!(files.read("dir/sub/file.txt").await.unwrap(), content);
        let stat = files.backend.stat(&files.state, &p("/dir/sub/file.txt")).await.unwrap();
        assert_eq!((stat.kind, stat.size, &stat.version), (Kind::File, content.len() as u64, &written));
    }
}

/// Reading past the end returns nothing.
pub async fn a_part_of_a_file_is_read_by_its_bytes(mut files: Files) {
    files.write("/f", "0123456789").await.unwrap();
    for (offset, length, want) in
        [(0, Some(3), "012"), (8, None, "89"), (8, Some(5), "89"), (10, None, ""), (99, Some(1), ""), (4, Some(0), "")]
    {
        let read = files.backend.read(&files.state, &p("/f"), ByteRange { offset, length }).await.unwrap();
        assert_eq!((&read.bytes[..], read.stat.size), (want.as_bytes(), 10));
    }
}

/// The total counts all lines, including those outside the window.
pub async fn a_window_of_lines_says_where_to_go_on(mut files: Files) {
    files.write("/f", "one\ntwo\nthree\n").await.unwrap();
    let all = files.lines("/f", 0, 100).await.unwrap();
    assert_eq!(all.lines, ["one", "two", "three"]);
    assert_eq!((all.total, all.next, all.cut, all.lossy), (Some(3), None, false, false));
    let middle = files.lines("/f", 1, 1).await.unwrap();
    assert_eq!((middle.lines, middle.total, middle.next), (vec!["two".to_owned()], Some(3), Some(2)));
    let last = files.lines("/f", 2, 1).await.unwrap();
    assert_eq!((last.lines, last.next), (vec!["three".to_owned()], None));
    files.write("/open", "one\ntwo").await.unwrap();
    assert_eq!(files.lines("/open", 0, 9).await.unwrap().lines, ["one", "two"], "the last line needs no newline");
}

/// An offset past the end is not an error of the backend.
pub async fn an_offset_past_the_end_gives_no_lines_and_their_number(mut files: Files) {
    files.write("/f", "one\ntwo\nthree\n").await.unwrap();
    for offset in [3, 4, 1000] {
        let past = files.lines("/f", offset, 5).await.unwrap();
        assert_eq!((past.lines.len(), past.total, past.next), (0, Some(3), None));
    }
}

/// An empty file does not count as one empty line.
pub async fn an_empty_file_has_no_lines(mut files: Files) {
    files.write("/empty", "").await.unwrap();
    let window = files.lines("/empty", 0, 5).await.unwrap();
    assert_eq!((window.lines.len(), window.total, window.next), (0, Some(0), None));
}

/// This includes files with nothing but blank lines.
pub async fn blank_lines_are_lines(mut files: Files) {
    files.write("/f", "a\n\n\n\nb\n").await.unwrap();
    let window = files.lines("/f", 1, 2).await.unwrap();
    assert_eq!((window.lines, window.total, window.next), (vec![String::new(); 2], Some(5), Some(3)));
    files.write("/blank", " \n\t\n\n").await.unwrap();
    assert_eq!(files.lines("/blank", 0, 9).await.unwrap().lines, [" ", "\t", ""]);
}

/// Form feeds, lone carriage returns and Unicode separators do not end a line.
pub async fn nothing_but_a_newline_ends_a_line(mut files: Files) {
    let line = "a\x0cb\u{2028}c\u{85}d\re\x0bf\u{2029}\x1c";
    files.write("/f", format!("{line}\n")).await.unwrap();
    let window = files.lines("/f", 0, 9).await.unwrap();
    assert_eq!((window.lines, window.total), (vec![line.to_owned()], Some(1)));
}

/// Carriage returns at line ends and the byte order mark are left out of lines but remain in the file.
pub async fn what_ends_a_line_and_the_mark_at_the_start_are_not_shown(mut files: Files) {
    files.write("/f", "\u{feff}one\r\ntwo\n\u{feff}three\r\n").await.unwrap();
    let window = files.lines("/f", 0, 9).await.unwrap();
    assert_eq!(window.lines, ["one", "two", "\u{feff}three"]);
    assert_eq!(files.read("/f").await.unwrap(), "\u{feff}one\r\ntwo\n\u{feff}three\r\n".as_bytes());
}

/// The window reports the replacement.
pub async fn bytes_that_are_not_text_are_replaced_in_lines_alone(mut files: Files) {
    files.write("/f", &b"ok\nbad \xff\n"[..]).await.unwrap();
    let window = files.lines("/f", 0, 9).await.unwrap();
    assert_eq!((window.lines, window.lossy), (vec!["ok".to_owned(), "bad \u{fffd}".to_owned()], true));
    assert!(!files.lines("/f", 0, 1).await.unwrap().lossy);
    assert_eq!(files.read("/f").await.unwrap(), b"ok\nbad \xff\n");
}

/// A window contains as many whole lines as fit.
pub async fn a_window_ends_before_the_line_that_would_exceed_it(mut files: Files) {
    files.write("/f", format!("short\n{}\nlast\n", "x".repeat(500))).await.unwrap();
    let window = files.window("/f", LineRange { max_bytes: 100, ..LineRange::new(0, 9) }).await.unwrap();
    assert_eq!((window.lines, window.next, window.cut), (vec!["short".to_owned()], Some(1), false));
}

/// The cut text is valid UTF-8, and the window says where to continue.
pub async fn a_first_line_that_is_too_long_is_cut_at_a_character(mut files: Files) {
    let content = "first\nxé🦀🦀\nlast\n";
    files.write("/f", content).await.unwrap();
    let window = files.window("/f", LineRange { max_bytes: 9, ..LineRange::new(1, 9) }).await.unwrap();
    assert_eq!((window.lines, window.cut, window.lossy), (vec!["xé🦀".to_owned()], true, false));
    assert_eq!(window.next, Some(2));
    let end = usize::try_from(window.end).unwrap();
    assert_eq!(&content.as_bytes()[end..], "🦀\nlast\n".as_bytes());
}

/// All of a line can be read, however long it is.
pub async fn a_long_line_goes_on_where_it_was_cut(mut files: Files) {
    let line: String = ('a'..='z').chain('α'..='ω').chain(['🦀'; 5]).cycle().take(700).collect();
    files.write("/f", format!("first\n{line}\nlast\n")).await.unwrap();
    let (mut column, mut whole) = (0, String::new());
    loop {
        let window = files.window("/f", LineRange { max_bytes: 100, column, ..LineRange::new(1, 1) }).await.unwrap();
        whole += &window.lines[0];
        column += window.lines[0].chars().count() as u64;
        if !window.cut {
            break;
        }
        assert_eq!(window.offset, 1);
    }
    assert_eq!(whole, line);
    let window = files.window("/f", LineRange { column: 699, ..LineRange::new(1, 2) }).await.unwrap();
    assert_eq!(window.lines, [line.chars().last().unwrap().to_string(), "last".to_owned()]);
    let past = files.window("/f", LineRange { column: 99, ..LineRange::new(0, 1) }).await.unwrap();
    assert_eq!((past.lines, past.total), (vec![String::new()], Some(3)));
}

/// This holds for bytes, lines and metadata.
pub async fn what_is_missing_and_what_is_a_directory_are_told_apart(mut files: Files) {
    files.write("/d/f", "x").await.unwrap();
    for path in ["/none", "/no/ne", "/d/none"] {
        let missing = FsError::NotFound(p(path));
        assert_eq!(files.read(path).await.unwrap_err(), missing);
        assert_eq!(files.lines(path, 0, 1).await.unwrap_err(), missing);
        assert_eq!(files.backend.stat(&files.state, &p(path)).await.unwrap_err(), missing);
    }
    for path in ["/d", "/"] {
        let directory = FsError::IsDirectory(p(path));
        assert_eq!(files.read(path).await.unwrap_err(), directory);
        assert_eq!(files.lines(path, 0, 1).await.unwrap_err(), directory);
        assert_eq!(files.backend.stat(&files.state, &p(path)).await.unwrap().kind, Kind::Directory);
    }
}

/// The error does not name the path below the file.
pub async fn below_a_file_the_error_names_the_file(mut files: Files) {
    files.write("/d/f", "x").await.unwrap();
    for path in ["/d/f/g", "/d/f/g/h"] {
        let in_the_way = FsError::NotADirectory(p("/d/f"));
        assert_eq!(files.read(path).await.unwrap_err(), in_the_way, "{path}");
        assert_eq!(files.lines(path, 0, 1).await.unwrap_err(), in_the_way, "{path}");
        assert_eq!(files.list(path).await.unwrap_err(), in_the_way, "{path}");
    }
}
