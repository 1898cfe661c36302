//! Subscribes to list changes.

use std::time::Duration;

use rmcp::model::{ErrorCode, SubscriptionFilter};
use rmcp::service::ServiceError;
use tokio::time::{Instant, sleep};

use super::Connection;

/// Initial and maximum delay before resubscribing. The delay doubles each time.
const RESUBSCRIBE_DELAYS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));

impl Connection {
    /// Subscribes to list changes, as the stateless protocol requires, and resubscribes when the stream ends. Stops if
    /// the server does not know the method.
    pub(super) fn listen(&self, filter: SubscriptionFilter) {
        let (peer, seen) = (self.peer.clone(), self.seen.clone());
        let listening = tokio::spawn(async move {
            let (first, longest) = RESUBSCRIBE_DELAYS;
            let (mut pause, mut listened) = (first, false);
            while !peer.is_transport_closed() {
                let began = Instant::now();
                match peer.listen(filter.clone()).await {
                    Ok(mut subscription) => {
                        if std::mem::replace(&mut listened, true) {
                            // Changes between the two streams were not reported.
                            seen.list_changed();
                        }
                        while let Ok(Some(_)) = subscription.next().await {
                            // The stream carries only the requested notifications.
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
        // Set once: a connection has one subscription.
        let _ = self.listening.set(listening.abort_handle());
    }
}
