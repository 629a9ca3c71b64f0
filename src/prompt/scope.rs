//! Static types of values in templates, and the variables that a text sees.

use crate::value::{Shape, ShapeKind, TypeId, TypeKind, Types, describe, snake_case};
use indexmap::{IndexMap, IndexSet};
use serde_json::Value as Json;
use std::sync::Arc;

/// Aliases of aliases nested deeper than this are `any`.
const ALIASES_MAX: usize = 6;

/// The static type of a value in a template or expr.
#[derive(Clone, Debug, PartialEq)]
pub enum Ty {
    /// Nothing is known; left to run time.
    Any,
    /// Null.
    Null,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Number,
    /// Text.
    Str,
    /// One of these values.
    Enum(Arc<Vec<Json>>),
    /// An object of a declared type, or a value of a declared union or schema.
    Named(TypeId),
    /// An inline object or schema; never a scalar, list or map.
    Object(Arc<Shape>),
    /// A list or other iterable of elements.
    List(Box<Ty>),
    /// A fixed number of values.
    Tuple(Vec<Ty>),
    /// A map with free keys.
    Map(Box<Ty>),
    /// A map whose keys are known (`inputs`, `config`, map literals).
    Record(Arc<IndexMap<String, Ty>>),
    /// A value of one of these types.
    Union(Vec<Ty>),
    /// May be undefined (or null, which is the same as absent).
    Optional(Box<Ty>),
    /// Something that can be called: a function, a macro, a method, a block.
    Callable(Arc<Callable>),
    /// Macros and variables of an imported file.
    Module(Arc<IndexMap<String, Ty>>),
}

/// Something that can be called in a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Callable {
    /// Its name, for messages.
    pub name: String,
    /// Parameter names; those from `required` on have defaults. `None`: anything goes.
    pub parameters: Option<Vec<String>>,
    /// How many parameters have no default. A macro's parameters may all be left out; they are undefined then.
    pub required: usize,
    /// What a call gives.
    pub returns: Ty,
    /// Which of the macros that the check has seen it is.
    pub(super) id: Option<usize>,
}

/// Where a text stands, which decides what a missing value means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// Text (of a template) or a value (of an expr): a missing value is an error at run time.
    #[default]
    Value,
    /// Data: the value of a template that is exactly one `{{ … }}` is taken as it is, and null is a value.
    Data,
    /// A condition (`pre`, `when`, conditions): a missing object makes it unknown, which is no mistake.
    Truth,
}

/// The variables and functions that a text sees.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Variables by name.
    pub vars: IndexMap<String, Ty>,
    /// Conditions by name; they are variables of type boolean, found after `vars`.
    pub conditions: IndexSet<String>,
    /// Types by their default name, found last; each is the newest object or undefined. See [`Scope::type_names`].
    pub type_names: Option<Arc<IndexMap<String, TypeId>>>,
    /// The actions that `ran("…")` may name; `None`: not checked.
    pub actions: Option<Arc<IndexSet<String>>>,
    /// Whether `last all count has ran now` are there.
    pub functions: bool,
    /// What a missing value means here.
    pub position: Position,
    /// Exprs that are known to hold (or not) wherever the text is used, as for the data of a branch.
    pub assumed: Vec<(String, bool)>,
}

impl Scope {
    /// A scope without variables.
    pub fn new() -> Scope {
        Scope::default()
    }

    /// The same scope with one variable more.
    pub fn with(mut self, name: &str, ty: Ty) -> Scope {
        self.vars.insert(name.to_owned(), ty);
        self
    }

    /// The default names of all types, for [`Scope::type_names`]; made once per agent and shared.
    pub fn type_names(types: &Types) -> Arc<IndexMap<String, TypeId>> {
        Arc::new(types.iter().map(|(id, def)| (snake_case(&def.name), id)).collect())
    }
}

impl Ty {
    /// A function that a position adds, such as `calls(action)` in the checks of tests: all its parameters are required.
    pub fn function(name: &str, parameters: &[&str], returns: Ty) -> Ty {
        let parameters: Vec<String> = parameters.iter().map(|name| (*name).to_owned()).collect();
        let required = parameters.len();
        Ty::Callable(Arc::new(Callable {
            name: name.to_owned(),
            parameters: Some(parameters),
            required,
            returns,
            id: None,
        }))
    }

    /// The static type of values of a shape.
    pub fn of(types: &Types, shape: &Shape) -> Ty {
        Ty::of_within(types, shape, 0)
    }

    /// The static type of values of a declared type; aliases and enums are seen through.
    pub fn named(types: &Types, id: TypeId) -> Ty {
        Ty::named_within(types, id, 0)
    }

    /// `depth` counts the aliases on the way here: they may refer to themselves through lists.
    fn of_within(types: &Types, shape: &Shape, depth: usize) -> Ty {
        match &shape.kind {
            ShapeKind::Any => Ty::Any,
            ShapeKind::Null => Ty::Null,
            ShapeKind::String | ShapeKind::Date | ShapeKind::DateTime | ShapeKind::Uri | ShapeKind::Email => {
                match shape.constraints.keywords.get("const") {
                    Some(value) => Ty::Enum(Arc::new(vec![value.clone()])),
                    None => Ty::Str,
                }
            }
            ShapeKind::Integer => Ty::Int,
            ShapeKind::Number => Ty::Number,
            ShapeKind::Boolean => Ty::Bool,
            ShapeKind::Named(id) => Ty::named_within(types, *id, depth),
            ShapeKind::List(element) => Ty::List(Box::new(Ty::of_within(types, element, depth))),
            ShapeKind::Map(value) => Ty::Map(Box::new(Ty::of_within(types, value, depth))),
            ShapeKind::Enum(values) => Ty::Enum(Arc::new(values.clone())),
            ShapeKind::OneOf(shapes) => Ty::union(shapes.iter().map(|shape| Ty::of_within(types, shape, depth))),
            ShapeKind::Object(_) => Ty::Object(Arc::new(shape.clone())),
        }
    }

    fn named_within(types: &Types, id: TypeId, depth: usize) -> Ty {
        if depth > ALIASES_MAX {
            return Ty::Any;
        }
        match &types.get(id).kind {
            TypeKind::Alias(shape) => Ty::of_within(types, shape, depth + 1),
            TypeKind::Enum(values) => Ty::Enum(Arc::new(values.clone())),
            TypeKind::Schema(schema) => Ty::of_within(types, &crate::value::view(schema), depth + 1),
            TypeKind::Object(_) | TypeKind::Union(_) => Ty::Named(id),
        }
    }

    /// A value of one of the types; one that may be absent makes it optional, and any makes it any.
    pub fn union(members: impl IntoIterator<Item = Ty>) -> Ty {
        let mut flat: Vec<Ty> = Vec::new();
        let mut optional = false;
        let mut push = |ty: Ty| {
            if !flat.contains(&ty) {
                flat.push(ty);
            }
        };
        for member in members {
            let member = match member {
                Ty::Optional(inner) => {
                    optional = true;
                    *inner
                }
                other => other,
            };
            match member {
                Ty::Union(inner) => inner.into_iter().for_each(&mut push),
                other => push(other),
            }
        }
        let joined = match flat.len() {
            0 => return Ty::Null,
            _ if flat.contains(&Ty::Any) => Ty::Any,
            1 => flat.remove(0),
            _ => Ty::Union(flat),
        };
        if optional { joined.optional() } else { joined }
    }

    /// The same type, perhaps undefined.
    pub fn optional(self) -> Ty {
        match self {
            Ty::Optional(_) => self,
            other => Ty::Optional(Box::new(other)),
        }
    }

    /// The same type, surely there: neither undefined nor null.
    pub fn defined(self) -> Ty {
        match self {
            Ty::Optional(inner) => inner.defined(),
            Ty::Union(members) if members.contains(&Ty::Null) => {
                Ty::union(members.into_iter().filter(|member| *member != Ty::Null))
            }
            other => other,
        }
    }

    /// Whether the value may be null.
    pub fn is_nullable(&self) -> bool {
        match self {
            Ty::Null => true,
            Ty::Union(members) => members.contains(&Ty::Null),
            Ty::Optional(inner) => inner.is_nullable(),
            _ => false,
        }
    }

    /// The type as an author would name it.
    pub fn describe(&self, types: &Types) -> String {
        match self {
            Ty::Any => "any".to_owned(),
            Ty::Null => "null".to_owned(),
            Ty::Bool => "boolean".to_owned(),
            Ty::Int => "integer".to_owned(),
            Ty::Number => "number".to_owned(),
            Ty::Str => "string".to_owned(),
            Ty::Enum(values) => describe(types, &Shape::new(ShapeKind::Enum(values.to_vec()))),
            Ty::Named(id) => types.name(*id).to_owned(),
            Ty::Object(shape) => describe(types, shape),
            Ty::List(element) if **element == Ty::Any => "list".to_owned(),
            Ty::List(element) => format!("list<{}>", element.describe(types)),
            Ty::Tuple(_) => "tuple".to_owned(),
            Ty::Map(value) if **value == Ty::Any => "map".to_owned(),
            Ty::Map(value) => format!("map<{}>", value.describe(types)),
            Ty::Record(_) => "object".to_owned(),
            Ty::Union(members) => members.iter().map(|ty| ty.describe(types)).collect::<Vec<_>>().join(" or "),
            Ty::Optional(inner) => format!("{} or absent", inner.describe(types)),
            Ty::Callable(callable) => format!("function `{}`", callable.name),
            Ty::Module(_) => "imported file".to_owned(),
        }
    }
}
