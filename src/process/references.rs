//! What the references of a call are in one interaction: their notes and their tools.

use std::sync::Arc;

use crate::action::context::{CallSettings, Context};
use crate::action::{Failure, FailureKind};
use crate::prompt::TemplateId;
use crate::reference::{Content, LONG_TOKENS, Reach, Ready, Reference, tokens};
use crate::tool::offer::Offer;
use serde_json::{Value, json};

use super::context::ActionContext;
use super::event::What;

/// The references of a call as they are now: what the system message says of them, and what is offered besides tools.
#[derive(Clone, Debug, Default)]
pub struct Referred {
    /// The notes, in order.
    pub notes: Vec<String>,
    /// Whether others' words stand in them.
    pub is_foreign: bool,
    /// The tools that the call offers, those of its references after the declared ones; `None` when there are none.
    pub offer: Option<Offer>,
}

/// Gets what the references of a call have, where it is not here yet.
///
/// # Errors
/// When one cannot be had or is not permitted; the message names it.
pub async fn refer(cx: &ActionContext, settings: &CallSettings, reach: Reach) -> Result<Referred, Failure> {
    let agent = &cx.scope.agent;
    let declared = settings.tools.map(|offer| {
        let found = agent.offers.get(offer.0).cloned();
        found.ok_or_else(|| Failure::new(FailureKind::Error, "the offer of tools is not there"))
    });
    let mut referred = Referred { offer: declared.transpose()?, ..Referred::default() };
    for reference in settings.references.iter().filter_map(|at| agent.references.get(*at)?.clone()) {
        let ready = ready(cx, &reference, reach).await?;
        referred.notes.push(ready.note);
        referred.is_foreign |= ready.is_foreign;
        if !ready.uses.is_empty() {
            referred.offer.get_or_insert_default().uses.extend(ready.uses);
        }
    }
    Ok(referred)
}

async fn ready(cx: &ActionContext, reference: &Arc<Reference>, reach: Reach) -> Result<Ready, Failure> {
    let render = |id: TemplateId| Ok(cx.scope.agent.templates.render(id, &cx.scope)?);
    if let Some(stubs) = cx.core.run.stubs.as_ref().filter(|_| reach == Reach::Outside && reference.is_remote())
        && let Some(stubbed) = stubs.tool(&reference.name, &json!({}))
    {
        let text = match stubbed? {
            Value::String(text) => text,
            other => other.to_string(),
        };
        return reference.with(Content::Text(Arc::from(text)), &render);
    }
    if reach == Reach::Kept {
        return reference.ready(cx as &dyn Context, reach, &render).await;
    }
    if !reference.is_remote() {
        let content = reference.content(cx as &dyn Context, reach).await?;
        // Of texts and files `check` tells it.
        if !matches!(reference.material.kind(), "text" | "file") {
            tell_length(cx, reference, &content);
        }
        return reference.with(content, &render);
    }
    // What is outside may change at any time: an action that is performed again sees what it saw.
    let step = cx.path.next(&format!("reference:{}#", reference.name));
    let got = |_| async {
        let content = reference.content(cx as &dyn Context, reach).await?;
        serde_json::to_value(content).map_err(unreadable)
    };
    let content: Value = cx.core.step(&step, &cx.log, got).await?;
    let content = serde_json::from_value(content).map_err(unreadable)?;
    tell_length(cx, reference, &content);
    reference.with(content, &render)
}

/// Tells once in a run of what stands in prompts as a whole and is long for that.
fn tell_length(cx: &ActionContext, reference: &Reference, content: &Content) {
    let Content::Text(text) = content else { return };
    let (size, name) = (tokens(text.len()), &reference.name);
    if size > LONG_TOKENS && cx.core.host.is_first(&format!("reference-long {name}")) {
        let message = format!(
            "the reference `{name}` puts about {size} tokens into its prompts; without `mode: prompt`, tools look into it"
        );
        cx.core.emit(|| What::Notice { key: "reference-long".to_owned(), message });
    }
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::new(FailureKind::Error, format!("the record of a reference cannot be read: {error}"))
}
