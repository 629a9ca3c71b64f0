//! A server behind an address: streamable HTTP, with the headers of the project file.

use std::collections::HashMap;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::llm::{Secret, client_builder};

use super::RESULT_BYTES_MAX;

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
