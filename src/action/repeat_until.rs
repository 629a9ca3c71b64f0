//! `repeat_until`: a body done again until its result is good.

use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::Value as View;
use serde_json::Value;

use crate::decl::{Count, Defs, Expr, Read, ReadCx};
use crate::diag::Diagnostic;
use crate::prompt::{ExprId, MapVars, Over, Truth, Ty, list_value, map_value};
use crate::source::Node;
use crate::value::{Output, OutputKind};
use crate::{record, words};

use super::context::{Context, Failure, FailureKind, Progress, PromptCall};
use super::lower::{LowerCx, Needs};
use super::nested::{Nested, NestedDecl, needs_of};
use super::{ActionKind, Body, Written};

/// The score from which on a result is good enough where `until` does not say.
const GOOD: f64 = 0.9;

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
        if self.keep == Keep::Best && self.evaluate.is_none() {
            cx.report(
                Diagnostic::error("missing-key", self.place.0, "`keep: best` needs `evaluate`, which gives the scores")
                    .help("add `evaluate: {prompt: …}`, or remove `keep`"),
            );
            return None;
        }
        let output = Output { name: None, ..cx.output().clone() };
        let shape = output.shape(cx.types());
        let result = if output.kind == OutputKind::None { Ty::Any } else { Ty::of(cx.types(), &shape) };
        let feedback_id = cx.types().id("Feedback");
        let feedback = feedback_id.map_or(Ty::Any, |id| Ty::named(cx.types(), id));
        let optional = |ty: &Ty| Ty::Optional(Box::new(ty.clone()));
        // Without `evaluate` nothing gives feedback.
        let feedback = if self.evaluate.is_some() { feedback } else { optional(&feedback) };
        let attempt =
            IndexMap::from([("result".to_owned(), result.clone()), ("feedback".to_owned(), feedback.clone())]);
        let attempts = ("attempts".to_owned(), Ty::List(Box::new(Ty::Record(Arc::new(attempt)))));
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
        Some(Arc::new(RepeatBody {
            body: body?,
            evaluate: match evaluate {
                Some(evaluate) => Some(evaluate?),
                None => None,
            },
            until: match until {
                Some(until) => Some(until?),
                None => None,
            },
            max: self.max.get(),
            keep: self.keep,
            on_max: self.on_max,
        }))
    }
}

#[derive(Debug)]
struct RepeatBody {
    body: Nested,
    evaluate: Option<Nested>,
    /// Without it a score of at least [`GOOD`] is good enough.
    until: Option<ExprId>,
    max: u32,
    keep: Keep,
    on_max: OnMax,
}

/// What one attempt gave, and how it was judged.
struct Attempt {
    result: Value,
    feedback: Option<Value>,
    /// Both as strings see them.
    view: View,
}

impl Attempt {
    fn score(&self) -> f64 {
        self.feedback.as_ref().and_then(|feedback| feedback["score"].as_f64()).unwrap_or(0.0)
    }

    /// How it was judged, for a person.
    fn judged(&self) -> Option<String> {
        let feedback = self.feedback.as_ref()?;
        let comments = feedback["comments"].as_str().filter(|comments| !comments.is_empty());
        Some(match comments {
            Some(comments) => format!("score {}: {comments}", self.score()),
            None => format!("score {}", self.score()),
        })
    }
}

impl RepeatBody {
    /// The variables that show the attempts so far.
    fn vars(attempts: &[Attempt]) -> Vec<(String, View)> {
        let views = attempts.iter().map(|attempt| attempt.view.clone()).collect();
        let mut vars = vec![("attempts".to_owned(), list_value(views))];
        if let Some(last) = attempts.last() {
            for name in ["result", "feedback"] {
                let value = last.view.get_attr(name).unwrap_or_default();
                if !value.is_undefined() {
                    vars.push((name.to_owned(), value));
                }
            }
        }
        vars
    }

    /// Judges a result, which `attempts` do not hold yet.
    async fn judge(
        &self,
        cx: &dyn Context,
        path: &str,
        attempts: &[Attempt],
        result: Value,
    ) -> Result<Attempt, Failure> {
        let view = ("result".to_owned(), self.body.view(cx, &result));
        let Some(evaluate) = &self.evaluate else {
            return Ok(Attempt { result, feedback: None, view: map_value([view]) });
        };
        let mut vars = Self::vars(attempts);
        vars.retain(|(name, _)| name == "attempts");
        vars.push(view.clone());
        let feedback = evaluate.perform(cx, &format!("{path}/evaluate"), vars).await?;
        let shown = feedback.as_ref().map(|feedback| ("feedback".to_owned(), evaluate.view(cx, feedback)));
        Ok(Attempt { result, feedback, view: map_value(std::iter::once(view).chain(shown)) })
    }

    fn is_good(&self, cx: &dyn Context, attempts: &[Attempt]) -> bool {
        let Some(until) = self.until else { return attempts.last().is_some_and(|last| last.score() >= GOOD) };
        let vars =
            Self::vars(attempts).into_iter().fold(MapVars::default(), |vars, (name, value)| vars.with(&name, value));
        cx.templates().truth(until, &Over { vars, below: cx.vars() }) == Truth::True
    }

    /// The result that is kept when none was good enough.
    fn kept(&self, attempts: Vec<Attempt>) -> Result<Value, Failure> {
        let better = |best: Attempt, next: Attempt| if next.score() > best.score() { next } else { best };
        let best = match self.keep {
            Keep::Last => attempts.into_iter().last(),
            Keep::Best => attempts.into_iter().reduce(better),
        };
        match (self.on_max, best) {
            (OnMax::Keep, best) => Ok(best.map(|attempt| attempt.result).unwrap_or_default()),
            (OnMax::Fail, best) => {
                let which = if self.keep == Keep::Best { "best" } else { "last" };
                let judged = best.as_ref().and_then(Attempt::judged);
                let judged = judged.map(|judged| format!("; the {which} had {judged}")).unwrap_or_default();
                let times = if self.max == 1 { "1 attempt".to_owned() } else { format!("{} attempts", self.max) };
                Err(Failure::new(FailureKind::Validation, format!("no result was good enough in {times}{judged}")))
            }
        }
    }
}

#[async_trait::async_trait]
impl Body for RepeatBody {
    fn kind(&self) -> &'static str {
        "repeat_until"
    }

    fn needs(&self) -> Needs {
        needs_of(std::iter::once(&self.body).chain(&self.evaluate))
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for number in 1..=self.max {
            let path = format!("attempt{number}");
            let came = self.body.perform(cx, &path, Self::vars(&attempts)).await?;
            let part = format!("attempt {number}");
            let (done, total) = (number as usize, self.max as usize);
            let progress = |ok, message| cx.progress(Progress { part, done, total, ok, message });
            let Some(result) = came else {
                progress(false, Some("nothing came".to_owned()));
                continue;
            };
            let attempt = self.judge(cx, &path, &attempts, result).await?;
            let judged = attempt.judged();
            attempts.push(attempt);
            let good = self.is_good(cx, &attempts);
            progress(good, judged);
            if good {
                return Ok(attempts.pop().map(|attempt| attempt.result).unwrap_or_default());
            }
        }
        self.kept(attempts)
    }

    fn prompt(&self, cx: &dyn Context) -> Result<Option<PromptCall>, Failure> {
        self.body.prompt(cx, Self::vars(&[]))
    }
}
