//! References: material that is offered to a model, as text of its prompt or as tools; one file per kind.
//!
//! A reference is what an author declares under `references:`. Its [`Material`] is where it comes from. Short content
//! stands in the system message; what is longer, or no text at all, is looked into by tools whose names begin with the
//! reference's own. They are tools like any other: called, permitted, kept and put into envelopes by the same code.

pub mod directory;
pub mod document;
pub mod git;
pub mod openapi;
pub mod page;
pub mod remote;
pub mod skill;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::action::context::{Context, Failure};
pub use crate::decl::module::ReferenceMode as Mode;
use crate::prompt::TemplateId;
use crate::tool::offer::Use;
use crate::tool::unfold::{BY, Unfold};
use crate::tool::{Tool, envelope};
use crate::value::ObjectDef;

/// Tokens up to which `mode: auto` puts content into the prompt.
pub const AUTO_TOKENS_MAX: usize = 2_000;

/// Tokens above which content that stands in prompts as a whole is told to be long.
pub const LONG_TOKENS: usize = 10 * AUTO_TOKENS_MAX;

/// About how many tokens so many bytes are: a quarter.
pub fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

/// How far one goes to get the content of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To where it is.
    Outside,
    /// To what was kept of it; nothing is sent anywhere.
    Kept,
}

/// What a reference has for a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// The text.
    Text(Arc<str>),
    /// Nothing: it is only looked into by tools.
    Nothing,
    /// It is not here, for this reason; a run gets it.
    Missing(String),
}

/// Where a reference comes from: one implementation per kind.
#[async_trait]
pub trait Material: fmt::Debug + Send + Sync {
    /// The key that declares it, such as `file`.
    fn kind(&self) -> &'static str;

    /// Where it is, for a person: a path, a URL without secrets; empty for a text.
    fn place(&self) -> String;

    /// Whether it is the author's own word. What is not stands in an envelope.
    fn is_own(&self) -> bool;

    /// Whether its content has to be fetched.
    fn is_remote(&self) -> bool {
        false
    }

    /// What it has for a prompt, in a mode that is not `tools`.
    ///
    /// # Errors
    /// When it cannot be had: what and where, for a person.
    async fn content(&self, cx: &dyn Context, mode: Mode, reach: Reach) -> Result<Content, Failure>;

    /// The tools that look into it; their names begin with `prefix`.
    fn tools(self: Arc<Self>, prefix: &str) -> Vec<Tool>;

    /// Whether its tools do what its content cannot, so that they are offered beside it.
    fn acts(&self) -> bool {
        false
    }

    /// What is kept of it on this machine, where something is.
    fn kept(&self, _root: &std::path::Path) -> Option<Kept> {
        None
    }

    /// Asks whether it is there; gives what it answers, in a few words.
    ///
    /// # Errors
    /// Why it does not answer.
    async fn ping(&self, cx: &dyn Context) -> Result<String, Failure> {
        match self.content(cx, Mode::Auto, Reach::Outside).await? {
            Content::Text(text) => Ok(format!("{} bytes", text.len())),
            Content::Nothing => Ok("it is there".to_owned()),
            Content::Missing(why) => Ok(why),
        }
    }

    /// Gets it anew, past what is kept; gives what it found, in a few words.
    ///
    /// # Errors
    /// When it cannot be had.
    async fn refresh(&self, _cx: &dyn Context) -> Result<Option<String>, Failure> {
        Ok(None)
    }
}

/// What is kept of a reference on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Since when.
    pub since: String,
    /// Which state of it: an ETag, a commit.
    pub state: Option<String>,
    /// The bytes of its text, where it is one.
    pub bytes: Option<usize>,
}

/// A reference, resolved.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its name, with which the names of its tools begin.
    pub name: String,
    /// How it reaches the model.
    pub mode: Mode,
    /// What it is.
    pub description: Option<TemplateId>,
    /// How it is used.
    pub usage_notes: Option<TemplateId>,
    /// Where it comes from.
    pub material: Arc<dyn Material>,
    /// Its tools, behind a facade or not, as lists of tools have them.
    pub uses: Vec<Use>,
    /// Its tools, those behind the facade.
    pub tools: Vec<Arc<Tool>>,
    /// Its tools stand behind a facade of its name.
    pub unfold: bool,
}

/// What a reference is in one prompt.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// What the system message says of it.
    pub note: String,
    /// The tools that are offered.
    pub uses: Vec<Use>,
    /// Whether others' words stand in the note.
    pub is_foreign: bool,
}

/// A text of a template, for whoever asks.
pub type Render<'a> = &'a (dyn Fn(TemplateId) -> Result<String, Failure> + Send + Sync);

impl Reference {
    /// A reference to a material. `about` is its description as written.
    pub fn new(
        name: &str,
        mode: Mode,
        (description, about): (Option<TemplateId>, Option<&str>),
        usage_notes: Option<TemplateId>,
        unfold: bool,
        material: Arc<dyn Material>,
    ) -> Reference {
        let tools: Vec<Arc<Tool>> = match mode == Mode::Prompt && !material.acts() {
            true => Vec::new(),
            false => Arc::clone(&material).tools(name).into_iter().map(Arc::new).collect(),
        };
        let mut uses: Vec<Use> = tools.iter().map(|tool| Use::Own(Arc::clone(tool))).collect();
        if unfold && !uses.is_empty() {
            let unfold = Unfold { tools: uses, by: BY.to_owned(), remove_on_invoke: true, ..Unfold::default() };
            let about = about.map_or_else(|| format!("The reference `{name}`"), |text| text.trim_end().to_owned());
            let facade = Tool {
                trusted: true,
                description_template: description,
                unfold: Some(Arc::new(unfold)),
                ..Tool::new(name, about, ObjectDef::default(), None)
            };
            uses = vec![Use::Own(Arc::new(facade))];
        }
        Reference { name: name.to_owned(), mode, description, usage_notes, material, uses, tools, unfold }
    }

    /// What it is in a prompt now.
    ///
    /// # Errors
    /// When its content cannot be had or a template fails; the message names the reference.
    pub async fn ready(&self, cx: &dyn Context, reach: Reach, render: Render<'_>) -> Result<Ready, Failure> {
        self.with(self.content(cx, reach).await?, render)
    }

    /// The content that it puts into a prompt.
    ///
    /// # Errors
    /// When it cannot be had; the message names the reference.
    pub async fn content(&self, cx: &dyn Context, reach: Reach) -> Result<Content, Failure> {
        let content = match self.mode {
            Mode::Tools => Content::Nothing,
            mode => self.material.content(cx, mode, reach).await.map_err(|failure| self.named(failure))?,
        };
        Ok(match content {
            Content::Text(text) if self.mode == Mode::Auto && tokens(text.len()) > AUTO_TOKENS_MAX => Content::Nothing,
            content => content,
        })
    }

    /// What it is in a prompt with this content.
    ///
    /// # Errors
    /// When a template fails.
    pub fn with(&self, content: Content, render: Render<'_>) -> Result<Ready, Failure> {
        let is_short = |text: &str| tokens(text.len()) <= AUTO_TOKENS_MAX;
        let (text, missing) = match content {
            Content::Text(text) if self.mode == Mode::Prompt || is_short(&text) => (Some(text), None),
            Content::Text(_) | Content::Nothing => (None, None),
            Content::Missing(why) => (None, Some(why)),
        };
        let uses = if text.is_some() && !self.material.acts() { Vec::new() } else { self.uses.clone() };
        let description = self.description.map(render).transpose()?;
        let mut lines = vec![match &description {
            Some(text) => format!("Reference `{}`: {}", self.name, text.trim()),
            None => format!("Reference `{}`:", self.name),
        }];
        lines.extend(self.usage_notes.map(render).transpose()?.map(|notes| notes.trim().to_owned()));
        if !uses.is_empty() {
            let names: Vec<String> = self.tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
            lines.push(match self.unfold {
                true => format!("Call `{}` to get its tools.", self.name),
                false => format!("Its tools: {}.", names.join(", ")),
            });
        }
        lines.extend(missing.map(|why| format!("({why})")));
        let is_foreign = text.is_some() && !self.material.is_own();
        lines.extend(text.map(|text| match is_foreign {
            true => envelope::seal(&text, &self.name, false),
            false => text.trim_end().to_owned(),
        }));
        Ok(Ready { note: lines.join("\n"), uses, is_foreign })
    }

    /// What using it may touch, each once: `files:read`, `internet`, `exec`.
    pub fn permissions(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for permission in Arc::clone(&self.material).tools(&self.name).iter().flat_map(|tool| tool.needs().permissions)
        {
            if !found.contains(&permission) {
                found.push(permission);
            }
        }
        found
    }

    /// Whether its content is had from outside of the project when an interaction begins.
    pub fn is_remote(&self) -> bool {
        self.mode != Mode::Tools && self.material.is_remote()
    }

    fn named(&self, failure: Failure) -> Failure {
        Failure { message: format!("the reference `{}`: {}", self.name, failure.message), ..failure }
    }
}
