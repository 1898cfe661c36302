//! The model that answers from a recording.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest};
use futures_core::stream::BoxStream;
use futures_util::stream;

use super::{Answer, Exchange, Header, Recording, RecordingError, Request, open, take_exchange};

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

/// A model that answers from a recording, of a model or of a run.
///
/// Each exchange is played once, as fast as it is read. A request that differs from the recording is answered with
/// [`ModelError::Invalid`], which names the first [`Difference`](super::Difference). Clones share what has been played.
#[derive(Clone, Debug)]
pub struct ReplayModel {
    header: Header,
    matching: Matching,
    /// How many there were.
    recorded: usize,
    /// Those not played yet, in the order the requests began.
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl ReplayModel {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// [`RecordingError`] when the file cannot be opened or read, is no recording, is damaged or cut off, or is of a newer
    /// version.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, RecordingError> {
        open(path, Self::from_reader).await
    }

    /// Reads a recording to its end; blocks while it does.
    ///
    /// # Errors
    /// As [`open`](Self::open).
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

    /// Sets which exchange answers a request; [`Matching::ByRequest`] otherwise.
    #[must_use]
    pub fn with_matching(mut self, matching: Matching) -> Self {
        self.matching = matching;
        self
    }

    /// How many exchanges have not been played.
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
