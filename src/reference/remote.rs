//! What is fetched for a reference, and what is kept of it between runs.
//!
//! A text is kept under `.agent-run/references/`, with what its server said of its state. It is asked for once in a run,
//! and then again after ten minutes: a server that knows the state answers that nothing has changed. When the server
//! cannot be reached, what is kept is used, and that is said.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Method, Url};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::action::context::{Context, Failure, FailureKind};
use crate::action::fetch::{self, Fetch, Private, Response, shown};
use crate::action::{redacted, redacted_failure};
use crate::llm::Secret;
use crate::prompt::TemplateId;
use crate::tool::builtin::fetch::read;

use super::{Content, Kept, Reach};

/// Where references are kept, below the project.
pub(super) const DIR: &str = ".agent-run/references";
/// How long a fetch may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// For how long a text is not asked for again.
const FRESH: Duration = Duration::from_secs(600);

/// A header of the author's.
#[derive(Debug)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: TemplateId,
    /// `${env:…}` as written, and what it stands for.
    pub secrets: Vec<(String, Secret)>,
}

/// The headers as they are sent.
pub(super) fn rendered(headers: &[Header], cx: &dyn Context) -> Result<Vec<(String, Secret)>, Failure> {
    let one = |header: &Header| {
        let mut value = cx.templates().render(header.value, cx.vars())?;
        for (written, secret) in &header.secrets {
            value = value.replace(written, secret.expose());
        }
        Ok((header.name.clone(), Secret::new(value)))
    };
    headers.iter().map(one).collect()
}

/// The secrets in headers.
pub(super) fn secrets(headers: &[Header]) -> impl Iterator<Item = &Secret> {
    headers.iter().flat_map(|header| header.secrets.iter().map(|(_, secret)| secret))
}

/// A text at a URL.
#[derive(Debug)]
pub struct Remote {
    url: Url,
    headers: Arc<[Header]>,
    /// HTML comes as it is, not as Markdown.
    raw: bool,
    /// The text of this run, with the moment at which it was asked for.
    here: Mutex<Option<(Instant, Arc<str>)>>,
}

/// What is kept of a text.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Copy {
    /// Where it is from, without secrets.
    url: String,
    etag: Option<String>,
    last_modified: Option<String>,
    /// When it was got as it is.
    since: String,
    text: String,
}

impl Remote {
    /// A text at a URL, asked for with these headers.
    pub fn new(url: Url, headers: Arc<[Header]>, raw: bool) -> Remote {
        Remote { url, headers, raw, here: Mutex::new(None) }
    }

    /// The URL without what may be secret.
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    /// The URL.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The text as content of a prompt.
    pub(super) async fn content(&self, cx: &dyn Context, reach: Reach) -> Result<Content, Failure> {
        match reach {
            Reach::Outside => self.text(cx).await.map(Content::Text),
            Reach::Kept => Ok(match self.copy(cx.world().root()) {
                Some(copy) => Content::Text(Arc::from(copy.text)),
                None => Content::Missing(format!("{} is not kept here yet; a run fetches it", self.shown())),
            }),
        }
    }

    /// The text, asked for where that is due.
    pub(super) async fn text(&self, cx: &dyn Context) -> Result<Arc<str>, Failure> {
        let mut here = self.here.lock().await;
        if let Some((_, text)) = here.as_ref().filter(|(asked, _)| asked.elapsed() < FRESH) {
            return Ok(Arc::clone(text));
        }
        cx.permit("internet", &self.shown())?;
        let copy = self.copy(cx.world().root());
        let text = match self.ask(cx, copy.as_ref()).await {
            Ok(text) => text,
            Err(Trouble::Passing(failure)) => match copy {
                Some(copy) => {
                    let message = format!("{}; what was kept of it on {} is used", failure.message, copy.since);
                    cx.notice("reference-kept", &message);
                    Arc::from(copy.text)
                }
                None => return Err(failure),
            },
            Err(Trouble::Lasting(failure)) => return Err(failure),
        };
        *here = Some((Instant::now(), Arc::clone(&text)));
        Ok(text)
    }

    /// Asks whether the text is there.
    pub(super) async fn ping(&self, cx: &dyn Context) -> Result<String, Failure> {
        cx.permit("internet", &self.shown())?;
        let copy = self.copy(cx.world().root());
        let asked = self.ask(cx, copy.as_ref()).await;
        let text = asked.map_err(|(Trouble::Passing(failure) | Trouble::Lasting(failure))| failure)?;
        Ok(format!("{} bytes", text.len()))
    }

    /// Asks for the text whatever is kept; gives its size.
    pub(super) async fn refresh(&self, cx: &dyn Context) -> Result<Option<String>, Failure> {
        cx.permit("internet", &self.shown())?;
        let asked = self.ask(cx, None).await;
        let text = asked.map_err(|(Trouble::Passing(failure) | Trouble::Lasting(failure))| failure)?;
        Ok(Some(format!("{} bytes", text.len())))
    }

    async fn ask(&self, cx: &dyn Context, copy: Option<&Copy>) -> Result<Arc<str>, Trouble> {
        let accept = "text/html, text/markdown, application/json, text/*;q=0.9, */*;q=0.5";
        let mut headers = vec![("accept".to_owned(), Secret::new(accept.to_owned()))];
        for (name, state) in [
            ("if-none-match", copy.map(|copy| &copy.etag)),
            ("if-modified-since", copy.map(|copy| &copy.last_modified)),
        ] {
            headers.extend(state.into_iter().flatten().map(|state| (name.to_owned(), Secret::new(state.clone()))));
        }
        headers.extend(rendered(&self.headers, cx).map_err(Trouble::Lasting)?);
        let permit = |place: &str| cx.permit("internet", place);
        let request = Fetch {
            method: Method::GET,
            url: self.url.clone(),
            headers,
            content: fetch::Content::Nothing,
            timeout: cx.time_left().map_or(TIMEOUT, |left| left.min(TIMEOUT)),
            private: Private::Named,
        };
        let response = fetch::send(request, &permit).await.map_err(|failure| self.trouble(failure, None))?;
        if let Some(copy) = copy.filter(|_| response.status == 304) {
            return Ok(Arc::from(copy.text.as_str()));
        }
        let status = response.status;
        let text = match read(&response, &self.shown(), self.raw).await {
            Ok(serde_json::Value::String(text)) => redacted(text, secrets(&self.headers)),
            Ok(other) => other.to_string(),
            Err(failure) => return Err(self.trouble(failure, Some(status))),
        };
        self.keep(cx, &response, &text);
        Ok(Arc::from(text))
    }

    /// What cannot be reached, or is ill, may be well later.
    fn trouble(&self, failure: Failure, status: Option<u16>) -> Trouble {
        let failure = redacted_failure(failure, secrets(&self.headers));
        let may_pass = match status {
            Some(status) => status >= 500 || status == 429,
            None => matches!(failure.kind, FailureKind::Http | FailureKind::Timeout),
        };
        if may_pass { Trouble::Passing(failure) } else { Trouble::Lasting(failure) }
    }

    /// Keeps a text. That it could not be kept is no harm to the run.
    fn keep(&self, cx: &dyn Context, response: &Response, text: &str) {
        let Some(root) = cx.world().root() else { return };
        let state = |name: &str| response.headers.get(name).cloned();
        let copy = Copy {
            url: self.shown(),
            etag: state("etag"),
            last_modified: state("last-modified"),
            since: cx.world().now().to_string(),
            text: text.to_owned(),
        };
        let kept =
            serde_json::to_vec(&copy).map_err(io::Error::other).and_then(|bytes| write(&self.path(root), &bytes));
        if let Err(why) = kept {
            cx.notice("reference-not-kept", &format!("{} cannot be kept below `{DIR}`: {why}", self.shown()));
        }
    }

    fn copy(&self, root: Option<&Path>) -> Option<Copy> {
        let bytes = std::fs::read(self.path(root?)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// What is kept, for a list.
    pub(super) fn kept(&self, root: &Path) -> Option<Kept> {
        let copy = self.copy(Some(root))?;
        Some(Kept { since: copy.since, state: copy.etag.or(copy.last_modified), bytes: Some(copy.text.len()) })
    }

    fn path(&self, root: &Path) -> PathBuf {
        let kind = if self.raw { "raw" } else { "page" };
        root.join(DIR).join(format!("{kind}-{}.json", digest(self.url.as_str())))
    }
}

/// Why a text could not be had.
enum Trouble {
    /// It may be had later: what is kept serves meanwhile.
    Passing(Failure),
    /// It is wrong as it is, or not permitted.
    Lasting(Failure),
}

/// A name of a file for a URL: it tells nothing of it.
pub(super) fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a directory below `.agent-run`, which is kept out of repositories.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let own = dir.ancestors().find(|above| above.ends_with(".agent-run"));
    if let Some(ignore) = own.map(|own| own.join(".gitignore")).filter(|ignore| !ignore.exists()) {
        std::fs::write(ignore, "*\n")?;
    }
    Ok(())
}

/// Writes a file as a whole: it is there with the old or the new content.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_dir(dir)?;
    let beside = dir.join(format!(".{}.part", ulid::Ulid::generate()));
    let written = std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // What is left of the attempt is of no use; that it cannot be removed is not worse than the failure itself.
        let _ = std::fs::remove_file(&beside);
    }
    written
}
