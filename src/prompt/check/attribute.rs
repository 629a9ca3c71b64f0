//! Attributes and indexes.

use super::expr::Class;
use super::{Checker, path_of};
use crate::prompt::ast::{Expr, ExprKind, Name, Span};
use crate::prompt::scope::Ty;
use crate::prompt::uses;
use crate::value::{Member, Shape, TypeId, TypeKind, member};

/// What looking up an attribute gives.
pub(super) enum Found {
    /// It is there, or may be.
    Ty(Ty),
    /// There are others.
    Unknown(Vec<String>),
    /// Values of the type have none.
    None,
}

impl<'a> Checker<'a> {
    /// The type of `of.name`.
    pub(super) fn attribute(&mut self, of: &Expr, name: &Name) -> Ty {
        let base = self.used(of);
        self.member_of(&base, of, &name.text, &name.span)
    }

    /// The type of a member, reporting at `span` when there is none.
    pub(super) fn member_of(&mut self, base: &Ty, of: &Expr, name: &str, span: &Span) -> Ty {
        match self.find_member(base, name) {
            Found::Ty(ty) => ty,
            Found::Unknown(candidates) => {
                let what = self.named(base);
                let known = candidates.iter().map(String::as_str);
                if let Ty::Module(_) = base {
                    let message = format!("the imported file has no macro or variable `{name}`");
                    self.error("unknown-macro", span, message).suggest(name, known);
                    return Ty::Any;
                }
                let listed = candidates.iter().take(8).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                let report = self.error("unknown-field", span, format!("{what} has no field `{name}`"));
                let report = report.suggest(name, known);
                if let Some(finding) = report.finding
                    && finding.help.is_empty()
                    && !listed.is_empty()
                {
                    finding.help.push(format!("it has {listed}"));
                }
                Ty::Any
            }
            Found::None => {
                self.no_attributes(base, of, name, span);
                Ty::Any
            }
        }
    }

    fn no_attributes(&mut self, base: &Ty, of: &Expr, name: &str, span: &Span) {
        let what = self.named(base);
        let inner = match base {
            Ty::List(element) => matches!(self.find_member(element, name), Found::Ty(_)),
            _ => false,
        };
        let is_method = super::method::names(base).contains(&name);
        let candidates = super::method::names(base);
        let path = path_of(of).unwrap_or_else(|| "x".to_owned());
        let list = matches!(base, Ty::List(_));
        let report = self.error("unknown-field", span, format!("{what} has no field `{name}`"));
        let report = match (inner, is_method) {
            (true, _) => report
                .help(format!("its elements have: loop with `{{% for item in {path} %}}`"))
                .help(format!("or take all: `{path} | map(attribute=\"{name}\")`")),
            (false, true) => report.help(format!("call it: `{path}.{name}()`")),
            (false, false) if name == "length" || name == "size" || name == "count" => {
                report.help(format!("write `{path} | length`"))
            }
            (false, false) if list && matches!(name, "first" | "last") => {
                report.help(format!("write `{path} | {name}`"))
            }
            (false, false) => report.suggest(name, candidates.iter().copied()),
        };
        // A method's name alone is no correction.
        if let Some(finding) = report.finding {
            finding.fix = None;
        }
    }

    /// Looks up a member of a type that is there.
    pub(super) fn find_member(&self, base: &Ty, name: &str) -> Found {
        match base {
            Ty::Any => Found::Ty(Ty::Any),
            Ty::Optional(inner) => self.find_member(inner, name),
            Ty::Named(id) => self.find_named(*id, name),
            Ty::Object(shape) => self.found(member(self.types, shape, name)),
            Ty::Record(fields) => match fields.get(name) {
                Some(ty) => Found::Ty(ty.clone()),
                None => Found::Unknown(fields.keys().cloned().collect()),
            },
            Ty::Module(names) => match names.get(name) {
                Some(ty) => Found::Ty(ty.clone()),
                None => Found::Unknown(names.keys().cloned().collect()),
            },
            Ty::Map(value) => Found::Ty((**value).clone().optional_unless_any()),
            Ty::Union(members) => self.find_in_union(members, name),
            // What `groupby` gives.
            Ty::Tuple(parts) if parts.len() == 2 && name == "grouper" => Found::Ty(parts[0].clone()),
            Ty::Tuple(parts) if parts.len() == 2 && name == "list" => Found::Ty(parts[1].clone()),
            Ty::Null
            | Ty::Bool
            | Ty::Int
            | Ty::Number
            | Ty::Str
            | Ty::Enum(_)
            | Ty::List(_)
            | Ty::Tuple(_)
            | Ty::Callable(_) => Found::None,
        }
    }

    /// A field of a declared type. Most types are plain objects, for which no other type need be looked at.
    fn find_named(&self, id: TypeId, name: &str) -> Found {
        let def = self.types.get(id);
        if let TypeKind::Object(object) = &def.kind {
            if let Some(field) = object.fields.get(name) {
                let ty = Ty::of(self.types, &field.shape);
                let certain = field.required || field.shape.constraints.default.is_some();
                return Found::Ty(if certain { ty } else { ty.optional_unless_any() });
            }
            if let Some(source) = object.computed.get(name) {
                return Found::Ty(self.computed(id, source));
            }
        }
        self.found(member(self.types, &Shape::named(id), name))
    }

    /// The type of a computed member, as far as it is plain: literals, text, arithmetic.
    fn computed(&self, id: TypeId, source: &str) -> Ty {
        let Ok(expr) = crate::prompt::ast::parse_expr(source) else { return Ty::Any };
        self.plain(id, &expr, 0)
    }

    fn plain(&self, id: TypeId, expr: &Expr, depth: usize) -> Ty {
        use crate::prompt::ast::MathOp;
        match &expr.kind {
            ExprKind::Math(MathOp::Concat, ..) => Ty::Str,
            ExprKind::Compare(..) | ExprKind::Not(_) | ExprKind::Test { .. } => Ty::Bool,
            ExprKind::Const(value) => super::expr::constant(value),
            ExprKind::Var(name) if depth < 4 => match &self.types.get(id).kind {
                TypeKind::Object(object) => match (object.fields.get(name), object.computed.get(name)) {
                    (Some(field), _) if field.required => Ty::of(self.types, &field.shape),
                    (None, Some(source)) => match crate::prompt::ast::parse_expr(source) {
                        Ok(expr) => self.plain(id, &expr, depth + 1),
                        Err(_) => Ty::Any,
                    },
                    _ => Ty::Any,
                },
                _ => Ty::Any,
            },
            ExprKind::Filter { name, .. } if name.text == "length" || name.text == "count" => Ty::Int,
            ExprKind::Filter { name, .. } if matches!(name.text.as_str(), "upper" | "lower" | "join" | "title") => {
                Ty::Str
            }
            _ => Ty::Any,
        }
    }

    fn found(&self, found: Member) -> Found {
        match found {
            Member::Known { shape, optional } => {
                let ty = Ty::of(self.types, &shape);
                Found::Ty(if optional { ty.optional_unless_any() } else { ty })
            }
            Member::Unknown { candidates } => Found::Unknown(candidates),
            Member::NotAnObject => Found::None,
            Member::Any => Found::Ty(Ty::Any),
        }
    }

    fn find_in_union(&self, members: &[Ty], name: &str) -> Found {
        let (mut tys, mut names, mut objects) = (Vec::new(), Vec::new(), false);
        let mut certain = true;
        for ty in members {
            match self.find_member(ty, name) {
                Found::Ty(ty) => tys.push(ty),
                Found::Unknown(candidates) => {
                    objects = true;
                    certain = false;
                    names.extend(candidates);
                }
                Found::None => certain = false,
            }
        }
        match (tys.is_empty(), objects) {
            (false, _) => {
                let ty = Ty::union(tys);
                Found::Ty(if certain { ty } else { ty.optional_unless_any() })
            }
            (true, true) => Found::Unknown(names),
            (true, false) => Found::None,
        }
    }

    /// The type of `of[index]`.
    pub(super) fn item(&mut self, of: &Expr, index: &Expr) -> Ty {
        let base = self.used(of);
        let key = self.used(index);
        let literal = uses::literal(index);
        match &base {
            Ty::Any | Ty::Callable(_) => Ty::Any,
            Ty::List(element) => {
                self.index_is_number(&base, &key, index);
                (**element).clone()
            }
            Ty::Str | Ty::Enum(_) => {
                self.index_is_number(&base, &key, index);
                Ty::Str
            }
            Ty::Tuple(parts) => match (&index.kind, literal) {
                (ExprKind::Const(value), None) => {
                    value.as_usize().and_then(|at| parts.get(at)).cloned().unwrap_or(Ty::Any)
                }
                _ => Ty::union(parts.iter().cloned()),
            },
            Ty::Map(value) => match literal {
                Some(_) => (**value).clone().optional_unless_any(),
                None => (**value).clone(),
            },
            Ty::Named(_) | Ty::Object(_) | Ty::Record(_) | Ty::Module(_) | Ty::Union(_) | Ty::Optional(_) => {
                match literal {
                    // Inside the quotes.
                    Some(name) => {
                        let span = index.span.start + 1..index.span.end.saturating_sub(1).max(index.span.start + 1);
                        let name = name.to_owned();
                        self.member_of(&base, of, &name, &span)
                    }
                    None => {
                        if matches!(key, Ty::Int | Ty::Number) && !matches!(base, Ty::Union(_)) {
                            let what = self.named(&base);
                            let message = format!("{what} is an object, which has no positions");
                            self.error("type-mismatch", &index.span, message).help("name a field: `x.field`");
                        }
                        Ty::Any
                    }
                }
            }
            Ty::Null | Ty::Bool | Ty::Int | Ty::Number => {
                let what = self.named(&base);
                self.error("type-mismatch", &index.span, format!("{what} has no elements"));
                Ty::Any
            }
        }
    }

    fn index_is_number(&mut self, base: &Ty, key: &Ty, index: &Expr) {
        if Class::of(key).is_some_and(|class| class != Class::Number) {
            let (what, key) = (self.named(base), self.named(key));
            let message = format!("the positions of {what} are numbers, not {key}");
            self.error("type-mismatch", &index.span, message);
        }
    }
}

impl Ty {
    /// Optional, except that nothing is said of what is not known.
    pub(in crate::prompt) fn optional_unless_any(self) -> Ty {
        if self == Ty::Any { self } else { self.optional() }
    }
}
