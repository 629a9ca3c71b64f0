//! Types as written: type exprs, fields, and the short and long forms of a declaration (language.md 3).

use serde_json::{Map as JsonMap, Value, json};

use crate::diag::Diagnostic;
use crate::source::{Entry, Map, Node, NodeKind, Span, Spanned, Text};

use super::basic::{Expr, Json, List, Name, Place, Table, mapping};
use super::read::{Defs, Read, ReadCx, field, refuse_unknown_keys, unknown_key};
use super::tools::Tool;
use super::workflow::Action;

/// Scalar names of the language, with `"null"`.
pub const SCALARS: &[&str] =
    &["string", "integer", "number", "boolean", "any", "null", "date", "datetime", "uri", "email"];

/// A type as it is mentioned: `Ticket`, `list<Story>`, `{enum: […]}`, `{type: integer, minimum: 1}`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// Where it was written.
    pub place: Place,
    /// Which type.
    pub kind: TypeExprKind,
    /// JSON Schema annotations and limits beside it, in the order written.
    pub annotations: Vec<(Name, Json)>,
}

/// The forms of a [`TypeExpr`].
#[derive(Clone, Debug, PartialEq)]
pub enum TypeExprKind {
    /// A scalar or declared type by name.
    Name(Name),
    /// `list<T>` or `{list: T}`.
    List(Box<TypeExpr>),
    /// `map<T>` or `{map: T}`.
    Map(Box<TypeExpr>),
    /// `{enum: […]}`.
    Enum(Vec<Json>),
    /// `{one_of: […]}`.
    OneOf(Vec<TypeExpr>),
    /// `{fields: {…}}`.
    Fields(Box<ObjectExpr>),
}

/// Fields of an object type or an inline object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectExpr {
    /// The fields in order.
    pub fields: Vec<FieldExpr>,
    /// `open: true` or `open: T`.
    pub open: Option<OpenExpr>,
}

/// What `open:` says.
#[derive(Clone, Debug, PartialEq)]
pub enum OpenExpr {
    /// `open: true` (or `false`).
    Flag(bool),
    /// `open: T`.
    Of(TypeExpr),
}

/// One declared field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldExpr {
    /// Its name without the `?`.
    pub name: Name,
    /// The name ended with `?`.
    pub optional: bool,
    /// Its type.
    pub of: TypeExpr,
}

/// A declared type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDecl {
    /// Where its value stands.
    pub place: Place,
    /// `description:`.
    pub description: Option<Name>,
    /// `is:`, the supertypes.
    pub is: List<Name>,
    /// `abstract: true`.
    pub is_abstract: bool,
    /// `discriminator:`.
    pub discriminator: Option<Name>,
    /// What its values look like.
    pub kind: TypeDeclKind,
    /// Computed members.
    pub computed: Table<Expr>,
    /// Rules beyond the schema.
    pub rules: List<RuleDecl>,
    /// Tools of the object itself.
    pub tools: Table<Tool>,
    /// Actions, for a state.
    pub actions: Table<Action>,
}

/// What the values of a declared type look like, as written.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeDeclKind {
    /// Fields, also none (`{abstract: true}`).
    Object(ObjectExpr),
    /// `Story: string` or `{scalar: string, format: …}`.
    Alias(TypeExpr),
    /// `{enum: […]}`.
    Enum(Vec<Json>),
    /// `{one_of: [Refund, Apology]}`.
    Union(List<Name>),
    /// `{schema: …}`: a file under `schemas/` or a JSON Schema.
    Schema(Json),
}

crate::record! {
    /// A check over the fields of an object.
    pub struct RuleDecl = "a rule" {
        /// An expr over the fields that must hold.
        req check: Expr,
        /// What is wrong when it does not hold.
        opt message: Name,
    }
}

/// Keys of which one makes a type's mapping the long form.
pub const LONG_FORM_MARKS: &[&str] = &["fields", "is", "abstract", "one_of", "enum", "schema", "scalar"];
const LONG_KEYS: &[&str] = &[
    "description",
    "is",
    "fields",
    "abstract",
    "one_of",
    "enum",
    "schema",
    "scalar",
    "discriminator",
    "open",
    "computed",
    "rules",
    "tools",
    "actions",
];
const SHAPE_KEYS: &[&str] = &["type", "list", "map", "enum", "one_of", "fields"];
/// JSON Schema annotations and limits that may stand beside a type.
pub const ANNOTATIONS: &[&str] = &[
    "description",
    "title",
    "default",
    "examples",
    "const",
    "format",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contentEncoding",
    "contentMediaType",
    "deprecated",
    "readOnly",
    "writeOnly",
];

impl Read for TypeExpr {
    fn expected() -> String {
        "a type such as `string`, `list<Story>` or `{enum: [a, b]}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<TypeExpr> {
        Self::read_named(&Spanned { value: "name".to_owned(), span: node.span }, node, cx)
    }

    fn read_named(name: &Name, node: &Node, cx: &mut ReadCx) -> Option<TypeExpr> {
        match &node.kind {
            NodeKind::Text(text) if text.value.trim_end().ends_with('?') => {
                misplaced_question_mark(name, text, cx);
                None
            }
            NodeKind::Text(text) => read_type_text(text, 0..text.value.len(), cx),
            NodeKind::Map(map) => read_type_mapping(node, map, cx),
            NodeKind::Null => {
                cx.report(
                    Diagnostic::error("wrong-shape", node.span, "expected a type, found nothing")
                        .help("for the null type write `\"null\"` in quotes"),
                );
                None
            }
            _ => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        defs.reference("TypeExpr", |defs| {
            let this = json!({"$ref": "#/definitions/TypeExpr"});
            let mut properties = JsonMap::new();
            properties.insert("type".into(), json!({"type": "string"}));
            properties.insert("list".into(), this.clone());
            properties.insert("map".into(), this.clone());
            properties.insert("enum".into(), json!({"type": "array"}));
            properties.insert("one_of".into(), json!({"type": "array", "items": this}));
            properties.insert("fields".into(), fields_schema(defs));
            properties.insert("open".into(), json!({"anyOf": [{"type": "boolean"}, this]}));
            for annotation in ANNOTATIONS {
                properties.insert((*annotation).into(), json!({}));
            }
            json!({"anyOf": [
                {"type": "string", "description": "A scalar, a declared type, `list<T>` or `map<T>`"},
                {
                    "type": "object",
                    "properties": properties,
                    "additionalProperties": false,
                    // What the type is; the rest only restricts or explains it.
                    "anyOf": SHAPE_KEYS.iter().map(|key| json!({"required": [key]})).collect::<Vec<_>>(),
                },
            ]})
        })
    }
}

/// Reports `note: string?`, which is written `note?: string`.
fn misplaced_question_mark(name: &Name, text: &Text, cx: &mut ReadCx) {
    let of = text.value.trim_end().trim_end_matches('?');
    let message = "the `?` of an optional field stands on its name, not on its type";
    let field = name.value.trim_end_matches('?');
    cx.report(Diagnostic::error("misplaced-question-mark", text.span, message).help(format!("write `{field}?: {of}`")));
}

/// Parses `list<T>`, `map<T>` and names within a text; `range` is the part of the text's value to parse.
fn read_type_text(text: &Text, range: std::ops::Range<usize>, cx: &mut ReadCx) -> Option<TypeExpr> {
    let whole = &text.value[range.clone()];
    let start = range.start + (whole.len() - whole.trim_start().len());
    let part = whole.trim();
    let span = text.span_of(start..start + part.len());
    let make = |kind| TypeExpr { place: Place(span), kind, annotations: Vec::new() };
    for (prefix, is_list) in [("list<", true), ("map<", false)] {
        let Some(inner) = part.strip_prefix(prefix) else { continue };
        let Some(inner) = inner.strip_suffix('>') else {
            cx.report(
                Diagnostic::error("bad-type", span, format!("`{part}` has no closing `>`"))
                    .help(format!("write `{part}>`")),
            );
            return None;
        };
        let from = start + prefix.len();
        let element = Box::new(read_type_text(text, from..from + inner.len(), cx)?);
        return Some(make(if is_list { TypeExprKind::List(element) } else { TypeExprKind::Map(element) }));
    }
    if let Some(name) = part.strip_suffix("[]") {
        cx.report(
            Diagnostic::error("list-brackets", span, "square brackets after a name are not part of the language")
                .help(format!("write `list<{name}>`"))
                .fix(span, format!("list<{name}>")),
        );
        return None;
    }
    if let Some(name) = part.strip_suffix('?') {
        cx.report(
            Diagnostic::error("misplaced-question-mark", span, "an element of a list or map cannot be optional")
                .help(format!("write `{name}`; a list or map may be empty"))
                .fix(span, name),
        );
        return None;
    }
    if let Some((word, right)) = generic_of_elsewhere(part) {
        let word = text.span_of(start..start + word.len());
        cx.report(
            Diagnostic::error("bad-type", word, format!("`{part}` is not a type"))
                .help(format!("did you mean `{right}{}`?", &part[part.find('<').unwrap_or(0)..]))
                .fix(word, right),
        );
        return None;
    }
    if part.contains('|') {
        let names: Vec<&str> = part.split('|').map(str::trim).collect();
        let others: Vec<&str> =
            names.iter().copied().filter(|name| !matches!(*name, "null" | "None" | "none" | "nil")).collect();
        let help = match others.as_slice() {
            [only] if names.len() == 2 => {
                format!("for a field that may be absent put `?` after its name: `name?: {only}`")
            }
            _ => format!("write `{{one_of: [{}]}}`", names.join(", ")),
        };
        cx.report(Diagnostic::error("bad-type", span, format!("`{part}` is not a type")).help(help));
        return None;
    }
    if part.is_empty() || !part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') {
        cx.report(
            Diagnostic::error("bad-type", span, format!("`{part}` is not a type"))
                .help(format!("expected {}", TypeExpr::expected())),
        );
        return None;
    }
    Some(make(TypeExprKind::Name(Spanned { value: part.to_owned(), span })))
}

/// The word before the `<` of a type of another language, and the one of this language for it.
fn generic_of_elsewhere(part: &str) -> Option<(&str, &'static str)> {
    let (word, _) = part.split_once('<').filter(|_| part.ends_with('>'))?;
    let right = match word.to_lowercase().as_str() {
        "list" | "array" | "set" | "sequence" | "vec" => "list",
        "map" | "dict" | "record" | "object" => "map",
        _ => return None,
    };
    Some((word, right))
}

fn read_type_mapping(node: &Node, map: &Map, cx: &mut ReadCx) -> Option<TypeExpr> {
    let marks: Vec<&Entry> =
        map.entries.iter().filter(|entry| SHAPE_KEYS.contains(&entry.key.value.as_str())).collect();
    let Some(mark) = marks.first() else {
        if let Some(raw) = map
            .entries
            .iter()
            .find(|entry| ["properties", "items", "$ref", "anyOf"].contains(&entry.key.value.as_str()))
        {
            cx.report(
                Diagnostic::error("bad-type", raw.key.span, format!("`{}` is raw JSON Schema", raw.key.value))
                    .help("write `{fields: {…}}` or `{list: T}`, or declare a type with `schema:`"),
            );
        } else if cx.diagnostics.len() < usize::MAX {
            let all = [SHAPE_KEYS, ANNOTATIONS].concat();
            let unknown: Vec<&Entry> =
                map.entries.iter().filter(|entry| !all.contains(&entry.key.value.as_str())).collect();
            match unknown.first() {
                Some(entry) if !map.entries.is_empty() => cx.report(unknown_key(&entry.key, &all, "a type")),
                _ => cx.wrong_shape(node, &TypeExpr::expected()),
            }
        }
        return None;
    };
    if let Some(second) = marks.get(1) {
        cx.report(
            Diagnostic::error(
                "two-forms",
                second.key.span,
                format!("a type is given by `{}` or by `{}`, not by both", mark.key.value, second.key.value),
            )
            .related(mark.key.span, "the first is here"),
        );
    }
    let known: Vec<&str> =
        [&[mark.key.value.as_str()][..], ANNOTATIONS, if mark.key.value == "fields" { &["open"][..] } else { &[] }]
            .concat();
    for entry in &map.entries {
        if !known.contains(&entry.key.value.as_str()) && !SHAPE_KEYS.contains(&entry.key.value.as_str()) {
            cx.report(unknown_key(&entry.key, &known, "a type"));
        }
    }
    let mut annotations: Vec<(Name, Json)> = Vec::new();
    for entry in map.entries.iter().filter(|entry| ANNOTATIONS.contains(&entry.key.value.as_str())) {
        annotations.extend(Json::read(&entry.value, cx).map(|value| (entry.key.clone(), value)));
    }
    refuse_empty_ranges(&annotations, cx);
    let value = &mark.value;
    let kind = match mark.key.value.as_str() {
        "type" => {
            let inner = TypeExpr::read(value, cx)?;
            annotations.splice(0..0, inner.annotations);
            inner.kind
        }
        "list" => TypeExprKind::List(Box::new(TypeExpr::read(value, cx)?)),
        "map" => TypeExprKind::Map(Box::new(TypeExpr::read(value, cx)?)),
        "enum" => TypeExprKind::Enum(read_enum(value, cx)?),
        "one_of" => TypeExprKind::OneOf(read_members::<TypeExpr>(value, cx)?.0),
        _ => {
            TypeExprKind::Fields(Box::new(ObjectExpr { fields: read_fields(value, cx)?, open: field(map, "open", cx) }))
        }
    };
    Some(TypeExpr { place: Place(node.span), kind, annotations })
}

/// Reports limits that leave no value: a minimum above its maximum.
fn refuse_empty_ranges(annotations: &[(Name, Json)], cx: &mut ReadCx) {
    let limit = |wanted: &str| {
        let found = annotations.iter().position(|(name, _)| name.value == wanted)?;
        Some((found, annotations[found].1.0.as_number()?))
    };
    let pairs = [
        ("minimum", "maximum"),
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
    ];
    for (low_name, high_name) in pairs {
        let (Some((low_at, low)), Some((high_at, high))) = (limit(low_name), limit(high_name)) else { continue };
        if low > high {
            let (first, second) = (low_at.min(high_at), low_at.max(high_at));
            let message = format!("no value has `{low_name}` {low} and `{high_name}` {high}");
            cx.report(
                Diagnostic::error("empty-range", annotations[second].1.0.span, message)
                    .related(annotations[first].1.0.span, "the other limit is here"),
            );
        }
    }
}

/// The members of a union: at least one.
fn read_members<T: Read>(node: &Node, cx: &mut ReadCx) -> Option<List<T>> {
    if matches!(&node.kind, NodeKind::List(items) if items.is_empty()) {
        cx.report(Diagnostic::error("wrong-shape", node.span, "a union needs at least one member"));
        return None;
    }
    List::<T>::read(node, cx)
}

fn read_enum(node: &Node, cx: &mut ReadCx) -> Option<Vec<Json>> {
    let NodeKind::List(items) = &node.kind else {
        cx.wrong_shape(node, "a list of values");
        return None;
    };
    if items.is_empty() {
        cx.report(Diagnostic::error("wrong-shape", node.span, "an enum needs at least one value"));
        return None;
    }
    for (index, item) in items.iter().enumerate() {
        if items[..index].contains(item) {
            cx.report(Diagnostic::error("duplicate-value", item.span, "this value is listed already"));
        }
    }
    Some(items.iter().filter_map(|item| Json::read(item, cx)).collect())
}

/// Reads the fields of an object: names with or without `?`, each with a type.
pub fn read_fields(node: &Node, cx: &mut ReadCx) -> Option<Vec<FieldExpr>> {
    let map = mapping(node, "a mapping from field names to types", cx)?;
    Some(map.entries.iter().filter_map(|entry| read_field(entry, cx)).collect())
}

fn read_field(entry: &Entry, cx: &mut ReadCx) -> Option<FieldExpr> {
    let name = entry.key.value.strip_suffix('?');
    let optional = name.is_some();
    let name = Spanned { value: name.unwrap_or(&entry.key.value).to_owned(), span: entry.key.span };
    let of = TypeExpr::read_named(&name, &entry.value, cx)?;
    Some(FieldExpr { name, optional, of })
}

impl Read for OpenExpr {
    fn expected() -> String {
        "`true` or a type".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<OpenExpr> {
        match node.kind {
            NodeKind::Bool(flag) => Some(OpenExpr::Flag(flag)),
            _ => TypeExpr::read(node, cx).map(OpenExpr::Of),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [{"type": "boolean"}, TypeExpr::schema(defs)]})
    }
}

impl Read for TypeDecl {
    fn expected() -> String {
        "a type: its fields, or a scalar's name".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<TypeDecl> {
        match &node.kind {
            NodeKind::Text(_) => {
                let alias = TypeExpr::read(node, cx)?;
                Some(TypeDecl::of(node.span, TypeDeclKind::Alias(alias)))
            }
            NodeKind::Map(map) if is_long_form(map) => read_long(node, map, cx),
            NodeKind::Map(map) => {
                if let Some(raw) = ["properties", "$ref", "$defs", "allOf", "anyOf"].iter().find_map(|key| map.get(key))
                {
                    cx.report(
                        Diagnostic::error("bad-type", raw.key.span, format!("`{}` is raw JSON Schema", raw.key.value))
                            .help("put the whole under `schema:`, or list the fields under the type's name"),
                    );
                    return None;
                }
                let fields = read_fields(node, cx)?;
                Some(TypeDecl::of(node.span, TypeDeclKind::Object(ObjectExpr { fields, open: None })))
            }
            _ => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        defs.reference("TypeDecl", |defs| {
            let long = json!({"type": "object", "properties": {
                "description": {"type": "string"},
                "is": List::<Name>::schema(defs),
                "fields": fields_schema(defs),
                "abstract": {"type": "boolean"},
                "one_of": List::<Name>::schema(defs),
                "enum": {"type": "array", "minItems": 1},
                "schema": {"type": ["string", "object", "boolean"]},
                "scalar": TypeExpr::schema(defs),
                "discriminator": {"type": "string"},
                "open": OpenExpr::schema(defs),
                "computed": Table::<Expr>::schema(defs),
                "rules": List::<RuleDecl>::schema(defs),
                "tools": Table::<Tool>::schema(defs),
                "actions": Table::<Action>::schema(defs),
            }});
            let marks: Vec<Value> = LONG_FORM_MARKS.iter().map(|mark| json!({"required": [mark]})).collect();
            let short = fields_schema(defs);
            json!({"anyOf": [
                {"type": "string"},
                {"allOf": [{"anyOf": marks}, long]},
                {"allOf": [{"not": {"anyOf": marks}}, short]},
            ]})
        })
    }
}

fn fields_schema(defs: &mut Defs) -> Value {
    json!({"type": "object", "additionalProperties": TypeExpr::schema(defs)})
}

fn is_long_form(map: &Map) -> bool {
    LONG_FORM_MARKS.iter().any(|mark| map.get(mark).is_some())
}

impl TypeDecl {
    fn of(span: Span, kind: TypeDeclKind) -> TypeDecl {
        TypeDecl {
            place: Place(span),
            description: None,
            is: List::default(),
            is_abstract: false,
            discriminator: None,
            kind,
            computed: Table::default(),
            rules: List::default(),
            tools: Table::default(),
            actions: Table::default(),
        }
    }
}

fn read_long(node: &Node, map: &Map, cx: &mut ReadCx) -> Option<TypeDecl> {
    let scalar = map.get("scalar");
    let known = if scalar.is_some() { [LONG_KEYS, ANNOTATIONS].concat() } else { LONG_KEYS.to_vec() };
    let map = &*refuse_unknown_keys(map, &known, "a type", cx);
    refuse_two_forms(map, cx);
    let kind = if let Some(entry) = scalar {
        let mut alias = TypeExpr::read(&entry.value, cx)?;
        for entry in map.entries.iter().filter(|entry| is_limit(&entry.key.value)) {
            alias.annotations.extend(Json::read(&entry.value, cx).map(|value| (entry.key.clone(), value)));
        }
        TypeDeclKind::Alias(alias)
    } else if let Some(entry) = map.get("enum") {
        TypeDeclKind::Enum(read_enum(&entry.value, cx)?)
    } else if let Some(names) = map.get("one_of").and_then(|entry| read_members::<Name>(&entry.value, cx)) {
        TypeDeclKind::Union(names)
    } else if let Some(schema) = field(map, "schema", cx) {
        TypeDeclKind::Schema(schema)
    } else {
        let fields =
            map.get("fields").map(|entry| read_fields(&entry.value, cx)).unwrap_or_default().unwrap_or_default();
        TypeDeclKind::Object(ObjectExpr { fields, open: field(map, "open", cx) })
    };
    Some(TypeDecl {
        description: field(map, "description", cx),
        is: field(map, "is", cx).unwrap_or_default(),
        is_abstract: field(map, "abstract", cx).unwrap_or(false),
        discriminator: field(map, "discriminator", cx),
        computed: field(map, "computed", cx).unwrap_or_default(),
        rules: field(map, "rules", cx).unwrap_or_default(),
        tools: field(map, "tools", cx).unwrap_or_default(),
        actions: field(map, "actions", cx).unwrap_or_default(),
        ..TypeDecl::of(node.span, kind)
    })
}

fn is_limit(key: &str) -> bool {
    ANNOTATIONS.contains(&key) && key != "description"
}

/// A type is an object, a union, an enum, a scalar or a schema, never two of these.
fn refuse_two_forms(map: &Map, cx: &mut ReadCx) {
    let forms = ["fields", "one_of", "enum", "schema", "scalar"];
    let written: Vec<&Entry> = map.entries.iter().filter(|entry| forms.contains(&entry.key.value.as_str())).collect();
    if let [first, second, ..] = written.as_slice() {
        cx.report(
            Diagnostic::error(
                "two-forms",
                second.key.span,
                format!("a type is given by `{}` or by `{}`, not by both", first.key.value, second.key.value),
            )
            .related(first.key.span, "the first is here"),
        );
    }
}
