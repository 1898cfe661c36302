//! A model that responds from a recording.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::stream;

use super::{Answer, Exchange, Header, Recording, RecordingError, Request, open, take_exchange};

/// How a request is matched to a recorded exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matching {
    /// The first exchange with the same request that was not played yet, at any position: agents may run concurrently.
    #[default]
    ByRequest,
    /// The next exchange, which must have the same request.
    InOrder,
}

/// A model that responds from a recording of a model or a run.
///
/// Each exchange is played once, without delays. A request that differs from the recording fails with
/// [`ModelError::Invalid`], which names the first [`Difference`](super::Difference). Clones share which exchanges have
/// been played.
#[derive(Clone, Debug)]
pub struct ReplayModel {
    header: Header,
    matching: Matching,
    /// Total number of exchanges.
    recorded: usize,
    /// Remaining exchanges, in request order.
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl ReplayModel {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// Returns a [`RecordingError`] if the file cannot be opened or read, is not a recording, is damaged or truncated,
    /// or is of a newer version.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        open(path, Self::from_reader).await
    }

    /// Reads a recording to its end; blocks.
    ///
    /// # Errors
    /// Same as [`open`](Self::open).
    pub fn from_reader(reader: impl BufRead) -> Result<Self, RecordingError> {
        let Recording { header, exchanges, cut } = Recording::read(reader, |_| Ok(()))?;
        if let Some(line) = cut {
            return Err(RecordingError::Damaged { line, what: "it is cut off".to_owned() });
        }
        let mut exchanges: Vec<Exchange> = exchanges.into_values().flatten().collect();
        exchanges.sort_by_key(|exchange| exchange.seq);
        let (matching, recorded) = (Matching::default(), exchanges.len());
        Ok(Self { header, matching, recorded, exchanges: Arc::new(Mutex::new(exchanges)) })
    }

    /// Sets how requests are matched; [`Matching::ByRequest`] by default.
    #[must_use]
    pub fn with_matching(mut self, matching: Matching) -> Self {
        self.matching = matching;
        self
    }

    /// Returns the number of exchanges not played yet.
    pub fn remaining(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Exchange>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let request = Request::from(request);
        let mut exchanges = self.lock();
        let next = exchanges.first().map(|next| next.seq).filter(|_| self.matching == Matching::InOrder);
        let taken = take_exchange(&mut exchanges, &request, |exchange| next.is_none_or(|next| exchange.seq == next));
        taken.map(|exchange| exchange.answer.unwrap_or_default()).map_err(|nearest| {
            ModelError::invalid(match nearest {
                Some((near, difference)) => {
                    format!("the request differs from the recording (exchange {}) at {difference}", near.seq)
                }
                None => format!("the recording has no exchange left ({} played)", self.recorded),
            })
        })
    }
}

impl ChatModel for ReplayModel {
    fn name(&self) -> &str {
        &self.header.model
    }

    fn profile(&self) -> ModelProfile {
        self.header.profile.clone()
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        match self.answer(&request) {
            Ok(answer) => Box::pin(stream::iter(answer.play())),
            Err(error) => Box::pin(stream::iter([Err(error)])),
        }
    }
}
