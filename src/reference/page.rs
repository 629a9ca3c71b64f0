//! `web_page`: a page of the internet as Markdown, fetched when a run first needs it and kept between runs.

use std::sync::Arc;

use async_trait::async_trait;

use crate::action::context::{Context, Failure};
use crate::tool::Tool;

use super::document::{Text, looks};
use super::remote::Remote;
use super::{Content, Kept, Material, Mode, Reach};

/// A page.
#[derive(Debug)]
pub struct Page {
    remote: Remote,
}

impl Page {
    /// The page at a URL.
    pub fn new(remote: Remote) -> Page {
        Page { remote }
    }
}

#[async_trait]
impl Text for Page {
    async fn text(&self, cx: &dyn Context) -> Result<Arc<str>, Failure> {
        self.remote.text(cx).await
    }

    fn touches(&self) -> Option<(&'static str, String)> {
        Some(("internet", self.remote.shown()))
    }

    fn shown(&self) -> String {
        self.remote.shown()
    }
}

#[async_trait]
impl Material for Page {
    fn kind(&self) -> &'static str {
        "web_page"
    }

    fn place(&self) -> String {
        self.remote.shown()
    }

    fn is_own(&self) -> bool {
        false
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn content(&self, cx: &dyn Context, _: Mode, reach: Reach) -> Result<Content, Failure> {
        self.remote.content(cx, reach).await
    }

    fn tools(self: Arc<Self>, prefix: &str) -> Vec<Tool> {
        let what = format!("the page {}", self.remote.shown());
        looks(self, prefix, &what, true)
    }

    fn kept(&self, root: &std::path::Path) -> Option<Kept> {
        self.remote.kept(root)
    }

    async fn ping(&self, cx: &dyn Context) -> Result<String, Failure> {
        self.remote.ping(cx).await
    }

    async fn refresh(&self, cx: &dyn Context) -> Result<Option<String>, Failure> {
        self.remote.refresh(cx).await
    }
}
