//! `set`: pure data, made of the action's inputs.

use std::sync::Arc;

use serde_json::Value;

use crate::decl::{Data as WrittenData, Defs, Read, ReadCx};
use crate::prompt::Data;
use crate::source::Node;

use super::context::{Context, Failure};
use super::lower::LowerCx;
use super::shared::render_data;
use super::{ActionKind, Body, Written};

/// The kind `set`.
pub(super) struct Set;

impl ActionKind for Set {
    fn name(&self) -> &'static str {
        "set"
    }

    fn summary(&self) -> &'static str {
        "Gives data, each string of which is a template; null is \"nothing came\""
    }

    fn example(&self) -> &'static str {
        "set: Once upon a time there was {{ user_input.content }}."
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        WrittenData::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        WrittenData::read(node, cx).map(|data| Arc::new(WrittenSet(data)) as Arc<dyn Written>)
    }
}

/// `set` as written.
#[derive(Clone, Debug, PartialEq)]
struct WrittenSet(WrittenData);

impl Written for WrittenSet {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        Some(Arc::new(SetBody { data: cx.output_data(&self.0, &[])? }))
    }
}

#[derive(Debug)]
struct SetBody {
    data: Data,
}

#[async_trait::async_trait]
impl Body for SetBody {
    fn kind(&self) -> &'static str {
        "set"
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        render_data(cx, &self.data)
    }
}
