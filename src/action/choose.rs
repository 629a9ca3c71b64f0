//! `choose`: the first branch whose condition holds gives the data.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::decl::{Data as WrittenData, Defs, Expr, List, Name, Read, ReadCx};
use crate::diag::Diagnostic;
use crate::prompt::{Data, ExprId, Truth};
use crate::record;
use crate::source::{Map, Node, NodeKind};
use crate::value::{OutputKind, Shape, TypeId, present};

use super::context::{Context, Failure};
use super::lower::LowerCx;
use super::shared::render_data;
use super::{ActionKind, Body, Written};

/// The kind `choose`.
pub(super) struct Choose;

impl ActionKind for Choose {
    fn name(&self) -> &'static str {
        "choose"
    }

    fn summary(&self) -> &'static str {
        "Gives the data of the first branch whose condition holds, without a model"
    }

    fn example(&self) -> &'static str {
        "choose:\n  - {when: user_input.content | length > 20, set: \"{{ user_input.content }}\"}\n  - {set: A short story.}\n"
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        List::<BranchDecl>::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        let branches = List::<BranchDecl>::read(node, cx)?;
        if matches!(&node.kind, crate::source::NodeKind::List(items) if items.is_empty()) {
            cx.report(
                Diagnostic::error("missing-key", node.span, "a `choose` needs a branch")
                    .help("add `{when: …, set: …}`, and a last branch without `when` for all else"),
            );
            return None;
        }
        Some(Arc::new(WrittenChoose(branches)))
    }
}

record! {
    /// One branch of a choice.
    pub(super) struct BranchDecl = "a branch" {
        /// The branch is taken when this holds; without it always.
        opt when: Expr,
        /// The type of its data, when that is not the action's output itself.
        opt r#type: Name,
        /// Its data; without it an object without fields.
        opt set: WrittenData,
    }
}

/// `choose` as written.
#[derive(Clone, Debug, PartialEq)]
struct WrittenChoose(List<BranchDecl>);

impl Written for WrittenChoose {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let last = self.0.0.len().saturating_sub(1);
        let mut branches = Vec::new();
        for (index, branch) in self.0.iter().enumerate() {
            if branch.when.is_none() && index < last {
                cx.report(
                    Diagnostic::error(
                        "unreachable-branch",
                        branch.place.0,
                        "this branch has no `when`, so those after it are never reached",
                    )
                    .help("give it a `when`, or move it to the end"),
                );
            }
            // A branch is taken where its `when` holds and none before it did.
            for earlier in self.0.iter().take(index).filter_map(|earlier| earlier.when.as_ref()) {
                cx.assume(earlier, false);
            }
            branches.push(branch.lower(cx));
            cx.forget();
        }
        Some(Arc::new(ChooseBody { branches: branches.into_iter().collect::<Option<_>>()? }))
    }
}

impl BranchDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Branch> {
        let when = match &self.when {
            Some(when) => {
                let id = cx.expr(when, &[])?;
                cx.assume(when, true);
                Some(id)
            }
            None => None,
        };
        let Some(name) = &self.r#type else {
            let data = match &self.set {
                Some(data) => cx.output_data(data, &[])?,
                None => {
                    cx.report(
                        Diagnostic::error("missing-key", self.place.0, "a branch needs `set` or `type`")
                            .help("add `set: …` with the data, or `type: …` for an object without fields"),
                    );
                    return None;
                }
            };
            return Some(Branch { when, of: None, data });
        };
        let type_id = cx.type_named(name)?;
        let allowed = cx.output().types().iter().copied().find(|sup| cx.types().is_subtype(type_id, *sup));
        let Some(expected) = allowed else {
            let output = cx.output().describe(cx.types());
            cx.report(
                Diagnostic::error("wrong-type", name.span, format!("`{}` is not what the action outputs", name.value))
                    .help(format!("the output is `{output}`; name it or one of its subtypes")),
            );
            return None;
        };
        let empty = WrittenData(Node::new(NodeKind::Map(Map::default()), self.place.0));
        let data = cx.data(self.set.as_ref().unwrap_or(&empty), Some(&Shape::named(type_id)), &[])?;
        Some(Branch { when, of: Some((expected, type_id)), data })
    }
}

#[derive(Debug)]
struct ChooseBody {
    branches: Vec<Branch>,
}

#[derive(Debug)]
struct Branch {
    when: Option<ExprId>,
    /// The output type that is expected and the concrete type of the data, when the branch names one.
    of: Option<(TypeId, TypeId)>,
    data: Data,
}

impl Branch {
    fn value(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let value = render_data(cx, &self.data)?;
        let Some((expected, type_id)) = self.of.filter(|_| !value.is_null()) else { return Ok(value) };
        let value = present(cx.types(), expected, type_id, value);
        Ok(match &cx.output().kind {
            OutputKind::SomeOf(_) => json!({ crate::value::snake_case(cx.types().name(expected)): value }),
            OutputKind::List(_) => json!([value]),
            OutputKind::One(_) | OutputKind::Optional(_) | OutputKind::None => value,
        })
    }
}

#[async_trait::async_trait]
impl Body for ChooseBody {
    fn kind(&self) -> &'static str {
        "choose"
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        for branch in &self.branches {
            let holds = match branch.when {
                Some(when) => cx.templates().truth(when, cx.vars()) == Truth::True,
                None => true,
            };
            if holds {
                return branch.value(cx);
            }
        }
        Ok(Value::Null)
    }
}
