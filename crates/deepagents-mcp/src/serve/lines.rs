//! Reads a client's lines and repairs malformed ones.

use std::io;

use deepagents_core::json::{Outline, mend_escapes};
use rmcp::model::ErrorData;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio_util::bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::{Decoder, FramedRead};
use tokio_util::io::StreamReader;

/// Maximum size of a line, in bytes. Longer ones are not stored, and a request in one is answered with an error.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Method that replaces an unusable request, so that it is answered under its ID with the error in its parameters.
pub(super) const UNUSABLE: &str = "unusable";

/// A list without requests, which is answered with an error that has no ID.
const NO_REQUESTS: &str = "[]";

/// Returns a reader that passes lines on once they are complete. The last one needs no newline.
pub(super) fn readable_lines(read: impl AsyncRead + Send + Unpin + 'static) -> impl AsyncRead + Send + Unpin + 'static {
    StreamReader::new(FramedRead::new(read, ReadableLines::default()))
}

/// Codec of lines.
#[derive(Default)]
struct ReadableLines {
    /// Length of the part of the buffer that has no newline.
    searched: usize,
    /// The oversized line being skipped, and whether it holds several messages.
    too_long: Option<(Outline, bool)>,
}

impl ReadableLines {
    /// Completes a line, or the oversized line that it is the end of.
    fn complete(&mut self, line: &[u8]) -> Bytes {
        let Some((mut outline, is_list)) = self.too_long.take() else { return readable(line).into() };
        outline.push(line);
        let why = format!("the request is longer than {} MiB", MAX_LINE_BYTES >> 20);
        let answered = outline.asked().map(|id| unusable(&id, &ErrorData::invalid_request(why, None)));
        answered.or_else(|| is_list.then(|| NO_REQUESTS.to_owned())).map(|line| line + "\n").unwrap_or_default().into()
    }
}

impl Decoder for ReadableLines {
    type Item = Bytes;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Bytes>> {
        let unsearched = bytes.get(self.searched..).unwrap_or_default();
        if let Some(end) = unsearched.iter().position(|byte| *byte == b'\n').map(|at| self.searched + at) {
            self.searched = 0;
            let line = bytes.split_to(end);
            bytes.advance(1);
            return Ok(Some(self.complete(&line)));
        }
        self.searched = bytes.len();
        if self.too_long.is_some() || bytes.len() > MAX_LINE_BYTES {
            let begun = || (Outline::default(), is_list(bytes));
            self.too_long.get_or_insert_with(begun).0.push(bytes);
            self.searched = 0;
            bytes.clear();
        }
        Ok(None)
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Bytes>> {
        if let Some(line) = self.decode(bytes)? {
            return Ok(Some(line));
        }
        let is_over = bytes.is_empty() && self.too_long.is_none();
        self.searched = 0;
        Ok((!is_over).then(|| self.complete(&bytes.split())))
    }
}

/// Repairs the messages of a line, so that they can be parsed, and adds a newline to each. Clients of the protocol
/// 2025-03-26 may send several at once.
fn readable(line: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(line);
    let text = mended(line.trim_start_matches('\u{feff}'));
    let batch: Vec<&RawValue> = serde_json::from_str(&text).unwrap_or_default();
    let mut readable = match batch.as_slice() {
        [] => regular(text),
        batch => batch.iter().map(|message| regular(message.get().to_owned())).collect::<Vec<_>>().join("\n"),
    };
    readable.push('\n');
    readable.into_bytes()
}

/// Repairs a line that is not JSON, or replaces a request by one that is answered with the problem.
fn mended(line: &str) -> String {
    if serde_json::from_str::<Value>(line).is_ok() {
        return line.to_owned();
    }
    let mended = mend_escapes(line);
    let Err(problem) = serde_json::from_str::<Value>(&mended) else { return mended };
    let mut outline = Outline::default();
    outline.push(mended.as_bytes());
    match outline.asked() {
        Some(id) => {
            let why = format!("{:?} at column {}", problem.classify(), problem.column());
            unusable(&id, &ErrorData::parse_error("the request is not JSON", Some(why.into())))
        }
        // What is left of several requests is refused like an empty list: their IDs are not known.
        None if is_list(mended.as_bytes()) => NO_REQUESTS.to_owned(),
        None => mended,
    }
}

/// Returns whether a line holds several messages.
fn is_list(line: &[u8]) -> bool {
    line.trim_ascii_start().first() == Some(&b'[')
}

/// Returns a message that names its protocol. A request that is not of the form of one is replaced by one that is
/// answered with the problem: otherwise it would be refused without its ID.
fn regular(message: String) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(&message) else { return message };
    let problem = match (fields.get("method"), fields.get("params")) {
        (None, _) | (Some(Value::String(_)), None | Some(Value::Null | Value::Object(_))) => None,
        (Some(Value::String(_)), Some(_)) => Some("the parameters are not an object"),
        (Some(_), _) => Some("the method is not a text"),
    };
    match (problem, fields.get("id")) {
        (Some(problem), Some(id @ (Value::String(_) | Value::Number(_)))) => {
            unusable(id, &ErrorData::invalid_request(problem, None))
        }
        (None, _) if fields.get("jsonrpc").is_none_or(|version| version != "2.0") => {
            fields.insert("jsonrpc".to_owned(), "2.0".into());
            Value::Object(fields).to_string()
        }
        _ => message,
    }
}

/// Returns a request that is answered with this error, under this ID.
fn unusable(id: &Value, error: &ErrorData) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": UNUSABLE, "params": error}).to_string()
}
