//! `builtin:fetch`: one web page, as Markdown.

use std::time::Duration;

use futures::FutureExt;
use reqwest::{Method, Url};
use serde_json::Value;

use crate::action::context::{Context, Failure, FailureKind};
use crate::action::fetch::{Content, Fetch, Private, Response, send, shown};
use crate::llm::Secret;
use crate::tool::{Returns, Tool};
use crate::value::ShapeKind;

use super::{Native, arguments, defaulted, failure, required, text, tool};

/// How long a page may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest page that is turned into Markdown; what is longer is not read by anyone.
const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The most elements that a page may have inside one another: deeper ones would exhaust the stack of the conversion.
const NESTING_MAX: usize = 256;

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool {
        returns: Returns::Markdown,
        ..tool(
            "fetch_page",
            "Reads a web page or text file from the internet with GET. HTML comes as Markdown, anything else as the text it \
         is. Only public addresses are read.",
            vec![
                ("url", required(ShapeKind::String, "Where it is, beginning with http:// or https://")),
                ("raw", defaulted(ShapeKind::Boolean, false, "Gives HTML as it is instead of Markdown")),
            ],
            Native { kind: "fetch", permissions: &["internet"], run: |cx| async move { page(cx).await }.boxed() },
        )
    }]
}

async fn page(cx: &dyn Context) -> Result<Value, Failure> {
    let written = text(arguments(cx), "url").trim().to_owned();
    let raw = arguments(cx).get("raw").and_then(Value::as_bool).unwrap_or_default();
    let url = Url::parse(&written).map_err(|why| failure(format!("`{written}` is not a URL: {why}")))?;
    let place = shown(&url);
    cx.permit("internet", &place)?;
    let permit = |place: &str| cx.permit("internet", place);
    let page = Fetch {
        method: Method::GET,
        url,
        headers: vec![(
            "accept".to_owned(),
            Secret::new("text/html, text/markdown, text/*;q=0.9, */*;q=0.5".to_owned()),
        )],
        content: Content::Nothing,
        timeout: cx.time_left().map_or(TIMEOUT, |left| left.min(TIMEOUT)),
        private: Private::Never,
    };
    read(&send(page, &permit).await?, &place, raw).await
}

pub(crate) async fn read(response: &Response, place: &str, raw: bool) -> Result<Value, Failure> {
    if response.status >= 400 {
        let reason = reqwest::StatusCode::from_u16(response.status).ok().and_then(|status| status.canonical_reason());
        let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        return Err(Failure::new(FailureKind::Http, format!("{place} answered {}{reason}", response.status)));
    }
    let kind = response.headers.get("content-type").map(String::as_str).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !is_text(&kind) {
        return Err(failure(format!("{place} is no text but `{kind}`")));
    }
    if response.text.len() > PAGE_BYTES_MAX {
        let message = format!("{place} has {} bytes, more than the 2 MiB that are read", response.text.len());
        return Err(failure(message));
    }
    let is_html = kind.ends_with("html")
        || kind == "application/xhtml+xml"
        || (kind.is_empty() && looks_like_html(&response.text));
    if raw || !is_html {
        return Ok(Value::from(response.text.clone()));
    }
    let (html, shown) = (response.text.clone(), place.to_owned());
    // Conversion is work of the processor, and its depth is that of the page.
    let converted = tokio::task::spawn_blocking(move || markdown(&html)).await;
    converted.unwrap_or(None).map(Value::from).ok_or_else(|| {
        failure(format!("the HTML of {shown} cannot be turned into Markdown; ask for it with `raw: true`"))
    })
}

/// Whether a kind of content is text; none is taken for text.
fn is_text(kind: &str) -> bool {
    kind.is_empty()
        || kind.starts_with("text/")
        || kind.ends_with("json")
        || kind.ends_with("xml")
        || kind.ends_with("yaml")
        || kind.ends_with("javascript")
        || kind == "application/toml"
}

fn looks_like_html(text: &str) -> bool {
    let start = text.trim_start().get(..64.min(text.trim_start().len())).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// A page as Markdown, without what is not read; `None` when it is too deeply nested.
fn markdown(html: &str) -> Option<String> {
    if depth_estimate(html) > NESTING_MAX {
        return None;
    }
    let converter = htmd::HtmlToMarkdown::builder()
        .skip_tags(vec!["script", "style", "noscript", "svg", "iframe", "template", "head"])
        .build();
    let title = title(html);
    let body = converter.convert(html).ok()?;
    let body = body.trim();
    match title {
        Some(title) if !body.lines().any(|line| line.trim_start_matches('#').trim() == title) => {
            Some(format!("# {title}\n\n{body}"))
        }
        _ => Some(body.to_owned()),
    }
}

/// The text of `<title>`, in one line.
fn title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let plain = htmd::convert(html.get(start..end)?).ok()?;
    let words: Vec<&str> = plain.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// An upper bound on how deep elements stand in each other: tags opened and not closed, void and unclosed ones as well.
fn depth_estimate(html: &str) -> usize {
    const FLAT: &[&str] = &[
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "p",
        "li", "td", "tr", "th", "option", "dt", "dd",
    ];
    let (mut depth, mut deepest) = (0usize, 0usize);
    for (at, _) in html.match_indices('<') {
        let rest = &html[at + 1..];
        let (closes, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let name: String =
            rest.chars().take_while(char::is_ascii_alphanumeric).take(16).collect::<String>().to_ascii_lowercase();
        if name.is_empty() || FLAT.contains(&name.as_str()) {
            continue;
        }
        if closes {
            depth = depth.saturating_sub(1);
        } else {
            depth += 1;
            deepest = deepest.max(depth);
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;

    use super::*;

    fn response(status: u16, kind: &str, text: &str) -> Response {
        let headers = IndexMap::from([("content-type".to_owned(), kind.to_owned())]);
        Response { status, headers, text: text.to_owned() }
    }

    #[tokio::test]
    async fn html_comes_as_markdown_without_scripts() {
        let html = "<html><head><title>On  stars</title><style>p {}</style></head><body><script>alert(1)</script>\
                    <h2>News</h2><p>All is <b>well</b>, see <a href=\"https://example.com/\">here</a>.</p></body></html>";
        let page = read(&response(200, "text/html; charset=utf-8", html), "https://example.com/", false).await.unwrap();
        assert_eq!(page, "# On stars\n\n## News\n\nAll is **well**, see [here](https://example.com/).");
        let raw = read(&response(200, "text/html", html), "https://example.com/", true).await.unwrap();
        assert_eq!(raw, html);
    }

    #[tokio::test]
    async fn other_text_stays_as_it_is_and_other_content_is_refused() {
        let json = read(&response(200, "application/json", "{\"a\": 1}"), "https://x/", false).await.unwrap();
        assert_eq!(json, "{\"a\": 1}");
        let failure = read(&response(200, "image/png", "\u{fffd}PNG"), "https://x/", false).await.unwrap_err();
        assert_eq!(failure.message, "https://x/ is no text but `image/png`");
        let failure = read(&response(404, "text/html", "gone"), "https://x/", false).await.unwrap_err();
        assert_eq!(failure.message, "https://x/ answered 404 Not Found");
    }

    #[tokio::test]
    async fn a_page_that_is_nested_beyond_reason_is_refused_and_not_converted() {
        let deep = "<div>".repeat(200_000);
        let failure = read(&response(200, "text/html", &deep), "https://x/", false).await.unwrap_err();
        assert!(failure.message.contains("raw: true"), "{failure}");
        let long = "<p>line<br>".repeat(20_000);
        assert!(read(&response(200, "text/html", &long), "https://x/", false).await.is_ok());
    }
}
