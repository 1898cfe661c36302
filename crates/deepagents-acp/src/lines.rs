//! Messages as lines. A line that cannot be a message is replaced by words that say why, which are answered with a parse
//! error: no line breaks the connection.

use std::io;

use bytes::BytesMut;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio_util::codec::{Decoder, Encoder, LinesCodec, LinesCodecError};

/// Bytes of a line. Prompts carry pictures, as base64.
const LONGEST: usize = 64 << 20;

/// Bytes of a line that is no message, beyond which it is not sent back whole.
const REPEATED: usize = 64 << 10;
/// Characters of it that are.
const SHOWN: usize = 200;

/// A message in a line of its own.
#[derive(Debug)]
pub(crate) struct MessageLines(LinesCodec);

impl Default for MessageLines {
    fn default() -> Self {
        Self(LinesCodec::new_with_max_length(LONGEST))
    }
}

/// What one try to read gives: a line, words in its place, or nothing yet. Blank lines are passed over.
fn readable(mut read: impl FnMut() -> Result<Option<String>, LinesCodecError>) -> io::Result<Option<String>> {
    loop {
        match read() {
            Ok(Some(line)) if line.trim().is_empty() => {}
            Ok(Some(line)) if line.len() > REPEATED && serde_json::from_str::<IgnoredAny>(&line).is_err() => {
                // What is no message is sent back with the error.
                let begins: String = line.chars().take(SHOWN).collect();
                return Ok(Some(format!(
                    "a line of {} bytes that is no JSON, left out; it begins: {begins}",
                    line.len()
                )));
            }
            Ok(line) => return Ok(line),
            Err(LinesCodecError::MaxLineLengthExceeded) => {
                return Ok(Some(format!("a line of more than {} MiB, left out", LONGEST >> 20)));
            }
            Err(LinesCodecError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Some("a line that is not UTF-8, left out".to_owned()));
            }
            Err(LinesCodecError::Io(error)) => return Err(error),
        }
    }
}

/// The same message; an error that repeats the parameters it is about says in words alone what is wrong with them. They may
/// be large, and hold secrets.
fn without_parameters(line: String) -> String {
    // Most messages are no such thing, and need not be read for that.
    if !line.contains(r#""error":{"#) || !line.contains(r#""json":"#) {
        return line;
    }
    let Ok(mut message) = serde_json::from_str::<Value>(&line) else { return line };
    let Some(data) = message.pointer_mut("/error/data").filter(|data| data.get("json").is_some()) else { return line };
    let why = data.get("error").and_then(Value::as_str).map(reason).unwrap_or_default();
    *data = Value::String(why);
    message.to_string()
}

/// What is wrong with parameters, without the text that is.
fn reason(error: &str) -> String {
    let without = match error.split_once(" string \"") {
        Some((before, text)) => {
            let after = text.rsplit_once("\", ").map_or("", |(_, after)| after);
            format!("{before} string, {after}")
        }
        None => error.to_owned(),
    };
    without.chars().take(SHOWN).collect()
}

impl Decoder for MessageLines {
    type Item = String;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<String>> {
        readable(|| self.0.decode(bytes))
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> io::Result<Option<String>> {
        readable(|| self.0.decode_eof(bytes))
    }
}

impl Encoder<String> for MessageLines {
    type Error = io::Error;

    fn encode(&mut self, line: String, bytes: &mut BytesMut) -> io::Result<()> {
        let line = without_parameters(line);
        self.0.encode(line, bytes).map_err(|error| match error {
            LinesCodecError::Io(error) => error,
            LinesCodecError::MaxLineLengthExceeded => io::Error::other(error.to_string()),
        })
    }
}
