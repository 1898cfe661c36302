use deepagents_fs::ContentKind::{Audio, Binary, Document, Image, Text, Video};
use deepagents_fs::classify::{SNIFFED, classify, is_text};

use crate::suite::p;

#[test]
fn file_types_follow_signature_then_text_then_extension() {
    for (path, head, want) in [
        ("/a.png", &b"not really"[..], (Text, "text/plain")),
        ("/a.pdf", b"<html>404</html>", (Text, "text/plain")),
        ("/a.csv", b"a,b\n1,2\n", (Text, "text/csv")),
        ("/A.JPG", b"\0", (Image, "image/jpeg")),
        ("/a.mp4", b"\0", (Video, "video/mp4")),
        ("/a.flac", b"\0", (Audio, "audio/flac")),
        (
            "/a.docx",
            b"PK\x03\x04\0",
            (Document, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ),
        ("/a.xlsx", b"PK\x03\x04\0", (Document, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")),
        ("/a.pdf", b"%PDF-1.7", (Document, "application/pdf")),
        ("/a.svg", b"<svg/>", (Text, "text/plain")),
        ("/Makefile", b"all:\n", (Text, "text/plain")),
        ("/.png", b"text", (Text, "text/plain")),
        ("/empty", b"", (Text, "text/plain")),
        ("/utf8.txt", "é🦀".as_bytes(), (Text, "text/plain")),
        ("/latin1.txt", b"caf\xe9 au lait", (Binary, "application/octet-stream")),
        ("/nul.txt", b"a\0b", (Binary, "application/octet-stream")),
        ("/noext", b"\x89PNG\r\n\x1a\n\0\0", (Image, "image/png")),
        ("/noext", b"GIF89a\xff", (Image, "image/gif")),
        ("/noext", b"RIFF\0\0\0\0WAVE", (Audio, "audio/wav")),
        ("/wrong.png", b"\xff\xd8\xff\xe0", (Image, "image/jpeg")),
        ("/wrong.txt", b"\x89PNG\r\n\x1a\n\0\0", (Image, "image/png")),
        ("/notes.txt", b"%PDF-1.7 is how such a file begins", (Text, "text/plain")),
        ("/ascii.pdf", b"%PDF-1.4\n1 0 obj", (Document, "application/pdf")),
        ("/a.mov", b"\0\0\0\x14ftypqt  ", (Video, "video/quicktime")),
        ("/a.mkv", b"\x1aE\xdf\xa3", (Video, "video/x-matroska")),
        ("/a.heic", b"\0\0\0\x18ftypheic", (Image, "image/heic")),
    ] {
        assert_eq!(classify(&p(path), head, true), want, "{path}");
    }
}

#[test]
fn a_split_character_is_text_at_the_end_of_a_chunk_but_not_of_a_file() {
    let cut = &"é🦀".as_bytes()[..4];
    assert!(is_text(cut, false) && !is_text(cut, true));
    let mut long = vec![b'a'; SNIFFED - 1];
    long.extend("é".as_bytes());
    assert!(is_text(&long, true));
}
