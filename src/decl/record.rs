//! `record!`: a mapping with known keys, declared once.
//!
//! One declaration gives the struct, its reader (all errors, unknown keys with the nearest known one) and its JSON
//! Schema with the fields' doc comments as descriptions. It expands to what one would write by hand:
//!
//! ```text
//! record! {
//!     /// How often a failed action is tried again.
//!     pub struct Retry = "a retry policy" [short: attempts] {
//!         /// Tries in all, the first one included.
//!         def attempts: Count = Count(1),
//!         /// Longest pause between two tries.
//!         opt max: Duration,
//!     }
//! }
//! ```
//!
//! `req` fields are read or the whole is left out, `opt` fields are `Option`, `def` fields have a default. With
//! `[short: field]` anything but a mapping is read as that field alone. Rust keywords are written raw (`r#type`).

/// Declares a record; see the module's documentation.
#[macro_export]
macro_rules! record {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident = $what:literal $([short: $short:ident])? {
            $( $(#[doc = $field_doc:literal])* $mode:ident $field:ident : $type:ty $(= $default:expr)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {
            /// Where it was written; ignored by equality.
            pub place: $crate::decl::Place,
            /// Something written in it could not be read; what seems missing may follow only from that.
            pub partial: $crate::decl::basic::Partial,
            $( $(#[doc = $field_doc])* pub $field: $crate::record!(@type $mode $type), )*
        }

        impl $name {
            /// The keys that may be written, in declaration order.
            $vis const KEYS: &'static [&'static str] = &[$( $crate::decl::record::key(stringify!($field)) ),*];

            /// The keys whose values differ from those of another, in declaration order.
            #[allow(dead_code, unused_mut, unused_variables, reason = "not every record is compared or has fields")]
            pub(crate) fn differing(&self, other: &Self) -> Vec<&'static str> {
                let mut keys = Vec::new();
                $(
                    if self.$field != other.$field {
                        keys.push($crate::decl::record::key(stringify!($field)));
                    }
                )*
                keys
            }

            /// Reads the record from a mapping whose keys were checked by the caller.
            #[allow(dead_code, unused_variables, reason = "not every record is read in parts or has fields")]
            pub(crate) fn read_fields(
                map: &$crate::source::Map,
                span: $crate::source::Span,
                cx: &mut $crate::decl::ReadCx,
            ) -> Option<Self> {
                #[allow(unused_mut, reason = "a record without fields is never partial by them")]
                let mut partial = map.incomplete;
                $(
                    let key = $crate::decl::record::key(stringify!($field));
                    $crate::record!(@require $mode key, map, span, $what, cx);
                    let $field = $crate::decl::read::field::<$type>(map, key, cx);
                    partial |= $field.is_none() && map.contains(key);
                )*
                Some(Self {
                    place: $crate::decl::Place(span),
                    partial: $crate::decl::basic::Partial(partial),
                    $( $field: $crate::record!(@unwrap $mode $field $(, $default)?), )*
                })
            }
        }

        impl $crate::decl::Read for $name {
            fn expected() -> String {
                $what.to_owned()
            }

            fn read(node: &$crate::source::Node, cx: &mut $crate::decl::ReadCx) -> Option<Self> {
                match &node.kind {
                    $crate::source::NodeKind::Map(map) => {
                        let map = $crate::decl::read::refuse_unknown_keys(map, Self::KEYS, $what, cx);
                        Self::read_fields(&map, node.span, cx)
                    }
                    _ => {
                        $(
                            let map = $crate::decl::record::short(node, stringify!($short));
                            return Self::read_fields(&map, node.span, cx);
                        )?
                        #[allow(unreachable_code, reason = "a record without a short form has only this")]
                        {
                            let keys = $crate::diag::suggest::listed(Self::KEYS);
                            cx.wrong_shape_with(node, $what, &format!("it is a mapping with the keys {keys}"));
                            None
                        }
                    }
                }
            }

            fn schema(defs: &mut $crate::decl::Defs) -> serde_json::Value {
                defs.reference(stringify!($name), |defs| {
                    #[allow(unused_mut, reason = "records without fields or short form do not change these")]
                    let mut properties = serde_json::Map::new();
                    #[allow(unused_mut, reason = "most records require nothing")]
                    let mut required: Vec<&str> = Vec::new();
                    $(
                        let key = $crate::decl::record::key(stringify!($field));
                        let mut schema = <$type as $crate::decl::Read>::schema(defs);
                        $crate::decl::record::describe(&mut schema, &[$($field_doc),*]);
                        properties.insert(key.to_owned(), schema);
                        $crate::record!(@required $mode required key);
                    )*
                    let alternatives: Vec<serde_json::Value> =
                        vec![$( properties[$crate::decl::record::key(stringify!($short))].clone() )?];
                    $crate::decl::record::object_schema(&[$($doc),*], properties, &required, alternatives)
                })
            }
        }
    };
    (@type req $type:ty) => { $type };
    (@type opt $type:ty) => { Option<$type> };
    (@type def $type:ty) => { $type };
    (@require req $key:ident, $map:ident, $span:ident, $what:literal, $cx:ident) => {
        if $map.get($key).is_none() && !$map.incomplete {
            $crate::decl::read::missing_key($span, $key, $what, $cx);
        }
    };
    (@require opt $key:ident, $map:ident, $span:ident, $what:literal, $cx:ident) => {};
    (@require def $key:ident, $map:ident, $span:ident, $what:literal, $cx:ident) => {};
    (@unwrap req $field:ident) => { $field? };
    (@unwrap opt $field:ident) => { $field };
    (@unwrap def $field:ident, $default:expr) => { $field.unwrap_or($default) };
    (@required req $required:ident $key:ident) => { $required.push($key); };
    (@required opt $required:ident $key:ident) => {};
    (@required def $required:ident $key:ident) => {};
}

use serde_json::{Map as JsonMap, Value, json};

use crate::source::{Entry, Map, Node, Spanned};

/// The written key of a Rust field name: `r#type` is `type`.
pub const fn key(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// The mapping that a short form stands for: `node` under the key `field`.
pub fn short(node: &Node, field: &'static str) -> Map {
    let key = Spanned { value: key(field).to_owned(), span: node.span };
    Map { entries: vec![Entry { key, value: node.clone() }], ..Map::default() }
}

/// Puts doc comment lines into a schema as its description.
pub fn describe(schema: &mut Value, doc: &[&str]) {
    let text = doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned();
    let Value::Object(map) = schema else { return };
    if text.is_empty() {
        return;
    }
    if map.contains_key("$ref") {
        // Draft-07 ignores siblings of `$ref`, so the reference moves into `allOf`.
        let reference = std::mem::take(map);
        map.insert("allOf".to_owned(), json!([Value::Object(reference)]));
    }
    map.insert("description".to_owned(), Value::String(text));
}

/// The schema of a record: a closed object, or one of its short forms.
pub fn object_schema(doc: &[&str], properties: JsonMap<String, Value>, required: &[&str], short: Vec<Value>) -> Value {
    let mut object = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    if short.is_empty() {
        describe(&mut object, doc);
        return object;
    }
    let mut alternatives = short;
    alternatives.push(object);
    let mut schema = json!({"anyOf": alternatives});
    describe(&mut schema, doc);
    schema
}
