//! `builtin:blackboard`: what the process knows, read-only.

use futures::FutureExt;
use serde_json::{Map, Value, json};

use crate::action::context::{Context, Failure};
use crate::diag::suggest;
use crate::tool::Tool;
use crate::value::{ShapeKind, present};

use super::{Native, arguments, failure, optional, required, text, tool};

pub(super) fn tools() -> Vec<Tool> {
    let body = |run| Native { kind: "blackboard", permissions: &[], run };
    vec![
        tool(
            "list_objects",
            "Lists the objects that this process has so far, oldest first: the type of each, and its name where it has \
             one. Use get_object to see one.",
            Vec::new(),
            body(|cx| async move { Ok(list(cx)) }.boxed()),
        ),
        tool(
            "get_object",
            "Gives the newest object of a type.",
            vec![
                ("type", required(ShapeKind::String, "The type, such as Person")),
                ("name", optional(ShapeKind::String, "Only an object of this name")),
            ],
            body(|cx| async move { get(cx) }.boxed()),
        ),
    ]
}

fn list(cx: &dyn Context) -> Value {
    let objects = cx.objects();
    let entries = objects.iter().map(|object| {
        let mut entry = Map::new();
        entry.insert("type".to_owned(), json!(cx.types().name(object.type_id)));
        if let Some(name) = &object.name {
            entry.insert("name".to_owned(), json!(**name));
        }
        Value::Object(entry)
    });
    Value::Array(entries.collect())
}

fn get(cx: &dyn Context) -> Result<Value, Failure> {
    let (types, wanted) = (cx.types(), text(arguments(cx), "type"));
    let name = arguments(cx).get("name").and_then(Value::as_str);
    let objects = cx.objects();
    let Some(id) = types.id(wanted) else {
        let mut there: Vec<&str> = objects.iter().map(|object| types.name(object.type_id)).collect();
        there.dedup();
        let help = suggest::near_or_all(wanted, there, "the types of the objects");
        return Err(failure(format!("there is no type `{wanted}`; {help}")));
    };
    let fits = |object: &&crate::action::context::Seen| {
        types.is_subtype(object.type_id, id) && name.is_none_or(|name| object.name.as_deref() == Some(name))
    };
    match objects.iter().rfind(fits) {
        Some(object) => Ok(present(types, id, object.type_id, (*object.value).clone())),
        None => {
            let named = name.map(|name| format!(" of the name `{name}`")).unwrap_or_default();
            Err(failure(format!("there is no `{wanted}`{named} yet; list_objects says what there is")))
        }
    }
}
