//! The web page and how it is served.

use deepagents_server::{Identity, StaticTokens};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::support::{Client, run, serve, server};

async fn page() -> Client {
    serve(Vec::new()).await
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// Returns the URLs of scripts and styles in a document.
fn references(document: &str) -> Vec<String> {
    let addresses = document.split('"').filter(|text| text.starts_with("/page/") || text.ends_with(".svg"));
    addresses.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_browser_opening_the_server_address_gets_the_page() {
    let client = page().await;
    let (status, headers, body) = client.fetch("/?thread=some", &[]).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(text(&headers, "content-type"), "text/html; charset=utf-8");
    let document = String::from_utf8(body).unwrap();
    let references = references(&document);
    assert!(references.len() >= 3, "{document}");
    for address in references {
        let (status, headers, body) = client.fetch(&address, &[]).await;
        assert_eq!(status, StatusCode::OK, "{address}");
        assert!(!body.is_empty(), "{address}");
        assert_eq!(text(&headers, "x-content-type-options"), "nosniff");
    }
}

#[tokio::test]
async fn scripts_and_styles_load_only_from_the_server_and_none_are_inline() {
    let client = page().await;
    let (_, headers, body) = client.fetch("/", &[]).await;
    let policy = text(&headers, "content-security-policy");
    for part in ["default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let document = String::from_utf8(body).unwrap();
    for script in document.split("<script").skip(1) {
        let (head, rest) = script.split_once('>').unwrap();
        assert!(head.contains("src=\"/page/") && rest.starts_with("</script>"), "{script}");
    }
    assert!(!document.contains("<style") && !document.contains("style="), "{document}");
}

#[tokio::test]
async fn hashed_files_are_cached_forever_and_the_document_is_revalidated() {
    let client = page().await;
    let (_, headers, body) = client.fetch("/", &[]).await;
    assert_eq!(text(&headers, "cache-control"), "no-cache");
    let tag = text(&headers, "etag").to_owned();
    let (status, _, again) = client.fetch("/", &[("if-none-match", &format!("\"other\", {tag}"))]).await;
    assert_eq!((status, again.len()), (StatusCode::NOT_MODIFIED, 0));
    let (status, ..) = client.fetch("/", &[("if-none-match", "\"other\"")]).await;
    assert_eq!(status, StatusCode::OK);
    let script =
        references(std::str::from_utf8(&body).unwrap()).into_iter().find(|path| path.ends_with(".js")).unwrap();
    let (_, headers, _) = client.fetch(&script, &[]).await;
    assert_eq!(text(&headers, "cache-control"), "public, max-age=31536000, immutable");
}

#[tokio::test]
async fn a_client_gets_the_best_compression_it_accepts() {
    let client = page().await;
    let (_, _, plain) = client.fetch("/", &[]).await;
    let mut sizes = Vec::new();
    for (accepted, sent) in [
        ("br, gzip", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, GZIP;q=0.5", "gzip"),
        ("gzip;q=0", ""),
        ("br;q=what", ""),
        ("zstd", ""),
    ] {
        let (_, headers, body) = client.fetch("/", &[("accept-encoding", accepted)]).await;
        assert_eq!(text(&headers, "content-encoding"), sent, "{accepted}");
        assert_eq!(text(&headers, "vary"), "accept-encoding");
        sizes.push((sent, body.len()));
    }
    for (sent, size) in sizes {
        assert_eq!(size < plain.len(), !sent.is_empty(), "{sent} has {size} of {} bytes", plain.len());
    }
}

#[tokio::test]
async fn the_page_can_show_model_prices() {
    let client = page().await;
    let known = client.get("/page/models?name=gpt-4.1").await;
    assert!(known["price"]["input"].as_f64().unwrap() > 0.0, "{known}");
    assert!(known["context_window"].as_u64().unwrap() > 0, "{known}");
    let unknown = client.get("/page/models?name=nobody-made-it").await;
    assert!(unknown["price"].is_null() && unknown["context_window"].is_null(), "{unknown}");
}

#[tokio::test]
async fn the_page_can_build_a_form_from_a_tools_arguments() {
    let client = page().await;
    let agent = client.get("/page/agents/agent").await;
    assert!(agent["model"].as_str().unwrap().contains("scripted"), "{agent}");
    assert_eq!(agent["goals"], false, "its work is not judged");
    let book = agent["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "book").unwrap();
    assert_eq!(book["parameters"]["properties"]["city"]["type"], "string");
    let (status, ..) = client.fetch("/page/agents/nobody", &[]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_visitor_without_a_token_gets_only_the_token_page() {
    let tokens = StaticTokens::new().token("ada's", Identity::new("ada"));
    let (stranger, _end, _serving) = run(server(Vec::new()).authenticate(tokens)).await;
    let (status, ..) = stranger.fetch("/", &[]).await;
    assert_eq!(status, StatusCode::OK);
    for path in ["/page/agents/agent", "/page/models?name=gpt-4.1"] {
        assert_eq!(stranger.fetch(path, &[]).await.0, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(stranger.fetch(path, &[("x-api-key", "ada's")]).await.0, StatusCode::OK, "{path}");
    }
}
