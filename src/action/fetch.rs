//! One HTTP exchange of an author's request: redirects checked one by one, the answer bounded, no secret in a message.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use indexmap::IndexMap;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Url};
use serde_json::Value;

use crate::llm::{Secret, client_builder};

use super::context::{Failure, FailureKind};
use super::shared::lasting;

/// The longest answer that is read (runtime.md 7).
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many redirects are followed.
const REDIRECTS_MAX: usize = 10;

/// A request, rendered.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) content: Content,
    /// For the whole exchange, redirects included.
    pub(crate) timeout: Duration,
    /// Which private addresses it may reach.
    pub(crate) private: Private,
}

/// Whether addresses that are not of the public internet may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Private {
    /// They may, by redirects too.
    Allowed,
    /// The author's own URL may lead there, a redirect from a public address may not.
    Named,
    /// Never: the URL is not the author's word.
    Never,
}

/// What is sent.
#[derive(Debug)]
pub(crate) enum Content {
    Nothing,
    Json(Value),
    Form(Vec<(String, String)>),
    Text(String),
    /// Bytes with their content type.
    Bytes(String, Vec<u8>),
}

/// An answer, of any status.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// By name in lower case; several of one name are joined by commas.
    pub(crate) headers: IndexMap<String, String>,
    pub(crate) text: String,
}

/// The URL for messages: without user, password and query, which may hold secrets.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// Whether a URL, as messages show it, may be asked.
pub(crate) type Permit<'a> = &'a (dyn Fn(&str) -> Result<(), Failure> + Send + Sync);

/// Makes the exchange; where it is redirected to must be permitted as well.
pub(crate) async fn send(fetch: Fetch, permit: Permit<'_>) -> Result<Response, Failure> {
    let (limit, place) = (fetch.timeout, shown(&fetch.url));
    match tokio::time::timeout(limit, follow(fetch, permit)).await {
        Ok(result) => result,
        Err(_) => Err(Failure::new(
            FailureKind::Timeout,
            format!("{place} did not answer within {}; raise `timeout` if that is too short", lasting(limit)),
        )),
    }
}

async fn follow(mut fetch: Fetch, permit: Permit<'_>) -> Result<Response, Failure> {
    refuse_scheme(&fetch.url)?;
    let mut client = match fetch.private {
        Private::Never => public_client(&fetch.url, "is").await?,
        Private::Allowed | Private::Named => client()?,
    };
    for _ in 0..=REDIRECTS_MAX {
        let response = exchange(&client, &fetch).await?;
        let Some(next) = redirect(&response, &fetch.url) else { return read(response, &fetch.url).await };
        let next = next?;
        refuse_scheme(&next)?;
        match fetch.private {
            Private::Allowed => {}
            Private::Named => client = refuse_private(&fetch.url, &next).await?.unwrap_or(client),
            Private::Never => client = public_client(&next, "is redirected to").await?,
        }
        permit(&shown(&next)).map_err(|mut refused| {
            refused.message = format!("{} redirects to {}: {}", shown(&fetch.url), shown(&next), refused.message);
            refused
        })?;
        let status = response.status().as_u16();
        if status == 303 || (status < 303 && fetch.method == Method::POST) {
            fetch.method = Method::GET;
            fetch.content = Content::Nothing;
        }
        if next.origin() != fetch.url.origin() {
            // A header of the author's may hold a key that is meant for the first server alone.
            fetch.headers.retain(|(name, _)| name.eq_ignore_ascii_case("accept"));
        }
        fetch.url = next;
    }
    let message = format!("{} redirects more than {REDIRECTS_MAX} times", shown(&fetch.url));
    Err(Failure::new(FailureKind::Http, message))
}

fn client() -> Result<Client, Failure> {
    static CLIENT: OnceLock<Result<Client, String>> = OnceLock::new();
    let build = || client_builder().build().map_err(|why| why.to_string());
    CLIENT.get_or_init(build).clone().map_err(|why| Failure::new(FailureKind::Http, why))
}

async fn exchange(client: &Client, fetch: &Fetch) -> Result<reqwest::Response, Failure> {
    let mut headers = HeaderMap::new();
    for (name, value) in &fetch.headers {
        let wrong = || {
            Failure::new(
                FailureKind::Http,
                format!("the value of the header `{name}` has a character that no header may have"),
            )
        };
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.as_str()).map_err(|_| wrong())?, value);
    }
    let request = client.request(fetch.method.clone(), fetch.url.clone());
    let request = match &fetch.content {
        Content::Nothing => request,
        Content::Json(value) => request.json(value),
        Content::Form(pairs) => request.form(pairs),
        Content::Text(text) => request.body(text.clone()),
        Content::Bytes(kind, bytes) => request.header(CONTENT_TYPE, kind).body(bytes.clone()),
    };
    request.headers(headers).send().await.map_err(|why| failed(&why, &fetch.url))
}

/// The failure of a broken exchange: the innermost cause says most.
fn failed(error: &reqwest::Error, url: &Url) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let what = if error.is_connect() { "cannot be reached" } else { "did not answer" };
    Failure::new(FailureKind::Http, format!("{} {what}: {cause}", shown(url)))
}

/// Where the answer redirects to.
fn redirect(response: &reqwest::Response, from: &Url) -> Option<Result<Url, Failure>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    let next = location.to_str().ok().and_then(|location| from.join(location).ok());
    Some(next.ok_or_else(|| {
        Failure::new(FailureKind::Http, format!("{} redirects to something that is not a URL", shown(from)))
    }))
}

fn refuse_scheme(url: &Url) -> Result<(), Failure> {
    if matches!(url.scheme(), "http" | "https") && url.host_str().is_some() {
        return Ok(());
    }
    let message = format!("{} has the scheme `{}`; expected `https` or `http`", shown(url), url.scheme());
    Err(Failure::new(FailureKind::Http, message))
}

/// Refuses a redirect from a public to a private address. Gives a client that talks to the very addresses that were
/// looked at, so that a second answer of the name service changes nothing.
async fn refuse_private(from: &Url, to: &Url) -> Result<Option<Client>, Failure> {
    if addresses(from).await?.iter().any(|address| is_private(address.ip())) {
        return Ok(None);
    }
    let addresses = addresses(to).await?;
    if let Some(private) = addresses.iter().find(|address| is_private(address.ip())) {
        return Err(Failure::new(
            FailureKind::Http,
            format!(
                "{} redirects to {}, which is the private address {}; set `allow_private: true` if that is meant",
                shown(from),
                shown(to),
                private.ip()
            ),
        ));
    }
    pinned(to, &addresses).map(Some)
}

/// A client for a public address alone.
async fn public_client(url: &Url, how: &str) -> Result<Client, Failure> {
    let addresses = addresses(url).await?;
    if let Some(private) = addresses.iter().find(|address| is_private(address.ip())) {
        let message = format!(
            "{} {how} the private address {}; only public addresses are read. For one of your own, declare a tool \
             with an `http` body",
            shown(url),
            private.ip()
        );
        return Err(Failure::new(FailureKind::Http, message));
    }
    pinned(url, &addresses)
}

/// A client that talks to the very addresses that were looked at.
fn pinned(url: &Url, addresses: &[SocketAddr]) -> Result<Client, Failure> {
    let host = url.host_str().unwrap_or_default();
    let client = client_builder().resolve_to_addrs(host, addresses).build();
    client.map_err(|why| Failure::new(FailureKind::Http, why.to_string()))
}

async fn addresses(url: &Url) -> Result<Vec<SocketAddr>, Failure> {
    let port = url.port_or_known_default().unwrap_or(443);
    let literal = url.host_str().map(|host| host.trim_matches(['[', ']'])).and_then(|host| host.parse::<IpAddr>().ok());
    if let Some(ip) = literal {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let host = url.host_str().unwrap_or_default();
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|why| Failure::new(FailureKind::Http, format!("`{host}` cannot be resolved: {why}")))?;
    Ok(found.collect())
}

/// True for addresses that are not of the public internet: loopback, private, link-local, shared, multicast, reserved.
pub(crate) fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.is_multicast()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && (b == 18 || b == 19))
        }
        IpAddr::V6(v6) => {
            let mapped = v6.to_ipv4_mapped().or_else(|| v6.to_ipv4().filter(|_| v6.segments()[..6] == [0; 6]));
            if let Some(v4) = mapped.filter(|_| !v6.is_loopback() && !v6.is_unspecified()) {
                return is_private(IpAddr::V4(v4));
            }
            let [first, second, ..] = v6.segments();
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || (first & 0xfe00) == 0xfc00
                || (first & 0xffc0) == 0xfe80
                || (first == 0x64 && second == 0xff9b)
        }
    }
}

/// Reads an answer of at most 16 MiB, after decompression.
async fn read(mut response: reqwest::Response, url: &Url) -> Result<Response, Failure> {
    let status = response.status().as_u16();
    let mut headers: IndexMap<String, String> = IndexMap::new();
    for (name, value) in response.headers() {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.entry(name.as_str().to_owned()).and_modify(|all| *all = format!("{all}, {text}")).or_insert(text);
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|why| failed(&why, url))? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            let message = format!("the answer of {} is larger than the 16 MiB that are read", shown(url));
            return Err(Failure::new(FailureKind::Http, message));
        }
        bytes.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned());
    Ok(Response { status, headers, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_all_their_spellings() {
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "172.16.9.9",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::a00:1",
        ];
        for ip in private {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "172.32.0.1", "100.128.0.1"] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }

    #[tokio::test]
    async fn a_redirect_from_public_to_private_is_refused() {
        let public = Url::parse("http://93.184.216.34/x?key=secret").unwrap();
        let private = Url::parse("http://169.254.169.254/latest").unwrap();
        let failure = refuse_private(&public, &private).await.unwrap_err();
        assert!(failure.message.contains("169.254.169.254") && failure.message.contains("allow_private"), "{failure}");
        assert!(!failure.message.contains("secret"));
        assert!(refuse_private(&private, &private).await.unwrap().is_none());
        let other = Url::parse("http://1.1.1.1/").unwrap();
        assert!(refuse_private(&public, &other).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_url_that_is_not_the_authors_never_leads_to_a_private_address() {
        for url in ["http://127.0.0.1:1/x", "http://localhost:1/", "http://[::1]/", "http://2130706433/"] {
            let request = Fetch {
                method: Method::GET,
                url: Url::parse(url).unwrap(),
                headers: Vec::new(),
                content: Content::Nothing,
                timeout: Duration::from_secs(5),
                private: Private::Never,
            };
            let failure = send(request, &|_| Ok(())).await.unwrap_err();
            assert!(failure.message.contains("private address"), "{failure}");
        }
    }

    #[test]
    fn shown_urls_hold_no_secrets() {
        let url = Url::parse("https://user:pass@host/path?key=abc#frag").unwrap();
        assert_eq!(shown(&url), "https://host/path");
    }
}
