//! Requests to the proxy.
//!
//! What is passed on is written anew from what was understood, so that nobody can mean one request to the proxy and
//! another to the server behind it.

use crate::sandbox::hosts::Target;

/// A request that can be passed on if its target is allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// For bytes in both directions, of TLS as a rule.
    Tunnel(Target),
    /// One exchange of plain HTTP.
    Plain {
        target: Target,
        /// For the server.
        head: Vec<u8>,
        body: Body,
    },
}

/// How long the body of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunked,
}

/// Headers between the client and the proxy, and those that are written anew.
const OWN: [&[u8]; 11] = [
    b"connection",
    b"content-length",
    b"host",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

impl Request {
    /// The request with this head, whose lines end in CR LF. The empty line at the end is not among them.
    pub(super) fn parse(lines: &[Vec<u8>]) -> Result<Self, &'static str> {
        let mut lines = lines.iter().map(|line| line.strip_suffix(b"\r\n").ok_or("a line does not end in CR LF"));
        let first = lines.next().ok_or("the request is empty")??;
        let graphic = |text: &&str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        let first = std::str::from_utf8(first).ok().filter(graphic).ok_or("the request line is not plain text")?;
        let mut words = first.split(' ');
        let (Some(method), Some(asked), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("the request line is not a method, a target and a version");
        };
        if !token(method.as_bytes()) || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err("the request is not HTTP/1.1 or 1.0");
        }
        if method == "CONNECT" {
            return Target::parse(asked, None).map(Self::Tunnel);
        }
        let (target, path) = split_address(asked)?;
        let (headers, body) = pass_on(lines)?;
        let mut head = format!("{method} {path} {version}\r\nHost: {}\r\n", authority(&target)).into_bytes();
        head.extend(headers);
        match body {
            Some(Body::Chunked) if version == "HTTP/1.0" => return Err("HTTP/1.0 has no chunks"),
            Some(Body::Chunked) => head.extend(b"Transfer-Encoding: chunked\r\n"),
            Some(Body::Length(length)) => head.extend(format!("Content-Length: {length}\r\n").into_bytes()),
            None => {}
        }
        head.extend(b"Connection: close\r\n\r\n");
        Ok(Self::Plain { target, head, body: body.unwrap_or(Body::Length(0)) })
    }

    pub(super) fn target(&self) -> &Target {
        match self {
            Self::Tunnel(target) | Self::Plain { target, .. } => target,
        }
    }
}

/// `http://host:port/path` as its target and the path.
fn split_address(asked: &str) -> Result<(Target, String), &'static str> {
    let (scheme, rest) = asked.split_once("://").ok_or("this is a proxy: ask for a whole http:// address")?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err("plain requests are for http:// addresses; use CONNECT for others");
    }
    let (end, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if end.contains('@') {
        return Err("names and passwords do not belong in the address");
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((Target::parse(end, Some(80))?, format!("{slash}{path}")))
}

fn authority(target: &Target) -> String {
    if target.port == 80 { target.host.to_string() } else { target.to_string() }
}

/// The headers for the server, each with its line end, and what they say about the body.
fn pass_on<'a>(
    lines: impl Iterator<Item = Result<&'a [u8], &'static str>>,
) -> Result<(Vec<u8>, Option<Body>), &'static str> {
    let (mut headers, mut dropped, mut body) = (Vec::new(), Vec::new(), None);
    for line in lines {
        let line = line?;
        let colon = line.iter().position(|byte| *byte == b':').ok_or("a header has no colon")?;
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if !token(name) {
            return Err("a header's name is not one");
        }
        if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err("a header holds control characters");
        }
        let name = name.to_ascii_lowercase();
        let said = match name.as_slice() {
            b"content-length" => Some(Body::Length(length(value)?)),
            b"transfer-encoding" if value.eq_ignore_ascii_case(b"chunked") => Some(Body::Chunked),
            b"transfer-encoding" => return Err("the only transfer encoding is `chunked`"),
            b"connection" => {
                dropped.extend(value.split(|byte| *byte == b',').map(|name| name.trim_ascii().to_ascii_lowercase()));
                None
            }
            _ => None,
        };
        if said.is_some() && body.is_some() {
            return Err("the length of the body is given twice");
        }
        body = body.or(said);
        if !OWN.contains(&name.as_slice()) {
            headers.push((name, line));
        }
    }
    headers.retain(|(name, _)| !dropped.contains(name));
    let headers = headers.into_iter().flat_map(|(_, line)| [line, b"\r\n"].concat()).collect();
    Ok((headers, body))
}

fn length(value: &[u8]) -> Result<u64, &'static str> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or("the length of the body is not a number")
}

/// The size in the line before a chunk. Extensions mean nothing here.
pub(super) fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.strip_suffix(b"\r\n")?.split(|byte| *byte == b';').next()?.trim_ascii();
    let digits = std::str::from_utf8(size).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn token(text: &[u8]) -> bool {
    let special = b"!#$%&'*+-.^_`|~";
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || special.contains(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Request, &'static str> {
        Request::parse(&text.split_inclusive('\n').map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap()
    }

    #[test]
    fn a_plain_request_is_written_anew_for_its_server() {
        let asked = "POST http://Example.org:8080?q HTTP/1.1\r\nHost: other.org\r\nAccept: */*\r\nX-Hop: 1\r\n\
                     Connection: keep-alive, x-hop, content-length\r\nProxy-Authorization: secret\r\ncontent-length: 3\r\n";
        let Ok(Request::Plain { target: to, head, body }) = parse(asked) else { panic!() };
        assert_eq!((to, body), (target("example.org:8080"), Body::Length(3)));
        let head = String::from_utf8(head).unwrap();
        let wanted = "POST /?q HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
        assert_eq!(head, wanted);
    }

    #[test]
    fn a_tunnel_needs_host_and_port() {
        assert_eq!(
            parse("CONNECT EXAMPLE.org.:443 HTTP/1.1\r\nHost: x\r\n"),
            Ok(Request::Tunnel(target("example.org:443")))
        );
        assert_eq!(parse("CONNECT [::1]:8443 HTTP/1.1\r\n"), Ok(Request::Tunnel(target("[::1]:8443"))));
        for asked in ["example.org", "a@example.org:443", "http://example.org:443", "example.org:0", "::1:443", ":443"]
        {
            assert!(parse(&format!("CONNECT {asked} HTTP/1.1\r\n")).is_err(), "{asked}");
        }
    }

    #[test]
    fn requests_with_two_meanings_are_refused() {
        for text in [
            "GET / HTTP/1.1\r\nHost: example.org\r\n",
            "GET https://example.org/ HTTP/1.1\r\n",
            "GET http://example.org@other.org/ HTTP/1.1\r\n",
            "GET http://example.org/ HTTP/2\r\n",
            "GET http://example.org/ x HTTP/1.1\r\n",
            "GET http://example.org/\tx HTTP/1.1\r\n",
            "GET http://example.org/ HTTP/1.1\n",
            "GET http://127.1/ HTTP/1.1\r\n",
            "GET http://0x7f000001/ HTTP/1.1\r\n",
            "GET http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "GET http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
            "GET http://example.org/ HTTP/1.1\r\nContent-Length: +1\r\n",
            "GET http://example.org/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n",
            "GET http://example.org/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
            "GET http://example.org/ HTTP/1.1\r\nContent-Length : 1\r\n",
            "GET http://example.org/ HTTP/1.1\r\nA: b\r\n folded: c\r\n",
            "GET http://example.org/ HTTP/1.1\r\nA: b\rC: d\r\n",
            "GET http://example.org/ HTTP/1.1\r\nA: b\0\r\n",
            "",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_of_chunks_are_hexadecimal() {
        assert_eq!(chunk_size(b"1f;name=value\r\n"), Some(31));
        for line in [&b"\r\n"[..], b"-1\r\n", b"0x1\r\n", b"1\n", b"fffffffffffffffff\r\n"] {
            assert_eq!(chunk_size(line), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..5)) {
            let _ = Request::parse(&lines);
        }

        #[test]
        fn nothing_that_is_passed_on_makes_two_requests(value in "[ -~\r\n\t]{0,30}", path in "[ -~\r\n]{0,20}") {
            let text = format!("GET http://example.org/{path} HTTP/1.1\r\nX: {value}\r\n");
            if let Ok(Request::Plain { head, .. }) = parse(&text) {
                let head = String::from_utf8(head).unwrap();
                prop_assert_eq!(head.find("\r\n\r\n"), Some(head.len() - 4));
                prop_assert_eq!(head.matches("Connection: close\r\n").count(), 1);
            }
        }
    }
}
