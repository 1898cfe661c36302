//! Cut connections, unavailable servers, and killed servers.

use std::sync::Arc;
use std::time::Duration;

use deepagents::remote::RemoteConfig;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{Running, below, delegating, play, steps, text_below};

/// A proxy that cuts all connections on demand.
struct Between {
    url: String,
    cut: Arc<watch::Sender<u32>>,
}

impl Between {
    async fn start(to: &str) -> Self {
        let target = to.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let cut = Arc::new(watch::Sender::new(0));
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut inside, _)) = listener.accept().await {
                let (target, mut cut) = (target.clone(), cuts.subscribe());
                tokio::spawn(async move {
                    let Ok(mut outside) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut inside, &mut outside) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { url, cut }
    }

    fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

#[tokio::test]
async fn a_cut_stream_is_resumed_without_gap_or_repeat() {
    let server = Running::start().await;
    let between = Between::start(&server.url).await;
    let there = RemoteConfig::langgraph(&between.url, "worker").unwrap();
    let agent = delegating(there).build().unwrap();
    let played = tokio::spawn(async move { play(&agent, steps(&[("gate", json!({})), ("gate", json!({}))])).await });
    for _ in 0..2 {
        server.gate.entered().await;
        between.cut();
        server.gate.open();
    }
    let (outcome, events) = played.await.unwrap();
    assert_eq!(outcome.text(), "Done: open");
    assert_eq!(text_below(&events), "Calling gate. Calling gate. Done: open");
    assert_eq!(below(&events).iter().filter(|line| line.contains("answered")).count(), 3);
    assert_eq!(server.statuses().await, ["success"]);
}

#[tokio::test]
async fn an_unreachable_server_is_one_error_once_its_retries_time_out() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let there = RemoteConfig::langgraph(&url, "worker").unwrap().retry_timeout(Duration::from_millis(300));
    let there = there.header("x-api-key", "very-secret").unwrap();
    let (outcome, events) = play(&delegating(there).build().unwrap(), "Hi").await;
    assert!(outcome.text().starts_with("Error: sub-agent worker failed: "), "{}", outcome.text());
    assert!(outcome.text().contains("does not answer"), "{}", outcome.text());
    let seen = format!("{events:?}{:?}", outcome.messages());
    assert!(!seen.contains("very-secret"));
}
