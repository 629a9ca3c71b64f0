//! A server behind an address: streamable HTTP, with the headers of the project file.

use std::collections::HashMap;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::llm::{Secret, client_builder};

use super::RESULT_BYTES_MAX;

/// What an answer's words mean for the author, where they tell of a missing or a wrong sign-in.
pub(super) fn explained(words: String, headers: &[(String, Secret)]) -> String {
    let says = |of: &[&str]| of.iter().any(|of| words.contains(of));
    let sent = headers.iter().map(|(name, _)| name.as_str());
    let key = sent.clone().find(|name| name.eq_ignore_ascii_case("authorization")).or_else(|| sent.clone().next());
    if says(&["401", "Auth required"]) {
        return match key {
            None => "it answers 401, which is that it wants a sign-in, and no `Authorization` is sent; give it a token with \
                     `headers: {Authorization: \"Bearer ${env:TOKEN}\"}`"
                .to_owned(),
            Some(key) => format!(
                "it answers 401: it does not take what is sent as `{key}`; look whether the token is whole, of the right \
                 kind (`Bearer …`) and still valid"
            ),
        };
    }
    if says(&["403", "Insufficient scope"]) {
        let sent = key.map_or("no header that signs in is sent".to_owned(), |key| {
            format!("what is sent as `{key}` has not the rights")
        });
        return format!("it answers 403, which is that it is forbidden: {sent}");
    }
    words
}

/// The way to a server; nothing is sent yet. Redirects are not followed.
pub(super) fn transport(
    url: &Secret,
    headers: &[(String, Secret)],
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let address = reqwest::Url::parse(url.expose()).map_err(|why| format!("its `url` is not an address: {why}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(format!("its `url` starts with `{}:`; expected `https:` or `http:`", address.scheme()));
    }
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let header = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("`{name}` of its `headers` is not a valid name of a header"))?;
        let mut value = HeaderValue::try_from(value.expose())
            .map_err(|_| format!("the value of its header `{name}` has a character that no header may have"))?;
        value.set_sensitive(true);
        sent.insert(header, value);
    }
    let client = client_builder().build().map_err(|why| why.to_string())?;
    let config = StreamableHttpClientTransportConfig::with_uri(address.as_str())
        .custom_headers(sent)
        .max_sse_event_size(RESULT_BYTES_MAX);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
