//! `scatter_gather`: parts done side by side and put together. Read and checked; run by a later version.

use std::sync::Arc;

use serde_json::Value;

use crate::decl::models::LlmChoice;
use crate::decl::{Count, Defs, Expr, List, Name, Read, ReadCx};
use crate::diag::Diagnostic;
use crate::prompt::Ty;
use crate::record;
use crate::source::{Node, NodeKind};
use crate::value::{Output, OutputKind, Shape};

use super::lower::LowerCx;
use super::nested::{NestedDecl, element};
use super::shared::{Unsupported, refuse_two};
use super::{ActionKind, Body, Written};

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
        if let Some(over) = &self.over {
            let over_ty = cx.expr_ty(over, &[]);
            if matches!(over_ty, Ty::Bool | Ty::Int | Ty::Number | Ty::Str | Ty::Enum(_)) {
                let message = format!("expected a list, and this is {}", over_ty.describe(cx.types()));
                cx.report(
                    Diagnostic::error("wrong-type", over.0.span, message)
                        .help("give `over` a list, one element for each part"),
                );
            }
            let ty = element(over_ty);
            cx.expr(over, &[]);
            if let Some(name) = &self.r#as {
                cx.check_variable(name, "a loop variable");
            }
            let name = self.r#as.as_ref().map_or("item", |name| name.value.as_str());
            extra.push((name.to_owned(), ty));
        }
        for llm in self.llms.iter().flat_map(List::iter) {
            cx.llm(llm);
        }
        let branches = self.branches.iter().flat_map(List::iter);
        let parts: Vec<_> = self.r#do.iter().chain(branches).map(|body| body.lower(part.clone(), &extra, cx)).collect();
        if let Some(Gather::Body(gather)) = &self.gather {
            let results = match part.types().first() {
                Some(id) => Ty::of(cx.types(), &Shape::list(Shape::named(*id))),
                None => Ty::List(Box::new(Ty::Any)),
            };
            let output = cx.output().clone();
            gather.lower(output, &[("results".to_owned(), results)], cx)?;
        }
        parts.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Unsupported::body("scatter_gather", self.place.0, cx))
    }
}

impl ScatterDecl {
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
        Some(())
    }

    /// What one part gives: `of`, else the element of the output where that is a list, else the output.
    fn part_output(&self, cx: &mut dyn LowerCx) -> Option<Output> {
        if let Some(of) = &self.of {
            return cx.type_named(of).map(|id| Output::new(OutputKind::One(id)));
        }
        let output = cx.output().clone();
        Some(match (&output.kind, &self.gather) {
            (OutputKind::List(id), None) => Output::new(OutputKind::One(*id)),
            (_, Some(Gather::Majority)) => output,
            // What the parts give is not said; `gather` sees it as anything.
            _ => Output::new(OutputKind::None),
        })
    }
}
