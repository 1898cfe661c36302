//! Notices of changed lists.

use std::time::Duration;

use rmcp::model::{ErrorCode, SubscriptionFilter};
use rmcp::service::ServiceError;
use tokio::time::{Instant, sleep};

use super::Connection;

/// How long after the end of a stream of notices the next one is asked for; doubled each time, up to the second one.
const LISTEN_AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));

impl Connection {
    /// Listens for changes of lists, as the stateless protocol wants it, and again where a stream of them ends. A server that
    /// does not take it says so and is asked no more.
    pub(super) fn listen(&self, filter: SubscriptionFilter) {
        let (peer, seen) = (self.peer.clone(), self.seen.clone());
        let listening = tokio::spawn(async move {
            let (first, longest) = LISTEN_AGAIN;
            let (mut pause, mut listened) = (first, false);
            while !peer.is_transport_closed() {
                let began = Instant::now();
                match peer.listen(filter.clone()).await {
                    Ok(mut subscription) => {
                        if std::mem::replace(&mut listened, true) {
                            // What has changed since the last stream ended was told nobody.
                            seen.list_changed();
                        }
                        while let Ok(Some(_)) = subscription.next().await {
                            // Every notice on this stream is one of those that were asked for.
                            seen.list_changed();
                        }
                    }
                    Err(ServiceError::McpError(refusal)) if refusal.code == ErrorCode::METHOD_NOT_FOUND => return,
                    Err(_) => {}
                }
                pause = if began.elapsed() > longest { first } else { pause };
                sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        });
        // It listens once.
        let _ = self.listening.set(listening.abort_handle());
    }
}
