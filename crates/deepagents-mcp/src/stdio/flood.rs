//! Limits the rate of lines that are not responses.

use tokio::time::Instant;

/// The burst size, and the number of lines allowed per second after that. Far above what even a chatty server sends.
const BURST_LINES: u32 = 50_000;
const LINES_PER_SECOND: u32 = 500;

/// Counts a server's lines that are not responses.
#[derive(Debug, Default)]
pub(super) struct Flood {
    lines: u32,
    /// When the count was last reduced.
    since: Option<Instant>,
}

impl Flood {
    /// Counts a line. Returns whether the limit is exceeded.
    pub(super) fn is_one_too_many(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.lines = self.lines.saturating_add(1);
        if self.lines <= BURST_LINES {
            return false;
        }
        let seconds = u32::try_from(since.elapsed().as_secs()).unwrap_or(u32::MAX);
        if seconds > 0 {
            self.lines = self.lines.saturating_sub(seconds.saturating_mul(LINES_PER_SECOND));
            self.since = Some(Instant::now());
        }
        self.lines > BURST_LINES
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bursts_and_steady_streams_of_lines_are_accepted_up_to_a_limit() {
        let mut flood = Flood::default();
        assert!((0..BURST_LINES).all(|_| !flood.is_one_too_many()));
        assert!(flood.is_one_too_many());
        for _ in 0..1_000 {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!((0..LINES_PER_SECOND / 2).all(|_| !flood.is_one_too_many()));
        }
        assert!((0..2 * BURST_LINES).any(|_| flood.is_one_too_many()));
    }
}
