//! The model that answers from a recording.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::stream;
use serde::Deserialize;
use serde_json::Value;

use super::RecordingError;
use super::difference::first_difference;
use super::format::{Exchange, Line, VERSION, fingerprint, request_json};

/// Which recorded exchange answers a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matching {
    /// The first unplayed one with the same request, wherever it is: agents may run at the same time.
    #[default]
    ByRequest,
    /// The next one, which must have the same request.
    InOrder,
}

/// A model that answers from a recording made by [`RecordingModel`](super::RecordingModel).
///
/// Each exchange is played once, as fast as it is read. A request that departs from the recording is answered with
/// [`ModelError::Invalid`], which names the first [`Difference`](super::Difference). Clones share what has been played.
#[derive(Clone)]
pub struct ReplayModel {
    name: Arc<str>,
    profile: ModelProfile,
    matching: Matching,
    /// In the order the requests began; `None` once played.
    exchanges: Arc<Mutex<Vec<Option<Exchange>>>>,
}

impl ReplayModel {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// [`RecordingError`] when the file cannot be opened or read, is damaged, or is of another version.
    #[allow(clippy::disallowed_methods, reason = "a recorder opens the one file it is given")]
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        let path = path.into();
        let at = path.clone();
        let read = tokio::task::spawn_blocking(move || match File::open(&at) {
            Ok(file) => Self::from_reader(BufReader::new(file)),
            Err(source) => Err(RecordingError::Open { path: at, source }),
        });
        read.await.unwrap_or_else(|error| Err(RecordingError::Open { path, source: io::Error::other(error) }))
    }

    /// Reads a recording to its end; blocks while it does.
    ///
    /// # Errors
    /// [`RecordingError`] when it cannot be read, is damaged, or is of another version.
    pub fn from_reader(reader: impl BufRead) -> Result<Self, RecordingError> {
        let mut header = None;
        let mut exchanges = Vec::new();
        for (index, text) in reader.split(b'\n').enumerate() {
            let text = text.map_err(RecordingError::Read)?;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let line = index + 1;
            match (parse(&text, line)?, &header) {
                (Line::Recording { model, profile }, None) => header = Some((model, profile)),
                (Line::Recording { .. }, Some(_)) => return Err(damaged(line, "a second header")),
                (Line::Exchange(_), None) => return Err(damaged(line, "an exchange before the header")),
                (Line::Exchange(exchange), Some(_)) => exchanges.push(exchange),
            }
        }
        let Some((model, profile)) = header else { return Err(damaged(1, "there is no header")) };
        exchanges.sort_by_key(|exchange| exchange.seq);
        let exchanges = Arc::new(Mutex::new(exchanges.into_iter().map(Some).collect()));
        Ok(Self { name: model.into(), profile, matching: Matching::default(), exchanges })
    }

    /// Sets which exchange answers a request; [`Matching::ByRequest`] otherwise.
    #[must_use]
    pub fn with_matching(mut self, matching: Matching) -> Self {
        self.matching = matching;
        self
    }

    /// How many exchanges have not been played.
    pub fn remaining(&self) -> usize {
        self.lock().iter().flatten().count()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Exchange>>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, request: &ModelRequest) -> Result<Exchange, ModelError> {
        let request = request_json(request);
        let print = fingerprint(&request);
        let mut exchanges = self.lock();
        let next = exchanges.iter().position(Option::is_some);
        let fits = |at: &usize| {
            let exchange = exchanges.get(*at).and_then(Option::as_ref);
            exchange.is_some_and(|exchange| exchange.fingerprint == print && exchange.request == request)
        };
        let found = match self.matching {
            Matching::InOrder => next.filter(fits),
            Matching::ByRequest => (0..exchanges.len()).find(fits),
        };
        if let Some(exchange) = found.and_then(|at| exchanges.get_mut(at)).and_then(Option::take) {
            return Ok(exchange);
        }
        let mut unplayed = exchanges.iter().flatten();
        let nearest = match self.matching {
            Matching::InOrder => unplayed.next(),
            // The first of those that share the longest conversation with the request.
            Matching::ByRequest => unplayed.rev().max_by_key(|exchange| shared_messages(&exchange.request, &request)),
        };
        let difference = nearest.and_then(|exchange| {
            first_difference(&exchange.request, &request).map(|difference| (exchange.seq, difference))
        });
        Err(ModelError::invalid(match difference {
            Some((seq, found)) => {
                format!("the request departs from the recording (exchange {seq}) at {found}")
            }
            None => format!("the recording has no exchange left ({} played)", exchanges.len()),
        }))
    }
}

/// How many messages the two requests begin with in common.
fn shared_messages(left: &Value, right: &Value) -> usize {
    let messages = |request| Value::get(request, "messages").and_then(Value::as_array).into_iter().flatten();
    messages(left).zip(messages(right)).take_while(|(a, b)| a == b).count()
}

fn parse(text: &[u8], line: usize) -> Result<Line, RecordingError> {
    let value: Value = serde_json::from_slice(text).map_err(|error| damaged(line, &error.to_string()))?;
    match value.get("v").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(found) => return Err(RecordingError::Version { line, found }),
        None => return Err(damaged(line, "the field `v` is missing")),
    }
    let parsed = Line::deserialize(value).map_err(|error| damaged(line, &error.to_string()))?;
    if let Line::Exchange(exchange) = &parsed
        && exchange.fingerprint != fingerprint(&exchange.request)
    {
        return Err(damaged(line, "the fingerprint is not that of the request"));
    }
    Ok(parsed)
}

fn damaged(line: usize, what: &str) -> RecordingError {
    RecordingError::Damaged { line, what: what.to_owned() }
}

impl fmt::Debug for ReplayModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayModel").field("name", &self.name).field("remaining", &self.remaining()).finish()
    }
}

impl ChatModel for ReplayModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn profile(&self) -> ModelProfile {
        self.profile.clone()
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let exchange = match self.take(&request) {
            Ok(exchange) => exchange,
            Err(error) => return Box::pin(stream::iter([Err(error)])),
        };
        Box::pin(stream::iter(exchange.answer.play()))
    }
}
