//! HTTP to providers: one client for each, made at its first call; failures in words without secrets; bounded bodies.

use std::error::Error as _;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, Response, StatusCode, Url};
use serde_json::Value;

use super::error::{LlmError, LlmErrorKind};
use super::parse::REPLY_BYTES_MAX;
use super::provider::ProviderConfig;
use super::secret::Secret;
use super::sse::{SseDecoder, SseEvent};

const CALL_TIMEOUT: Duration = Duration::from_secs(600);
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a list of models may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a provider's own words an error message shows.
const WORDS_CHARS_MAX: usize = 400;

/// The headers that carry a key, at one provider or another.
const KEY_HEADERS: &[&str] = &["api-key", "authorization", "x-api-key", "x-goog-api-key"];

/// Begins a client: the only place that does, because a client cannot be made before the TLS provider is installed.
///
/// Redirects are not followed. Certificates are checked against the system's roots, which are read when it is built.
pub fn client_builder() -> ClientBuilder {
    // An error means that the provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("agent-run/", env!("CARGO_PKG_VERSION")))
}

/// The way to one provider.
#[derive(Debug)]
pub(crate) struct Http {
    /// The provider's configured name, for messages.
    name: String,
    base: Url,
    headers: HeaderMap,
    /// Where a key can be set, when none is; `None` when there is one.
    key_missing: Option<&'static str>,
    /// Whether the address is the kind's own, which answers nobody without a key.
    default_base: bool,
    /// What must not show in any message.
    secrets: Vec<Secret>,
    timeout: Duration,
    read_timeout: Duration,
    client: OnceLock<Result<Client, String>>,
}

impl Http {
    /// Prepares the way without touching the network. `own` are the provider kind's headers, overridden by the
    /// config's; `key_variable` is the environment variable that messages advise to set.
    pub(crate) fn new(
        name: &str,
        default_base: &str,
        key_variable: &'static str,
        own: Vec<(&'static str, String)>,
        config: &ProviderConfig,
    ) -> Result<Http, String> {
        let written = config.base_url.as_deref().unwrap_or(default_base).trim();
        let base = Url::parse(written.trim_end_matches('/'))
            .map_err(|error| format!("`base_url` of provider `{name}` is not a URL: {error}"))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(format!(
                "`base_url` of provider `{name}` starts with `{}:`; expected `https:` or `http:`",
                base.scheme()
            ));
        }
        let mut headers = HeaderMap::new();
        let configured = config.headers.iter().map(|(key, value)| (key.as_str(), value.expose().to_string()));
        for (key, value) in own.into_iter().chain(configured) {
            let header = HeaderName::try_from(key)
                .map_err(|_| format!("header `{key}` of provider `{name}` is not a valid header name"))?;
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| format!("the value of header `{key}` (or the key) of provider `{name}` has a character that no header may have"))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let mut secrets: Vec<Secret> = config.api_key.iter().chain(config.headers.values()).cloned().collect();
        secrets.extend(base.password().map(Secret::new));
        let has_key = config.api_key.is_some() || KEY_HEADERS.iter().any(|key| headers.contains_key(*key));
        Ok(Http {
            name: name.to_string(),
            base,
            headers,
            key_missing: (!has_key && !key_variable.is_empty()).then_some(key_variable),
            default_base: config.base_url.is_none(),
            secrets,
            timeout: config.timeout.unwrap_or(CALL_TIMEOUT),
            read_timeout: config.read_timeout.unwrap_or(READ_TIMEOUT),
            client: OnceLock::new(),
        })
    }

    /// The base URL.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Hides further secrets in messages.
    pub(crate) fn hiding<'s>(mut self, secrets: impl IntoIterator<Item = &'s Secret>) -> Http {
        self.secrets.extend(secrets.into_iter().cloned());
        self
    }

    /// Whether the base URL's path ends with `segment`.
    pub(crate) fn base_ends_with(&self, segment: &str) -> bool {
        self.base.path().ends_with(segment)
    }

    /// An error of this provider: `text` follows its name. Redacted.
    pub(crate) fn error(&self, kind: LlmErrorKind, text: &str) -> LlmError {
        LlmError::new(kind, self.redact(&format!("provider `{}` {text}", self.name)))
    }

    /// Runs a whole call under its time limit.
    pub(crate) async fn within<T>(
        &self,
        timeout: Option<Duration>,
        call: impl Future<Output = Result<T, LlmError>>,
    ) -> Result<T, LlmError> {
        let limit = timeout.unwrap_or(self.timeout);
        match tokio::time::timeout(limit, call).await {
            Ok(result) => result,
            Err(_) => {
                Err(self.error(LlmErrorKind::Timeout, &format!("did not finish its answer within {}", in_words(limit))))
            }
        }
    }

    /// Posts `body` and returns the answer when its status is a success.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Answer<'_>, LlmError> {
        let bytes = serde_json::to_vec(body).unwrap_or_default();
        self.send(Method::POST, &self.url(path), HeaderMap::new(), Some(bytes)).await
    }

    /// Reads what is at `path` as JSON.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, LlmError> {
        let url = self.url(path);
        let asked = async { self.send(Method::GET, &url, HeaderMap::new(), None).await?.json().await };
        self.within(Some(LIST_TIMEOUT), asked).await
    }

    /// The address of `path`, which may have a query, under the base URL.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        if query.is_some() {
            url.set_query(query);
        }
        url
    }

    /// Sends a request with further headers and returns the answer when its status is a success; a body is JSON.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        further: HeaderMap,
        body: Option<Vec<u8>>,
    ) -> Result<Answer<'_>, LlmError> {
        if let Some(variable) = self.key_missing.filter(|_| self.default_base) {
            let advice = format!("has no key: set `{variable}`, or `base_url` to a server that needs none");
            return Err(self.error(LlmErrorKind::Auth, &advice));
        }
        let client = match self.client.get_or_init(|| self.build_client()) {
            Ok(client) => client,
            Err(message) => return Err(self.error(LlmErrorKind::Protocol, message)),
        };
        let mut request = client.request(method, url.clone()).headers(self.headers.clone()).headers(further);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let response = request.send().await;
        let answer = Answer { http: self, response: response.map_err(|error| self.transport(&error))? };
        if answer.response.status().is_success() { Ok(answer) } else { Err(answer.into_error().await) }
    }

    fn build_client(&self) -> Result<Client, String> {
        let mut builder = client_builder().read_timeout(self.read_timeout);
        if self.base.scheme() == "http" {
            // No certificate will be checked: do not read the system's.
            builder = builder.tls_certs_only(std::iter::empty());
        }
        if is_loopback(&self.base) {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| {
            format!(
                "cannot be reached over TLS: {} (are the system's certificates, `ca-certificates`, installed?)",
                causes(&error)
            )
        })
    }

    /// Words for a request that brought no answer, or a broken one.
    fn transport(&self, error: &reqwest::Error) -> LlmError {
        let place = shown(&self.base);
        if error.is_connect() {
            let kind = if error.is_timeout() { LlmErrorKind::Timeout } else { LlmErrorKind::Transport };
            return self.error(kind, &format!("cannot be reached at {place}: {}", causes(error)));
        }
        if error.is_timeout() {
            return self.error(LlmErrorKind::Timeout, &format!("sent nothing for {}", in_words(self.read_timeout)));
        }
        if error.is_decode() && !has_io_cause(error) {
            return self.error(
                LlmErrorKind::Protocol,
                &format!("answered with a body that cannot be decoded: {}", causes(error)),
            );
        }
        self.error(LlmErrorKind::Transport, &format!("broke the connection at {place}: {}", causes(error)))
    }

    fn status_in_words(&self, status: StatusCode) -> String {
        let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
        let hint = match (status.as_u16(), self.key_missing) {
            (401 | 403, Some(variable)) => format!(" (no key is set: `{variable}`, or `api_key` under `providers`)"),
            (401, None) => " (is the key right?)".to_string(),
            (404, _) => " (is the model's name right, and `base_url`?)".to_string(),
            _ => String::new(),
        };
        format!("{}{reason}{hint}", status.as_u16())
    }

    fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_string(), |text, secret| {
            let text = secret.redact(&text);
            // `Bearer x` is configured, and a server may echo `x` alone.
            match secret.expose().split_once(' ') {
                Some((_, token)) => Secret::new(token).redact(&text),
                None => text,
            }
        })
    }
}

/// A provider's successful answer, its body unread.
pub(crate) struct Answer<'a> {
    http: &'a Http,
    response: Response,
}

impl Answer<'_> {
    /// Whether the body is a stream of events.
    pub(crate) fn is_event_stream(&self) -> bool {
        self.is("text/event-stream")
    }

    /// Whether the body is of this media type.
    pub(crate) fn is(&self, media_type: &str) -> bool {
        let content_type = self.response.headers().get(CONTENT_TYPE);
        content_type.and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with(media_type))
    }

    /// Reads the whole body as JSON.
    pub(crate) async fn json(mut self) -> Result<Value, LlmError> {
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| {
            let words = excerpt(&String::from_utf8_lossy(&body));
            self.http
                .error(LlmErrorKind::Protocol, &format!("answered with a body that is not JSON ({error}): {words}"))
        })
    }

    /// Reads the stream, handing each event to `each` until it says `true` (done) or the stream ends.
    pub(crate) async fn events(self, mut each: impl FnMut(SseEvent) -> Result<bool, LlmError>) -> Result<(), LlmError> {
        let http = self.http;
        let mut decoder = SseDecoder::default();
        let mut done = false;
        self.pieces(|bytes| {
            for event in decoder.feed(bytes).map_err(|_| too_large(http))? {
                done = each(event)?;
                if done {
                    break;
                }
            }
            Ok(done)
        })
        .await?;
        if done { Ok(()) } else { decoder.finish().map_or(Ok(false), each).map(|_| ()) }
    }

    /// Reads the stream of JSON lines, handing each to `each` until it says `true` (done) or the stream ends.
    pub(crate) async fn lines(self, mut each: impl FnMut(&str) -> Result<bool, LlmError>) -> Result<(), LlmError> {
        let http = self.http;
        let mut line: Vec<u8> = Vec::new();
        let mut done = false;
        self.pieces(|bytes| {
            let mut rest = bytes;
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&rest[..end]);
                rest = &rest[end + 1..];
                let text = String::from_utf8_lossy(&line).into_owned();
                line.clear();
                done = !text.trim().is_empty() && each(&text)?;
                if done {
                    return Ok(true);
                }
            }
            line.extend_from_slice(rest);
            if line.len() > REPLY_BYTES_MAX { Err(too_large(http)) } else { Ok(false) }
        })
        .await?;
        let text = String::from_utf8_lossy(&line).into_owned();
        if done || text.trim().is_empty() { Ok(()) } else { each(&text).map(|_| ()) }
    }

    /// Reads the body piece by piece, as it comes, until `each` says `true` (done) or it ends.
    pub(crate) async fn pieces(
        mut self,
        mut each: impl FnMut(&[u8]) -> Result<bool, LlmError>,
    ) -> Result<(), LlmError> {
        while let Some(bytes) = self.chunk().await? {
            if each(&bytes)? {
                break;
            }
        }
        Ok(())
    }

    async fn bytes(&mut self) -> Result<Vec<u8>, LlmError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            if body.len() + bytes.len() > REPLY_BYTES_MAX {
                return Err(self.too_large());
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]> + use<>>, LlmError> {
        self.response.chunk().await.map_err(|error| self.http.transport(&error))
    }

    fn too_large(&self) -> LlmError {
        too_large(self.http)
    }

    /// Words for an answer whose status is no success.
    async fn into_error(mut self) -> LlmError {
        let status = self.response.status();
        let asked = retry_after(self.response.headers());
        let location =
            self.response.headers().get("location").and_then(|value| value.to_str().ok().map(str::to_string));
        let body = self.bytes().await.unwrap_or_default();
        let words = match location {
            Some(location) if status.is_redirection() => format!("moved to {location}; set `base_url` to it"),
            _ => words_of(&body),
        };
        let retry_after = asked.or_else(|| retry_delay(&body));
        let kind = LlmError::kind_of_status(status.as_u16());
        let text = format!(
            "answered {}{}{words}",
            self.http.status_in_words(status),
            if words.is_empty() { "" } else { ": " }
        );
        LlmError { retry_after, ..self.http.error(kind, &text) }
    }
}

/// The error for a reply over the limit.
pub(crate) fn too_large(http: &Http) -> LlmError {
    http.error(LlmErrorKind::TooLarge, "sent a reply over 16 MiB")
}

/// The provider's own words in an error's body: the usual JSON shapes, else the text's beginning.
pub(crate) fn words_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let Ok(json) = serde_json::from_slice::<Value>(body) else { return excerpt(&text) };
    let places = ["/error/message", "/error", "/message", "/detail", "/0/error/message"];
    let words = places.iter().find_map(|place| json.pointer(place).and_then(Value::as_str));
    excerpt(words.unwrap_or(&text))
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Reads `retry-after-ms`, or `Retry-After` in seconds or as a date, which the answer's own `Date` makes a wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|value| value.parse::<f64>().ok());
    if let Some(milliseconds) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |name: &str| text(name).and_then(|value| jiff::fmt::rfc2822::parse(value).ok());
    let wait = date("retry-after")?.timestamp().duration_since(date("date")?.timestamp());
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

/// Reads the wait that Google's services put into the body: `{"error": {"details": [{"retryDelay": "37s"}]}}`.
fn retry_delay(body: &[u8]) -> Option<Duration> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// The causes of an error from the outside in, without URLs.
fn causes(error: &reqwest::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if texts.last().is_none_or(|last| !last.contains(&text)) {
            texts.push(text);
        }
        cause = inner.source();
    }
    if texts.is_empty() { "no further reason was given".to_string() } else { texts.join(": ") }
}

fn has_io_cause(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() != std::io::ErrorKind::InvalidData) {
            return true;
        }
        cause = inner.source();
    }
    false
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host == "[::1]" || host.starts_with("127.")
}

/// The URL without user, password and query.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

fn in_words(duration: Duration) -> String {
    if duration.as_millis().is_multiple_of(1000) {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn retry_after_is_seconds_milliseconds_or_a_date() {
        assert_eq!(retry_after(&headers(&[("retry-after", "1.5")])), Some(Duration::from_millis(1500)));
        assert_eq!(
            retry_after(&headers(&[("retry-after-ms", "20"), ("retry-after", "1")])),
            Some(Duration::from_millis(20))
        );
        let dates =
            headers(&[("date", "Wed, 21 Oct 2015 07:28:00 GMT"), ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")]);
        assert_eq!(retry_after(&dates), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(&headers(&[("retry-after", "soon")])), None);
        assert_eq!(retry_after(&headers(&[("retry-after", "-1")])), None);
    }

    #[test]
    fn a_wrong_setting_is_refused_without_showing_the_secret() {
        let config = |base: &str, key: &str| ProviderConfig {
            base_url: Some(base.into()),
            api_key: Some(Secret::new(key)),
            ..ProviderConfig::default()
        };
        let error = Http::new("p", "", "P_KEY", vec![], &config("ftp://x", "k")).unwrap_err();
        assert_eq!(error, "`base_url` of provider `p` starts with `ftp:`; expected `https:` or `http:`");
        assert!(Http::new("p", "", "P_KEY", vec![], &config("nowhere", "k")).unwrap_err().contains("is not a URL"));
        let broken =
            Http::new("p", "http://x", "P_KEY", vec![("authorization", "sk-1\u{7}2".into())], &config("http://x", "k"))
                .unwrap_err();
        assert!(!broken.contains("sk-1"), "{broken}");
    }

    #[test]
    fn a_client_can_be_built_for_https() {
        // The system's certificates may be missing; then the message says what to do.
        let http = Http::new("p", "https://api.example.com", "P_KEY", vec![], &ProviderConfig::default()).unwrap();
        if let Err(message) = http.build_client() {
            assert!(message.contains("ca-certificates"), "{message}");
        }
    }

    #[tokio::test]
    async fn a_missing_key_is_told_before_anything_is_sent() {
        let http = Http::new("p", "https://api.invalid", "P_KEY", vec![], &ProviderConfig::default()).unwrap();
        let error = http.post("/x", &Value::Null).await.err().unwrap();
        assert_eq!(error.kind, LlmErrorKind::Auth);
        assert_eq!(error.message, "provider `p` has no key: set `P_KEY`, or `base_url` to a server that needs none");
    }

    #[test]
    fn a_token_inside_a_header_is_redacted_alone_too() {
        let headers = [("authorization".to_string(), Secret::new("Bearer tok-123456"))].into_iter().collect();
        let config = ProviderConfig { headers, ..ProviderConfig::default() };
        let http = Http::new("p", "https://x", "P_KEY", vec![], &config).unwrap();
        assert_eq!(http.error(LlmErrorKind::Auth, "said tok-123456").message, "provider `p` said [redacted]");
        assert_eq!(http.key_missing, None);
    }

    #[test]
    fn words_come_from_the_usual_places_and_are_short() {
        assert_eq!(words_of(br#"{"error": {"message": "bad\n model"}}"#), "bad model");
        assert_eq!(words_of(br#"{"error": "bad"}"#), "bad");
        assert_eq!(words_of(br#"{"detail": "bad"}"#), "bad");
        assert_eq!(words_of(b"<html>"), "<html>");
        assert_eq!(words_of("ä".repeat(1000).as_bytes()).chars().count(), WORDS_CHARS_MAX + 1);
    }
}
