//! Work on long texts, which takes the processor's time.

use std::panic::resume_unwind;

/// Bytes of text that are worked on at once, in a millisecond or so.
const MANY_BYTES: usize = 64 << 10;

/// Does work on so many bytes of text: at once where they are few, on a thread of its own where the other tasks would
/// have to wait for it. A panic goes on here.
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
            // The runtime ends, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
