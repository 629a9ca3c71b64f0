//! `text` and `file`: one text of the author's; and the tools that look into any one text.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::action::context::{Context, Failure};
use crate::action::{Body, Needs};
use crate::prompt::TemplateId;
use crate::tool::builtin::{arguments, defaulted, failure, files, optional, required, text};
use crate::tool::{Returns, Tool, artifact};
use crate::value::{Field, ObjectDef, ShapeKind};

use super::{Content, Material, Mode, Reach};

/// A text that tools look into.
#[async_trait]
pub trait Text: fmt::Debug + Send + Sync {
    /// The text as it is now.
    ///
    /// # Errors
    /// When it cannot be had.
    async fn text(&self, cx: &dyn Context) -> Result<Arc<str>, Failure>;
    /// What looking into it touches: a permission, and for what.
    fn touches(&self) -> Option<(&'static str, String)>;
    /// Its name in messages.
    fn shown(&self) -> String;
}

/// A text of the author's.
#[derive(Debug)]
pub struct Document {
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// A template; rendered for each look.
    Template(TemplateId),
    /// A file of the project, with its content.
    File(String, Arc<str>),
}

impl Document {
    /// A text as written in the declaration.
    pub fn written(template: TemplateId) -> Document {
        Document { held: Held::Template(template) }
    }

    /// A file of the project, by its path, with its content.
    pub fn file(path: &str, content: Arc<str>) -> Document {
        Document { held: Held::File(path.to_owned(), content) }
    }
}

#[async_trait]
impl Text for Document {
    async fn text(&self, cx: &dyn Context) -> Result<Arc<str>, Failure> {
        match &self.held {
            Held::Template(template) => Ok(Arc::from(cx.templates().render(*template, cx.vars())?)),
            Held::File(_, content) => Ok(Arc::clone(content)),
        }
    }

    fn touches(&self) -> Option<(&'static str, String)> {
        match &self.held {
            Held::Template(_) => None,
            Held::File(path, _) => Some(("files:read", path.clone())),
        }
    }

    fn shown(&self) -> String {
        match &self.held {
            Held::Template(_) => "the text".to_owned(),
            Held::File(path, _) => path.clone(),
        }
    }
}

#[async_trait]
impl Material for Document {
    fn kind(&self) -> &'static str {
        match &self.held {
            Held::Template(_) => "text",
            Held::File(..) => "file",
        }
    }

    fn place(&self) -> String {
        match &self.held {
            Held::Template(_) => String::new(),
            Held::File(path, _) => path.clone(),
        }
    }

    fn is_own(&self) -> bool {
        true
    }

    async fn content(&self, cx: &dyn Context, _: Mode, _: Reach) -> Result<Content, Failure> {
        self.text(cx).await.map(Content::Text)
    }

    fn tools(self: Arc<Self>, prefix: &str) -> Vec<Tool> {
        let is_markdown = match &self.held {
            Held::Template(_) => false,
            Held::File(path, _) => [".md", ".markdown"].iter().any(|end| path.to_ascii_lowercase().ends_with(end)),
        };
        let what = self.shown();
        let tools = looks(self, prefix, &what, is_markdown);
        tools.into_iter().map(|tool| Tool { trusted: true, ..tool }).collect()
    }
}

/// A look into a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Read,
    Search,
    Outline,
}

/// The tools that look into one text; those of Markdown know its headings.
pub(super) fn looks(of: Arc<dyn Text>, prefix: &str, what: &str, is_markdown: bool) -> Vec<Tool> {
    let body = |look: Look| Looking { of: Arc::clone(&of), look };
    let mut parameters = vec![
        ("from_line", optional(ShapeKind::Integer, "The first line to give, from 1")),
        ("to_line", optional(ShapeKind::Integer, "The last line to give")),
    ];
    if is_markdown {
        let section = optional(ShapeKind::String, "Only the section under this heading, instead of lines");
        parameters.insert(0, ("section", section));
    }
    let mut tools = vec![
        tool(
            prefix,
            "search",
            format!("Finds the lines of {what} that fit a regular expression, as line: text."),
            vec![
                ("pattern", required(ShapeKind::String, "A regular expression (RE2 syntax)")),
                ("ignore_case", defaulted(ShapeKind::Boolean, true, "Upper and lower case are the same")),
                ("max", defaulted(ShapeKind::Integer, 100, "The most lines to give")),
            ],
            body(Look::Search),
        ),
        tool(
            prefix,
            "read",
            format!("Reads {what}: all of it, or a range of its lines."),
            parameters,
            body(Look::Read),
        ),
    ];
    if is_markdown {
        let about = format!("Lists the headings of {what} with their lines.");
        tools.push(tool(prefix, "outline", about, Vec::new(), body(Look::Outline)));
        tools[1].returns = Returns::Markdown;
        tools[1].description = format!("Reads {what}: all of it, one section, or a range of its lines.");
    }
    tools
}

/// A tool of a reference.
pub(super) fn tool(
    prefix: &str,
    name: &str,
    description: String,
    parameters: Vec<(&str, Field)>,
    body: impl Body + 'static,
) -> Tool {
    let fields = parameters.into_iter().map(|(name, field)| (name.to_owned(), field)).collect();
    let parameters = ObjectDef { fields, ..ObjectDef::default() };
    Tool::new(format!("{prefix}_{name}"), description, parameters, Some(Arc::new(body)))
}

#[derive(Debug)]
struct Looking {
    of: Arc<dyn Text>,
    look: Look,
}

#[async_trait]
impl Body for Looking {
    fn kind(&self) -> &'static str {
        "reference"
    }

    fn needs(&self) -> Needs {
        let permissions = self.of.touches().into_iter().map(|(permission, _)| permission.to_owned()).collect();
        Needs { permissions, ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        if let Some((permission, subject)) = self.of.touches() {
            cx.permit(permission, &subject)?;
        }
        let (content, arguments) = (self.of.text(cx).await?, arguments(cx));
        match self.look {
            Look::Search => files::search_text(&content, arguments),
            Look::Outline => artifact::outline(&content).map(Value::from).map_err(failure),
            Look::Read => match text(arguments, "section") {
                "" => files::read_text(&content, &self.of.shown(), arguments),
                heading => artifact::section(&content, heading).map(Value::from).map_err(failure),
            },
        }
    }
}
