//! `scatter_gather`: parts done side by side and put together.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use minijinja::Value as View;
use minijinja::value::ValueKind;
use serde_json::Value;

use crate::decl::models::LlmChoice;
use crate::decl::{Count, Defs, Expr, List, Name, Read, ReadCx};
use crate::diag::Diagnostic;
use crate::prompt::{ExprId, Ty, from_json, list_value};
use crate::record;
use crate::source::{Node, NodeKind};
use crate::value::{Output, OutputKind, Shape};

use super::context::{Context, Failure, FailureKind, Progress, PromptCall};
use super::lower::{LowerCx, Needs};
use super::nested::{Nested, NestedDecl, element, needs_of};
use super::shared::refuse_two;
use super::{ActionKind, Body, Written};

/// Most parts of one `scatter_gather`.
const PARTS_MAX: usize = 10_000;

/// How a part calls its element where `as` does not say.
const ELEMENT: &str = "item";

/// The kind `scatter_gather`.
pub(super) struct ScatterGather;

impl ActionKind for ScatterGather {
    fn name(&self) -> &'static str {
        "scatter_gather"
    }

    fn summary(&self) -> &'static str {
        "Does several parts side by side and gathers their results"
    }

    fn example(&self) -> &'static str {
        "scatter_gather:\n  branches:\n    - prompt: \"A sad story of {{ user_input.content }}\"\n    - prompt: \"A merry story of {{ user_input.content }}\"\n  of: Story\n  gather: {prompt: \"Make one story of these: {{ results }}\"}\n"
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        ScatterDecl::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        ScatterDecl::read(node, cx).map(|scatter| Arc::new(scatter) as Arc<dyn Written>)
    }
}

/// How the results are put together: `majority`, or a body.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Gather {
    /// The value that came most often.
    Majority,
    /// A body that sees `results`.
    Body(Box<NestedDecl>),
}

impl Read for Gather {
    fn expected() -> String {
        "`majority`, or a body such as `{prompt: …}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Gather> {
        match &node.kind {
            NodeKind::Text(text) if text.value == "majority" => Some(Gather::Majority),
            NodeKind::Map(_) => NestedDecl::read(node, cx).map(|body| Gather::Body(Box::new(body))),
            _ => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        serde_json::json!({"anyOf": [{"const": "majority"}, NestedDecl::schema(defs)]})
    }
}

record! {
    /// Parts done side by side.
    pub(super) struct ScatterDecl = "a `scatter_gather`" {
        /// One part for each element.
        opt over: Expr,
        /// How a part calls its element.
        opt r#as: Name,
        /// What a part does.
        opt r#do: NestedDecl,
        /// The parts themselves.
        opt branches: List<NestedDecl>,
        /// One part for each model.
        opt llms: List<LlmChoice>,
        /// How the results are put together; without it they are the output, a list.
        opt gather: Gather,
        /// The type of a part's result.
        opt of: Name,
        /// Parts at one time.
        opt concurrency: Count,
        /// Parts that must succeed; without it all of them.
        opt min: Count,
    }
}

impl Written for ScatterDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        self.check_form(cx)?;
        let part = self.part_output(cx)?;
        let mut extra = vec![("index".to_owned(), Ty::Int)];
        let mut over = None;
        if let Some(written) = &self.over {
            let over_ty = cx.expr_ty(written, &[]);
            if matches!(over_ty, Ty::Bool | Ty::Int | Ty::Number | Ty::Str | Ty::Enum(_)) {
                let message = format!("expected a list, and this is {}", over_ty.describe(cx.types()));
                cx.report(
                    Diagnostic::error("wrong-type", written.0.span, message)
                        .help("give `over` a list, one element for each part"),
                );
            }
            let ty = element(over_ty);
            over = Some(cx.expr(written, &[]));
            if let Some(name) = &self.r#as {
                cx.check_variable(name, "a loop variable");
            }
            extra.push((self.element_name().to_owned(), ty));
        }
        let mut parts: Vec<Option<Nested>> = match (&self.llms, &self.r#do) {
            (Some(llms), Some(body)) => llms.iter().map(|llm| body.lower_for(llm, part.clone(), &extra, cx)).collect(),
            (_, body) => body.iter().map(|body| body.lower(part.clone(), &extra, cx)).collect(),
        };
        let branches = self.branches.iter().flat_map(List::iter);
        parts.extend(branches.map(|body| body.lower(part.clone(), &extra, cx)));
        let gather = match &self.gather {
            None => Some(Gathering::List),
            Some(Gather::Majority) => Some(Gathering::Majority),
            Some(Gather::Body(gather)) => {
                let results = match part.types().first() {
                    Some(id) => Ty::of(cx.types(), &Shape::list(Shape::named(*id))),
                    None => Ty::List(Box::new(Ty::Any)),
                };
                let output = cx.output().clone();
                gather.lower(output, &[("results".to_owned(), results)], cx).map(Gathering::Body)
            }
        };
        let parts = parts.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Arc::new(ScatterBody {
            over: match over {
                Some(over) => Some((over?, self.element_name().to_owned())),
                None => None,
            },
            parts,
            gather: gather?,
            concurrency: self.concurrency.map_or(usize::MAX, |count| count.get() as usize),
            min: self.min.map(|count| count.get() as usize),
        }))
    }
}

impl ScatterDecl {
    /// How a part calls its element.
    fn element_name(&self) -> &str {
        self.r#as.as_ref().map_or(ELEMENT, |name| name.value.as_str())
    }

    /// `None` after a finding: exactly one of `over`, `branches` and `llms`; `do` with `over` and `llms`.
    fn check_form(&self, cx: &mut dyn LowerCx) -> Option<()> {
        let place = self.place.0;
        let forms = [
            ("over", self.over.as_ref().map(|over| over.0.span)),
            ("branches", self.branches.as_ref().map(|_| place)),
            ("llms", self.llms.as_ref().map(|_| place)),
        ];
        if refuse_two("a `scatter_gather`", &forms, cx) {
            return None;
        }
        let report = |cx: &mut dyn LowerCx, message: &str, help: &str| {
            cx.report(Diagnostic::error("missing-key", place, message).help(help));
        };
        if forms.iter().all(|(_, span)| span.is_none()) {
            report(
                cx,
                "a `scatter_gather` needs `over`, `branches` or `llms`",
                "add `over: …` with a list, and `do: …`",
            );
            return None;
        }
        if self.branches.is_none() && self.r#do.is_none() {
            report(cx, "a `scatter_gather` over parts needs `do`", "add `do: {prompt: …}`");
            return None;
        }
        if self.r#do.is_some() && self.branches.is_some() {
            report(cx, "a `scatter_gather` of `branches` has no `do`", "remove `do`; each branch is a body of its own");
            return None;
        }
        if let (Some(llms), Some(body)) = (&self.llms, &self.r#do) {
            if llms.0.is_empty() {
                report(cx, "`llms` names no model", "list the models that are asked, each as `role` or `provider/id`");
                return None;
            }
            if body.has_llm() {
                let message = "each model of `llms` does this, and it names one of its own";
                let help = "remove `llm` here, or `llms`";
                cx.report(Diagnostic::error("two-forms", body.place(), message).help(help));
                return None;
            }
        }
        if let (Some(name), None) = (&self.r#as, &self.over) {
            let message = "`as` names the element of `over`, and there is no `over`";
            cx.report(Diagnostic::error("missing-key", name.span, message).help("remove `as`; parts see `index`"));
        }
        let parts = self.llms.as_ref().map(|llms| llms.0.len()).or(self.branches.as_ref().map(|all| all.0.len()));
        if let (Some(min), Some(parts)) = (self.min, parts)
            && min.get() as usize > parts
        {
            let message = format!("{min} parts must succeed, and there are {parts}");
            cx.report(Diagnostic::error("out-of-range", place, message).help("lower `min`"));
        }
        Some(())
    }

    /// Reports an `of` that the output cannot be made of as it is.
    fn check_of(&self, of: &Name, cx: &mut dyn LowerCx) {
        let Some(id) = cx.types().id(&of.value) else { return };
        let output = cx.output().clone();
        if !output.types().iter().any(|declared| cx.types().is_subtype(id, *declared)) {
            let message = format!("the parts give `{}`, and the output is `{}`", of.value, output.describe(cx.types()));
            cx.report(
                Diagnostic::error("wrong-type", of.span, message)
                    .help("add `gather: {prompt: …}` or `gather: {set: …}`, which makes the output of `results`"),
            );
        }
    }

    /// What one part gives: `of`, else the element of the output where that is a list, else the output.
    fn part_output(&self, cx: &mut dyn LowerCx) -> Option<Output> {
        if let Some(of) = &self.of {
            if matches!(self.gather, None | Some(Gather::Majority)) && cx.output().kind != OutputKind::None {
                self.check_of(of, cx);
            }
            return cx.type_named(of).map(|id| Output::new(OutputKind::One(id)));
        }
        let output = cx.output().clone();
        if self.gather.is_none() && !matches!(output.kind, OutputKind::List(_) | OutputKind::None) {
            let name = output.describe(cx.types());
            let message = format!("without `gather` the output is a list of what the parts give, and it is `{name}`");
            let help = match output.types() {
                [only] => format!(
                    "write `output: list<{}>`, or say how the results become one: `gather: majority` or \
                     `gather: {{prompt: …}}`",
                    cx.types().name(*only)
                ),
                _ => "say how the results become one: `gather: {prompt: …}`".to_owned(),
            };
            cx.report(Diagnostic::error("wrong-type", self.place.0, message).help(help));
            return None;
        }
        Some(match (&output.kind, &self.gather) {
            (OutputKind::List(id), None) => Output::new(OutputKind::One(*id)),
            (_, Some(Gather::Majority)) => Output { name: None, ..output },
            // What the parts give is not said; `gather` sees it as anything.
            _ => Output::new(OutputKind::None),
        })
    }
}

/// How the results become the output.
#[derive(Debug)]
enum Gathering {
    /// They are the output.
    List,
    /// The value that came most often.
    Majority,
    /// A body that sees `results`.
    Body(Nested),
}

#[derive(Debug)]
struct ScatterBody {
    /// The list, and what a part calls its element.
    over: Option<(ExprId, String)>,
    /// Under `over` the one body of all parts; else the parts.
    parts: Vec<Nested>,
    gather: Gathering,
    concurrency: usize,
    /// Parts that must succeed; without it all of them.
    min: Option<usize>,
}

/// One part: its body, and its variables.
struct Part<'a> {
    body: &'a Nested,
    vars: Vec<(String, View)>,
}

/// A part that has ended: which, and what it gave.
type Ended = (usize, Result<Option<Value>, Failure>);

impl Part<'_> {
    async fn perform(self, cx: &dyn Context, at: usize) -> Ended {
        (at, self.body.perform(cx, &format!("part{}", at + 1), self.vars).await)
    }
}

impl ScatterBody {
    fn parts(&self, cx: &dyn Context) -> Result<Vec<Part<'_>>, Failure> {
        let index = |at: usize| ("index".to_owned(), View::from(at));
        let (Some((over, name)), [body]) = (&self.over, self.parts.as_slice()) else {
            let parts = self.parts.iter().enumerate();
            return Ok(parts.map(|(at, body)| Part { body, vars: vec![index(at)] }).collect());
        };
        let list = cx.templates().value(*over, cx.vars())?;
        let items = match list.kind() {
            ValueKind::Seq | ValueKind::Iterable => list.try_iter().ok(),
            _ => None,
        };
        let Some(items) = items else {
            let found = list.kind();
            return Err(Failure::new(FailureKind::Error, format!("`over` is no list: it is a value of kind {found}")));
        };
        let items: Vec<View> = items.take(PARTS_MAX + 1).collect();
        if items.len() > PARTS_MAX {
            return Err(Failure::new(FailureKind::Limit, format!("`over` has more than {PARTS_MAX} elements")));
        }
        let part = |(at, item)| Part { body, vars: vec![index(at), (name.clone(), item)] };
        Ok(items.into_iter().enumerate().map(part).collect())
    }

    /// Performs the parts side by side; gives the results of those that succeeded, in order.
    async fn scatter(&self, cx: &dyn Context, parts: Vec<Part<'_>>) -> Result<Vec<Value>, Failure> {
        let total = parts.len();
        let needed = self.min.unwrap_or(total).min(total);
        let mut running: Vec<BoxFuture<'_, Ended>> = Vec::with_capacity(total);
        for (at, part) in parts.into_iter().enumerate() {
            running.push(part.perform(cx, at).boxed());
        }
        let mut running = stream::iter(running).buffer_unordered(self.concurrency.min(total).max(1));
        let mut results: Vec<Option<Value>> = vec![None; total];
        let (mut done, mut failed): (usize, Vec<(usize, Failure)>) = (0, Vec::new());
        let mut waits: Option<Failure> = None;
        while let Some((at, result)) = running.next().await {
            if let Some(failure) = result.as_ref().err().filter(|failure| failure.is_waiting()) {
                // The other parts end first; then the process waits, and all of it is done again with the answer.
                waits.get_or_insert(failure.clone());
                continue;
            }
            done += 1;
            let message = result.as_ref().err().map(|failure| failure.message.clone());
            cx.progress(Progress { part: format!("part {}", at + 1), done, total, ok: message.is_none(), message });
            match result {
                Ok(value) => results[at] = value,
                // No failure of a part: `min` has no say in it.
                Err(failure) if ends_all(failure.kind) => return Err(failure),
                Err(failure) => failed.push((at, failure)),
            }
            if total - failed.len() < needed {
                // Nothing can make up for it: what still runs is given up.
                break;
            }
        }
        if total - failed.len() < needed {
            return Err(self.too_few(failed, needed, total));
        }
        if let Some(failure) = waits {
            return Err(failure);
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// The failure of the first part that failed, with how many were wanted.
    fn too_few(&self, mut failed: Vec<(usize, Failure)>, needed: usize, total: usize) -> Failure {
        failed.sort_by_key(|(at, _)| *at);
        let listed: Vec<String> = failed.iter().map(|(at, why)| format!("part {}: {}", at + 1, why.message)).collect();
        let kind = failed.first().map_or(FailureKind::Error, |(_, failure)| failure.kind);
        let message = match self.min {
            Some(_) => {
                format!("{} of {total} parts failed and {needed} must succeed; {}", failed.len(), listed.join("; "))
            }
            None => listed.join("; "),
        };
        Failure::new(kind, message)
    }
}

/// Whether a failure ends the whole action, however many parts may fail.
fn ends_all(kind: FailureKind) -> bool {
    use FailureKind::{Killed, Limit, Replan, Store};
    matches!(kind, Limit | Killed | Store | Replan)
}

/// The value that came most often; of several the one that came first.
fn majority(results: Vec<Value>) -> Value {
    let mut counted: Vec<(Value, usize)> = Vec::new();
    for result in results {
        match counted.iter_mut().find(|(known, _)| *known == result) {
            Some((_, count)) => *count += 1,
            None => counted.push((result, 1)),
        }
    }
    let most = counted.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
    most.map_or(Value::Null, |(value, _)| value)
}

#[async_trait::async_trait]
impl Body for ScatterBody {
    fn kind(&self) -> &'static str {
        "scatter_gather"
    }

    fn needs(&self) -> Needs {
        let gather = match &self.gather {
            Gathering::Body(body) => Some(body),
            Gathering::List | Gathering::Majority => None,
        };
        needs_of(self.parts.iter().chain(gather))
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let parts = self.parts(cx)?;
        let results = self.scatter(cx, parts).await?;
        match &self.gather {
            Gathering::List if cx.output().kind == OutputKind::None => Ok(Value::Null),
            Gathering::List => Ok(Value::Array(results)),
            Gathering::Majority => Ok(majority(results)),
            Gathering::Body(gather) => {
                let view = |result: &Value| match self.parts.first() {
                    Some(part) => part.view(cx, result),
                    None => from_json(result),
                };
                let results = list_value(results.iter().map(view).collect());
                let gathered = gather.perform(cx, "gather", vec![("results".to_owned(), results)]).await?;
                Ok(gathered.unwrap_or_default())
            }
        }
    }

    fn prompt(&self, cx: &dyn Context) -> Result<Option<PromptCall>, Failure> {
        match self.parts(cx)?.into_iter().next() {
            Some(part) => part.body.prompt(cx, part.vars),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_majority_is_the_most_frequent_value_and_the_first_seen_wins_a_tie() {
        assert_eq!(majority(vec![json!("b"), json!("a"), json!("a")]), json!("a"));
        assert_eq!(
            majority(vec![json!({"x": 1, "y": 2}), json!("z"), json!({"y": 2, "x": 1})]),
            json!({"x": 1, "y": 2})
        );
        assert_eq!(majority(vec![json!("b"), json!("a")]), json!("b"));
        assert_eq!(majority(Vec::new()), Value::Null);
    }
}
