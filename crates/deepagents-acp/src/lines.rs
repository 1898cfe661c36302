//! Frames messages as lines. A line that is not a message is replaced by a description of the problem, which is
//! answered with a parse error, so that no line breaks the connection.

use std::io;

use bytes::BytesMut;
use deepagents::core::json;
use serde_json::error::Category;
use serde_json::{Value, json};
use tokio_util::codec::{Decoder, Encoder, LinesCodec, LinesCodecError};

use crate::backlog::Backlog;

/// Maximum size of a line, in bytes. Prompts contain images as base64.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Maximum length of a parameter error, in characters.
const MAX_ERROR_CHARS: usize = 200;
/// Prefix of the method that replaces an unparsable request, so that it is answered with an error under its ID. The
/// rest of the method describes the problem.
const UNREADABLE: &str = "unreadable: ";

/// Codec with one message per line. It counts the session updates that it writes.
#[derive(Debug)]
pub(crate) struct MessageLines {
    codec: LinesCodec,
    backlog: Backlog,
}

impl MessageLines {
    pub(crate) fn new(backlog: Backlog) -> Self {
        Self { codec: LinesCodec::new_with_max_length(MAX_LINE_BYTES), backlog }
    }
}

/// Runs a decoder. Returns a line, its replacement, or `None` if none is complete. Skips blank lines.
fn readable(mut read: impl FnMut() -> Result<Option<String>, LinesCodecError>) -> io::Result<Option<String>> {
    loop {
        match read() {
            Ok(Some(line)) if line.trim().is_empty() => {}
            Ok(Some(line)) => return Ok(Some(as_message(&line))),
            Ok(None) => return Ok(None),
            Err(LinesCodecError::MaxLineLengthExceeded) => {
                return Ok(Some(format!("a line of more than {} MiB was skipped", MAX_LINE_BYTES >> 20)));
            }
            Err(LinesCodecError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Some("a line that is not UTF-8 was skipped".to_owned()));
            }
            Err(LinesCodecError::Io(error)) => return Err(error),
        }
    }
}

/// Repairs a line. A line that still is not JSON is never quoted, because it may hold secrets.
fn as_message(line: &str) -> String {
    // Some editors send a byte order mark, and JavaScript emits lone surrogates where it cuts a string.
    let text = line.trim_start_matches('\u{feff}');
    let has_halves = text.contains("\\ud") || text.contains("\\uD");
    let mended = if has_halves { json::mend_escapes(text) } else { text.to_owned() };
    let Err(problem) = serde_json::from_str::<Value>(&mended) else { return mended };
    let kind = match problem.classify() {
        Category::Eof => "it ends too early",
        _ => "it is not JSON",
    };
    let why = format!("a line of {} bytes was skipped: {kind} at column {}", line.len(), problem.column());
    let mut outline = json::Outline::default();
    outline.push(mended.as_bytes());
    match outline.asked() {
        Some(id) => json!({"jsonrpc": "2.0", "id": id, "method": format!("{UNREADABLE}{why}")}).to_string(),
        None => why,
    }
}

/// Converts an error about a replaced request to a parse error.
fn as_parse_error(line: String) -> String {
    if !line.contains(UNREADABLE) {
        return line;
    }
    let Ok(mut message) = serde_json::from_str::<Value>(&line) else { return line };
    let Some(why) =
        message.pointer("/error/data").and_then(Value::as_str).and_then(|data| data.strip_prefix(UNREADABLE))
    else {
        return line;
    };
    let error = json!({"code": -32700, "message": "Parse error", "data": {"line": why}});
    let Some(told) = message.get_mut("error") else { return line };
    *told = error;
    message.to_string()
}

/// Removes the parameters from an error that quotes them, and keeps the description: they may be large and hold
/// secrets.
fn without_parameters(line: String) -> String {
    // Skips parsing for messages that cannot be such an error.
    if !line.contains(r#""error":{"#) || !line.contains(r#""json":"#) {
        return line;
    }
    let Ok(mut message) = serde_json::from_str::<Value>(&line) else { return line };
    let Some(data) = message.pointer_mut("/error/data").filter(|data| data.get("json").is_some()) else { return line };
    let why = data.get("error").and_then(Value::as_str).map(reason).unwrap_or_default();
    *data = Value::String(why);
    message.to_string()
}

/// Returns the description of a parameter error without the quoted string.
fn reason(error: &str) -> String {
    let without = match error.split_once(" string \"") {
        Some((before, text)) => {
            let after = text.rsplit_once("\", ").map_or("", |(_, after)| after);
            format!("{before} string, {after}")
        }
        None => error.to_owned(),
    };
    without.chars().take(MAX_ERROR_CHARS).collect()
}

impl Decoder for MessageLines {
    type Item = String;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<String>> {
        readable(|| self.codec.decode(bytes))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<String>> {
        readable(|| self.codec.decode_eof(bytes))
    }
}

impl Encoder<String> for MessageLines {
    type Error = io::Error;

    fn encode(&mut self, line: String, bytes: &mut BytesMut) -> io::Result<()> {
        self.backlog.written(&line);
        let line = as_parse_error(without_parameters(line));
        self.codec.encode(line, bytes).map_err(|error| match error {
            LinesCodecError::Io(error) => error,
            LinesCodecError::MaxLineLengthExceeded => io::Error::other(error.to_string()),
        })
    }
}
