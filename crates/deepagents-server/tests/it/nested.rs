//! The routes nested below a path of another server.

use axum::Router;
use deepagents::models::scripted::Turn;
use serde_json::json;

use crate::support::{Client, say, server};

/// The server nested at `/agents` of another one, which has its own route.
async fn nested(turns: Vec<Turn>) -> Client {
    let agents = server(turns).router().await.unwrap();
    let router = Router::new().route("/mine", axum::routing::get(|| async { "mine" })).nest("/agents", agents);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/agents", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    Client::new(url)
}

#[tokio::test]
async fn runs_work_below_a_path_and_say_where_they_are_as_official_clients_read_it() {
    let client = nested(vec![Turn::text("Hello.")]).await;
    let thread = client.thread().await;
    let url = format!("{}/threads/{thread}/runs/wait", client.url);
    let mut body = say("hi");
    body["assistant_id"] = json!("agent");
    let response = client.http.post(url).json(&body).send().await.unwrap();
    let place = response.headers()["location"].to_str().unwrap().to_owned();
    assert!(response.text().await.unwrap().contains("Hello."));
    // The clients append `location` to their base URL.
    let joined = client.get(&place).await;
    assert_eq!(joined["messages"][1]["content"], "Hello.");
}

#[tokio::test]
async fn the_card_of_an_agent_has_the_address_below_the_path() {
    let client = nested(Vec::new()).await;
    for path in ["/.well-known/agent-card.json", "/a2a/agent/.well-known/agent-card.json"] {
        let card = client.get(path).await;
        assert_eq!(card["url"], json!(format!("{}/a2a/agent", client.url)), "{path}");
        assert_eq!(card["supportedInterfaces"][0]["url"], card["url"]);
    }
}
