//! `http`: one request; a part of the answer becomes the output.

use std::sync::Arc;
use std::time::Duration as StdDuration;

use futures::{FutureExt, TryFutureExt};
use reqwest::Method as WireMethod;
use serde_json::{Value, json};

use crate::decl::{Data as WrittenData, Defs, Duration, Expr, Read, ReadCx, Table, Template};
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::prompt::{Data, ExprId, TemplateId, Ty};
use crate::source::{Node, Spanned};
use crate::{record, words};

use super::context::{Context, Failure, FailureKind};
use super::fetch::{self, Content, Fetch, Private, Response};
use super::lower::LowerCx;
use super::shared::{
    eval_with, excerpt, lower_table, redacted, redacted_failure, refuse_two, render, render_data, render_table, stub,
};
use super::{ActionKind, Body, Needs, Written};

/// How long a request may take when nothing is said.
const TIMEOUT: StdDuration = StdDuration::from_secs(60);
/// How much of an error answer is shown, in characters.
const EXCERPT_CHARS: usize = 400;

/// The kind `http`.
pub(super) struct Http;

impl ActionKind for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn summary(&self) -> &'static str {
        "Makes an HTTP request; its JSON answer, or what `select` takes from it, becomes the output"
    }

    fn example(&self) -> &'static str {
        "http: {url: \"https://stories.example/v1/{{ user_input.content | urlencode }}\", select: response.text}"
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        HttpDecl::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        HttpDecl::read(node, cx).map(|http| Arc::new(http) as Arc<dyn Written>)
    }
}

words! {
    /// HTTP methods.
    pub(super) enum Method = "an HTTP method" {
        /// Reads.
        Get = "GET",
        /// Sends something new.
        Post = "POST",
        /// Replaces.
        Put = "PUT",
        /// Changes a part.
        Patch = "PATCH",
        /// Removes.
        Delete = "DELETE",
        /// Reads the headers alone.
        Head = "HEAD",
        /// Asks what is allowed.
        Options = "OPTIONS",
    }
}

record! {
    /// An HTTP request.
    pub(super) struct HttpDecl = "a request" [short: url] {
        /// `GET`, or `POST` when something is sent.
        opt method: Method,
        /// Where to.
        req url: Template,
        /// Parameters of the query; null leaves one out, a list repeats it.
        def query: Table<WrittenData> = Table::default(),
        /// Headers; `${env:NAME}` is allowed here.
        def headers: Table<Template> = Table::default(),
        /// Sent as JSON.
        opt json: WrittenData,
        /// Sent as a form.
        opt form: Table<WrittenData>,
        /// Sent as it is.
        opt body: Template,
        /// How long it may take.
        opt timeout: Duration,
        /// Redirects from a public to a private address are followed.
        def allow_private: bool = false,
        /// What of `response` (`status headers text json`) is the result; without it `response.json`.
        opt select: Expr,
    }
}

impl Written for HttpDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let form_span = self.form.as_ref().map(|form| form.entries.first().map_or(self.place.0, |(name, _)| name.span));
        let sent = [
            ("json", self.json.as_ref().map(|data| data.0.span)),
            ("form", form_span),
            ("body", self.body.as_ref().map(|body| body.0.span)),
        ];
        let is_ambiguous = refuse_two("a request", &sent, cx);
        let url = cx.template(&self.url, &[]);
        let query = lower_table(&self.query, cx, &[]);
        let headers: Vec<Option<Header>> =
            self.headers.iter().map(|(name, value)| lower_header(name, value, cx)).collect();
        let sent = match (&self.json, &self.form, &self.body) {
            (Some(data), _, _) => cx.data(data, None, &[]).map(Sent::Json),
            (_, Some(form), _) => lower_table(form, cx, &[]).map(Sent::Form),
            (_, _, Some(body)) => cx.template(body, &[]).map(Sent::Body),
            (None, None, None) => Some(Sent::Nothing),
        };
        let select = self.select.as_ref().map(|select| cx.expr(select, &[("response".to_owned(), response_ty())]));
        let sent = sent.filter(|_| !is_ambiguous)?;
        let method = self.method.unwrap_or(if sent == Sent::Nothing { Method::Get } else { Method::Post });
        Some(Arc::new(HttpBody {
            method,
            url: url?,
            origin: origin(&self.url.0.value),
            query: query?,
            headers: headers.into_iter().collect::<Option<_>>()?,
            sent,
            timeout: self.timeout.map(|timeout| timeout.0),
            allow_private: self.allow_private,
            select: match select {
                Some(select) => Some(select?),
                None => None,
            },
        }))
    }
}

/// The static type of `response`.
fn response_ty() -> Ty {
    let members = [("status", Ty::Int), ("headers", Ty::Map(Box::new(Ty::Str))), ("text", Ty::Str), ("json", Ty::Any)];
    Ty::Record(Arc::new(members.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect()))
}

fn lower_header(name: &Spanned<String>, value: &Template, cx: &mut dyn LowerCx) -> Option<Header> {
    if reqwest::header::HeaderName::try_from(name.value.as_str()).is_err() {
        let message = format!("`{}` is not the name of a header", name.value);
        cx.report(
            Diagnostic::error("bad-header", name.span, message).help("a header's name has letters, digits and `-`"),
        );
        return None;
    }
    let secrets = cx.environment(value);
    let value = cx.template(value, &[]);
    Some(Header { name: name.value.clone(), value: value?, secrets: secrets? })
}

/// Scheme and host of a URL as written, when no template stands in them.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    (!host.contains('{')).then(|| format!("{scheme}://{host}"))
}

#[derive(Debug)]
struct HttpBody {
    method: Method,
    url: TemplateId,
    /// Scheme and host, as far as they are known before the run.
    origin: Option<String>,
    query: Vec<(String, Data)>,
    headers: Vec<Header>,
    sent: Sent,
    timeout: Option<StdDuration>,
    allow_private: bool,
    select: Option<ExprId>,
}

#[derive(Debug)]
struct Header {
    name: String,
    value: TemplateId,
    /// `${env:…}` as written, and what it stands for.
    secrets: Vec<(String, Secret)>,
}

#[derive(Debug, PartialEq)]
enum Sent {
    Nothing,
    Json(Data),
    Form(Vec<(String, Data)>),
    Body(TemplateId),
}

impl HttpBody {
    fn request(&self, cx: &dyn Context) -> Result<Fetch, Failure> {
        let url = render(cx, self.url)?;
        let mut url = reqwest::Url::parse(url.trim())
            .map_err(|why| Failure::new(FailureKind::Http, format!("`{}` is not a URL: {why}", excerpt(&url, 200))))?;
        let query = pairs(&render_table(cx, &self.query)?);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let headers = self.headers.iter().map(|header| {
            let mut value = render(cx, header.value)?;
            for (written, secret) in &header.secrets {
                value = value.replace(written, secret.expose());
            }
            Ok((header.name.clone(), Secret::new(value)))
        });
        let content = match &self.sent {
            Sent::Nothing => Content::Nothing,
            Sent::Json(data) => Content::Json(render_data(cx, data)?),
            Sent::Form(form) => Content::Form(pairs(&render_table(cx, form)?)),
            Sent::Body(body) => Content::Text(render(cx, *body)?),
        };
        let timeout = self.timeout.unwrap_or(TIMEOUT);
        Ok(Fetch {
            method: WireMethod::from_bytes(self.method.word().as_bytes()).unwrap_or(WireMethod::GET),
            url,
            headers: headers.collect::<Result<_, Failure>>()?,
            content,
            timeout: cx.time_left().map_or(timeout, |left| left.min(timeout)),
            private: if self.allow_private { Private::Allowed } else { Private::Named },
        })
    }

    fn result(&self, response: &Response, url: &str, cx: &dyn Context) -> Result<Value, Failure> {
        if response.status >= 400 {
            return Err(refused(response, self.method, url));
        }
        let parsed = serde_json::from_str::<Value>(&response.text);
        let Some(select) = self.select else {
            return parsed.map_err(|why| {
                let kind = response.headers.get("content-type").map_or("no content type", String::as_str);
                let shown = excerpt(&response.text, 120);
                Failure::new(
                    FailureKind::Http,
                    format!("the answer of {url} is not JSON ({why}; {kind}): {shown:?}; for its text write `select: response.text`"),
                )
            });
        };
        let mut variable = json!({"status": response.status, "headers": response.headers, "text": response.text});
        if let (Ok(parsed), Value::Object(members)) = (parsed, &mut variable) {
            members.insert("json".to_owned(), parsed);
        }
        eval_with(cx, select, "response", &variable)
    }
}

/// Names and texts for a query or form: null is left out, a list repeats the name.
fn pairs(table: &serde_json::Map<String, Value>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in table {
        match value {
            Value::Null => {}
            Value::String(text) => pairs.push((name.clone(), text.clone())),
            Value::Array(items) => {
                let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
                pairs.extend(items.iter().map(|item| (name.clone(), text(item))));
            }
            other => pairs.push((name.clone(), other.to_string())),
        }
    }
    pairs
}

/// The failure for an answer of 400 and more, with the server's own words where it has some.
fn refused(response: &Response, method: Method, url: &str) -> Failure {
    let words = serde_json::from_str::<Value>(&response.text).ok().and_then(|body| {
        ["/error/message", "/error", "/message", "/detail", "/title"]
            .iter()
            .find_map(|pointer| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned))
    });
    let words = excerpt(words.as_deref().unwrap_or(&response.text), EXCERPT_CHARS);
    let reason = reqwest::StatusCode::from_u16(response.status).ok().and_then(|status| status.canonical_reason());
    let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    Failure::new(FailureKind::Http, format!("{} {url} answered {}{reason}{words}", method.word(), response.status))
}

#[async_trait::async_trait]
impl Body for HttpBody {
    fn kind(&self) -> &'static str {
        "http"
    }

    fn needs(&self) -> Needs {
        let endpoints = self.origin.iter().cloned().collect();
        Needs { permissions: vec!["internet".to_owned()], endpoints, ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        self.done(cx).await.map_err(|failure| redacted_failure(failure, self.secrets()))
    }
}

impl HttpBody {
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.headers.iter().flat_map(|header| header.secrets.iter().map(|(_, secret)| secret))
    }

    async fn done(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let request = self.request(cx)?;
        let url = fetch::shown(&request.url);
        if cx.dry_run() && !matches!(self.method, Method::Get | Method::Head | Method::Options) {
            cx.permit("internet", &url)?;
            return stub(cx);
        }
        let sent = async {
            cx.permit("internet", &url)?;
            let mut response = fetch::send(request, &|place| cx.permit("internet", place)).await?;
            response.text = redacted(response.text, self.secrets());
            for value in response.headers.values_mut() {
                *value = redacted(std::mem::take(value), self.secrets());
            }
            self.result(&response, &url, cx)
        };
        // What is taken down of it must not hold a secret either.
        let sent = sent.map_err(|failure| redacted_failure(failure, self.secrets()));
        cx.effect("http", sent.boxed()).await
    }
}
