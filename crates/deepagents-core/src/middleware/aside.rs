//! Runs CPU-bound work on long texts without blocking other tasks.

use std::panic::resume_unwind;

/// Texts of up to this many bytes are processed inline, which takes about a millisecond.
const MANY_BYTES: usize = 64 << 10;

/// Runs CPU-bound work on a text of the given size. Short texts are processed inline; longer ones on a blocking thread,
/// so that other tasks are not held up. A panic in `work` propagates to the caller.
///
/// ```
/// use deepagents_core::middleware::on_text;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let text = "word ".repeat(100_000);
/// let words = on_text(text.len(), move || text.split_whitespace().count()).await;
/// assert_eq!(words, 100_000);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn on_text<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if bytes <= MANY_BYTES {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime is shutting down and drops this task too.
            Err(_) => std::future::pending().await,
        },
    }
}
