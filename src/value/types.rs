//! The resolved type table of one agent: every name is an id, every default is filled in.
//!
//! `decl` holds types as they were written, `compile` resolves them into this table; schemas, validation, samples,
//! template checks and planning facts all read it. It carries no spans, so that equal declarations compare equal.

use indexmap::IndexMap;
use serde_json::{Map, Value};

/// Index of a declared type in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// Names of the types that every module sees without declaring them (language.md 3).
pub const BUILT_IN: &[&str] = &["UserInput", "UserMessage", "AssistantMessage", "Conversation", "Feedback", "Image"];

/// The types that one agent sees, in declaration order, built-in types first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Types {
    defs: Vec<TypeDef>,
    by_name: IndexMap<String, TypeId>,
}

/// One declared type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDef {
    /// Its name in `PascalCase`; synthetic names (`Stage` states too) never clash with declared ones.
    pub name: String,
    /// What the author says of it; goes into schemas and prompts.
    pub description: Option<String>,
    /// Direct supertypes (`is:`), in the order written.
    pub supertypes: Vec<TypeId>,
    /// No object has this type itself, only its subtypes.
    pub is_abstract: bool,
    /// The type is a state (language.md 7).
    pub is_state: bool,
    /// The field that carries the concrete type's name where this type, as a supertype or union, is expected.
    pub discriminator: String,
    /// What its values look like.
    pub kind: TypeKind,
}

/// What the values of a declared type look like.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// An object with fields; inherited fields are included, supertypes' first.
    Object(ObjectDef),
    /// A named scalar (`Story: string`), list or map: the value is not an object of fields.
    Alias(Shape),
    /// One of the listed values.
    Enum(Vec<Value>),
    /// An object of one of the listed types (`one_of` of declared types).
    Union(Vec<TypeId>),
    /// The author's own JSON Schema.
    Schema(Value),
}

/// The fields of an object type or of an inline object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectDef {
    /// Declared (and inherited) fields in order.
    pub fields: IndexMap<String, Field>,
    /// What further fields an object may have.
    pub open: Open,
    /// Computed members, visible to templates and never on the wire: name to expr text.
    pub computed: IndexMap<String, String>,
    /// Rules that a value must satisfy beyond its schema.
    pub rules: Vec<Rule>,
}

/// What fields beyond the declared ones an object may have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Open {
    /// None.
    #[default]
    Closed,
    /// Any.
    Any,
    /// Any whose values have this shape.
    Of(Box<Shape>),
}

/// A check over the fields of an object, with the message shown when it fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// An expr over the fields.
    pub check: String,
    /// What to tell the model or the author.
    pub message: Option<String>,
}

/// One field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's shape.
    pub shape: Shape,
    /// False for `name?` and where a default is given; null for such a field is the same as absent.
    pub required: bool,
}

/// A type expression: what a field, parameter, list element or map value may hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The kind of value.
    pub kind: ShapeKind,
    /// JSON Schema annotations and limits written beside it.
    pub constraints: Constraints,
}

/// JSON Schema annotations and limits: `description default examples minLength pattern minimum format const …`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constraints {
    /// Shown to models and authors.
    pub description: Option<String>,
    /// Filled in where the value is absent.
    pub default: Option<Value>,
    /// Every other keyword, by its JSON Schema name, in the order written.
    pub keywords: Map<String, Value>,
}

/// The kind of value of a [`Shape`].
#[derive(Clone, Debug, PartialEq)]
pub enum ShapeKind {
    /// Any JSON value.
    Any,
    /// Only null.
    Null,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// `YYYY-MM-DD`.
    Date,
    /// RFC 3339 date and time.
    DateTime,
    /// A URI.
    Uri,
    /// An e-mail address.
    Email,
    /// A declared type.
    Named(TypeId),
    /// A list of values of one shape.
    List(Box<Shape>),
    /// An object whose values have one shape and whose keys are free.
    Map(Box<Shape>),
    /// One of the listed values.
    Enum(Vec<Value>),
    /// A value of one of the shapes.
    OneOf(Vec<Shape>),
    /// An inline object.
    Object(Box<ObjectDef>),
}

impl Shape {
    /// A shape without annotations.
    pub fn new(kind: ShapeKind) -> Shape {
        Shape { kind, constraints: Constraints::default() }
    }

    /// A reference to a declared type, without annotations.
    pub fn named(id: TypeId) -> Shape {
        Shape::new(ShapeKind::Named(id))
    }

    /// A list of `element`, without annotations.
    pub fn list(element: Shape) -> Shape {
        Shape::new(ShapeKind::List(Box::new(element)))
    }

    /// The same shape with a description.
    pub fn described(mut self, description: &str) -> Shape {
        self.constraints.description = Some(description.to_owned());
        self
    }

    /// The same shape with one JSON Schema keyword more.
    pub fn with(mut self, keyword: &str, value: impl Into<Value>) -> Shape {
        self.constraints.keywords.insert(keyword.to_owned(), value.into());
        self
    }
}

impl TypeDef {
    /// A concrete object type without supertypes.
    pub fn object(name: &str, object: ObjectDef) -> TypeDef {
        TypeDef {
            name: name.to_owned(),
            description: None,
            supertypes: Vec::new(),
            is_abstract: false,
            is_state: false,
            discriminator: "type".to_owned(),
            kind: TypeKind::Object(object),
        }
    }

    /// Its fields, when it is an object type.
    pub fn fields(&self) -> Option<&IndexMap<String, Field>> {
        match &self.kind {
            TypeKind::Object(object) => Some(&object.fields),
            TypeKind::Alias(_) | TypeKind::Enum(_) | TypeKind::Union(_) | TypeKind::Schema(_) => None,
        }
    }
}

impl Types {
    /// A table with only the built-in types of language.md 3.
    pub fn with_built_ins() -> Types {
        let mut types = Types::default();
        for def in built_ins() {
            types.insert(def);
        }
        // `Conversation` refers to the messages, so it is added once their ids are known.
        let messages: Vec<Shape> =
            ["UserMessage", "AssistantMessage"].iter().filter_map(|name| types.id(name)).map(Shape::named).collect();
        let element = Shape::new(ShapeKind::OneOf(messages));
        let object = ObjectDef {
            fields: [("messages".to_owned(), Field { shape: Shape::list(element), required: true })].into(),
            ..ObjectDef::default()
        };
        let mut def = TypeDef::object("Conversation", object);
        def.description = Some("The messages of a chat so far, oldest first".to_owned());
        types.insert(def);
        types
    }

    /// Adds a type and returns its id; a type of that name that is already there is replaced and keeps its id, which
    /// is how a resolver first reserves ids for names that refer to each other.
    pub fn insert(&mut self, def: TypeDef) -> TypeId {
        if let Some(&id) = self.by_name.get(&def.name) {
            self.defs[id.0 as usize] = def;
            return id;
        }
        let id = TypeId(u32::try_from(self.defs.len()).unwrap_or(u32::MAX));
        self.by_name.insert(def.name.clone(), id);
        self.defs.push(def);
        id
    }

    /// The type of this name.
    pub fn id(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// The definition of a type of this table.
    pub fn get(&self, id: TypeId) -> &TypeDef {
        &self.defs[id.0 as usize]
    }

    /// The definition of the type of this name.
    pub fn find(&self, name: &str) -> Option<&TypeDef> {
        self.id(name).map(|id| self.get(id))
    }

    /// The name of a type of this table.
    pub fn name(&self, id: TypeId) -> &str {
        &self.get(id).name
    }

    /// All names, in declaration order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// All types with their ids, in declaration order.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &TypeDef)> {
        self.defs.iter().enumerate().map(|(index, def)| (TypeId(index as u32), def))
    }

    /// True when an object of type `sub` may stand where `sup` is expected: they are equal, `sup` is reached by `is:`,
    /// or `sup` is a union with such a member.
    pub fn is_subtype(&self, sub: TypeId, sup: TypeId) -> bool {
        sub == sup || self.supertypes(sub).contains(&sup)
    }

    /// Every type that an object of type `id` also is, nearest first, without `id` itself: supertypes, their
    /// supertypes, and unions that name one of these. Cycles (refused elsewhere) end the walk.
    pub fn supertypes(&self, id: TypeId) -> Vec<TypeId> {
        let mut found = vec![id];
        let mut next = 0;
        while next < found.len() {
            let current = found[next];
            next += 1;
            let unions = self.iter().filter(|(_, def)| matches!(&def.kind, TypeKind::Union(m) if m.contains(&current)));
            let direct = self.get(current).supertypes.iter().copied().chain(unions.map(|(id, _)| id));
            for sup in direct.collect::<Vec<_>>() {
                if !found.contains(&sup) {
                    found.push(sup);
                }
            }
        }
        found.remove(0);
        found
    }

    /// The concrete types that an object expected to be `id` may have, `id` first when it is concrete, then in
    /// declaration order.
    pub fn concrete(&self, id: TypeId) -> Vec<TypeId> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(current) = found.get(next).copied() {
            next += 1;
            let members: &[TypeId] = if let TypeKind::Union(members) = &self.get(current).kind { members } else { &[] };
            let direct = self.iter().filter(|(_, def)| def.supertypes.contains(&current)).map(|(sub, _)| sub);
            for sub in members.iter().copied().chain(direct) {
                if !found.contains(&sub) {
                    found.push(sub);
                }
            }
        }
        found.retain(|sub| {
            let def = self.get(*sub);
            !def.is_abstract && !matches!(def.kind, TypeKind::Union(_))
        });
        found.sort_by_key(|sub| (*sub != id, *sub));
        found
    }

    /// Whether objects of a type are states of a process: it is declared among the states, or a subtype of one that is.
    pub fn is_state(&self, id: TypeId) -> bool {
        self.get(id).is_state || self.supertypes(id).into_iter().any(|sup| self.get(sup).is_state)
    }

    /// True when values of this type carry a discriminator: it is abstract, a union, or has subtypes.
    pub fn is_polymorphic(&self, id: TypeId) -> bool {
        let def = self.get(id);
        def.is_abstract || matches!(def.kind, TypeKind::Union(_)) || self.concrete(id).len() > 1
    }
}

fn built_ins() -> Vec<TypeDef> {
    let string = || Shape::new(ShapeKind::String);
    let object = |name: &str, description: &str, fields: Vec<(&str, Shape, bool)>| {
        let fields = fields
            .into_iter()
            .map(|(name, shape, required)| (name.to_owned(), Field { shape, required }))
            .collect::<IndexMap<_, _>>();
        let mut def = TypeDef::object(name, ObjectDef { fields, ..ObjectDef::default() });
        def.description = Some(description.to_owned());
        def
    };
    let score = Shape::new(ShapeKind::Number).with("minimum", 0).with("maximum", 1).described("From 0 to 1, 1 is best");
    vec![
        object(
            "UserInput",
            "What a person typed",
            vec![("content", string(), true), ("timestamp", Shape::new(ShapeKind::DateTime), false)],
        ),
        object("UserMessage", "A message from a person", vec![("content", string(), true)]),
        object("AssistantMessage", "A message to a person", vec![("content", string(), true)]),
        object("Feedback", "A judgement of a result", vec![("score", score, true), ("comments", string(), false)]),
        object(
            "Image",
            "A picture: one of `path`, `url` and `data`",
            vec![
                ("path", string(), false),
                ("url", Shape::new(ShapeKind::Uri), false),
                ("data", string().described("Base64"), false),
                ("mime", string(), false),
            ],
        ),
    ]
}

/// The default name of an object of a type: the type's name in snake case (`HTTPRequest` gives `http_request`).
pub fn snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::with_capacity(name.len() + 4);
    for (index, &c) in chars.iter().enumerate() {
        let after_lower = index > 0 && !chars[index - 1].is_uppercase();
        let before_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        if c.is_uppercase() && index > 0 && chars[index - 1] != '_' && (after_lower || before_lower) {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snake_case_keeps_acronyms_together() {
        let names = ["StarPerson", "HTTPRequest", "UserInput", "A", "GPT4Report", "ParseXML"];
        let snake: Vec<String> = names.iter().map(|name| snake_case(name)).collect();
        assert_eq!(snake, ["star_person", "http_request", "user_input", "a", "gpt4_report", "parse_xml"]);
    }

    #[test]
    fn subtypes_reach_through_unions_and_chains() {
        let mut types = Types::with_built_ins();
        let animal = types.insert(TypeDef { is_abstract: true, ..TypeDef::object("Animal", ObjectDef::default()) });
        let frog = types.insert(TypeDef { supertypes: vec![animal], ..TypeDef::object("Frog", ObjectDef::default()) });
        let cake = types.insert(TypeDef::object("Cake", ObjectDef::default()));
        let prize = types.insert(TypeDef {
            kind: TypeKind::Union(vec![animal, cake]),
            ..TypeDef::object("Prize", ObjectDef::default())
        });
        assert!(types.is_subtype(frog, prize) && types.is_subtype(frog, animal) && !types.is_subtype(animal, frog));
        assert_eq!(types.concrete(prize), [frog, cake]);
        assert!(types.is_polymorphic(animal) && !types.is_polymorphic(frog));
    }
}
