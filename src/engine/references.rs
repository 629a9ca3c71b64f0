//! The references that a program offers to models: what each is, and whether it answers (cli.md, `references`).

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;

use crate::action::{Context, Failure};
use crate::program::Agent;
use crate::reference::{Content, Mode, Reach, Reference, tokens};

use super::{Engine, RunOptions, StartError};

/// What is done beside listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Nothing: no file is fetched.
    Nothing,
    /// Each is asked whether it answers.
    Ping,
    /// Each is got anew, past what is kept.
    Update,
}

/// A reference of `references --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReferenceDocument {
    /// Its name.
    pub name: String,
    /// The agents whose prompts name it; of one that none names nothing but what is written is known.
    pub agents: Vec<String>,
    /// The key that declares it, such as `file`.
    pub kind: String,
    /// Where it is; empty for a text.
    pub place: String,
    /// As declared: `prompt`, `tools` or `auto`.
    pub mode: String,
    /// How it reaches a prompt now; null where that is known only once it was fetched.
    #[serde(rename = "as")]
    pub form: Option<String>,
    /// About how many tokens its content has; null where it has none, or none is here.
    pub tokens: Option<usize>,
    /// Its tools that are offered.
    pub tools: Vec<String>,
    /// They stand behind one tool of its name.
    pub unfold: bool,
    /// Since when what is kept of it is on this machine, and in which state: an ETag, a commit.
    pub kept: Option<KeptDocument>,
    /// Whether it answers; null where it was not asked.
    pub answers: Option<bool>,
    /// What it answered, or why it did not.
    pub answer: Option<String>,
}

/// What is kept of a reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptDocument {
    /// Since when.
    pub since: String,
    /// Which state of it.
    pub state: Option<String>,
}

impl Engine {
    /// The references that the program's agents name, each once.
    ///
    /// # Errors
    /// When no process can be made.
    pub async fn references(&self, asking: Asking) -> Result<Vec<ReferenceDocument>, StartError> {
        let mut listed: Vec<ReferenceDocument> = Vec::new();
        let mut asked: HashSet<String> = HashSet::new();
        for agent in self.program().agents.clone() {
            for reference in agent.references.iter().flatten() {
                let known = |one: &ReferenceDocument| {
                    (&one.name, one.kind.as_str(), &one.place)
                        == (&reference.name, reference.material.kind(), &reference.material.place())
                };
                if let Some(one) = listed.iter_mut().find(|one| known(one)) {
                    one.agents.push(agent.name.clone());
                    continue;
                }
                // One source that several references share is asked once.
                let source = format!("{} {}", reference.material.kind(), reference.material.place());
                let asking = if asked.insert(source) || reference.material.place().is_empty() {
                    asking
                } else {
                    Asking::Nothing
                };
                listed.push(self.reference(&agent, reference, asking).await?);
            }
        }
        Ok(listed)
    }

    async fn reference(
        &self,
        agent: &Arc<Agent>,
        reference: &Arc<Reference>,
        asking: Asking,
    ) -> Result<ReferenceDocument, StartError> {
        let cx = self.by_hand(&agent.name, RunOptions::default())?;
        let cx: &dyn Context = &cx;
        let answer: Option<Result<String, Failure>> = match asking {
            Asking::Nothing => None,
            Asking::Ping => Some(reference.material.ping(cx).await),
            Asking::Update => reference.material.refresh(cx).await.transpose(),
        };
        let wanted = if reference.mode == Mode::Tools { Mode::Auto } else { reference.mode };
        let content = reference.material.content(cx, wanted, Reach::Kept).await;
        let size = match &content {
            Ok(Content::Text(text)) => Some(tokens(text.len())),
            Ok(Content::Nothing | Content::Missing(_)) | Err(_) => None,
        };
        let content = if reference.mode == Mode::Tools { Ok(Content::Nothing) } else { content };
        let is_known = !matches!(content, Ok(Content::Missing(_)) | Err(_));
        let render = |id| Ok(cx.templates().render(id, cx.vars())?);
        let is_text = matches!(content, Ok(Content::Text(_)));
        let ready = content.and_then(|content| reference.with(content, &render));
        let offers = ready.as_ref().map_or(true, |ready| !ready.uses.is_empty());
        let in_prompt = is_text && (!offers || reference.material.acts());
        let form = match (in_prompt, offers && !reference.tools.is_empty()) {
            (true, true) => "prompt and tools",
            (true, false) => "prompt",
            (false, _) => "tools",
        };
        let root = cx.world().root();
        let kept = root.and_then(|root| reference.material.kept(root));
        let (answers, answer) = match answer {
            None => (None, ready.err().map(|failure| failure.message)),
            Some(Ok(said)) => (Some(true), Some(said)),
            Some(Err(failure)) => (Some(false), Some(failure.message)),
        };
        Ok(ReferenceDocument {
            name: reference.name.clone(),
            agents: vec![agent.name.clone()],
            kind: reference.material.kind().to_owned(),
            place: reference.material.place(),
            mode: reference.mode.word().to_owned(),
            form: is_known.then(|| form.to_owned()),
            tokens: size,
            tools: if offers { reference.tools.iter().map(|tool| tool.name.clone()).collect() } else { Vec::new() },
            unfold: reference.unfold,
            kept: kept.map(|kept| KeptDocument { since: kept.since, state: kept.state }),
            answers,
            answer,
        })
    }
}
