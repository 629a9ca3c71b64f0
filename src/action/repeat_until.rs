//! `repeat_until`: a body done again until its result is good. Read and checked; run by a later version.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use crate::decl::{Count, Defs, Expr, Read, ReadCx};
use crate::diag::Diagnostic;
use crate::prompt::Ty;
use crate::source::Node;
use crate::value::{Output, OutputKind};
use crate::{record, words};

use super::lower::LowerCx;
use super::nested::NestedDecl;
use super::shared::Unsupported;
use super::{ActionKind, Body, Written};

/// The kind `repeat_until`.
pub(super) struct RepeatUntil;

impl ActionKind for RepeatUntil {
    fn name(&self) -> &'static str {
        "repeat_until"
    }

    fn summary(&self) -> &'static str {
        "Does a body again, with the feedback it got, until its result is good enough"
    }

    fn example(&self) -> &'static str {
        "repeat_until:\n  do: {prompt: \"A story of {{ user_input.content }}\"}\n  until: result | length > 100\n  max: 3\n"
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        RepeatDecl::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        RepeatDecl::read(node, cx).map(|repeat| Arc::new(repeat) as Arc<dyn Written>)
    }
}

words! {
    /// Which result is kept.
    pub(super) enum Keep = "a `keep`" {
        /// The last one.
        Last = "last",
        /// The one with the best score.
        Best = "best",
    }
}

words! {
    /// What happens when the last attempt is not good enough either.
    pub(super) enum OnMax = "an `on_max`" {
        /// The result is kept all the same.
        Keep = "keep",
        /// The action fails.
        Fail = "fail",
    }
}

record! {
    /// A body done again until its result is good.
    pub(super) struct RepeatDecl = "a `repeat_until`" {
        /// What is done.
        req r#do: NestedDecl,
        /// Judges a result; gives `Feedback`.
        opt evaluate: NestedDecl,
        /// The result is good when this holds; with `evaluate` it is `feedback.score >= 0.9` otherwise.
        opt until: Expr,
        /// Attempts at most.
        def max: Count = Count::MIN.saturating_add(2),
        /// Which result is kept.
        def keep: Keep = Keep::Last,
        /// What happens when no attempt was good enough.
        def on_max: OnMax = OnMax::Keep,
    }
}

impl Written for RepeatDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        if self.until.is_none() && self.evaluate.is_none() {
            cx.report(
                Diagnostic::error("missing-key", self.place.0, "a `repeat_until` needs `until` or `evaluate`")
                    .help("add `until: …` with what must hold, or `evaluate: …` with a body that gives `Feedback`"),
            );
            return None;
        }
        let output = cx.output().clone();
        let result = Ty::of(cx.types(), &output.shape(cx.types()));
        let feedback_id = cx.types().id("Feedback");
        let feedback = feedback_id.map_or(Ty::Any, |id| Ty::named(cx.types(), id));
        let attempt =
            IndexMap::from([("result".to_owned(), result.clone()), ("feedback".to_owned(), feedback.clone())]);
        let attempts = ("attempts".to_owned(), Ty::List(Box::new(Ty::Record(Arc::new(attempt)))));
        let optional = |ty: &Ty| Ty::Optional(Box::new(ty.clone()));
        let before =
            [attempts.clone(), ("result".to_owned(), optional(&result)), ("feedback".to_owned(), optional(&feedback))];
        let body = self.r#do.lower(output, &before, cx);
        let judged = [attempts.clone(), ("result".to_owned(), result.clone())];
        let evaluate = self.evaluate.as_ref().map(|evaluate| {
            let output = Output::new(feedback_id.map_or(OutputKind::None, OutputKind::One));
            evaluate.lower(output, &judged, cx)
        });
        let after = [attempts, ("result".to_owned(), result), ("feedback".to_owned(), feedback)];
        let until = self.until.as_ref().map(|until| cx.expr(until, &after));
        body?;
        if evaluate.is_some_and(|body| body.is_none()) || until.is_some_and(|until| until.is_none()) {
            return None;
        }
        Some(Unsupported::body("repeat_until", self.place.0, cx))
    }
}
