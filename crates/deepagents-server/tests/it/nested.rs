//! The routes nested below a path of another server.

use axum::Router;
use deepagents::models::scripted::Turn;
use serde_json::json;

use crate::support::{Client, say, server};

/// Starts the server below `/agents` of another server, which has a route of its own.
async fn nested(turns: Vec<Turn>) -> Client {
    let agents = server(turns).router().await.unwrap();
    let router = Router::new().route("/mine", axum::routing::get(|| async { "mine" })).nest("/agents", agents);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/agents", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    Client::new(url)
}

#[tokio::test]
async fn runs_work_below_a_path_prefix_and_their_location_suits_official_clients() {
    let client = nested(vec![Turn::text("Hello.")]).await;
    let thread = client.thread().await;
    let url = format!("{}/threads/{thread}/runs/wait", client.url);
    let mut body = say("hi");
    body["assistant_id"] = json!("agent");
    let response = client.http.post(url).json(&body).send().await.unwrap();
    let place = response.headers()["location"].to_str().unwrap().to_owned();
    assert!(response.text().await.unwrap().contains("Hello."));
    // Official clients append the location to their base URL.
    let joined = client.get(&place).await;
    assert_eq!(joined["messages"][1]["content"], "Hello.");
}

#[tokio::test]
async fn an_agent_card_has_the_address_with_the_path_prefix() {
    let client = nested(Vec::new()).await;
    for path in ["/.well-known/agent-card.json", "/a2a/agent/.well-known/agent-card.json"] {
        let card = client.get(path).await;
        assert_eq!(card["url"], json!(format!("{}/a2a/agent", client.url)), "{path}");
        assert_eq!(card["supportedInterfaces"][0]["url"], card["url"]);
    }
}
