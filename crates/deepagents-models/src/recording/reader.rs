//! Reads recordings.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::line::{AnswerLine, ExchangeLine, RequestLine, VERSION};
use super::request::fingerprint;
use super::{Answer, Difference, Header, RecordingError, Request};

/// The model exchanges of a recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recording {
    /// The first line.
    pub header: Header,
    /// Exchanges of each agent, by the agent's path, in request order.
    pub exchanges: HashMap<Vec<String>, Vec<Exchange>>,
    /// Number of the last line, from 1, if it was incomplete and skipped.
    pub cut: Option<usize>,
}

/// A model request and its response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    /// Position among all requests of the recording, from 0.
    pub seq: u64,
    /// Number of the agent's responses before it.
    pub turn: u32,
    /// Whether the request was outside the agent's conversation.
    pub aside: bool,
    /// The request.
    pub request: Request,
    /// The response; `None` if the process ended first.
    pub answer: Option<Answer>,
}

impl Exchange {
    /// Returns whether the response is complete.
    pub fn is_whole(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.broke_off())
    }
}

/// Removes and returns the first exchange with this request for which `among` is true.
///
/// # Errors
/// If there is none, returns the first of the exchanges that share the longest conversation with the request, and its
/// first difference from the request; `None` if there are no such exchanges.
pub fn take_exchange<'a>(
    exchanges: &'a mut Vec<Exchange>,
    request: &Request,
    among: impl Fn(&Exchange) -> bool,
) -> Result<Exchange, Option<(&'a Exchange, Difference)>> {
    let is_same = |exchange: &Exchange| exchange.request.digest() == request.digest() && among(exchange);
    if let Some(at) = exchanges.iter().position(is_same) {
        return Ok(exchanges.remove(at));
    }
    let others = exchanges.iter().rev().filter(|exchange| among(exchange));
    let nearest = others.max_by_key(|exchange| exchange.request.shared_messages(request));
    Err(nearest.and_then(|nearest| Some((nearest, nearest.request.difference(request)?))))
}

/// Opens a recording and reads it on a blocking thread.
///
/// # Errors
/// Returns [`RecordingError::Open`], or an error of `read`.
#[allow(clippy::disallowed_methods, reason = "a recorder opens the one file it is given")]
pub async fn open<T: Send + 'static>(
    path: impl Into<PathBuf>,
    read: impl FnOnce(BufReader<File>) -> Result<T, RecordingError> + Send + 'static,
) -> Result<T, RecordingError> {
    let path = path.into();
    let at = path.clone();
    let read = tokio::task::spawn_blocking(move || match File::open(&at) {
        Ok(file) => read(BufReader::new(file)),
        Err(source) => Err(RecordingError::Open { path: at, source }),
    });
    read.await.unwrap_or_else(|error| Err(RecordingError::Open { path, source: io::Error::other(error) }))
}

impl Recording {
    /// Reads a recording to its end; blocks. Lines that are not about models are passed to `other`, which may reject
    /// them with a message.
    ///
    /// # Errors
    /// Returns a [`RecordingError`] if the input cannot be read, is not a recording, is of a newer version, or is
    /// damaged.
    pub fn read(
        mut reader: impl BufRead,
        mut other: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Self, RecordingError> {
        let mut bytes = Vec::new();
        let mut next = |bytes: &mut Vec<u8>| {
            bytes.clear();
            reader.read_until(b'\n', bytes).map_err(RecordingError::Read)
        };
        next(&mut bytes)?;
        let mut recording = Self { header: header(&bytes)?, exchanges: HashMap::new(), cut: None };
        let mut loader = Loader::default();
        for line in 2.. {
            if next(&mut bytes)? == 0 {
                break;
            }
            let taken = match serde_json::from_slice::<Kind>(&bytes) {
                Ok(Kind { kind }) => loader.take(&mut recording, &kind, &bytes, &mut other),
                Err(_) if bytes.iter().all(u8::is_ascii_whitespace) => Ok(()),
                // Only the last line can be incomplete.
                Err(_) if !bytes.ends_with(b"\n") => {
                    recording.cut = Some(line);
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            };
            taken.map_err(|what| RecordingError::Damaged { line, what })?;
        }
        Ok(recording)
    }
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

fn header(bytes: &[u8]) -> Result<Header, RecordingError> {
    let foreign = |what: &str| RecordingError::Foreign(what.to_owned());
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(foreign("it is empty"));
    }
    let first: Value = serde_json::from_slice(bytes).map_err(|_| foreign("its first line is not JSON"))?;
    // In version 1, recordings of runs had a separate kind.
    if !first.get("kind").is_some_and(|kind| kind == "recording" || kind == "run_recording") {
        return Err(foreign("its first line does not have the kind `recording`"));
    }
    match first.get("v").and_then(Value::as_u64) {
        Some(found) if found > VERSION => Err(RecordingError::Newer { found }),
        _ => Header::deserialize(first).map_err(|error| RecordingError::Damaged { line: 1, what: error.to_string() }),
    }
}

#[derive(Default)]
struct Loader {
    /// Number of requests so far.
    requests: u64,
    /// Last request of each agent, separately for requests outside the conversation.
    last: HashMap<(Vec<String>, bool), Request>,
}

impl Loader {
    fn take(
        &mut self,
        recording: &mut Recording,
        kind: &str,
        bytes: &[u8],
        other: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        match kind {
            "recording" | "run_recording" => Err("a second header".to_owned()),
            "request" => self.request(recording, parse(bytes)?),
            "answer" => answer(recording, parse(bytes)?),
            "exchange" => exchange(recording, parse(bytes)?),
            _ => other(bytes),
        }
    }

    fn request(&mut self, recording: &mut Recording, line: RequestLine) -> Result<(), String> {
        let RequestLine { path, n, turn, aside, digest, kept, messages, fields } = line;
        let exchanges = recording.exchanges.entry(path.clone()).or_default();
        if usize::try_from(n) != Ok(exchanges.len()) {
            return Err(format!("request {n} comes after {} of this agent", exchanges.len()));
        }
        let key = (path, aside);
        let request = Request::from_delta(self.last.get(&key), kept, messages, fields)
            .ok_or("the request before this one is missing")?;
        if request.digest() != digest {
            return Err("the digest does not match the request".to_owned());
        }
        self.last.insert(key, request.clone());
        exchanges.push(Exchange { seq: self.requests, turn, aside, request, answer: None });
        self.requests += 1;
        Ok(())
    }
}

fn answer(recording: &mut Recording, line: AnswerLine) -> Result<(), String> {
    let exchanges = recording.exchanges.get_mut(&line.path);
    let exchange = exchanges.and_then(|all| all.get_mut(usize::try_from(line.n).ok()?));
    let exchange = exchange.ok_or("an answer without a request")?;
    match exchange.answer.replace(line.answer) {
        None => Ok(()),
        Some(_) => Err("a second answer to a request".to_owned()),
    }
}

/// Reads the model lines of version 1: complete exchanges, in the order in which they ended.
fn exchange(recording: &mut Recording, line: ExchangeLine) -> Result<(), String> {
    if fingerprint(&line.request) != line.fingerprint {
        return Err("the fingerprint does not match the request".to_owned());
    }
    let request = Request::from_json(line.request);
    let exchange = Exchange { seq: line.seq, turn: 0, aside: false, request, answer: Some(line.answer) };
    recording.exchanges.entry(Vec::new()).or_default().push(exchange);
    Ok(())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
