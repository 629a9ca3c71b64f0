//! `openapi`: the operations of a service, listed, described and called as its OpenAPI document says.

pub mod bundle;
pub mod document;
pub mod multipart;
pub mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use indexmap::IndexMap;
use indexmap::map::Entry;
use reqwest::{Method, Url};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::action::context::{Context, Failure, FailureKind};
use crate::action::fetch::{self, Fetch, Private, shown};
use crate::action::{Body, Needs, redacted, redacted_failure};
use crate::diag::suggest;
use crate::tool::builtin::{arguments, count, defaulted, failure, optional, required, text};
use crate::tool::{Returns, Tool};
use crate::value::{RawSchema, ShapeKind};

use bundle::Bundle;
use document::{Api, Operation, tree};

use super::document::tool;
use super::remote::{Header, Remote, rendered, secrets};
use super::{Content, Kept, Material, Mode, Reach};

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The most operations that are listed at once.
const LISTED_MAX: usize = 200;
/// How much of an error answer is shown, in characters.
const EXCERPT_CHARS: usize = 600;

/// A service with its document.
#[derive(Debug)]
pub struct OpenApi {
    held: Held,
    /// Where its operations are, by the author's word.
    base_url: Option<Url>,
    headers: Arc<[Header]>,
}

enum Held {
    /// A file of the project, read when the program was compiled.
    File(String, Arc<Api>),
    /// A URL, and what is known of the document.
    Remote(Box<Remote>, Mutex<Known>),
}

/// What is known of a document at a URL.
#[derive(Default)]
struct Known {
    /// The documents that it leads to, by their URLs.
    others: IndexMap<String, Remote>,
    /// The texts that were read last, its own first, and what they are together.
    read: Option<(Vec<Arc<str>>, Arc<Api>)>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::File(path, _) => f.debug_tuple("File").field(path).finish(),
            Held::Remote(remote, _) => f.debug_tuple("Remote").field(&remote.shown()).finish(),
        }
    }
}

impl OpenApi {
    /// A service whose document is a file of the project.
    pub fn file(path: &str, api: Api, base_url: Option<Url>, headers: Arc<[Header]>) -> OpenApi {
        OpenApi { held: Held::File(path.to_owned(), Arc::new(api)), base_url, headers }
    }

    /// A service whose document is at a URL.
    pub fn remote(remote: Remote, base_url: Option<Url>, headers: Arc<[Header]>) -> OpenApi {
        OpenApi { held: Held::Remote(Box::new(remote), Mutex::default()), base_url, headers }
    }

    async fn api(&self, cx: &dyn Context) -> Result<Arc<Api>, Failure> {
        match &self.held {
            Held::File(_, api) => Ok(Arc::clone(api)),
            Held::Remote(remote, known) => {
                let mut known = known.lock().await;
                match self.read(cx, Reach::Outside, remote, &mut known).await? {
                    Ok(api) => Ok(api),
                    Err(missing) => Err(failure(missing)),
                }
            }
        }
    }

    /// The document at a URL with those that it leads to, or which of them is not here.
    async fn read(
        &self,
        cx: &dyn Context,
        reach: Reach,
        remote: &Remote,
        known: &mut Known,
    ) -> Result<Result<Arc<Api>, String>, Failure> {
        let mut texts = Vec::new();
        match remote.content(cx, reach).await? {
            Content::Text(text) => texts.push(text),
            Content::Nothing => {}
            Content::Missing(why) => return Ok(Err(why)),
        }
        if let Some((before, api)) = &known.read
            && before.first() == texts.first()
        {
            for other in known.others.values() {
                match other.content(cx, reach).await? {
                    Content::Text(text) => texts.push(text),
                    Content::Nothing | Content::Missing(_) => break,
                }
            }
            if texts == *before {
                return Ok(Ok(Arc::clone(api)));
            }
            texts.truncate(1);
        }
        let own = remote.url().clone();
        let join = move |of: &str, written: &str| beside(&own, of, written);
        let (main, shown) = (remote.url().to_string(), remote.shown());
        // The query of a URL may hold a secret.
        let told = |why: String| failure(why.replace(&main, &shown));
        let mut used = Vec::new();
        let mut bundle = Bundle::new(&main, parsed(&shown, texts.first()).await?);
        loop {
            let missing = bundle.missing(&join).map_err(told)?;
            if missing.is_empty() {
                break;
            }
            for url in missing {
                let other = match known.others.entry(url.clone()) {
                    Entry::Occupied(other) => other.into_mut(),
                    Entry::Vacant(free) => {
                        let parsed = Url::parse(&url).map_err(|why| failure(format!("`{url}` is no URL: {why}")))?;
                        free.insert(Remote::new(parsed, Arc::clone(&self.headers), true))
                    }
                };
                let text = match other.content(cx, reach).await? {
                    Content::Text(text) => text,
                    Content::Nothing => Arc::from(""),
                    Content::Missing(why) => return Ok(Err(why)),
                };
                bundle.add(&url, parsed(&other.shown(), Some(&text)).await?);
                texts.push(text);
                used.push(url);
            }
        }
        let name = shown.clone();
        let done = tokio::task::spawn_blocking(move || Api::of(&name, bundle.whole(&join)?)).await;
        let api = Arc::new(done.unwrap_or_else(|_| Err("the document could not be read".to_owned())).map_err(told)?);
        let at = |url: &String| used.iter().position(|one| one == url);
        known.others.retain(|url, _| at(url).is_some());
        known.others.sort_by(|one, _, other, _| at(one).cmp(&at(other)));
        known.read = Some((texts, Arc::clone(&api)));
        Ok(Ok(api))
    }

    /// Where an operation is, and whether that may be a private address.
    fn server(&self, api: &Api, operation: &Operation) -> Result<(Url, Private), Failure> {
        if let Some(base) = &self.base_url {
            return Ok((base.clone(), Private::Named));
        }
        let of_document = match &self.held {
            Held::File(..) => None,
            Held::Remote(remote, _) => Some(remote.url()),
        };
        let written = operation.server.as_deref().or(api.server.as_deref()).unwrap_or("/");
        let found = match of_document {
            Some(document) => document.join(written),
            None => Url::parse(written),
        };
        let server = found.map_err(|_| {
            failure(format!("the document names no server but `{written}`; say where it is: `base_url: https://…`"))
        })?;
        // What a document from elsewhere names is not the author's word; its own server is.
        let is_own = of_document.is_none_or(|document| document.origin() == server.origin());
        Ok((server, if is_own { Private::Named } else { Private::Never }))
    }

    async fn call(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let api = self.api(cx).await?;
        let arguments = arguments(cx);
        let operation = found(&api, text(arguments, "operation"))?;
        let mut given = Map::new();
        given.insert("parameters".into(), arguments.get("parameters").cloned().unwrap_or_else(|| json!({})));
        given
            .extend(arguments.get("body").filter(|body| !body.is_null()).map(|body| ("body".to_owned(), body.clone())));
        // A schema that cannot be read leaves the judgement to the server.
        if let Ok(schema) = RawSchema::new(api.schema(operation)) {
            let valid = schema
                .validate(Value::Object(given))
                .map_err(|wrong| failure(format!("`{}` does not take this: {}", operation.id, wrong.join("; "))))?;
            given = valid.as_object().cloned().unwrap_or_default();
        }
        let (server, private) = self.server(&api, operation)?;
        let parameters = given.get("parameters").and_then(Value::as_object).cloned().unwrap_or_default();
        let wire = request::wire(operation, &server, &parameters, given.get("body")).map_err(failure)?;
        let place = shown(&wire.url);
        cx.permit("internet", &place)?;
        if cx.dry_run() && operation.method != "GET" && operation.method != "HEAD" {
            return Ok(json!(format!("dry run: {} {place} would be sent", operation.method)));
        }
        let own = rendered(&self.headers, cx)?;
        let is_own = |name: &str| own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut headers: Vec<_> = wire.headers.into_iter().filter(|(name, _)| !is_own(name)).collect();
        headers.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        let request = Fetch {
            method: Method::from_bytes(operation.method.as_bytes()).unwrap_or(Method::GET),
            url: wire.url,
            headers,
            content: wire.content,
            timeout: cx.time_left().map_or(TIMEOUT, |left| left.min(TIMEOUT)),
            private,
        };
        let response = fetch::send(request, &|place| cx.permit("internet", place)).await?;
        let said = redacted(response.text, secrets(&self.headers));
        if response.status >= 400 {
            let excerpt: String = said.trim().chars().take(EXCERPT_CHARS).collect();
            let message = format!("{} {place} answered {}: {excerpt}", operation.method, response.status);
            return Err(Failure::new(FailureKind::Http, message));
        }
        if said.trim().is_empty() {
            return Ok(json!(format!("{} {place} answered {} without content", operation.method, response.status)));
        }
        Ok(serde_json::from_str(&said).unwrap_or(Value::String(said)))
    }
}

/// A text as data.
async fn parsed(shown: &str, text: Option<&Arc<str>>) -> Result<Value, Failure> {
    let (shown, source) = (shown.to_owned(), text.cloned().unwrap_or_else(|| Arc::from("")));
    let read = tokio::task::spawn_blocking(move || tree(&shown, &source)).await;
    read.unwrap_or_else(|_| Err("the document could not be read".to_owned())).map_err(failure)
}

/// The URL of a document that another one names. The author's headers go to it, so it is of the same server.
fn beside(own: &Url, of: &str, written: &str) -> Result<String, String> {
    let of = Url::parse(of).map_err(|why| why.to_string())?;
    let mut url = of.join(written).map_err(|why| why.to_string())?;
    url.set_fragment(None);
    match url.origin() == own.origin() {
        true => Ok(url.to_string()),
        false => Err("it is of another server, and only documents of the same one are followed".to_owned()),
    }
}

fn found<'a>(api: &'a Api, id: &str) -> Result<&'a Operation, Failure> {
    api.operations.get(id).ok_or_else(|| {
        let names: Vec<&str> = api.operations.keys().map(String::as_str).collect();
        failure(format!(
            "there is no operation `{id}`; {}",
            suggest::near_or_all(id, names.into_iter(), "the operations")
        ))
    })
}

#[async_trait]
impl Material for OpenApi {
    fn kind(&self) -> &'static str {
        "openapi"
    }

    fn place(&self) -> String {
        match &self.held {
            Held::File(path, _) => path.clone(),
            Held::Remote(remote, _) => remote.shown(),
        }
    }

    fn is_own(&self) -> bool {
        matches!(self.held, Held::File(..))
    }

    fn is_remote(&self) -> bool {
        !self.is_own()
    }

    async fn content(&self, cx: &dyn Context, _: Mode, reach: Reach) -> Result<Content, Failure> {
        let api = match &self.held {
            Held::File(_, api) => Arc::clone(api),
            Held::Remote(remote, known) => {
                let mut known = known.lock().await;
                match self.read(cx, reach, remote, &mut known).await? {
                    Ok(api) => api,
                    Err(missing) => return Ok(Content::Missing(missing)),
                }
            }
        };
        let about = if api.title.is_empty() { String::new() } else { format!(" of {}", api.title) };
        Ok(Content::Text(Arc::from(format!("Operations{about}:\n{}", api.list("", "").join("\n")))))
    }

    fn tools(self: Arc<Self>, prefix: &str) -> Vec<Tool> {
        let body = |does: Does| Calling { of: Arc::clone(&self), does };
        let id = || required(ShapeKind::String, "The id of the operation, as it is listed");
        let list = tool(
            prefix,
            "list",
            format!("Lists operations of the service `{prefix}`: id, method and path, what it does."),
            vec![
                ("query", defaulted(ShapeKind::String, "", "Only those that have all these words")),
                ("tag", defaulted(ShapeKind::String, "", "Only those with this tag")),
                ("max", defaulted(ShapeKind::Integer, 50, "The most operations to give")),
            ],
            body(Does::List),
        );
        let describe = tool(
            prefix,
            "describe",
            format!("Tells everything about one operation of the service `{prefix}`: parameters, body, responses."),
            vec![("operation", id())],
            body(Does::Describe),
        );
        let call = tool(
            prefix,
            "call",
            format!("Calls an operation of the service `{prefix}`; `{prefix}_describe` tells what it takes."),
            vec![
                ("operation", id()),
                (
                    "parameters",
                    optional(
                        ShapeKind::Map(Box::new(crate::value::Shape::new(ShapeKind::Any))),
                        "Its parameters by name",
                    ),
                ),
                ("body", optional(ShapeKind::Any, "Its body, where it has one")),
            ],
            body(Does::Call),
        );
        vec![
            Tool { trusted: self.is_own(), ..list },
            Tool { trusted: self.is_own(), returns: Returns::Json, ..describe },
            // What was sent may have been done.
            Tool { idempotent: false, returns: Returns::Json, ..call },
        ]
    }

    fn acts(&self) -> bool {
        true
    }

    fn kept(&self, root: &std::path::Path) -> Option<Kept> {
        match &self.held {
            Held::File(..) => None,
            Held::Remote(remote, _) => remote.kept(root),
        }
    }

    async fn ping(&self, cx: &dyn Context) -> Result<String, Failure> {
        if let Held::Remote(remote, _) = &self.held {
            remote.ping(cx).await?;
        }
        let api = self.api(cx).await?;
        Ok(format!("{} operations", api.operations.len()))
    }

    async fn refresh(&self, cx: &dyn Context) -> Result<Option<String>, Failure> {
        match &self.held {
            Held::File(..) => Ok(None),
            Held::Remote(remote, _) => {
                remote.refresh(cx).await?;
                let api = self.api(cx).await?;
                Ok(Some(format!("{} operations", api.operations.len())))
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    List,
    Describe,
    Call,
}

#[derive(Debug)]
struct Calling {
    of: Arc<OpenApi>,
    does: Does,
}

#[async_trait]
impl Body for Calling {
    fn kind(&self) -> &'static str {
        "reference"
    }

    fn needs(&self) -> Needs {
        let reaches = self.does == Does::Call || !self.of.is_own();
        let permissions = reaches.then(|| "internet".to_owned()).into_iter().collect();
        Needs { permissions, ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let done = match self.does {
            Does::List => {
                let api = self.of.api(cx).await?;
                Ok(listed(&api, arguments(cx)))
            }
            Does::Describe => {
                let api = self.of.api(cx).await?;
                found(&api, text(arguments(cx), "operation")).map(|operation| api.describe(operation))
            }
            Does::Call => self.of.call(cx).await,
        };
        done.map_err(|failure| redacted_failure(failure, secrets(&self.of.headers)))
    }
}

fn listed(api: &Api, arguments: &Map<String, Value>) -> Value {
    let most = count(arguments, "max").unwrap_or(50).clamp(1, LISTED_MAX);
    let mut lines = api.list(text(arguments, "query"), text(arguments, "tag"));
    let all = lines.len();
    if all == 0 {
        let tags = api.tags();
        let tags = if tags.is_empty() { String::new() } else { format!("; its tags are {}", suggest::listed(&tags)) };
        return json!(format!("no operation fits; there are {}{tags}", api.operations.len()));
    }
    if all > most {
        lines.truncate(most);
        lines.push(format!("… {most} of {all}; give words in `query`"));
    }
    json!(lines.join("\n"))
}
