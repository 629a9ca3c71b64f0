//! What a prompt offers: as the author lists it ([`Use`]), and as one interaction shows it to a model ([`Offered`]).
//!
//! A list of tools names groups, servers, objects and facades, which only a run can resolve; `process` does, once for
//! each interaction. From then on everything is data: see [`Interaction`](super::unfold::Interaction).

use std::sync::Arc;

use minijinja::Value as View;
use serde_json::{Map, Value, json};

use crate::decl::tools::OnCollision;
use crate::llm::ToolSpec;
use crate::prompt::TemplateId;
use crate::value::{Shape, ShapeKind, TypeId, Types, schema_of};

use super::Tool;
use super::agentic::Order;
use super::unfold::Facade;

/// An element of a list of `tools`, its names resolved.
#[derive(Clone, Debug)]
pub enum Use {
    /// A declared tool, by its name in the agent's table.
    Tool(String),
    /// A tool of the list itself: declared in place, or an agent as a hand-off.
    Own(Arc<Tool>),
    /// Tools under another name or description.
    Derived(Box<Use>, Derived),
    /// A tool group, or one tool of it.
    Group {
        /// The group's name.
        group: String,
        /// The one tool of it that is taken.
        only: Option<String>,
    },
    /// A group of built-in tools (`builtin:math`).
    BuiltIn(Vec<Arc<Tool>>),
    /// The tools of objects.
    Objects {
        /// The input whose object it is; without one, every object of the type that the prompt has to do with.
        input: Option<String>,
        /// The type.
        type_id: TypeId,
    },
}

/// What a derived tool has of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Derived {
    /// Its name.
    pub name: Option<String>,
    /// Its description.
    pub description: Option<TemplateId>,
    /// What is added to the description.
    pub note: Option<TemplateId>,
}

/// The tools that one prompt offers.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// As the author lists them.
    pub uses: Vec<Use>,
    /// In which order they may be called.
    pub order: Order,
}

/// A tool as one interaction offers it.
#[derive(Debug)]
pub struct Offered {
    /// What the model sees.
    pub spec: ToolSpec,
    /// The tool.
    pub tool: Arc<Tool>,
    /// The object that it belongs to, `self` in its strings.
    pub this: Option<View>,
    /// The group that it comes from, whose permissions bound what it may touch.
    pub group: Option<Arc<str>>,
    /// What calling it does to the interaction, where it is not an ordinary tool.
    pub role: Role,
}

/// What calling a tool does to the interaction.
#[derive(Debug)]
pub enum Role {
    /// Nothing: its body is performed.
    Plain,
    /// It reveals other tools.
    Facade(Facade),
    /// It repeats what a facade has said.
    Guide(String),
    /// It looks at an artifact.
    Artifact,
}

impl Offered {
    /// A tool under its own name and description.
    pub fn plain(tool: Arc<Tool>, types: &Types) -> Offered {
        let spec = ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: parameters(&tool, types),
        };
        Offered { spec, tool, this: None, group: None, role: Role::Plain }
    }

    /// A tool without parameters that the interaction itself answers.
    pub fn own(name: String, description: String, role: Role) -> Offered {
        let tool = Arc::new(Tool { trusted: true, ..Tool::new(name.clone(), "", Default::default(), None) });
        let parameters = json!({"type": "object", "properties": {}});
        Offered { spec: ToolSpec { name, description, parameters }, tool, this: None, group: None, role }
    }

    /// The name that the model calls it by.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What it reveals, when it is a facade.
    pub fn facade(&self) -> Option<&Facade> {
        match &self.role {
            Role::Facade(facade) => Some(facade),
            Role::Plain | Role::Guide(_) | Role::Artifact => None,
        }
    }

    /// Whether two are the same tool of the same object under the same name.
    pub fn same_as(&self, other: &Offered) -> bool {
        if let (Role::Guide(own), Role::Guide(others)) = (&self.role, &other.role) {
            return self.spec == other.spec && own == others;
        }
        is_same(&self.tool, &other.tool) && self.spec == other.spec && self.this == other.this
    }
}

/// Whether two are one tool, that of a server each time as the server describes it.
pub fn is_same(one: &Arc<Tool>, other: &Arc<Tool>) -> bool {
    let of_server = one.described_by.is_some() && one.described_by == other.described_by;
    Arc::ptr_eq(one, other) || (of_server && one.name == other.name)
}

/// The JSON Schema of a tool's parameters, as models see it.
pub fn parameters(tool: &Tool, types: &Types) -> Value {
    if let Some(schema) = &tool.schema {
        return rooted(schema.value());
    }
    schema_of(types, &Shape::new(ShapeKind::Object(Box::new(tool.parameters.clone()))))
}

/// A server's schema as providers take it: they refuse one that does not say that it is an object's.
fn rooted(schema: &Value) -> Value {
    match schema {
        Value::Object(keys) if keys.get("type").is_some_and(|of| of == "object") && keys.contains_key("properties") => {
            schema.clone()
        }
        Value::Object(keys) => {
            let mut rooted = Map::from_iter([("type".to_owned(), json!("object"))]);
            rooted.extend(keys.iter().filter(|(key, _)| *key != "type").map(|(k, v)| (k.clone(), v.clone())));
            rooted.entry("properties").or_insert_with(|| json!({}));
            Value::Object(rooted)
        }
        _ => json!({"type": "object", "properties": {}}),
    }
}

/// Whether two different tools of one name are an error, by what each of them says of it.
pub fn throws(earlier: OnCollision, later: OnCollision) -> bool {
    use OnCollision::{Replace, Throw};
    matches!((earlier, later), (Replace, Replace) | (Throw, Throw))
}

/// Which of two different tools of one name is offered (runtime.md 4).
///
/// # Errors
/// When neither yields.
pub fn collide<'a>(earlier: &'a Arc<Offered>, later: &'a Arc<Offered>) -> Result<&'a Arc<Offered>, String> {
    use OnCollision::{Keep, Replace, Throw};
    match (earlier.tool.on_collision, later.tool.on_collision) {
        _ if earlier.same_as(later) => Ok(earlier),
        (Replace, Keep | Throw) | (Throw | Keep, Keep) => Ok(earlier),
        (Keep | Throw, Replace) | (Keep, Throw) => Ok(later),
        (Replace, Replace) | (Throw, Throw) => Err(format!(
            "two different tools are named `{}`; derive one of them under another name, or give one of them \
             `on_collision: replace` or `keep`",
            later.name()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::RawSchema;

    fn offered(name: &str, on_collision: OnCollision) -> Arc<Offered> {
        let tool = Tool { on_collision, ..Tool::new(name, "", Default::default(), None) };
        Arc::new(Offered::plain(Arc::new(tool), &Types::default()))
    }

    #[test]
    fn replace_wins_keep_yields_and_throw_is_an_error() {
        use OnCollision::{Keep, Replace, Throw};
        for (earlier, later, winner) in [
            (Throw, Throw, None),
            (Replace, Replace, None),
            (Throw, Replace, Some(1)),
            (Replace, Throw, Some(0)),
            (Keep, Throw, Some(1)),
            (Throw, Keep, Some(0)),
            (Keep, Keep, Some(0)),
            (Keep, Replace, Some(1)),
            (Replace, Keep, Some(0)),
        ] {
            let pair = [offered("x", earlier), offered("x", later)];
            let won = collide(&pair[0], &pair[1]).ok().map(|won| usize::from(Arc::ptr_eq(won, &pair[1])));
            assert_eq!(won, winner, "{earlier:?} {later:?}");
        }
        let same = offered("x", Throw);
        assert!(collide(&same, &same).is_ok());
    }

    #[test]
    fn a_servers_schema_is_sent_as_it_is_but_for_a_root_that_providers_refuse() {
        let sent = |schema: Value| {
            let schema = RawSchema::new(schema).map(Arc::new).ok();
            let tool = Tool { schema, ..Tool::new("t", "", Default::default(), None) };
            parameters(&tool, &Types::default())
        };
        let whole = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}});
        assert_eq!(sent(whole.clone()), whole);
        assert_eq!(sent(json!({"type": "object"})), json!({"type": "object", "properties": {}}));
    }
}
