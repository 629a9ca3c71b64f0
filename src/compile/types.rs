//! From types as written to the resolved table of an agent (language.md 3).

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use crate::decl::types::{FieldExpr, ObjectExpr, OpenExpr, SCALARS, TypeDecl, TypeDeclKind, TypeExpr, TypeExprKind};
use crate::decl::{Json, Name};
use crate::diag::{Diagnostic, suggest};
use crate::source::Span;
use crate::value::{
    BUILT_IN, Constraints, Field, ObjectDef, Open, Rule, Shape, ShapeKind, TypeDef, TypeId, TypeKind, Types,
    check_schema,
};

use super::load::{Loaded, schema_file};
use super::visible::{Decl, Visible};

/// Words of other languages for types of this one.
const FOREIGN: &[(&str, &str)] = &[
    ("int", "integer"),
    ("long", "integer"),
    ("str", "string"),
    ("text", "string"),
    ("bool", "boolean"),
    ("float", "number"),
    ("double", "number"),
    ("decimal", "number"),
    ("url", "uri"),
    ("timestamp", "datetime"),
    ("time", "datetime"),
    ("object", "map<any>"),
    ("dict", "map<any>"),
    ("array", "list<any>"),
    ("list", "list<any>"),
    ("map", "map<any>"),
    ("null", "\"null\""),
    ("none", "\"null\""),
];

/// Builds the type table of what an agent sees.
pub(crate) fn resolve(loaded: &Loaded<'_>, visible: &Visible<'_>, findings: &mut Vec<Diagnostic>) -> Types {
    let mut types = Types::with_built_ins();
    let mut decls: IndexMap<TypeId, Decl<'_, TypeDecl>> = IndexMap::new();
    let all = visible.types.values().map(|decl| (decl, false)).chain(visible.states.values().map(|decl| (decl, true)));
    for (decl, is_state) in all {
        let name = decl.name;
        if BUILT_IN.contains(&name.value.as_str()) {
            findings.push(
                Diagnostic::error("duplicate-name", name.span, format!("the type `{}` is built in", name.value))
                    .help("choose another name"),
            );
            continue;
        }
        if let Some(earlier) = types.id(&name.value).and_then(|id| decls.get(&id)) {
            findings.push(super::visible::duplicate("type", name, earlier.name));
            continue;
        }
        let placeholder = TypeDef { is_state, ..TypeDef::object(&name.value, ObjectDef::default()) };
        decls.insert(types.insert(placeholder), *decl);
    }
    for name in &visible.broken {
        if types.id(name).is_none() && name.starts_with(char::is_uppercase) {
            // Declared, but not readable: anything may be said of its objects.
            let any = TypeKind::Alias(Shape::new(ShapeKind::Any));
            types.insert(TypeDef { kind: any, ..TypeDef::object(name, ObjectDef::default()) });
        }
    }
    let mut resolve = Resolve { loaded, types, decls, findings };
    resolve.supertypes();
    resolve.kinds();
    resolve.alias_cycles();
    resolve.inherit();
    resolve.discriminators();
    resolve.types
}

struct Resolve<'a, 'b, 'w> {
    loaded: &'a Loaded<'w>,
    types: Types,
    decls: IndexMap<TypeId, Decl<'a, TypeDecl>>,
    findings: &'b mut Vec<Diagnostic>,
}

impl<'a> Resolve<'a, '_, '_> {
    fn all(&self) -> Vec<(TypeId, Decl<'a, TypeDecl>)> {
        self.decls.iter().map(|(id, decl)| (*id, *decl)).collect()
    }

    fn update(&mut self, id: TypeId, change: impl FnOnce(&mut TypeDef)) {
        let mut def = self.types.get(id).clone();
        change(&mut def);
        self.types.insert(def);
    }

    /// Resolves `is:`; an entry that closes a cycle, or names what is no object type, is reported and left out.
    fn supertypes(&mut self) {
        for (id, decl) in self.all() {
            let mut supertypes: Vec<TypeId> = Vec::new();
            for name in decl.decl.is.iter() {
                let Some(found) = self.named(name) else { continue };
                let other = self.decls.get(&found).map(|decl| &decl.decl.kind);
                if other.is_some_and(|kind| !matches!(kind, TypeDeclKind::Object(_))) {
                    self.findings.push(
                        Diagnostic::error("bad-supertype", name.span, format!("`{}` has no fields", name.value))
                            .label("only a type with fields can be a supertype")
                            .help("for a choice of types list them under `one_of`"),
                    );
                } else if found == id || self.reaches(found, id) {
                    self.findings.push(
                        Diagnostic::error(
                            "type-cycle",
                            name.span,
                            format!("`{}` is a supertype of itself", decl.name.value),
                        )
                        .help(format!("remove `{}` from `is`", name.value)),
                    );
                } else if !supertypes.contains(&found) {
                    supertypes.push(found);
                }
            }
            let text = |name: &Option<Name>| name.as_ref().map(|name| name.value.clone());
            self.update(id, |def| {
                def.supertypes = supertypes;
                def.is_abstract = decl.decl.is_abstract;
                def.description = text(&decl.decl.description);
                if let Some(discriminator) = text(&decl.decl.discriminator) {
                    def.discriminator = discriminator;
                }
            });
        }
    }

    fn reaches(&self, from: TypeId, to: TypeId) -> bool {
        let mut found = vec![from];
        let mut next = 0;
        while let Some(id) = found.get(next).copied() {
            next += 1;
            for sup in &self.types.get(id).supertypes {
                if *sup == to {
                    return true;
                }
                if !found.contains(sup) {
                    found.push(*sup);
                }
            }
        }
        false
    }

    fn kinds(&mut self) {
        for (id, decl) in self.all() {
            let kind = match &decl.decl.kind {
                TypeDeclKind::Object(object) => {
                    let mut def = self.object(object);
                    let place = decl.decl.place.0;
                    let inside = |at: &Span| at.file == place.file && place.start <= at.start && at.end <= place.end;
                    if self.loaded.read_errors.iter().any(inside) {
                        // Some of its fields could not be read; any name may be one of them.
                        def.open = Open::Any;
                    }
                    let computed = decl.decl.computed.iter();
                    def.computed = computed.map(|(name, expr)| (name.value.clone(), expr.0.value.clone())).collect();
                    let rules = decl.decl.rules.iter().map(|rule| Rule {
                        check: rule.check.0.value.clone(),
                        message: rule.message.as_ref().map(|message| message.value.clone()),
                    });
                    def.rules = rules.collect();
                    TypeKind::Object(def)
                }
                TypeDeclKind::Alias(of) => TypeKind::Alias(self.shape(of)),
                TypeDeclKind::Enum(values) => TypeKind::Enum(values.iter().map(Json::value).collect()),
                TypeDeclKind::Union(names) => self.union(id, decl.name, names.iter()),
                TypeDeclKind::Schema(schema) => self.schema(decl.decl, schema),
            };
            self.update(id, |def| def.kind = kind);
        }
    }

    fn union<'n>(&mut self, id: TypeId, owner: &Name, names: impl Iterator<Item = &'n Name>) -> TypeKind {
        let mut members: Vec<TypeId> = Vec::new();
        for name in names {
            let Some(member) = self.named(name) else { continue };
            if member == id || self.union_reaches(member, id) {
                self.findings.push(Diagnostic::error(
                    "type-cycle",
                    name.span,
                    format!("`{}` is a member of itself", owner.value),
                ));
            } else if members.contains(&member) {
                self.findings.push(Diagnostic::error(
                    "duplicate-value",
                    name.span,
                    format!("`{}` is listed already", name.value),
                ));
            } else {
                members.push(member);
            }
        }
        TypeKind::Union(members)
    }

    fn union_reaches(&self, from: TypeId, to: TypeId) -> bool {
        let mut found = vec![from];
        let mut next = 0;
        while let Some(id) = found.get(next).copied() {
            next += 1;
            if let TypeKind::Union(members) = &self.types.get(id).kind {
                if members.contains(&to) {
                    return true;
                }
                found.extend(members.iter().copied().filter(|member| !found.contains(member)).collect::<Vec<_>>());
            }
        }
        false
    }

    fn schema(&mut self, decl: &TypeDecl, written: &Json) -> TypeKind {
        let value = match schema_file(decl) {
            Some(file) => match self.loaded.schemas.get(&file.value) {
                Some(Some(schema)) => Value::clone(schema),
                // The file was reported when it was read.
                _ => return TypeKind::Schema(Value::Bool(true)),
            },
            None => written.value(),
        };
        if let Err(message) = check_schema(&value) {
            self.findings.push(Diagnostic::error("bad-schema", written.0.span, message));
            return TypeKind::Schema(Value::Bool(true));
        }
        TypeKind::Schema(value)
    }

    fn object(&mut self, object: &ObjectExpr) -> ObjectDef {
        let open = match &object.open {
            None | Some(OpenExpr::Flag(false)) => Open::Closed,
            Some(OpenExpr::Flag(true)) => Open::Any,
            Some(OpenExpr::Of(of)) => Open::Of(Box::new(self.shape(of))),
        };
        ObjectDef { fields: self.fields(&object.fields), open, ..ObjectDef::default() }
    }

    fn fields(&mut self, written: &[FieldExpr]) -> IndexMap<String, Field> {
        let mut fields = IndexMap::new();
        for field in written {
            if fields.contains_key(&field.name.value) {
                self.findings.push(Diagnostic::error(
                    "duplicate-name",
                    field.name.span,
                    format!("the field `{}` is declared already", field.name.value),
                ));
                continue;
            }
            let shape = self.shape(&field.of);
            let required = !field.optional && shape.constraints.default.is_none();
            fields.insert(field.name.value.clone(), Field { shape, required });
        }
        fields
    }

    fn shape(&mut self, of: &TypeExpr) -> Shape {
        shape(&mut Scope { types: &self.types, findings: self.findings }, of)
    }

    fn named(&mut self, name: &Name) -> Option<TypeId> {
        named(&self.types, name, self.findings)
    }

    /// An alias that is only a name of another alias, and so on back to itself, has no values.
    fn alias_cycles(&mut self) {
        for (id, decl) in self.all() {
            let mut seen = vec![id];
            let mut at = id;
            while let TypeKind::Alias(Shape { kind: ShapeKind::Named(next), .. }) = &self.types.get(at).kind {
                at = *next;
                if at == id {
                    self.findings.push(Diagnostic::error(
                        "type-cycle",
                        decl.name.span,
                        format!("`{}` is an alias of itself", decl.name.value),
                    ));
                    self.update(id, |def| def.kind = TypeKind::Alias(Shape::new(ShapeKind::Any)));
                    break;
                }
                if seen.contains(&at) {
                    break;
                }
                seen.push(at);
            }
        }
    }

    /// Puts the fields, computed members and rules of supertypes before a type's own.
    fn inherit(&mut self) {
        let mut done: IndexSet<TypeId> = IndexSet::new();
        for (id, _) in self.all() {
            self.inherit_into(id, &mut done, 0);
        }
    }

    fn inherit_into(&mut self, id: TypeId, done: &mut IndexSet<TypeId>, depth: usize) {
        if depth > crate::source::DEPTH_MAX || !done.insert(id) {
            return;
        }
        let supertypes = self.types.get(id).supertypes.clone();
        let TypeKind::Object(own) = self.types.get(id).kind.clone() else { return };
        let mut whole = ObjectDef { open: own.open.clone(), ..ObjectDef::default() };
        for sup in supertypes {
            self.inherit_into(sup, done, depth + 1);
            let def = self.types.get(sup).clone();
            let TypeKind::Object(inherited) = def.kind else { continue };
            for (name, field) in inherited.fields {
                if whole.fields.get(&name).is_some_and(|other| *other != field) {
                    self.conflict(id, &name, &def.name);
                }
                whole.fields.entry(name).or_insert(field);
            }
            whole.computed.extend(inherited.computed);
            let rules = inherited.rules.into_iter().filter(|rule| !whole.rules.contains(rule)).collect::<Vec<_>>();
            whole.rules.extend(rules);
            if whole.open == Open::Closed {
                whole.open = inherited.open;
            }
        }
        for (name, field) in own.fields {
            if let Some(inherited) = whole.fields.get(&name)
                && !self.narrows(&field.shape, &inherited.shape)
            {
                self.conflict(id, &name, "a supertype");
            }
            whole.fields.insert(name, field);
        }
        whole.computed.extend(own.computed);
        whole.rules.extend(own.rules);
        self.update(id, |def| def.kind = TypeKind::Object(whole));
    }

    /// Whether a field declared again says the same or less than the inherited one.
    fn narrows(&self, own: &Shape, inherited: &Shape) -> bool {
        match (&own.kind, &inherited.kind) {
            (_, ShapeKind::Any) => true,
            (ShapeKind::Named(own), ShapeKind::Named(inherited)) => self.types.is_subtype(*own, *inherited),
            (ShapeKind::Integer, ShapeKind::Number) | (ShapeKind::Enum(_), ShapeKind::String) => true,
            (own, inherited) => own == inherited,
        }
    }

    fn conflict(&mut self, id: TypeId, field: &str, with: &str) {
        let Some(decl) = self.decls.get(&id) else { return };
        let own = match &decl.decl.kind {
            TypeDeclKind::Object(object) => object.fields.iter().find(|own| own.name.value == field),
            _ => None,
        };
        let with = if with == "a supertype" { with.to_owned() } else { format!("`{with}`") };
        self.findings.push(
            Diagnostic::error(
                "field-conflict",
                own.map_or(decl.name.span, |own| own.name.span),
                format!("the field `{field}` of `{}` has another type in {with}", decl.name.value),
            )
            .help("give both the same type, or rename one of the fields"),
        );
    }

    /// Where a supertype or union is expected the object carries its type's name, so no field may have that name.
    fn discriminators(&mut self) {
        for (id, def) in self.types.iter().map(|(id, def)| (id, def.clone())).collect::<Vec<_>>() {
            if !self.types.is_polymorphic(id) {
                continue;
            }
            for sub in self.types.concrete(id) {
                let clashes = self.types.get(sub).fields().is_some_and(|f| f.contains_key(&def.discriminator));
                if let (true, Some(span)) = (clashes, self.field_span(sub, &def.discriminator)) {
                    let what = if matches!(def.kind, TypeKind::Union(_)) { "union" } else { "supertype" };
                    self.findings.push(
                        Diagnostic::error(
                            "discriminator-clash",
                            span,
                            format!(
                                "where the {what} `{}` is expected, `{}` holds the type's name, so no field may have \
                                 that name",
                                def.name, def.discriminator
                            ),
                        )
                        .help(format!("rename the field, or write `discriminator: kind` on `{}`", def.name)),
                    );
                }
            }
        }
    }

    /// Where a field of a type is declared, by itself or by a supertype.
    fn field_span(&self, id: TypeId, field: &str) -> Option<Span> {
        let own = |id: TypeId| match &self.decls.get(&id)?.decl.kind {
            TypeDeclKind::Object(object) => object.fields.iter().find(|own| own.name.value == field),
            _ => None,
        };
        let found = [id].into_iter().chain(self.types.supertypes(id)).find_map(own);
        found.map(|field| field.name.span)
    }
}

/// What resolving a type expression needs.
pub(crate) struct Scope<'a> {
    pub(crate) types: &'a Types,
    pub(crate) findings: &'a mut Vec<Diagnostic>,
}

/// Resolves a type expression; what cannot be resolved is reported and becomes `any`.
pub(crate) fn shape(scope: &mut Scope<'_>, of: &TypeExpr) -> Shape {
    let kind = match &of.kind {
        TypeExprKind::Name(name) => scalar(&name.value)
            .or_else(|| named(scope.types, name, scope.findings).map(ShapeKind::Named))
            .unwrap_or(ShapeKind::Any),
        TypeExprKind::List(element) => ShapeKind::List(Box::new(shape(scope, element))),
        TypeExprKind::Map(value) => ShapeKind::Map(Box::new(shape(scope, value))),
        TypeExprKind::Enum(values) => ShapeKind::Enum(values.iter().map(Json::value).collect()),
        TypeExprKind::OneOf(of) => ShapeKind::OneOf(of.iter().map(|of| shape(scope, of)).collect()),
        TypeExprKind::Fields(object) => ShapeKind::Object(Box::new(object_def(scope, object))),
    };
    let mut constraints = Constraints::default();
    for (name, value) in &of.annotations {
        match name.value.as_str() {
            "description" => constraints.description = value.0.as_str().map(str::to_owned),
            "default" => constraints.default = Some(value.value()),
            keyword => {
                constraints.keywords.insert(keyword.to_owned(), value.value());
            }
        }
    }
    Shape { kind, constraints }
}

/// Resolves the fields of an inline object or of a tool's parameters.
pub(crate) fn object_def(scope: &mut Scope<'_>, object: &ObjectExpr) -> ObjectDef {
    let open = match &object.open {
        None | Some(OpenExpr::Flag(false)) => Open::Closed,
        Some(OpenExpr::Flag(true)) => Open::Any,
        Some(OpenExpr::Of(of)) => Open::Of(Box::new(shape(scope, of))),
    };
    let mut fields = IndexMap::new();
    for field in &object.fields {
        let shape = shape(scope, &field.of);
        let required = !field.optional && shape.constraints.default.is_none();
        fields.insert(field.name.value.clone(), Field { shape, required });
    }
    ObjectDef { fields, open, ..ObjectDef::default() }
}

/// The declared type of a name, or a finding with the nearest visible name.
pub(crate) fn named(types: &Types, name: &Name, findings: &mut Vec<Diagnostic>) -> Option<TypeId> {
    let found = types.id(&name.value);
    if found.is_none() {
        findings.push(unknown_type(types, name));
    }
    found
}

/// The finding for a type that is not declared.
pub(crate) fn unknown_type(types: &Types, name: &Name) -> Diagnostic {
    let diagnostic = Diagnostic::error("unknown-type", name.span, format!("there is no type `{}`", name.value));
    if SCALARS.contains(&name.value.as_str()) {
        let message = format!("`{}` is the type of a field; a declared type belongs here", name.value);
        return Diagnostic::error("unknown-type", name.span, message)
            .help(format!("declare one, such as `types: {{Answer: {}}}`, and name it here", name.value));
    }
    let lower = name.value.to_lowercase();
    if let Some((_, right)) = FOREIGN.iter().find(|(foreign, _)| *foreign == lower)
        && !types.names().any(|known| known.eq_ignore_ascii_case(&name.value))
    {
        return diagnostic.help(format!("did you mean `{right}`?"));
    }
    let own: Vec<&str> = types.names().filter(|name| !BUILT_IN.contains(name)).collect();
    let candidates = own.iter().copied().chain(BUILT_IN.iter().copied()).chain(SCALARS.iter().copied());
    match suggest::did_you_mean(&name.value, candidates) {
        Some(help) => {
            let near = suggest::nearest(
                &name.value,
                own.iter().copied().chain(BUILT_IN.iter().copied()).chain(SCALARS.iter().copied()),
            );
            let diagnostic = diagnostic.help(help);
            match near.as_slice() {
                [only] => diagnostic.fix(name.span, only.clone()),
                _ => diagnostic,
            }
        }
        None => diagnostic.help(format!("declare it: `types: {{{}: …}}`, or import the file that does", name.value)),
    }
}

fn scalar(name: &str) -> Option<ShapeKind> {
    Some(match name {
        "string" => ShapeKind::String,
        "integer" => ShapeKind::Integer,
        "number" => ShapeKind::Number,
        "boolean" => ShapeKind::Boolean,
        "any" => ShapeKind::Any,
        "null" => ShapeKind::Null,
        "date" => ShapeKind::Date,
        "datetime" => ShapeKind::DateTime,
        "uri" => ShapeKind::Uri,
        "email" => ShapeKind::Email,
        _ => return None,
    })
}
